"""A scenario in the words of the canonical contract: its history, messages, tools, and what holds in which turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from harness.contract.model import (
    JSON,
    Message,
    Part,
    ProviderMetadata,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from harness.scenarios.schema import HistoryMessage, Scenario, Settings, TurnSpec


def history(scenario: Scenario) -> tuple[Message, ...]:
    """The conversation that came from elsewhere."""
    names = {call.id: call.name for message in scenario.history for call in message.calls}
    return tuple(Message(Role(message.role), tuple(_parts(message, names))) for message in scenario.history)


def _parts(message: HistoryMessage, names: dict[str, str]) -> Iterator[Part]:
    for result in message.results:
        yield ToolResult(result.call_id, names[result.call_id], result.content, result.is_error)
    metadata = _metadata(message.metadata)
    if message.thinking is not None:
        yield Thinking(message.thinking, metadata)
    if message.text is not None:
        yield Text(message.text, {} if message.thinking is not None else metadata)
    for call in message.calls:
        yield ToolCall(call.id, call.name, dict(call.arguments), _metadata(call.metadata))


def _metadata(metadata: dict[str, JSON]) -> ProviderMetadata:
    return cast("ProviderMetadata", dict(metadata))


def user_message(turn: TurnSpec) -> Message:
    """What the user says in a turn."""
    if isinstance(turn.user, str):
        return Message.user(turn.user)
    return Message(Role.USER, tuple(part.part() for part in turn.user))


def system_of(scenario: Scenario, turn_index: int) -> str | None:
    """The system prompt in a turn: that of the last turn so far which has the key `system`, be it null."""
    for turn in reversed(scenario.turns[: turn_index + 1]):
        if "system" in turn.model_fields_set:
            return turn.system
    return scenario.system


def settings_of(scenario: Scenario, turn_index: int) -> Settings:
    """The settings in a turn: its own, which hold for it alone, or else the scenario's."""
    return scenario.turns[turn_index].settings or scenario.settings


def provider_tools(scenario: Scenario) -> ProviderMetadata:
    """The tools that the provider runs, as fields of a request."""
    return {api: {"tools": cast("JSON", tools)} for api, tools in scenario.provider_tools.items()}


def tools(scenario: Scenario) -> tuple[Tool, ...]:
    """The declared tools."""
    return tuple(tool.tool() for tool in scenario.tools)
