"""What a scenario's tools answer."""

from __future__ import annotations

import json
from collections.abc import Iterable

from harness.contract.errors import HarnessError, UnknownName
from harness.contract.model import ToolCall, ToolResult
from harness.scenarios.match import includes
from harness.scenarios.schema import ResultSpec, Scenario, StepSpec, ToolSpec


class ToolFailure(Exception):
    """A tool raised, as its scenario says it does. The text is the exception's."""


class UnknownTool(Exception):
    """The model called a tool that the scenario does not declare. The text is fit for the model."""


class Unanswered(HarnessError):
    """The scenario is at fault: it declares the tool and has no result for these arguments."""


def calls_of(step: StepSpec) -> list[ToolCall]:
    """The calls of an answer that are made."""
    return [ToolCall("", name, arguments) for name, arguments in step.whole_calls]


def called_before(scenario: Scenario, answers: int) -> list[ToolCall]:
    """The calls that are made of the script's first answers, as many as `answers`."""
    steps = [step for turn in scenario.turns for step in turn.model][:answers]
    return [call for step in steps for call in calls_of(step)]


def fitting(tool: ToolSpec, call: ToolCall, earlier: Iterable[ToolCall] = ()) -> ResultSpec | None:
    """Which of a tool's results answers a call: the first whose `when` is included in the arguments, and whose `times`
    are not used up by the earlier calls of the conversation; `None` if there is none."""
    left = {index: result.times for index, result in enumerate(tool.results) if result.times is not None}
    for before in earlier if left else ():
        if before.name == call.name:
            index = _first(tool, before, left)
            if index in left:
                left[index] -= 1
    index = _first(tool, call, left)
    return None if index is None else tool.results[index]


def _first(tool: ToolSpec, call: ToolCall, left: dict[int, int]) -> int | None:
    for index, result in enumerate(tool.results):
        if left.get(index, 1) and includes(call.arguments, result.when or {}):
            return index
    return None


def answer(scenario: Scenario, call: ToolCall, earlier: Iterable[ToolCall] = ()) -> ToolResult:
    """The result of a call, behind the `earlier` calls of its conversation; see `fitting`.

    Raises:
        ToolFailure: the result says that the tool raises.
        UnknownTool: there is no such tool.
        Unanswered: no result is for these arguments.
    """
    tool = scenario.tool_named(call.name)
    if tool is None:
        raise UnknownTool(str(UnknownName("tool", call.name, [tool.name for tool in scenario.tools])))
    result = fitting(tool, call, earlier)
    if result is not None:
        return _result(result, call)
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    raise Unanswered(
        f"scenario {scenario.id!r}: the tool {call.name!r} has no result for the arguments {arguments}. "
        "Add one to its results, or one without when, which answers all others."
    )


def _result(result: ResultSpec, call: ToolCall) -> ToolResult:
    if result.raise_ is not None:
        raise ToolFailure(result.raise_)
    if result.parts is not None:
        return ToolResult(call.id, call.name, tuple(part.part() for part in result.parts))
    if "error" in result.model_fields_set:
        return ToolResult(call.id, call.name, result.error, is_error=True)
    return ToolResult(call.id, call.name, result.return_)
