"""The history before the first turn: its calls are answered, each once."""

from __future__ import annotations

from collections.abc import Iterator

from harness.scenarios.check.problem import Problem
from harness.scenarios.document import Path
from harness.scenarios.schema import HistoryMessage, Scenario


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Messages that no assistant or user says, and calls without their one result."""
    unanswered: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(scenario.history):
        path = ("history", index)
        yield from _message(message, path)
        yield from _pairs(message, unanswered, path)
        unanswered = [call.id for call in message.calls]
        for place, call_id in enumerate(unanswered):
            if call_id in seen:
                yield Problem((*path, "calls", place, "id"), f"the id {call_id!r} is taken by an earlier call.")
            seen.add(call_id)
    if scenario.history and (scenario.history[-1].role != "assistant" or unanswered):
        last = ("history", len(scenario.history) - 1)
        yield Problem(last, "a history ends with an answer of the assistant that calls nothing.")


def _pairs(message: HistoryMessage, unanswered: list[str], path: Path) -> Iterator[Problem]:
    results = [result.call_id for result in message.results]
    for index, call_id in enumerate(results):
        at = (*path, "results", index, "call_id")
        if call_id not in unanswered:
            yield Problem(at, f"{call_id!r} is not the id of a call in the message before.")
        elif call_id in results[:index]:
            yield Problem(at, f"a second result for the call {call_id!r}.")
    for call_id in unanswered:
        if call_id not in results:
            yield Problem(path, f"the call {call_id!r} of the message before is not answered here.")


def _message(message: HistoryMessage, path: Path) -> Iterator[Problem]:
    foreign = ("results",) if message.role == "assistant" else ("calls", "thinking")
    for key in foreign:
        if getattr(message, key):
            yield Problem((*path, key), f"a message of the {message.role} has no {key}.")
    if not (message.text or message.thinking or message.calls or message.results):
        yield Problem(path, "an empty message.")
