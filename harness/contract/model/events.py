"""What a stream hands on while it arrives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from harness.contract.model.responses import ChatResponse
from harness.contract.model.typed import BY_TYPE


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text that has arrived."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """Reasoning that has arrived."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A call begins. `index` counts the calls of the answer from 0 and stays the call's to its end."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """A piece of the JSON text of a call's arguments; `harness.kit.streamed.PartialArguments` reads what there is."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """The call is complete. Calls that are cut short have no end."""

    index: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The last event, once: the whole answer, equal to what `chat` would have given."""

    response: ChatResponse


StreamEvent: TypeAlias = Annotated[
    TextDelta | ThinkingDelta | ToolCallStart | ArgumentsDelta | ToolCallEnd | Finish, BY_TYPE
]
"""What a streamed answer is made of. Each call starts before its deltas and ends behind them; several may be open."""
