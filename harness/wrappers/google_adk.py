"""Wrapper for Google's Agent Development Kit with Gemini. Its runner runs an agent's tool loop."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.google_llm import Gemini
from google.adk.runners import InMemoryRunner
from google.adk.tools import BaseTool
from google.genai import types

from harness import Capability, Conversation, ConversationTool, Endpoint, Loop, ToolFailed


class GivenTool(BaseTool):
    """An ADK tool that runs a tool of the conversation."""

    def __init__(self, given: ConversationTool) -> None:
        super().__init__(name=given.name, description=given.description)
        self._given = given

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = {"type": "object", "properties": {}, **self._given.parameters}
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:  # noqa: ARG002 - its interface
        try:
            return self._given.call(args)
        except ToolFailed as failed:
            return {"error": str(failed)}


async def drive(endpoint: Endpoint, model: str, given: Conversation) -> None:
    """Run a conversation. The instruction is a function, because ADK replaces placeholders in braces in a string."""
    longest = types.GenerateContentConfig(max_output_tokens=given.max_tokens)
    llm = Gemini(model=model, base_url=endpoint.base_url, client_kwargs={"api_key": endpoint.api_key})
    tools = [GivenTool(each) for each in given.tools]
    agent = LlmAgent(
        name="agent",
        model=llm,
        instruction=lambda _: given.system or "",
        tools=tools,
        generate_content_config=longest,
    )
    runner = InMemoryRunner(agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="user")
    config = RunConfig(streaming_mode=StreamingMode.SSE if given.stream else StreamingMode.NONE)
    for turn in given.turns:
        message = types.Content(role="user", parts=[types.Part(text=turn.text)])
        async for _ in runner.run_async(user_id="user", session_id=session.id, new_message=message, run_config=config):
            pass


_NAMES = ("system-prompt", "tools", "parallel-tool-calls", "history", "streaming")
GEMINI = Loop("google-adk-gemini", "gemini", drive, frozenset(map(Capability, _NAMES)))
