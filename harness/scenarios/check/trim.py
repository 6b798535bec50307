"""Trimming: there is a history to trim, of tools that are there."""

from __future__ import annotations

from collections.abc import Iterator

from harness.scenarios.check.names import unknown
from harness.scenarios.check.problem import Problem
from harness.scenarios.schema import Scenario


def problems(scenario: Scenario) -> Iterator[Problem]:
    """A history that cannot be trimmed like that."""
    if scenario.trim is None:
        return
    if len(scenario.turns) == 1:
        yield Problem(("trim",), "a history of one turn is never trimmed. Add a turn, or remove this.")
    yield from unknown("tool", scenario.trim.tools, [tool.name for tool in scenario.tools], ("trim", "tools"))
