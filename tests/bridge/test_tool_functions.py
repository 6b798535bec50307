"""Python functions that run tools, in the form that third-party code calls them in."""

from __future__ import annotations

import asyncio
import inspect
from threading import Barrier
from typing import Any, cast

import pytest

from harness.bridge.clients.tool_functions import adapted_tools, make_function
from harness.model.messages import ToolCall, ToolResult
from harness.model.protocols import ConversationTool

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}

AWAITED_RESULT = """
        value = tool.function(**arguments)
        if inspect.isawaitable(value):
            value = await value
"""
AWAITED_CALL = """
        if inspect.iscoroutinefunction(tool.run):
            return await tool.run(**arguments)
        return tool.run(**arguments)
"""
AWAITED_HANDLER = """
        answer = handler(text)
        if inspect.isawaitable(answer):
            await answer
        result = tool.function(**arguments)
"""


def tool(name: str, barrier: Barrier | None = None) -> ConversationTool:
    def run(call: ToolCall) -> ToolResult:
        if barrier is not None:
            barrier.wait(timeout=10)
        return ToolResult("", call.name, "done")

    return ConversationTool(name, "A tool.", SCHEMA, run)


@pytest.mark.parametrize(
    ("code", "is_async"), [(AWAITED_RESULT, True), (AWAITED_CALL, True), (AWAITED_HANDLER, False), ("", False)]
)
def test_tools_are_asynchronous_for_code_that_awaits_the_results_of_such_functions(code: str, is_async: bool) -> None:
    [made] = adapted_tools([tool("get")], code)

    assert inspect.iscoroutinefunction(make_function(made)) is is_async


def test_asynchronous_tools_run_in_parallel() -> None:
    barrier = Barrier(2)
    functions = [make_function(tool(name, barrier), "Awaitable") for name in ("one", "two")]

    async def both() -> object:
        return await asyncio.gather(*(cast("Any", each)() for each in functions))

    assert asyncio.run(both()) == ["done", "done"]
