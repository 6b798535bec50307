"""What is answered: why the model stopped, what it took, the response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.contract.model.conversation import JSON, Message, ToolCall


class StopReason(StrEnum):
    """Why the model stopped. Closed: a value that is not known is `UNKNOWN`."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    PAUSE = "pause"
    MALFORMED_CALL = "malformed_call"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, in one convention for all APIs.

    `input_tokens` includes what was read from or written to a cache; `output_tokens` includes reasoning. `None` means
    that the provider did not say.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """The tokens of both. What only one of them says is what that one says."""
        return Usage(
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.cache_read_tokens, other.cache_read_tokens),
            _sum(self.cache_write_tokens, other.cache_write_tokens),
            _sum(self.reasoning_tokens, other.reasoning_tokens),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else one + other


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """The model's answer. `message` is what gets appended to the history.

    `raw_stop_reason` is the provider's own word, `model` the model that it says has answered. `reported` is for
    wrappers: what a library said where its wrapper had to choose another value to go on (`harness.bridge`).
    """

    message: Message
    stop_reason: StopReason
    usage: Usage
    model: str | None = None
    raw_stop_reason: str | None = None
    reported: Mapping[str, JSON] = field(default_factory=dict[str, JSON])

    @property
    def text(self) -> str:
        """All text of the answer."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the answer, in their order."""
        return self.message.tool_calls
