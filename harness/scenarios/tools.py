"""What a scenario's tools answer."""

from __future__ import annotations

import json

from harness.contract.errors import HarnessError, UnknownName
from harness.contract.model import ToolCall, ToolResult
from harness.scenarios.match import includes
from harness.scenarios.schema import ResultSpec, Scenario


class ToolFailure(Exception):
    """A tool raised, as its scenario says it does. The text is the exception's."""


class UnknownTool(Exception):
    """The model called a tool that the scenario does not declare. The text is fit for the model."""


class Unanswered(HarnessError):
    """The scenario is at fault: it declares the tool and has no result for these arguments."""


def answer(scenario: Scenario, call: ToolCall) -> ToolResult:
    """The result of a call: the first of the tool's results whose `when` is included in the arguments.

    Raises:
        ToolFailure: the result says that the tool raises.
        UnknownTool: there is no such tool.
        Unanswered: no result is for these arguments.
    """
    tool = scenario.tool_named(call.name)
    if tool is None:
        raise UnknownTool(str(UnknownName("tool", call.name, [tool.name for tool in scenario.tools])))
    for result in tool.results:
        if includes(call.arguments, result.when or {}):
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
