"""What must never reach the disk, a report or a log is taken out of requests and responses.

Headers are kept by allow-list. The secrets of the run are searched for in every spelling in which they were seen to
slip through other recorders' filters: escaped for JSON, percent-encoded, as HTML entities, hexadecimal, base64, and cut
over the deltas of a stream or off at the end of a body. What merely looks like a key or an account goes as well.
"""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit, urlunsplit

from harness import catalog
from harness.contract.http import EXHAUSTED, Delivery, HttpRequest, HttpResponse

REDACTED = "REDACTED"

REQUEST_HEADERS = frozenset({"accept", "content-type"})
"""Those of every API; each has its own besides (`harness.apis.api`)."""

RESPONSE_HEADERS = frozenset({"content-type", "request-id", "retry-after", "retry-after-ms", "x-request-id", EXHAUSTED})

_SHORTEST_SECRET = 8
"""A shorter value is a dummy key; searching for it would eat ordinary text."""

_SECRET_PARAMETERS = frozenset(
    {"access_token", "api-key", "api_key", "apikey", "auth", "key", "password", "secret", "sig", "signature", "token"}
)

_HALF_ESCAPE = re.compile(rb"[\\%&][A-Za-z0-9\\%&#]{0,11}")
"""What the end of a body may leave of an escape."""

_SHAPES = re.compile(
    rb"""(?<![A-Za-z0-9_+/=-])(?:
        sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}   # Anthropic, OpenAI and most that copy them
        | AIza[A-Za-z0-9_-]{35} | ya29\.[A-Za-z0-9_-]{20,}
        | org-[A-Za-z0-9]{16,} | proj_[A-Za-z0-9]{16,}
    )""",
    re.VERBOSE,
)


class Redactor:
    """Takes `secrets` (the values of keys and tokens of this run), and what looks like one, out of HTTP messages."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        known = sorted({secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}, key=len, reverse=True)
        self._known = re.compile(b"|".join(map(_spelled, known)), re.IGNORECASE) if known else None
        fragments = [_escaped(each) for secret in known for each in _base64_fragments(secret)]
        self._encoded = re.compile(b"|".join(fragments)) if fragments else None
        self._secrets = known

    def request(self, request: HttpRequest) -> HttpRequest:
        """The request as it may be stored."""
        headers = self._headers(request.headers, _request_headers())
        return HttpRequest(request.method, self.url(request.url), headers, self.body(request.body))

    def response(self, response: HttpResponse) -> HttpResponse:
        """The response as it may be stored."""
        headers = self._headers(response.headers, RESPONSE_HEADERS)
        body = self.body(response.body, whole=response.delivery.ending == "complete")
        return HttpResponse(response.status, headers, body, _still_fitting(response, body))

    def shown_request(self, request: HttpRequest) -> HttpRequest:
        """The request as it may be shown: every header is named, only those that may be stored have their value."""
        stored = self.request(request)
        return HttpRequest(stored.method, stored.url, _named(request.headers, stored.headers), stored.body)

    def shown_response(self, response: HttpResponse) -> HttpResponse:
        """The response as it may be shown, likewise."""
        stored = self.response(response)
        return replace(stored, headers=_named(response.headers, stored.headers))

    def url(self, url: str) -> str:
        """A URL without user, password and parameters that carry keys."""
        parts = urlsplit(url)
        pairs = [pair for pair in parts.query.split("&") if not _is_secret_parameter(pair)]
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="&".join(pairs), fragment="")
        return self.text(urlunsplit(bare))

    def text(self, text: str) -> str:
        """A text without secrets."""
        return self._scrub(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def body(self, body: bytes, *, whole: bool = True) -> bytes:
        """A body without secrets. Bytes change only where a secret was. One that is not `whole` may end within one."""
        scrubbed = self._scrub(body)
        if self._known is None:
            return scrubbed
        if whole:
            return _without_split_secrets(scrubbed, self._spans)
        scrubbed = _without_split_secrets(scrubbed, lambda data: self._spans(data, self._begun(data)))
        begin = min((begin for begin, _ in self._begun(scrubbed)), default=None)
        return scrubbed if begin is None else scrubbed[:begin] + REDACTED.encode()

    def finds(self, data: bytes) -> bool:
        """Whether a secret of this run is still in there."""
        return any(pattern is not None and pattern.search(data) for pattern in (self._known, self._encoded))

    def _headers(self, headers: Mapping[str, str], allowed: Collection[str]) -> dict[str, str]:
        return {name: self.text(value) for name, value in headers.items() if name in allowed}

    def _scrub(self, data: bytes) -> bytes:
        if self._encoded is not None:  # letter for letter, so that base64 stays decodable
            data = self._encoded.sub(lambda match: b"A" * len(match[0]), data)
        for pattern in (self._known, _SHAPES):
            if pattern is not None:
                data = pattern.sub(REDACTED.encode(), data)
        return data

    def _spans(self, data: bytes, begun: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int]]:
        """Where secrets stand, and what has `begun`, without overlaps, the last one first."""
        patterns = (self._known, self._encoded)
        matches = (match.span() for pattern in patterns if pattern is not None for match in pattern.finditer(data))
        found = sorted((*matches, *begun))
        spans: list[tuple[int, int]] = []
        for begin, end in found:
            if spans and begin < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((begin, end))
        return spans[::-1]

    def _begun(self, data: bytes) -> list[tuple[int, int]]:
        """Where a secret stands of which the end of the data cut something off, in any spelling but UTF-16."""
        forms = {form for each in self._secrets for form in (each, each.encode().hex(), *_base64_fragments(each))}
        begins = [
            match.start()
            for form in sorted(forms)
            for match in re.finditer(_escaped(form[:_SHORTEST_SECRET]), data, re.IGNORECASE)
            if _runs_out(data, match.end(), form[_SHORTEST_SECRET:])
        ]
        return [(begin, len(data)) for begin in begins]


def _runs_out(data: bytes, position: int, text: str) -> bool:
    """Whether the data end before the text does that stands in them from `position`, be it within an escape."""
    for character in text:
        match = re.compile(_spellings(character), re.IGNORECASE).match(data, position)
        if match is None:
            break
        position = match.end()
    return position == len(data) or _HALF_ESCAPE.fullmatch(data, position) is not None


def _still_fitting(response: HttpResponse, body: bytes) -> Delivery:
    """The delivery of a response whose body became `body`: cuts count from the start, and hold up to the change."""
    delivery = response.delivery
    if not delivery.cuts or body == response.body:
        return delivery
    pairs = zip(response.body, body, strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(body), len(response.body)))
    return replace(delivery, cuts=tuple(cut for cut in delivery.cuts if cut <= same))


def _named(headers: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    return {name: stored.get(name, REDACTED) for name in headers}


def _is_secret_parameter(pair: str) -> bool:
    name = pair.partition("=")[0].lower().removeprefix("x-")
    return name in _SECRET_PARAMETERS or name.startswith(("amz-", "goog-"))


def _spelled(secret: str) -> bytes:
    """A pattern for a secret: escaped in any way, in hexadecimal, or in UTF-16."""
    return b"|".join((_escaped(secret), secret.encode().hex().encode(), re.escape(secret.encode("utf-16-le"))))


def _escaped(text: str) -> bytes:
    return b"".join(map(_spellings, text))


def _spellings(character: str) -> bytes:
    """A pattern for one character, for which every escape of JSON, JavaScript, URLs and HTML may stand."""
    utf8 = character.encode()
    units = character.encode("utf-16-be").hex()
    code = ord(character)
    spellings = [
        re.escape(utf8),
        b"".join(b"%%(?:25)*(?i:%02x)" % byte for byte in utf8),
        b"".join(rb"\\+u(?i:%s)" % units[at : at + 4].encode() for at in range(0, len(units), 4)),
        rb"&\#x0*(?i:%x);" % code,
        rb"&\#0*%d;" % code,
    ]
    if code < 0x100:
        spellings.append(rb"\\+x(?i:%02x)" % code)
    if character in '"/\\':
        spellings.append(rb"\\+" + re.escape(utf8))
    return b"(?:" + b"|".join(spellings) + b")"


def _base64_fragments(secret: str) -> Iterator[str]:
    """What of `secret` is the same in any base64 that has it inside, for the three ways to fall on its groups."""
    for shift in range(3):
        raw = b"\0" * shift + secret.encode()
        whole = slice(-(-8 * shift // 6), 8 * len(raw) // 6)
        standard = base64.b64encode(raw).decode()[whole]
        yield standard
        urlsafe = standard.replace("+", "-").replace("/", "_")
        if urlsafe != standard:
            yield urlsafe


_Spans: TypeAlias = Callable[[bytes], list[tuple[int, int]]]


@dataclass(slots=True)
class _Leaf:
    """A string inside a JSON document: where it hangs, and which document (by index of its line) it is part of."""

    parent: Any
    key: str | int
    line: int


@cache
def _request_headers() -> frozenset[str]:
    return REQUEST_HEADERS.union(*(api.headers for api in catalog.apis()))


def _without_split_secrets(body: bytes, spans: _Spans) -> bytes:
    """Take out secrets that only appear once the pieces of a stream are put together.

    Pieces belong together when they stand at the same path (list positions aside) under the same `index` fields. Only
    lines that hold a part of a secret are written anew.
    """
    lines = body.split(b"\n")
    starts = [b"data:" if line.startswith(b"data:") else b"" for line in lines]
    whole = not any(starts)
    if whole:
        lines, starts = [body], [b""]
    documents: dict[int, Any] = {}
    groups: defaultdict[tuple[Any, ...], list[_Leaf]] = defaultdict(list)
    for number, (line, start) in enumerate(zip(lines, starts, strict=True)):
        if not whole and not start:
            continue
        try:
            documents[number] = json.loads(line.removeprefix(start))
            _collect(documents[number], (), number, groups)
        except (ValueError, RecursionError):  # no JSON, so there is nothing to put together
            continue
    changed = {line for leaves in groups.values() for line in _cut_out(leaves, spans)}
    for number in changed:
        text = json.dumps(documents[number], ensure_ascii=False, separators=(",", ":"))
        end = b"\r" if lines[number].endswith(b"\r") else b""
        lines[number] = starts[number] + b" " * bool(starts[number]) + text.encode("utf-8", "surrogatepass") + end
    return b"\n".join(lines) if changed else body


def _collect(node: Any, path: tuple[Any, ...], line: int, groups: Mapping[tuple[Any, ...], list[_Leaf]]) -> None:
    if isinstance(node, dict):
        entries = cast("dict[str, Any]", node)
        path = path + tuple(value for key, value in entries.items() if key.endswith("index") and isinstance(value, int))
        children: list[tuple[str | int, tuple[Any, ...], Any]] = [(k, (*path, k), v) for k, v in entries.items()]
    elif isinstance(node, list):
        children = [(at, path, value) for at, value in enumerate(cast("list[Any]", node))]
    else:
        return
    for key, below, value in children:
        if isinstance(value, str):
            groups[below].append(_Leaf(node, key, line))
        else:
            _collect(value, below, line, groups)


def _cut_out(leaves: list[_Leaf], spans: _Spans) -> set[int]:
    """Empty the parts of secrets out of some pieces; the lines that changed. The first piece gets the placeholder."""
    if len(leaves) < 2:
        return set()
    texts = [cast("str", leaf.parent[leaf.key]).encode("utf-8", "surrogatepass") for leaf in leaves]
    bounds = list(pairwise(accumulate(map(len, texts), initial=0)))
    changed: set[int] = set()
    for begin, end in spans(b"".join(texts)):
        placeholder = REDACTED.encode()
        for at, (low, high) in enumerate(bounds):
            if max(low, begin) < min(high, end):
                # The last span comes first, so that the text up to this one still stands where it stood.
                texts[at] = texts[at][: max(begin - low, 0)] + placeholder + texts[at][min(end, high) - low :]
                placeholder = b""
                changed.add(at)
    for at in changed:
        leaves[at].parent[leaves[at].key] = texts[at].decode("utf-8", "replace")
    return {leaves[at].line for at in changed}
