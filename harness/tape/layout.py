"""Our own cassettes, read by their layout: a third of the time that it takes to read them as YAML.

`write.py` lays out a cassette in one way only, so a few regular expressions find all that stands in it. What is not
laid out like this to the letter is no business of this module: it has no words for what is wrong with a file, and
whoever asks reads that as YAML. Nor does it have to be believed: of what it reads the caller makes the checksum, which
covers the metadata and every exchange, and takes it only if that is the one in the file. So a cassette with the right
checksum has the same value whichever way it is read, and one with another is read as YAML, which says so.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from harness.contract.http import AT_ONCE, Delivery, HttpRequest, HttpResponse
from harness.tape import delivery, spelling
from harness.tape.cassette import Interaction
from harness.tape.document import MAX_BYTES, MAX_VALUES, is_text

_NAME = r"(?!(?:yes|no|on|off|true|false|null):)[a-z][a-z0-9_-]{0,99}"

_METADATA = re.compile(
    rf"version: 1\nmetadata:\n(?P<first>  format: harness [0-9]\n(?:  {_NAME}: .+\n)+)"
    rf"(?:  versions:\n(?P<versions>(?:    {_NAME}: .+\n)+))?(?P<last>(?:  {_NAME}: .+\n)*?)"
    r"  interactions: (?P<interactions>[1-9][0-9]*)\n  checksum: (?P<checksum>sha256:[0-9a-f]+)\ninteractions:\n"
)
_PAIR = re.compile(r" +(.+?): (.+)\n")

_HEADERS = rf"    headers:(?: \{{\}}\n|\n(?P<%s>(?:      {_NAME}:\n      - .+\n)+))"
_HEADER = re.compile(r"      (.+):\n      - (.+)\n")
_REQUEST = re.compile(r"    method: (?P<method>[A-Z]+)\n    uri: (?P<uri>.+)\n    body: ")
_RESPONSE = re.compile(
    _HEADERS % "sent"
    + r"  response:\n    status:\n      code: (?P<code>[1-9][0-9][0-9])\n      message: (?:''|[A-Z][A-Za-z' -]*)\n"
    + _HEADERS % "received"
    + r"    body:\n      string: "
)
_END = re.compile(
    r"(?P<delivery>    delivery:\n(?:      cuts:\n(?P<cuts>(?:      - (?:0|[1-9][0-9]*)\n)+))?"
    r"(?:      pause: (?P<pause>[0-9]+\.[0-9]+)\n)?(?:      ending: (?P<ending>[a-z]+)\n)?)?"
    r"(?:  spelling:\n(?=    r)(?:    request: (?P<request>[a-z-]+)\n)?(?:    response: (?P<response>[a-z-]+)\n)?)?"
)

_LINE = re.compile(r"'(?P<quoted>[^']*(?:''[^']*)*+)'|(?!.*(?:: | #))[A-Za-z0-9](?:[ -~]*[!-9;-~])?")
"""A text on one line: in single quotes, or without, where it has nothing that means anything else in YAML."""

_ESCAPED = re.compile(r'"[^"\\\n]*(?:\\(?:["\\nrt]|U[0-9A-F]{8})[^"\\\n]*)*+"\n')
"""With escapes that mean the same in JSON, and the one for what is outside of the basic plane."""

_ESCAPE = re.compile(r"\\(?:U(.{8})|.)")

_PRINTABLE = re.compile(r"[\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]*+")
"""Without what YAML refuses, or takes for the end of a line or a tab."""

_NEXT = b"\n- request:\n"
_STOP = b"...\n"
"""Stands at the end of some of those with a text that ends in empty lines."""

_VALUES = 32
"""More keys and values than an exchange has without its headers and cuts."""


class _Block:
    """A text in lines, behind a margin of so many blanks."""

    def __init__(self, margin: int) -> None:
        self._begin = re.compile(rf"\|([-+]?)\n {{{margin}}}(?=[^ \n])")
        self._end = re.compile(rf"\n(?! {{{margin}}}|\n)")
        self._margin = "\n" + margin * " "

    def read(self, text: str, at: int) -> tuple[str, int]:
        """The text of a block that begins at a place, and where it ends."""
        begin = _found(self._begin.match(text, at))
        end = _found(self._end.search(text, begin.end())).end()
        lines = text[begin.end() : end].replace(self._margin, "\n")
        if begin[1] != "+" and lines.endswith("\n\n"):
            raise _OtherError
        return lines[:-1] if begin[1] == "-" else lines, end


_OF_REQUEST, _OF_RESPONSE = _Block(6), _Block(8)


class _OtherError(ValueError):
    """Something is laid out in another way."""


def parse(pieces: Iterable[bytes]) -> tuple[dict[str, Any], tuple[Interaction, ...]] | None:
    """The metadata of a cassette as they are stored, and its interactions, neither of which is checked; `None` for what
    is laid out in any other way than ours. A large file comes in pieces, and is not in memory as a whole."""
    try:
        parts = _parts(pieces)
        metadata, interactions = _metadata(_decoded(next(parts))), tuple(_interactions(parts))
    except ValueError:
        return None
    return (metadata, interactions) if interactions else None


def _metadata(text: str) -> dict[str, Any]:
    found = _found(_METADATA.fullmatch(text))
    texts = _mapping(_PAIR, found["first"] + found["last"])
    others: dict[str, Any] = {"interactions": int(found["interactions"]), "checksum": found["checksum"]}
    if found["versions"]:
        others["versions"] = _mapping(_PAIR, found["versions"])
    if not others.keys().isdisjoint(texts):
        raise _OtherError
    return texts | others


def _parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What stands before the first exchange, and each exchange behind its first line."""
    length, rest = 0, b""
    for piece in pieces:
        length += len(piece)
        if length > MAX_BYTES:
            raise _OtherError
        *whole, rest = (rest + piece).split(_NEXT)
        yield from (each + b"\n" for each in whole)
    yield rest.removesuffix(_STOP) if rest.endswith(b"\n" + _STOP) else rest


def _interactions(parts: Iterable[bytes]) -> Iterator[Interaction]:
    values = 0
    for part in parts:
        request, response = _exchange(_decoded(part))
        values += _VALUES + 3 * (len(request.headers) + len(response.headers)) + len(response.delivery.cuts)
        if values > MAX_VALUES:
            raise _OtherError
        yield Interaction(request, response)


def _exchange(text: str) -> tuple[HttpRequest, HttpResponse]:
    first = _found(_REQUEST.match(text))
    sent, at = _body(text, first.end(), _OF_REQUEST)
    second = _found(_RESPONSE.match(text, at))
    received, at = _body(text, second.end(), _OF_RESPONSE)
    last = _found(_END.fullmatch(text, at))
    as_sent, as_received = last["request"], last["response"]
    request = HttpRequest(
        sys.intern(_line(first["method"])),
        sys.intern(_line(first["uri"])),
        _headers(second["sent"] or ""),
        spelling.exact(sent, as_sent) if as_sent else sent,
    )
    response = HttpResponse(
        int(second["code"]),
        _headers(second["received"] or ""),
        spelling.exact(received, as_received) if as_received else received,
        _delivery(last) if last["delivery"] else AT_ONCE,
    )
    return request, response


def _body(text: str, at: int, block: _Block) -> tuple[bytes, int]:
    """The body that begins at a place, and where it ends."""
    if text.startswith("|", at):
        body, end = block.read(text, at)
    elif text.startswith('"', at):
        end = _found(_ESCAPED.match(text, at)).end()
        body: str = json.loads(_ESCAPE.sub(_in_json, text[at:end]) if r"\U" in text else text[at:end])
    else:
        end = text.index("\n", at) + 1
        body = _line(text[at : end - 1])
    return body.encode(), end


def _in_json(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else escape[0]


def _delivery(found: re.Match[str]) -> Delivery:
    values: dict[str, Any] = {"ending": found["ending"]} if found["ending"] else {}
    if found["cuts"]:
        values["cuts"] = list(map(int, found["cuts"].replace("-", " ").split()))
    if found["pause"]:
        values["pause"] = float(found["pause"])
    return delivery.loaded(values or None)


@lru_cache(256)  # nearly all exchanges have the same, of whatever cassette
def _headers(lines: str) -> Mapping[str, str]:
    headers = _mapping(_HEADER, lines)
    if "content-encoding" in headers:  # then the body is to be unpacked
        raise _OtherError
    return headers


def _mapping(pair: re.Pattern[str], lines: str) -> dict[str, str]:
    """Names and their texts. No name stands there twice, as YAML would have it neither."""
    pairs: list[tuple[str, str]] = pair.findall(lines)
    found = {sys.intern(name): sys.intern(_line(value)) for name, value in pairs}
    if len(found) < len(pairs):
        raise _OtherError
    return found


def _line(shown: str) -> str:
    """What stands on one line."""
    quoted = _found(_LINE.fullmatch(shown))["quoted"]
    if quoted is None and not is_text(shown):
        raise _OtherError
    return shown if quoted is None else quoted.replace("''", "'")


def _decoded(data: bytes) -> str:
    text = data.decode()
    _found(_PRINTABLE.fullmatch(text))
    return text


def _found(match: re.Match[str] | None) -> re.Match[str]:
    if match is None:
        raise _OtherError
    return match
