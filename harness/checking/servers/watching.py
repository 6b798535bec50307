"""What every answer of a server is looked at for, whatever it was asked for: the promises of its API."""

from __future__ import annotations

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
from harness.apis.view import RequestView
from harness.checking.servers.evidence import piece
from harness.checking.servers.server import Server
from harness.checking.servers.talk import Reply
from harness.results import Blame, CellResult, Finding, Kind, Provenance, Severity, Verdict
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
