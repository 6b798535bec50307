"""Steps: the model's answers, whose calls fit their tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness import catalog
from harness.contract.errors import UnknownName
from harness.contract.model import ToolCall
from harness.scenarios.check.names import unknown_apis
from harness.scenarios.check.problem import Problem
from harness.scenarios.document import Path
from harness.scenarios.match import includes, misfits
from harness.scenarios.schema import Scenario, StepSpec, ToolSpec
from harness.scenarios.tools import fitting

if TYPE_CHECKING:
    from harness.apis.api import Api


def problems(scenario: Scenario, path: Path, step: StepSpec, earlier: Sequence[ToolCall]) -> Iterator[Problem]:
    """Calls that no tool of the scenario takes, and what only some APIs can say. `earlier` are the calls of the answers
    before."""
    yield from unknown_apis(step.raw, (*path, "raw"))
    for api in catalog.apis():
        if step.stop is not None and step.stop in api.own_stops:
            yield from _of_one_api(scenario, (*path, "stop"), api, *api.own_stops[step.stop])
    for index, (name, arguments) in enumerate(step.named_calls):
        tool = scenario.tool_named(name)
        inner = (*path, "calls", index, name)
        if tool is not None:
            before = earlier if index < len(step.whole_calls) else None
            yield from _call(tool, ToolCall("", name, arguments), inner, before)
        elif name not in scenario.undeclared_tools:
            reason = str(UnknownName("tool", name, [tool.name for tool in scenario.tools]))
            yield Problem(inner, f"{reason} If the model is meant to call it all the same, add it to undeclared_tools.")
    yield from _limited(scenario, path, step)


def _of_one_api(scenario: Scenario, path: Path, api: Api, only: str, does: str) -> Iterator[Problem]:
    telling = [profile.name for profile in api.profiles]
    if not scenario.profiles or not set(scenario.profiles) <= set(telling):
        yield Problem(path, f"{only}. Add profiles: of {', '.join(telling)}.")
    if not scenario.scripted:
        yield Problem(path, f"no model {does} when asked to. Add scripted: true.")


def _call(tool: ToolSpec, call: ToolCall, path: Path, earlier: Sequence[ToolCall] | None) -> Iterator[Problem]:
    """`earlier` are the calls before it; `None`: the call is cut, and nobody makes it."""
    for at, message in misfits(tool.parameters or {"maxProperties": 0}, call.arguments):
        yield Problem((*path, *at), f"does not fit the parameters of {tool.name!r}: {message}.")
    if earlier is not None and tool.answered_by == "scenario" and fitting(tool, call, earlier) is None:
        yield Problem(path, f"{tool.name!r} has no result for these arguments{_left(tool)}. {_ADD}")


_ADD = "Add one, or one without when."


def _left(tool: ToolSpec) -> str:
    return " that is not used up" if any(result.times for result in tool.results) else ""


def _limited(scenario: Scenario, path: Path, step: StepSpec) -> Iterator[Problem]:
    """Which of two calls of one answer comes first is the application's affair, which may make them at once."""
    for tool in scenario.tools:
        calls = [(at, arguments) for at, (name, arguments) in enumerate(step.whole_calls) if name == tool.name]
        for number, result in enumerate(tool.results):
            fit = [at for at, arguments in calls if result.times and includes(arguments, result.when or {})]
            if len(fit) > 1:
                reason = f"results[{number}] of {tool.name!r} has times, and fits an earlier call of this answer too."
                yield Problem((*path, "calls", fit[1], tool.name), f"{reason} Put them into two answers.")


def script(scenario: Scenario) -> list[StepSpec]:
    """The model's answers of all turns, in their order."""
    return [step for turn in scenario.turns for step in turn.model]
