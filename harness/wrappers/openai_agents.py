"""Wrapper for OpenAI Agents with the Responses and Chat APIs. Its runner runs an agent's tool loop."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

import json
from functools import partial
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from harness import Capability, Conversation, ConversationTool, Endpoint, Loop, ToolFailed


def tool(given: ConversationTool) -> FunctionTool:
    """Convert a tool of the conversation to a `FunctionTool`."""

    async def invoke(_context: Any, arguments: str) -> str:
        try:
            return given.text(json.loads(arguments or "{}"))
        except ToolFailed as failed:  # an exception in a tool made by hand ends the run
            return f"Error: {failed}"

    return FunctionTool(given.name, given.description, given.parameters, invoke, strict_json_schema=False)


async def drive(kind: Any, endpoint: Endpoint, model: str, given: Conversation) -> None:
    """Run a conversation."""
    set_tracing_disabled(True)
    async with AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key) as client:
        tools, settings = [tool(each) for each in given.tools], ModelSettings(max_tokens=given.max_tokens)
        agent = Agent(
            "agent", instructions=given.system, tools=tools, model=kind(model, client), model_settings=settings
        )
        history: list[Any] = []
        for turn in given.turns:
            messages = [*history, {"role": "user", "content": turn.text}]
            if given.stream:
                run = Runner.run_streamed(agent, messages, max_turns=given.max_answers)
                async for _ in run.stream_events():
                    pass
            else:
                run = await Runner.run(agent, messages, max_turns=given.max_answers)
            history = run.to_input_list()


_NAMES = ("system-prompt", "tools", "parallel-tool-calls", "history", "streaming", "retries")
_CAPABILITIES = frozenset(map(Capability, _NAMES))
RESPONSES = Loop("openai-agents-responses", "openai-responses", partial(drive, OpenAIResponsesModel), _CAPABILITIES)
OPENAI = Loop("openai-agents-openai", "openai-chat", partial(drive, OpenAIChatCompletionsModel), _CAPABILITIES)
