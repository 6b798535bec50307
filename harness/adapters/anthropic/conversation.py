"""Canonical history → `messages`."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from harness.adapters.anthropic.ids import WireIds
from harness.contract.errors import Unsupported
from harness.contract.model import (
    JSON,
    File,
    Image,
    Message,
    Opaque,
    Refusal,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.contract.model import Part, ProviderMetadata

_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def messages(history: tuple[Message, ...]) -> list[JSON]:
    """The conversation as the API takes it.

    Empty texts are left out, since the API refuses them (anthropic-no-empty-text). Results stand before whatever else
    their message holds (anthropic-results-first), and results in consecutive user messages share one
    (anthropic-results-in-one-message).

    Raises:
        Unsupported: a part that the API has no block for, or a user message that says nothing.
    """
    return _Encoding(history).messages()


class _Encoding:
    """The encoding of one history, with the ids and calls that its parts depend on."""

    def __init__(self, history: tuple[Message, ...]) -> None:
        self._history = history
        self._answered = {result.call_id for message in history for result in message.tool_results}
        self._ids = WireIds()
        self._toolsets: dict[str, JSON] = {}

    def messages(self) -> list[JSON]:
        """Encode the messages, as the function of this name."""
        encoded: list[JSON] = []
        for message in _with_joined_results(self._history):
            entries = list(self._entries(message))
            if not entries and message.role is Role.USER:
                raise Unsupported(
                    "anthropic", "an empty user message", "the API refuses empty text (anthropic-no-empty-text)"
                )
            encoded += entries
        return encoded

    def _entries(self, message: Message) -> Iterator[JSON]:
        """The message, and those inside it: an `Opaque` with a role is one of its own (a system message,
        anthropic-system-in-messages)."""
        blocks: list[JSON] = []
        for part in message.parts:
            if isinstance(part, Opaque) and isinstance(part.raw, dict) and "role" in part.raw:
                yield from _entry(message.role, blocks)
                blocks = []
                yield from [part.raw] if part.api == "anthropic" else []
            else:
                blocks += self._blocks(part, message.role)
        yield from _entry(message.role, blocks)

    def _blocks(self, part: Part, role: Role) -> list[JSON]:
        match part:
            case Text() | Refusal():
                return [{"type": "text", "text": part.text, **_own(part.provider_metadata)}] if part.text else []
            case ToolCall():
                return [self._call(part)]
            case ToolResult():
                return [self._result(part)]
            case Thinking():
                own = _own(part.provider_metadata)
                return [{"type": "thinking", "thinking": part.text, **own}] if own else []
            case Opaque():
                return [part.raw] if part.api == "anthropic" and not self._is_cut_call(part.raw) else []
            case Image() | File():
                if role is Role.ASSISTANT:
                    raise Unsupported("anthropic", "media in an assistant message", "the API takes it from users only")
                return [_medium(part)]

    def _is_cut_call(self, raw: JSON) -> bool:
        """A call that was cut short has no result, and the API refuses calls without one
        (anthropic-call-answered-next)."""
        return isinstance(raw, dict) and raw.get("type") == "tool_use" and raw.get("id") not in self._answered

    def _call(self, call: ToolCall) -> JSON:
        wire: dict[str, JSON] = {"type": "tool_use", "id": self._ids.of_call(call), "name": call.name}
        own = _own(call.provider_metadata)
        if "toolset_name" in own:
            self._toolsets[call.id] = own["toolset_name"]
        return {**wire, "input": call.arguments, **own}

    def _result(self, result: ToolResult) -> JSON:
        wire: dict[str, JSON] = {"type": "tool_result", "tool_use_id": self._ids.of_result(result)}
        if isinstance(result.content, tuple):
            parts = [block for part in result.content for block in self._blocks(part, Role.USER)]
            if parts:
                wire["content"] = parts
        else:
            wire["content"] = _as_text(result.content)
        if result.is_error:
            wire["is_error"] = True
        if result.call_id in self._toolsets:
            wire["toolset_name"] = self._toolsets[result.call_id]  # anthropic-toolset-echoed
        return {**wire, **_own(result.provider_metadata)}


def _entry(role: Role, blocks: list[JSON]) -> list[JSON]:
    return [{"role": role.value, "content": blocks}] if blocks else []


def _with_joined_results(history: tuple[Message, ...]) -> tuple[Message, ...]:
    joined: list[Message] = []
    for message in history:
        parts = message.parts
        if message.tool_results and joined and joined[-1].tool_results:
            parts = joined.pop().parts + parts
        results_first = sorted(parts, key=lambda part: not isinstance(part, ToolResult))
        joined.append(Message(message.role, tuple(results_first) if message.role is Role.USER else parts))
    return tuple(joined)


def _own(metadata: ProviderMetadata) -> dict[str, JSON]:
    own = metadata.get("anthropic")
    return own if isinstance(own, dict) else {}


def _as_text(content: JSON) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _medium(part: Image | File) -> JSON:
    own = _own(part.provider_metadata)
    kind = "image" if isinstance(part, Image) else "document"
    if "source" in own:  # an uploaded file, say, which has no canonical form
        return {"type": kind, **own}
    if part.data is not None:
        return {"type": kind, "source": _inline_source(part, part.data), **own}
    if part.uri is not None:
        return {"type": kind, "source": {"type": "url", "url": part.uri}, **own}
    raise Unsupported("anthropic", type(part).__name__, "it has neither data nor a place")


def _inline_source(part: Image | File, data: bytes) -> JSON:
    if part.media_type == "text/plain" and isinstance(part, File):
        try:
            return {"type": "text", "media_type": "text/plain", "data": data.decode()}
        except UnicodeDecodeError:
            raise Unsupported("anthropic", "a text file that is not UTF-8", "the API takes its text in JSON") from None
    legal = _IMAGE_TYPES if isinstance(part, Image) else {"application/pdf"}
    if part.media_type not in legal:
        raise Unsupported("anthropic", part.media_type, f"the API takes {', '.join(sorted(legal))}")
    return {"type": "base64", "media_type": part.media_type, "data": base64.b64encode(data).decode()}
