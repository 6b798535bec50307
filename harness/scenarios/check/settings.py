"""Settings: a tool choice has something to choose."""

from __future__ import annotations

from collections.abc import Iterator

from harness.scenarios.check.names import unknown
from harness.scenarios.check.problem import Problem
from harness.scenarios.document import Path
from harness.scenarios.schema import NamedToolSpec, Scenario, Settings


def problems(scenario: Scenario, path: Path, settings: Settings) -> Iterator[Problem]:
    """A tool choice that has no such tool, or no tool at all."""
    choice = settings.tool_choice
    if choice is not None and not scenario.tools:
        yield Problem((*path, "tool_choice"), "a tool choice in a scenario without tools.")
    elif isinstance(choice, NamedToolSpec):
        for problem in unknown("tool", [choice.tool], [tool.name for tool in scenario.tools], ()):
            yield Problem((*path, "tool_choice", "tool"), problem.reason)
