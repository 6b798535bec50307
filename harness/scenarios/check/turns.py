"""Turns: the script ends each of them, and meets what is expected of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from harness.contract.errors import UnknownName
from harness.contract.model import StopReason, ToolCall
from harness.scenarios.check import settings, steps
from harness.scenarios.check.failures import ENDLESS, expected_errors, possible_failures
from harness.scenarios.check.names import unknown
from harness.scenarios.check.problem import Problem
from harness.scenarios.document import Path
from harness.scenarios.events import scripted
from harness.scenarios.match import Outcome, mismatches
from harness.scenarios.schema import Expectation, NamedToolSpec, Scenario, TurnSpec
from harness.scenarios.tools import called_before, calls_of


def problems(scenario: Scenario, path: Path, turn: TurnSpec) -> Iterator[Problem]:
    """What contradicts itself in one turn and its answers."""
    if turn.settings is not None:
        yield from settings.problems(scenario, (*path, "settings"), turn.settings)
    yield from _choice_is_kept(scenario, path, turn)
    yield from _turn_ends(scenario, path, turn)
    first = sum(len(each.model) for each in takewhile(lambda each: each is not turn, scenario.turns))
    earlier = called_before(scenario, first)
    yield from _expectation_fits(scenario, path, turn, earlier)
    for index, step in enumerate(turn.model):
        yield from steps.problems(scenario, (*path, "model", index), step, earlier)
        earlier = [*earlier, *calls_of(step)]


def _choice_is_kept(scenario: Scenario, path: Path, turn: TurnSpec) -> Iterator[Problem]:
    choice = (turn.settings or scenario.settings).tool_choice
    called = [name for name, _ in turn.model[0].named_calls]
    first = (*path, "model", 0)
    if choice == "none":
        for index, step in enumerate(turn.model):
            if step.calls:
                yield Problem((*path, "model", index, "calls"), "a call though tool_choice is none.")
    elif choice == "required" and not called:
        yield Problem(first, "no call though tool_choice is required.")
    elif isinstance(choice, NamedToolSpec) and set(called) != {choice.tool}:
        yield Problem(first, f"tool_choice forces {choice.tool!r}: the first answer calls it, and nothing else.")


def _turn_ends(scenario: Scenario, path: Path, turn: TurnSpec) -> Iterator[Problem]:
    bound = scenario.max_iterations
    model = (*path, "model")
    errors = expected_errors(turn)
    endless = errors == ENDLESS
    for index, step in enumerate(turn.model):
        last = index == len(turn.model) - 1
        pauses = step.stop is StopReason.PAUSE and not step.calls
        if pauses and last and not errors:
            yield Problem((*model, index), "the turn ends in a pause. Add what the model says when it is asked again.")
        elif not step.whole_calls and not pauses and (endless or not last):
            why = "expect.error is iteration-limit" if endless else "more answers follow"
            yield Problem((*model, index), f"an answer without calls ends the turn, and {why}.")
        elif step.whole_calls and last and not errors and not turn.ends_with_call:
            reason = "the turn ends in a call. Add the model's answer to the results, or ends_with_call: true."
            yield Problem((*model, index), reason)
    if turn.ends_with_call and (errors or not turn.model[-1].whole_calls):
        yield Problem((*path, "ends_with_call"), "the last answer of the turn has to call a tool.")
    if endless and len(turn.model) != bound:
        yield Problem(
            model, f"{len(turn.model)} answers; the iteration limit is reached after max_iterations ({bound})."
        )
    elif len(turn.model) > bound:
        yield Problem(model, f"{len(turn.model)} answers in a turn, more than max_iterations ({bound}).")


def _expectation_fits(scenario: Scenario, path: Path, turn: TurnSpec, earlier: Sequence[ToolCall]) -> Iterator[Problem]:
    """The script is the answer that the reference server plays: an expectation that it misses would blame adapters."""
    if turn.expect is None:
        return
    fails = bool(possible_failures(scenario, turn))
    given = turn.model[:-1] if fails else turn.model
    outcome = Outcome(
        text="" if fails else turn.model[-1].text or "",
        calls=[ToolCall("", name, arguments) for step in given for name, arguments in step.whole_calls],
    )
    of_content = turn.expect.model_copy(update={"stop_reason": None, "error": None, "events": None})
    for mismatch in mismatches(of_content, outcome):
        yield Problem((*path, "expect"), f"the script itself does not meet {mismatch.path}: {mismatch.message}")
    yield from _counted_tools(scenario, (*path, "expect"), turn.expect)
    yield from _events_fit(scenario, (*path, "expect", "events"), turn, earlier)


def _counted_tools(scenario: Scenario, path: Path, expectation: Expectation) -> Iterator[Problem]:
    """A tool that is misspelt is never called, and an expectation of it would never fail."""
    known = [*(tool.name for tool in scenario.tools), *scenario.undeclared_tools]
    yield from unknown("tool", expectation.not_called or (), known, (*path, "not_called"))
    for name in expectation.counts:
        if name not in known:
            yield Problem((*path, "called", name), str(UnknownName("tool", name, known)))


def _events_fit(scenario: Scenario, path: Path, turn: TurnSpec, earlier: Sequence[ToolCall]) -> Iterator[Problem]:
    if turn.expect is None:
        return
    failures = [failure.name for failure in possible_failures(scenario, turn)]
    given = turn.model[:-1] if failures else turn.model
    endings = failures or [*expected_errors(turn)] or [None]
    found = [
        mismatches(Expectation(events=turn.expect.events), Outcome(events=told))
        for ending in endings
        if (told := scripted(scenario, given, ending, earlier)) is not None
    ]
    if found and all(found):
        yield Problem(path, f"the script itself does not meet it: {found[0][0].message}")
