"""Failures: the errors in which faults let a chat end, and the one that is expected of it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.contract.errors import provider_error
from harness.scenarios.check.problem import Problem
from harness.scenarios.check.steps import script
from harness.scenarios.document import Path
from harness.scenarios.match import Failure, Outcome, error_name, mismatches
from harness.scenarios.schema import Expectation, FaultSpec, Scenario, TurnSpec

ENDLESS = ("iteration-limit",)
"""What a turn is expected to end in that never comes to an end by itself."""


def problems(scenario: Scenario) -> Iterator[Problem]:
    """An error is expected of the last turn, and is the one that the fault brings about."""
    for index, turn in enumerate(scenario.turns):
        path = ("turns", index, "expect", "error")
        outcomes = possible_failures(scenario, turn)
        names = expected_errors(turn)
        if outcomes and not names:
            yield Problem(("turns", index), f"its last answer fails. Add expect: {{error: {outcomes[0].name}}}.")
        if names not in ((), ENDLESS) and turn is not scenario.turns[-1]:
            yield Problem(path, "a chat that fails is the last one, and more turns follow.")
        possible = [Failure("iteration-limit")] if names == ENDLESS else [*outcomes, Failure("unsupported")]
        unexplained = [name for name in names if name not in {failure.name for failure in possible}]
        for name in unexplained:
            yield Problem(path, f"nothing ends the turn in {name}. Add faults that do.")
        if turn.expect is not None and names and not unexplained:
            yield from _error_fits(turn.expect, [failure for failure in possible if failure.name in names], path)


def expected_errors(turn: TurnSpec) -> tuple[str, ...]:
    """The errors of which the turn has to end in one; none if it has to end well."""
    return turn.expect.errors if turn.expect else ()


def possible_failures(scenario: Scenario, turn: TurnSpec) -> list[Failure]:
    """The errors in which the turn may end, of which one is the right one: its last answer is the only one to fail."""
    last = len(script(scenario)) - 1
    if turn is not scenario.turns[-1]:
        return []
    return [failure for fault in scenario.faults if fault.answer == last for failure in _outcomes(fault)]


def _outcomes(fault: FaultSpec) -> list[Failure]:
    """The errors in which a fault may end a chat; none if it is no failure."""
    if not fault.fails:
        return []
    if fault.status is not None:
        return [_of_status(fault.status, fault.retry_after)]
    if fault.stream_error is not None:  # said in words, and not every API has words for every status
        return [_of_status(fault.stream_error), _of_status(500 if fault.stream_error >= 500 else 400)]
    # errors.py has both: nothing tells a stream that ends too early from a connection that was lost
    return [Failure("connection-failed"), Failure("malformed-response")]


def _of_status(status: int, retry_after: float | None = None) -> Failure:
    return Failure(error_name(type(provider_error(status, "")).__name__), status, retry_after)


def _error_fits(expectation: Expectation, possible: list[Failure], path: Path) -> Iterator[Problem]:
    alone = Expectation(error=expectation.error)
    found = [mismatches(alone, Outcome(error=failure)) for failure in possible]
    if all(found):
        yield Problem(path, f"the script itself does not meet {found[0][0].path}: {found[0][0].message}")
