"""The tool loop of Anthropic's official SDK as a loop for conversations, in fifteen lines.

harness check --conversation tests.examples.runner_loop:LOOP
"""

from __future__ import annotations

from typing import Any

from anthropic import Anthropic, beta_tool, omit
from anthropic.lib.tools import ToolError

from harness import Capability, Conversation, ConversationTool, Endpoint, Loop, ToolFailed


def tool(given: ConversationTool) -> Any:
    def run(**arguments: Any) -> str:
        try:
            return given.text(arguments)
        except ToolFailed as failed:
            raise ToolError(str(failed)) from failed

    schema: Any = given.parameters
    return beta_tool(run, name=given.name, description=given.description, input_schema=schema)


def drive(endpoint: Endpoint, model: str, given: Conversation) -> None:
    with Anthropic(base_url=endpoint.base_url, api_key=endpoint.api_key) as client:
        said: list[Any] = []
        tools = [tool(each) for each in given.tools]
        asked: dict[str, Any] = {"model": model, "max_tokens": given.max_tokens or 1000, "system": given.system or omit}
        for turn in given.turns:
            said.append({"role": "user", "content": turn.text})
            runner = client.beta.messages.tool_runner(**asked, tools=tools, messages=said, thread=False)
            for message in runner:
                said.append({"role": "assistant", "content": message.content})
                said += filter(None, [runner.generate_tool_call_response()])


CAN = ("system-prompt", "tools", "parallel-tool-calls", "history", "retries")
LOOP = Loop("tool-runner", "anthropic", drive, frozenset(map(Capability, CAN)))
