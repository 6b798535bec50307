"""A conversation that came from elsewhere, and how it is trimmed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from harness.scenarios.fields import (
    Strict,
)


class HistoryCall(Strict):
    """A call of an earlier conversation, with the id that it had there."""

    id: str
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    metadata: dict[str, JsonValue] = Field(
        default_factory=dict, description="provider_metadata of the call, by API, be it one that is not known here."
    )


class HistoryResult(Strict):
    """Its result."""

    call_id: str
    content: JsonValue = None
    is_error: bool = False


class HistoryMessage(Strict):
    """A message of a conversation that came from elsewhere."""

    role: Literal["user", "assistant"]
    text: str | None = None
    thinking: str | None = None
    calls: list[HistoryCall] = Field(default_factory=list[HistoryCall])
    results: list[HistoryResult] = Field(default_factory=list[HistoryResult])
    metadata: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="provider_metadata of the thinking, or of the text where there is none, by API.",
    )


class TrimSpec(Strict):
    """What of the history is trimmed between two turns: each result of these tools becomes a note of its length, if it
    is long, and ids and pairs stay."""

    tools: list[str] = Field(min_length=1, description="The tools whose results are trimmed.")
