"""Calls: each goes back, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

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


def _calls_split(evidence: Evidence) -> Iterator[Flaw]:
    """A result stands between two calls of one answer, as if the second had been made after it."""
    for asked in evidence.heard:
        parts = (part for turn in asked.view.turns for part in turn.parts)
        places = {id(part): place for place, part in enumerate(parts)}
        pairing = evidence.pairing(asked.view)
        told: set[int] = set()
        for (before, first), (expected, second) in pairwise(matched(evidence, asked)):
            if first is None or second is None or before.answer != expected.answer or expected.answer in told:
                continue
            results = [result for result in pairing.of(first) if places[id(result)] < places[id(second)]]
            if results:
                told.add(expected.answer)
                yield Flaw(
                    f"the calls of {before.name} and {expected.name} were made at the same time, and go back as two "
                    "turns: the result of the first stands between them",
                    asked.reading.index,
                    second.pointer,
                    results[0].pointer,
                    f"after {second.pointer}",
                )


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
        remedy="send each call of the earlier answers back as {call}",
    ),
    Rule(
        "call-order",
        Subject.ID_MATCHING,
        "Calls go back in the order in which they came.",
        _IDS,
        _call_order,
        kind=Kind.LOSS,
        because="the model reads its calls in another order",
        remedy="send calls back in the order in which the answer had them",
    ),
    Rule(
        "calls-split",
        Subject.ID_MATCHING,
        "Calls of one answer go back together, before their results.",
        _IDS + "; anthropic-results-in-one-message, gemini-responses-counted",
        _calls_split,
        kind=Kind.LOSS,
        because="that they were made at the same time is gone, and the model learns to call one tool at a time",
        remedy="send the calls of one answer back together, in one assistant turn before their results",
    ),
)
