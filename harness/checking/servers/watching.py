"""What every answer of a server is looked at for, whatever it was asked for: the promises of its API."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus

from harness.apis.departure import (
    ARGUMENTS,
    CALL_ID,
    CONTENT_TYPE,
    END,
    ERROR_BODY,
    ERROR_STATUS,
    EVENTS,
    FIELDS,
    FRAMING,
    INDEX,
    PROMISES,
    STOP_REASON,
    USAGE,
    Departure,
    Promise,
)
from harness.apis.eventstream import is_event_stream, starts_as_one
from harness.apis.jsonvalue import loads
from harness.apis.view import RequestView, WireError
from harness.checking.servers.server import Server
from harness.checking.servers.talk import Reply
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON
from harness.host.exceptions import shortened
from harness.results import Blame, CellResult, Finding, Kind, Provenance, Severity, Verdict
from harness.running.exhibits import lines, marked
from harness.running.exhibits import piece as excerpt
from harness.scenarios.schema import Variant
from harness.tape.redact import Redactor

_VALUE = re.compile(r"'[^']*'|\d+")

BECAUSE = "clients read what the API promises, and break or lose something where an answer has it otherwise"
"""What a departure comes to."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A departure, in an answer to which check it was seen first, and the request and the answer that show it."""

    departure: Departure
    check: str
    evidence: tuple[str, ...]


class Watching:
    """Looks at answers, and tells what it has seen."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._looked: Counter[tuple[str, Variant]] = Counter()
        self._found: dict[tuple[str, Variant], list[_Seen]] = {}
        self._alike: Counter[tuple[str, Variant, str]] = Counter()

    def __call__(self, check: str, reply: Reply, asked: RequestView | None) -> None:
        """Take note of an answer to a check."""
        variant: Variant = "stream" if asked is not None and asked.stream else "whole"
        broken = {departure.promise.id for departure in reply.departures}
        for promise in {each.id for each in _looked_for(reply, variant)} | broken:
            self._looked[promise, variant] += 1
        for departure in reply.departures:
            self._note(departure, check, variant, reply)

    def _note(self, departure: Departure, check: str, variant: Variant, reply: Reply) -> None:
        key = (departure.promise.id, variant)
        alike = (*key, _VALUE.sub("", departure.message))
        self._alike[alike] += 1
        if self._alike[alike] == 1:  # what is the same in every answer is shown of the first
            shown = piece(reply.request, reply.response, self._redactor, departure.pointer, departure.event)
            self._found.setdefault(key, []).append(_Seen(departure, check, shown))

    def cells(
        self, server: Server, provenance: Provenance, promises: Iterable[tuple[Promise, Variant]]
    ) -> Iterator[CellResult]:
        """A cell for each of the promises, and for each other one that is broken."""
        wanted: dict[tuple[str, Variant], None] = dict.fromkeys((promise.id, variant) for promise, variant in promises)
        for name, variant in dict.fromkeys((*wanted, *self._found)):
            yield self._cell(PROMISES[name], variant, server, provenance)

    def _cell(self, promise: Promise, variant: Variant, server: Server, provenance: Provenance) -> CellResult:
        found = self._found.get((promise.id, variant), [])
        looked = self._looked[promise.id, variant]
        verdict = Verdict.FAIL if found else Verdict.PASS if looked else Verdict.INCONCLUSIVE
        return CellResult(
            scenario=promise.id,
            target=server.name,
            adapter="",
            api=server.api.name,
            variant=variant,
            verdict=verdict,
            provenance=provenance if looked else None,
            findings=tuple(self._finding(seen, variant, server) for seen in found),
            reason=None if looked else "no answer had anything to see it by",
            exchanges=looked,
            covers=(promise.subject,),
        )

    def _finding(self, seen: _Seen, variant: Variant, server: Server) -> Finding:
        departure = seen.departure
        times = self._alike[departure.promise.id, variant, _VALUE.sub("", departure.message)]
        where = "" if departure.event is None else f"event {departure.event + 1}: "
        more = f", and {times - 1} more like it" if times > 1 else ""
        return Finding(
            rule=departure.promise.id,
            kind=Kind.LOSS,
            severity=Severity.ERROR,
            blame=Blame.PROVIDER,
            message=f"{where}{departure.message} (asked by {seen.check}{more})",
            pointer=departure.pointer or None,
            actual=departure.actual,
            expected=departure.expected,
            source=server.sources(departure.promise.source),
            of_response=True,
            piece=seen.evidence,
            subject=departure.promise.subject,
        )

    def first_seen(self) -> dict[str, str]:
        """For each promise that is broken the check in whose answers that was first seen."""
        return {promise: found[0].check for (promise, _), found in reversed(self._found.items())}


def _looked_for(reply: Reply, variant: Variant) -> Iterator[Promise]:
    """The promises that an answer can be seen to keep."""
    view = reply.view
    if reply.response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return
    if reply.response.status >= HTTPStatus.BAD_REQUEST or (view is not None and view.error is not None):
        yield from (ERROR_BODY, ERROR_STATUS)
        return
    yield from (CONTENT_TYPE, FIELDS, STOP_REASON, USAGE)
    if variant == "stream":
        yield from (FRAMING, EVENTS, END)
    calls = view.calls if view is not None else ()
    if calls:
        yield ARGUMENTS
        if any(call.id is not None for call in calls):
            yield CALL_ID
        if variant == "stream":
            yield INDEX


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
