"""Calls: each goes back, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.view import CallView
from harness.results import Kind
from harness.rules.evidence import Evidence
from harness.rules.matching import matched
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject


def _call_missing(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.heard:
        if asked.view.stateful:
            continue
        for expected, call in matched(evidence, asked):
            if call is None:
                yield Flaw(
                    f"the call of {expected.name} ({expected.id or 'without id'}) is not in the history that goes back",
                    asked.reading.index,
                    "",
                    [c.name for c in asked.view.calls],
                    expected.name,
                )


def _call_order(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.heard:
        places = {id(call): place for place, call in enumerate(asked.view.calls)}
        latest: CallView | None = None
        for expected, call in matched(evidence, asked):
            if call is None:
                continue
            if latest is not None and places[id(call)] < places[id(latest)]:
                yield Flaw(
                    f"the call of {expected.name} ({expected.id or 'without id'}) stands in front of one that came "
                    "before it",
                    asked.reading.index,
                    call.pointer,
                    call.pointer,
                    f"after {latest.pointer}",
                )
                break
            latest = call


_IDS = "harness.contract.model: ids"

RULES = (
    Rule(
        "call-missing",
        Subject.ID_MATCHING,
        "Every call of the history goes back.",
        _IDS,
        _call_missing,
        kind=Kind.LOSS,
        because="the model does not see what it called",
    ),
    Rule(
        "call-order",
        Subject.ID_MATCHING,
        "Calls go back in the order in which they came.",
        _IDS,
        _call_order,
        kind=Kind.LOSS,
        because="the model reads its calls in another order",
    ),
)
