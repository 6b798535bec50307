"""Agno, for OpenAI and Anthropic: a loop with an agent that stores its own session."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.tools.function import Function

from harness import Capability, Conversation, ConversationTool, Endpoint, Loop


def tool(given: ConversationTool) -> Function:
    """Return an Agno tool that runs the given tool."""
    run = lambda **arguments: given.text(arguments)  # noqa: E731 - Agno reads the signature
    about = {"name": given.name, "description": given.description, "parameters": {**_NO_ARGUMENTS, **given.parameters}}
    return Function(**about, entrypoint=run, skip_entrypoint_processing=True)


def drive(create: Callable[..., Any], endpoint: Endpoint, model: str, given: Conversation) -> None:
    """Run a conversation. Agno includes earlier runs of the session in each request, but at most `num_history_runs`."""
    agent = Agent(
        model=create(endpoint, model, given.max_tokens),
        system_message=given.system,
        build_context=given.system is not None,
        tools=[tool(each) for each in given.tools],
        db=InMemoryDb(),
        session_id="session",
        add_history_to_context=True,
        num_history_runs=len(given.turns),
        telemetry=False,
    )
    for turn in given.turns:
        found = agent.run(turn.text, stream=given.stream)
        _ = [*found] if given.stream else found


def _openai(endpoint: Endpoint, model: str, longest: int | None) -> Any:
    from agno.models.openai import OpenAIChat

    where = {"base_url": endpoint.base_url, "api_key": endpoint.api_key, "max_retries": 0}
    return OpenAIChat(id=model, max_completion_tokens=longest, **where)


def _anthropic(endpoint: Endpoint, model: str, longest: int | None) -> Any:
    from agno.models.anthropic import Claude

    where = {"base_url": endpoint.base_url, "max_retries": 0}
    return Claude(id=model, api_key=endpoint.api_key, client_params=where, max_tokens=longest or 8192)


_NO_ARGUMENTS = {"type": "object", "properties": {}}
_NAMES = ("system-prompt", "tools", "parallel-tool-calls", "history", "streaming")
_CAPABILITIES = frozenset(map(Capability, _NAMES))
OPENAI = Loop("agno-openai", "openai-chat", partial(drive, _openai), _CAPABILITIES)
ANTHROPIC = Loop("agno-anthropic", "anthropic", partial(drive, _anthropic), _CAPABILITIES)
