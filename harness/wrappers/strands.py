"""Wrapper for Strands Agents with OpenAI and Anthropic. Its agent runs the tool loop and streams every answer."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from strands import Agent
from strands.agent.conversation_manager import NullConversationManager
from strands.tools.tools import PythonAgentTool

from harness import Capability, Conversation, ConversationTool, Endpoint, Loop, ToolFailed


def tool(given: ConversationTool) -> PythonAgentTool:
    """Return a Strands tool that runs a tool of the conversation."""

    def run(call: Any, **_: Any) -> dict[str, Any]:
        try:
            status, text = "success", given.text(call["input"])
        except ToolFailed as failed:
            status, text = "error", str(failed)
        return {"toolUseId": call["toolUseId"], "status": status, "content": [{"text": text}]}

    schema = {"json": {"type": "object", "properties": {}, **given.parameters}}
    about = {"name": given.name, "description": given.description, "inputSchema": schema}
    return PythonAgentTool(given.name, about, run)


def drive(create: Callable[..., Any], endpoint: Endpoint, model: str, given: Conversation) -> None:
    """Run a conversation."""
    agent = Agent(
        model=create(endpoint, model, given.max_tokens),
        tools=[tool(each) for each in given.tools],
        system_prompt=given.system,
        callback_handler=None,
        conversation_manager=NullConversationManager(),
    )
    for turn in given.turns:
        agent(turn.text)


def _openai(endpoint: Endpoint, model: str, longest: int | None) -> Any:
    from strands.models.openai import OpenAIModel

    where = {"base_url": endpoint.base_url, "api_key": endpoint.api_key}
    return OpenAIModel(client_args=where, model_id=model, params={"max_completion_tokens": longest or 4096})


def _anthropic(endpoint: Endpoint, model: str, longest: int | None) -> Any:
    from strands.models.anthropic import AnthropicModel

    where = {"base_url": endpoint.base_url, "api_key": endpoint.api_key}
    return AnthropicModel(client_args=where, model_id=model, max_tokens=longest or 4096)


_CAPABILITIES = frozenset(map(Capability, ("system-prompt", "tools", "parallel-tool-calls", "history", "retries")))
OPENAI = Loop("strands-openai", "openai-chat", partial(drive, _openai), _CAPABILITIES)
ANTHROPIC = Loop("strands-anthropic", "anthropic", partial(drive, _anthropic), _CAPABILITIES)
