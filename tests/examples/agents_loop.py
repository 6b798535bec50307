"""The tool loop of the library `openai-agents`, on OpenAI's Responses, as a loop for conversations.

harness check --conversation tests.examples.agents_loop:LOOP
"""

from __future__ import annotations

import json
from typing import Any

from agents import Agent, FunctionTool, ModelSettings, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

from harness import Capability, Conversation, ConversationTool, Endpoint, Loop, ToolFailed


def tool(given: ConversationTool) -> FunctionTool:
    async def invoke(_context: Any, arguments: str) -> str:
        try:
            return given.text(json.loads(arguments))
        except ToolFailed as failed:  # of a tool that was made by hand the library lets an exception end the run
            return f"Error: {failed}"

    return FunctionTool(given.name, given.description, given.parameters, invoke, strict_json_schema=False)


async def drive(endpoint: Endpoint, model: str, given: Conversation) -> None:
    set_tracing_disabled(True)
    async with AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key) as client:
        asked = OpenAIResponsesModel(model, client)
        tools, settings = [tool(each) for each in given.tools], ModelSettings(max_tokens=given.max_tokens)
        agent = Agent("agent", instructions=given.system, tools=tools, model=asked, model_settings=settings)
        said: list[Any] = []
        for turn in given.turns:
            run = Runner.run_streamed(
                agent, [*said, {"role": "user", "content": turn.text}], max_turns=given.max_answers
            )
            async for _ in run.stream_events():
                pass
            said = run.to_input_list()


CAN = ("system-prompt", "tools", "parallel-tool-calls", "history", "streaming", "retries")
LOOP = Loop("openai-agents", "openai-responses", drive, frozenset(map(Capability, CAN)))
