"""The request and the raw answer that show what is wrong, as lines for people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from harness.apis.eventstream import is_event_stream, starts_as_one
from harness.apis.jsonvalue import loads
from harness.apis.view import WireError
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON
from harness.host.shortened import shortened
from harness.running.excerpt import lines, marked
from harness.running.excerpt import piece as excerpt
from harness.tape.redact import Redactor

_WIDTH = 100
_REQUEST = 24
"""Lines that are shown of a request."""
_AROUND = 5
"""Lines that are shown of a body on each side of the place."""
_BESIDE = 2
"""Lines that are shown of a stream on each side of the place."""
_LINE_END = re.compile(r"\r\n|\n|\r")


def piece(
    request: HttpRequest, response: HttpResponse | None, redactor: Redactor, pointer: str = "", event: int | None = None
) -> tuple[str, ...]:
    """The request, shortened, and the answer as it came around a place: around an event of a stream, or around what a
    pointer leads to; the line of the place is marked by `>`. Both are redacted before they are cut. `response` is
    `None` if none came."""
    asked = redactor.request(request)
    if response is None:
        return (f"{asked.method} {asked.url}", *_request(asked), "> (no answer)")
    came = redactor.response(response)
    head = f"{came.status} {came.headers.get('content-type', 'without a content type')}"
    return (
        f"{asked.method} {asked.url}",
        *_request(asked),
        f"HTTP {head}",
        *(_stream(came, pointer, event) if _is_stream(came) else _body(came, pointer)),
    )


def _is_stream(response: HttpResponse) -> bool:
    content_type = response.headers.get("content-type", "")
    return is_event_stream(content_type, response.body) or starts_as_one(response.body)


def _request(request: HttpRequest) -> Iterator[str]:
    try:
        shown = [line.text for line in lines(_short_first(loads(request.body)), _WIDTH)]
    except WireError:
        shown = [shortened(request.body.decode("utf-8", "replace"), _WIDTH)]
    yield from (f"  {line}" for line in shown[:_REQUEST])
    if len(shown) > _REQUEST:
        yield f"  ({len(shown) - _REQUEST} lines below)"


def _short_first(body: JSON) -> JSON:
    """A body with its long fields last, so that a switch is not cut off behind the tools."""
    if not isinstance(body, dict):
        return body
    return dict(sorted(body.items(), key=lambda item: len(json.dumps(item[1]))))


def _body(response: HttpResponse, pointer: str) -> Iterator[str]:
    try:
        body: JSON = loads(response.body)
    except WireError:
        yield f"> {shortened(response.body.decode('utf-8', 'replace'), 4 * _WIDTH) or '(nothing)'}"
        return
    shown = lines(body, _WIDTH, opened=(pointer,) if pointer else ())
    at = marked(shown, pointer) if pointer else 0
    yield from _around([line.text for line in shown], at, _AROUND)


def _stream(response: HttpResponse, pointer: str, event: int | None) -> Iterator[str]:
    """The lines of a stream around an event, and the place in its data; or the end of the stream."""
    kept = [line for line in _LINE_END.split(response.body.decode("utf-8", "replace")) if line]
    number, at = -1, len(kept) - 1
    for place, line in enumerate(kept):
        if line.startswith("data:"):
            number += 1
            if number == event:
                at = place
    yield from _around([shortened(line, 2 * _WIDTH) for line in kept], at, _BESIDE)
    if event is not None and pointer:
        yield from _place(kept[at].removeprefix("data:"), pointer)


def _place(data: str, pointer: str) -> Iterator[str]:
    """What a pointer leads to in the data of an event."""
    try:
        yield from excerpt(loads(data), pointer, _WIDTH)
    except WireError:
        return


def _around(shown: list[str], at: int, most: int) -> Iterator[str]:
    first, last = max(at - most, 0), min(at + most + 1, len(shown))
    if first:
        yield f"  ({first} lines above)"
    yield from (f"{'>' if number == at else ' '} {shown[number]}" for number in range(first, last))
    if last < len(shown):
        yield f"  ({len(shown) - last} lines below)"
