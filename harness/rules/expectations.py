"""Expectations: what the scenario says has to come out of a turn."""

from __future__ import annotations

from collections.abc import Iterator

from harness.results import Blame, Chat, Severity
from harness.rules.evidence import Evidence
from harness.rules.rule import Flaw, Rule
from harness.scenarios.match import mismatches
from harness.scenarios.schema import Scenario, Subject
from harness.wire.jsonvalue import equal


def _turns(evidence: Evidence) -> Iterator[tuple[int, Scenario, list[tuple[int, Chat]]]]:
    scenario = evidence.transcript.scenario
    if scenario is not None:
        for turn in range(len(scenario.turns)):
            chats = [(i, chat) for i, chat in enumerate(evidence.transcript.chats) if chat.turn == turn]
            if chats:
                yield turn, scenario, chats


def _expect(evidence: Evidence) -> Iterator[Flaw]:
    for turn, scenario, chats in _turns(evidence):
        expectation = scenario.turns[turn].expect
        last = chats[-1][1]
        if expectation is None or (last.response is None and last.error is not None):
            continue  # a chat that failed is reported by chat-failure
        reading = evidence.answer(chats[-1][0])
        for mismatch in mismatches(
            expectation,
            text=last.response.text if last.response else "",
            calls=[call for _, chat in chats if chat.response for call in chat.response.tool_calls],
            stop_reason=last.response.stop_reason if last.response else None,
            error="iteration-limit" if last.limit_reached else None,
        ):
            yield Flaw(
                f"turn {turn}, expect.{mismatch.path}: {mismatch.message}",
                reading.index if reading else None,
                None,
                mismatch.actual,
                mismatch.expected,
                blame=evidence.divergence,
            )


def _bound(evidence: Evidence) -> Iterator[Flaw]:
    for turn, scenario, chats in _turns(evidence):
        expectation = scenario.turns[turn].expect
        if chats[-1][1].limit_reached and (expectation is None or expectation.error is None):
            yield Flaw(
                f"turn {turn} reached its bound of {scenario.max_iterations} answers and still calls tools",
                actual=len(chats),
                expected=scenario.max_iterations,
                blame=evidence.divergence,
            )


def _choice_of_calls(evidence: Evidence) -> Iterator[Flaw]:
    """A provider's model may choose other calls than the script: worth knowing, nobody's fault."""
    if evidence.transcript.scripted:
        return
    for turn, scenario, chats in _turns(evidence):
        scripted = [call for step in scenario.turns[turn].model for call in step.named_calls]
        made = [(c.name, c.arguments) for _, chat in chats if chat.response for c in chat.response.tool_calls]
        same = len(made) == len(scripted) and all(
            name == wanted and equal(dict(arguments), expected)
            for (name, arguments), (wanted, expected) in zip(made, scripted, strict=True)
        )
        if not same:
            yield Flaw(
                f"turn {turn}: the model chose other calls than the scenario's script",
                actual=[f"{name} {arguments}" for name, arguments in made],
                expected=[f"{name} {arguments}" for name, arguments in scripted],
            )


_EXPECT = "harness.scenarios.schema"

RULES = (
    Rule("expectation", Subject.RESPONSES, "What the scenario expects comes out.", _EXPECT, _expect),
    Rule("iteration-bound", Subject.RESPONSES, "The loop ends within its bound.", _EXPECT, _bound),
    Rule(
        "model-choice",
        Subject.RESPONSES,
        "A live model makes the calls of the script.",
        _EXPECT,
        _choice_of_calls,
        severity=Severity.WARNING,
        blame=Blame.MODEL,
    ),
)
