"""Whether what an adapter answers is made as the contract says: a value of another type would break whoever reads it
later, far from the line that made it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

from harness.contract.model import (
    ChatResponse,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Refusal,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

_PARTS: tuple[type, ...] = get_args(Part)

_FIELDS: Mapping[type, Mapping[str, type]] = {
    Text: {"text": str},
    Image: {"media_type": str},
    File: {"media_type": str},
    ToolCall: {"id": str, "name": str, "arguments": Mapping},
    ToolResult: {"call_id": str, "name": str},
    Thinking: {"text": str},
    Refusal: {"text": str},
    Opaque: {"api": str},
}


def check(response: object) -> ChatResponse:
    """The response, if it is one. Raises `TypeError`, with the field that is none."""
    if not isinstance(response, ChatResponse):
        raise TypeError(f"chat returned a {type(response).__name__}, which is no ChatResponse")
    _expect(response.message, Message, "ChatResponse.message")
    _expect(response.message.role, Role, "Message.role")
    _expect(response.message.parts, (tuple, list), "Message.parts")
    for part in response.message.parts:
        _expect(part, _PARTS, "a part", "part")
        of = next(kind for kind in type(part).__mro__ if kind in _FIELDS)
        for name, kind in _FIELDS[of].items():
            _expect(getattr(part, name), kind, f"{of.__name__}.{name}")
    _expect(response.stop_reason, StopReason, "ChatResponse.stop_reason")
    _expect(response.usage, Usage, "ChatResponse.usage")
    _expect(response.model, (str, type(None)), "ChatResponse.model", "str")
    return response


def _expect(value: object, kind: type | tuple[type, ...], place: str, name: str | None = None) -> None:
    if not isinstance(value, kind):
        wanted = name or (kind if isinstance(kind, type) else cast("tuple[Any, ...]", kind)[0]).__name__
        raise TypeError(f"chat returned a {type(value).__name__} as {place}, which is no {wanted}")
