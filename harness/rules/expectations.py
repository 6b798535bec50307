"""Expectations: what the scenario says has to come out of a turn."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import equal
from harness.contract.model import JSON
from harness.contract.protocols import Capability
from harness.results import Blame, Chat, Kind, Severity
from harness.rules.evidence import Evidence
from harness.rules.failures import Due, due, failure_of, judged, waited
from harness.rules.rule import Flaw, Rule
from harness.scenarios.match import TurnOutcome, mismatches
from harness.scenarios.schema import Scenario, Subject


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
        index, last = chats[-1]
        if expectation is None:
            continue
        ended = due(evidence, index)
        unduly = last.error is not None and expectation.error is None
        if unduly or ended.fate == "made-up" or judged(evidence, index) is not None:
            expectation = expectation.forbidden  # request-unexpected or chat-failure says what is wrong besides
        outcome = TurnOutcome(
            text=last.response.text if last.response else "",
            calls=[call for _, chat in chats if chat.response for call in chat.response.tool_calls],
            stop_reason=last.response.stop_reason if last.response else None,
            error=failure_of(last),
            events=next(iter(evidence.transcript.handled[turn : turn + 1]), ()),
        )
        for mismatch in mismatches(expectation, outcome):
            if mismatch.path == "events" and not evidence.transcript.scripted:
                continue  # whether it says a word before it calls is a model's choice, and model-choice has the calls
            if mismatch.path == "error.retry_after" and (
                waited(evidence, index) is not None or _tells_no_wait(ended) or _asks_for(ended, mismatch.expected)
            ):
                continue  # error-retry-after says it, there is nothing to hand on, or it is told in whole seconds
            if mismatch.path == "stop_reason" and _wire_stop_reason(evidence, index) == mismatch.expected:
                continue  # stop-reason has what the adapter makes of it
            if mismatch.path.startswith(("error", "events")) and _is_mended(evidence, index):
                continue
            yield Flaw(
                f"turn {turn}, expect.{mismatch.path}: {mismatch.message}",
                ended.exchange,
                None,
                mismatch.actual,
                mismatch.expected,
                blame=evidence.divergence,
            )


def _tells_no_wait(ended: Due) -> bool:
    """The provider's failure asks for no wait, as the API of a command line has no place for it."""
    return ended.failure is not None and ended.failure.retry_after is None


def _asks_for(ended: Due, wait: JSON) -> bool:
    """The provider's failure asks for this wait, whatever the adapter made of it."""
    return ended.failure is not None and wait is not None and ended.failure.retry_after == wait


def _wire_stop_reason(evidence: Evidence, chat: int) -> str | None:
    reading = evidence.answer(chat)
    return reading.answer.stop_reason if reading is not None and reading.answer is not None else None


def _is_mended(evidence: Evidence, chat: int) -> bool:
    """The adapter sent again what had failed, as it declares to do, and the provider then answered."""
    declared = Capability.RETRIES in evidence.transcript.capabilities
    return declared and len(evidence.exchanges(chat)) > 1 and evidence.transcript.chats[chat].response is not None


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
        if not any(chat.response for _, chat in chats):
            continue  # nothing answered, so nothing was chosen
        scripted = [call for step in scenario.turns[turn].model for call in step.whole_calls]
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
    Rule(
        "expectation",
        Subject.RESPONSES,
        "What the scenario expects comes out.",
        _EXPECT,
        _expect,
        kind=Kind.LOSS,
        because="the scenario says what has to come out",
        remedy="compare what the adapter returned with the expectation: it is what the scenario's answers amount to",
    ),
    Rule(
        "iteration-bound",
        Subject.RESPONSES,
        "The loop ends within its bound.",
        _EXPECT,
        _bound,
        kind=Kind.LOSS,
        because="a loop that does not end costs money for ever",
        remedy="stop asking when the answer has no calls, and count the answers against the bound",
    ),
    Rule(
        "model-choice",
        Subject.RESPONSES,
        "A live model makes the calls of the script.",
        _EXPECT,
        _choice_of_calls,
        kind=Kind.LOSS,
        because="the rest of the conversation is another than the scenario's",
        severity=Severity.WARNING,
        blame=Blame.MODEL,
    ),
)
