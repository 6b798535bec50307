"""Steps: the model's answers, whose calls fit their tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness import catalog
from harness.contract.errors import UnknownName
from harness.contract.model import JSON
from harness.scenarios.check.names import unknown_apis
from harness.scenarios.check.problem import Problem
from harness.scenarios.document import Path
from harness.scenarios.match import includes, misfits
from harness.scenarios.schema import Scenario, StepSpec, ToolSpec

if TYPE_CHECKING:
    from harness.apis.api import Api


def problems(scenario: Scenario, path: Path, step: StepSpec) -> Iterator[Problem]:
    """Calls that no tool of the scenario takes, and what only some APIs can say."""
    yield from unknown_apis(step.raw, (*path, "raw"))
    for api in catalog.apis():
        if step.stop is not None and step.stop in api.own_stops:
            yield from _of_one_api(scenario, (*path, "stop"), api, *api.own_stops[step.stop])
    for index, (name, arguments) in enumerate(step.named_calls):
        tool = scenario.tool_named(name)
        inner = (*path, "calls", index, name)
        if tool is not None:
            yield from _call(tool, arguments, inner, made=index < len(step.whole_calls))
        elif name not in scenario.undeclared_tools:
            reason = str(UnknownName("tool", name, [tool.name for tool in scenario.tools]))
            yield Problem(inner, f"{reason} If the model is meant to call it all the same, add it to undeclared_tools.")


def _of_one_api(scenario: Scenario, path: Path, api: Api, only: str, does: str) -> Iterator[Problem]:
    telling = [profile.name for profile in api.profiles]
    if not scenario.profiles or not set(scenario.profiles) <= set(telling):
        yield Problem(path, f"{only}. Add profiles: of {', '.join(telling)}.")
    if not scenario.scripted:
        yield Problem(path, f"no model {does} when asked to. Add scripted: true.")


def _call(tool: ToolSpec, arguments: dict[str, JSON], path: Path, *, made: bool) -> Iterator[Problem]:
    for at, message in misfits(tool.parameters or {"maxProperties": 0}, arguments):
        yield Problem((*path, *at), f"does not fit the parameters of {tool.name!r}: {message}.")
    answered = tool.answered_by == "client" or any(includes(arguments, result.when or {}) for result in tool.results)
    if made and not answered:
        yield Problem(path, f"{tool.name!r} has no result for these arguments. Add one, or one without when.")


def script(scenario: Scenario) -> list[StepSpec]:
    """The model's answers of all turns, in their order."""
    return [step for turn in scenario.turns for step in turn.model]
