"""Variants of a response that have the same meaning: split into other chunks, or spelled with other bytes.

A client's result must not depend on network chunks. Nor may it depend on what the stream format leaves open: line ends,
comments, data in several lines and a byte order mark (WHATWG, "Server-sent events"), white space between the elements
of a JSON array, and escapes in JSON strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from random import Random
from typing import TypeAlias

from harness.apis.eventstream import is_event_stream
from harness.apis.jsonvalue import loads
from harness.apis.view import WireError
from harness.model.http import Delivery, HttpResponse

BYTE_BY_BYTE = 8 * 1024
"""Maximum size of a body that is split into single bytes. Longer bodies are split into small random chunks."""

BYTE_ORDER_MARK = "byte order mark"
COMMENTS = "keep-alive comments"
DATA_LINES = "data in several lines"
"""Names of valid variants that some clients fail to read."""

_OBSOLETE_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that are wrong after the body has been respelled."""

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_EVENT_ENDS = rb"((?>\r\n|\n|\r)(?>\r\n|\n|\r)++)"
_EVENT_STARTS = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|(?>\r\n|\n|\r){2})(?=data:|event:)")
_DATA_LINE = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|(?<=[\r\n]))data(?::([^\r\n]*))?(?=[\r\n]|\Z)")
_SEPARATOR = re.compile(rb"\\u(2028|2029|0085)|\\.|\xe2\x80[\xa8\xa9]|\xc2\x85", re.DOTALL)
"""Matches a Unicode line separator, escaped or raw, that event streams do not treat as a line end. Also matches any
other escape, so that it can be skipped.
"""

_ARRAY_START = re.compile(r"[ \t\r\n]*\[[ \t\r\n]*")
_ARRAY_BREAK = re.compile(r"[ \t\r\n]*([,\]])[ \t\r\n]*")

_Cuts: TypeAlias = Callable[[bytes, Random], Iterable[int]]
_Spelling: TypeAlias = Callable[[bytes, Random], bytes]


@dataclass(frozen=True, slots=True)
class _ResponseVariant:
    """A variant of a response: spellings to apply, then cuts. `words` is its name."""

    words: str
    cuts: _Cuts
    spellings: tuple[_Spelling, ...] = ()


@dataclass(frozen=True, slots=True)
class _BodyKind:
    """Fixed variants for one kind of body, and groups of spellings for random variants. A random variant uses at most
    one spelling per group.
    """

    ways: tuple[_ResponseVariant, ...]
    groups: tuple[tuple[tuple[str, _Spelling] | None, ...], ...] = ()


def recut(response: HttpResponse, number: int, seed: str) -> tuple[HttpResponse, str]:
    """Return a variant of the response, and its name. The result depends only on `response`, `number` and `seed`.

    Low numbers select the fixed variants, in order. A higher number selects a random combination of spellings and cuts,
    and so does a fixed variant that would not change this body. Only complete event streams and JSON arrays are
    respelled; other bodies are only cut. The ending of the delivery is kept, its pause is not.
    """
    random = Random(f"{seed}/{number}")  # noqa: S311 - the same in every run, and no secret
    sort = _sort(response)
    if number < len(sort.ways):
        way = sort.ways[number]
        if way is _EACH_BYTE and len(response.body) > BYTE_BY_BYTE:
            way = _SMALL_PIECES
        rewritten = _apply_way(response, way, random)
        if (rewritten.body, rewritten.delivery.cuts) != (response.body, response.delivery.cuts):
            return rewritten, way.words
    way = _draw(sort, number, random)
    return _apply_way(response, way, random), way.words


def _sort(response: HttpResponse) -> _BodyKind:
    content_type = response.headers.get("content-type", "")
    whole = response.delivery.ending == "complete"
    if is_event_stream(content_type, response.body):
        return _EVENTS if whole else _BROKEN_EVENTS
    is_json = content_type.partition(";")[0].strip().lower() in {"", "application/json"}
    return _ARRAY if whole and is_json and _elements(response.body) else _BYTES


def _apply_way(response: HttpResponse, way: _ResponseVariant, random: Random) -> HttpResponse:
    body = response.body
    for spell in way.spellings:
        body = spell(body, random)
    headers = {name: value for name, value in response.headers.items() if name not in _OBSOLETE_HEADERS}
    cuts = tuple(cut for cut in way.cuts(body, random) if 0 < cut < len(body))
    return replace(response, headers=headers, body=body, delivery=Delivery(cuts, ending=response.delivery.ending))


def _draw(sort: _BodyKind, number: int, random: Random) -> _ResponseVariant:
    chosen = [option for option in map(random.choice, sort.groups) if option is not None]
    words, cuts = random.choice((("in small pieces", _small_pieces), ("cut in a few places", _few_cuts)))
    listed = ", ".join([*(words for words, _ in chosen), words])
    return _ResponseVariant(f"at random ({number}): {listed}", cuts, tuple(spelling for _, spelling in chosen))


def _at(pattern: bytes, *, behind: bool = True) -> _Cuts:
    """Return a function that cuts after each match of `pattern` or, without `behind`, before it."""
    compiled = re.compile(pattern)
    return lambda body, _random: (match.end() if behind else match.start() for match in compiled.finditer(body))


def _replacing(pattern: re.Pattern[bytes], by: Callable[[re.Match[bytes]], bytes]) -> _Spelling:
    return lambda body, _random: pattern.sub(by, body)


def _small_pieces(body: bytes, random: Random) -> Iterable[int]:
    return takewhile(len(body).__gt__, accumulate(random.randint(1, 32) for _ in body))


def _few_cuts(body: bytes, random: Random) -> Iterable[int]:
    places = range(1, len(body))
    return sorted(random.sample(places, min(len(places), random.randint(1, 8))))


def _after_elements(body: bytes, _random: Random) -> Iterable[int]:
    return (end for _, end in _elements(body))


def _with_bom(body: bytes, _random: Random) -> bytes:
    return _BOM + body.removeprefix(_BOM)


def _with_other_separators(body: bytes, _random: Random) -> bytes:
    return b"".join(map(_respell, re.split(_EVENT_ENDS, body)))


def _with_data_lines(body: bytes, _random: Random) -> bytes:
    return b"".join(map(_divide_data, re.split(_EVENT_ENDS, body)))


def _divide_data(event: bytes) -> bytes:
    """Break the line of an event's JSON object after the first brace."""
    line, *others = [*_DATA_LINE.finditer(event)] or [None]
    data = (line[1] or b"").strip() if line is not None and not others else b""
    if line is None or not _is_object(data):
        return event
    before = event[: line.start()] + line[0].partition(b"data")[0]
    return before + b"data: {\ndata: " + data[1:] + event[line.end() :]


def _is_object(data: bytes) -> bool:
    try:
        return data.startswith(b"{") and bool(loads(data))
    except WireError:
        return False


def _respell(event: bytes) -> bytes:
    try:
        loads(b"\n".join(line[1] or b"" for line in _DATA_LINE.finditer(event)))
    except WireError:  # not JSON: a backslash may be literal
        return event
    return _DATA_LINE.sub(lambda line: _SEPARATOR.sub(_other_spelling, line[0]), event)


def _other_spelling(separator: re.Match[bytes]) -> bytes:
    if separator[1]:
        return chr(int(separator[1], 16)).encode()
    if separator[0].startswith(b"\\"):
        return separator[0]
    return b"\\u%04x" % ord(separator[0].decode())


def _elements(body: bytes) -> list[tuple[int, int]]:
    """Return the start and end of each element of a JSON array; empty if the body is not a complete array."""
    # One character for a byte, so that offsets count bytes: what JSON gives a meaning is ASCII.
    text = body.decode("latin-1")
    decoder = json.JSONDecoder()
    spans: list[tuple[int, int]] = []
    mark = _ARRAY_START.match(text)
    while mark is not None:
        if mark.lastindex and mark[1] == "]":
            return spans if mark.end() == len(text) else []
        try:
            _, end = decoder.raw_decode(text, mark.end())
        except (ValueError, RecursionError):
            break
        spans.append((mark.end(), end))
        mark = _ARRAY_BREAK.match(text, end)
    return []


def _spacing(space: Callable[[Random], bytes]) -> _Spelling:
    """Return a function that rewrites a JSON array with white space from `space` around its elements."""

    def respace(body: bytes, random: Random) -> bytes:
        elements = [body[begin:end] for begin, end in _elements(body)]
        return b"[" + b",".join(space(random) + element + space(random) for element in elements) + b"]"

    return respace


def _random_space(random: Random) -> bytes:
    return b"".join(random.choices((b" ", b"\n", b"\r\n", b"\t"), k=random.randint(0, 4)))


_IN_CRLF = _at(rb"\r(?=\n)")
_IN_CHARACTERS = _at(rb"[\x80-\xbf]", behind=False)
_AFTER_EVENTS = _at(_EVENT_ENDS)
_WITH_CRLF, _WITH_CR, _WITH_LF = (_replacing(_LINE_END, lambda _, end=end: end) for end in (b"\r\n", b"\r", b"\n"))
_WITH_COMMENTS = _replacing(_EVENT_STARTS, lambda match: match[0] + b": keep-alive\n\n")
"""Puts a comment before each event, as gateways do to keep the connection open."""

_WITH_RANDOM_SPACE = _spacing(_random_space)

_SEPARATORS = "U+2028, U+2029 and U+0085 raw where they were escaped, and the other way round"

_SMALL_PIECES = _ResponseVariant("in small pieces", _small_pieces)
_EACH_BYTE = _ResponseVariant("each byte by itself", lambda body, _random: range(1, len(body)))
_CHARACTERS = _ResponseVariant("cut inside every multi-byte character", _IN_CHARACTERS)
_AT_ONCE = _ResponseVariant("all at once", lambda _body, _random: ())
_EACH_EVENT = _ResponseVariant("each event by itself", _AFTER_EVENTS)

_BYTES = _BodyKind((_EACH_BYTE, _CHARACTERS, _AT_ONCE))

_BROKEN_EVENTS = _BodyKind((_EACH_BYTE, _CHARACTERS, _EACH_EVENT, _AT_ONCE))

_EVENTS = _BodyKind(
    (
        _EACH_BYTE,
        _CHARACTERS,
        _ResponseVariant("CRLF line ends, each cut in two", _IN_CRLF, (_WITH_CRLF,)),
        _EACH_EVENT,
        _AT_ONCE,
        _ResponseVariant(f"{COMMENTS} between the events, each by itself", _AFTER_EVENTS, (_WITH_COMMENTS,)),
        _ResponseVariant("CR line ends, cut behind each", _at(rb"\r"), (_WITH_CR,)),
        _ResponseVariant(_SEPARATORS, _IN_CHARACTERS, (_with_other_separators,)),
        _ResponseVariant(f"a {BYTE_ORDER_MARK} in front, in three pieces", lambda _body, _random: (1, 2), (_with_bom,)),
        _ResponseVariant(
            f"{DATA_LINES} with CRLF line ends, each cut in two", _IN_CRLF, (_with_data_lines, _WITH_CRLF)
        ),
    ),
    (
        (None, (_SEPARATORS, _with_other_separators)),
        (None, (COMMENTS, _WITH_COMMENTS)),
        (None, (DATA_LINES, _with_data_lines)),
        (None, ("LF line ends", _WITH_LF), ("CRLF line ends", _WITH_CRLF), ("CR line ends", _WITH_CR)),
        (None, (f"a {BYTE_ORDER_MARK}", _with_bom)),
    ),
)

_ARRAY = _BodyKind(
    (
        _EACH_BYTE,
        _CHARACTERS,
        _ResponseVariant("CRLF between the elements, each cut in two", _IN_CRLF, (_spacing(lambda _: b"\r\n"),)),
        _ResponseVariant("each element by itself", _after_elements),
        _AT_ONCE,
        _ResponseVariant("no white space between the elements", _after_elements, (_spacing(lambda _: b""),)),
        _ResponseVariant("other white space between the elements", _after_elements, (_WITH_RANDOM_SPACE,)),
    ),
    ((None, ("other white space between the elements", _WITH_RANDOM_SPACE)),),
)
