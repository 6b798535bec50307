"""Faults at the history: trimmed, edited, its opaque state lost."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from harness.contract.model import ChatRequest, File, Image, Message, Opaque, Part, Role, Text, Thinking, ToolResult
from harness.contract.protocols import Adapter
from harness.results import Severity
from tests.broken.fault import (
    ALL,
    GEMINI,
    THINKING,
    Fault,
    Wrap,
    asks,
    asks_messages,
    asks_parts,
    edited_message,
    sends,
)
from tests.broken.places import BODY, TEXT, TURN, Place, everywhere

PART = Place(r"/messages/\d+/content/\d+", r"/messages/\d+", r"/input/\d+", r"/contents/\d+/parts/\d+")
PART_OR_BODY = everywhere(r"|/messages/\d+/content/\d+|/input/\d+|/contents/\d+/parts/\d+")


def metadata(edit: Callable[[str, dict[str, Any]], Any]) -> Wrap:
    """The wire fields that sit on each part are changed on their way: `edit(api, fields)`."""

    def changed(part: Part) -> Part:
        if isinstance(part, Opaque):
            return part
        kept = {api: edit(api, dict(cast("dict[str, Any]", fields))) for api, fields in part.provider_metadata.items()}
        return replace(part, provider_metadata=kept)

    return asks_parts(changed)


def _without_signature(_api: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in ("thoughtSignature", "signature")}


def _altered(_api: str, fields: dict[str, Any]) -> Any:
    """The last characters of whatever looks like a signature."""
    return _rewritten(fields)


def _rewritten(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: item[:-8] + "AAAAAAAA"
            if key in ("thoughtSignature", "signature", "encrypted_content") and isinstance(item, str)
            else _rewritten(item)
            for key, item in value.items()
        }
    return value


def _file_of_text(adapter: Adapter) -> Adapter:
    """A text file goes out as PDF files do, with its own media type."""

    def sent(_api: str, body: dict[str, Any]) -> None:
        text = body["messages"][0]["content"][1]["text"]
        data = base64.b64encode(text.encode()).decode()
        file = {"filename": "file.txt", "file_data": f"data:text/plain;base64,{data}"}
        body["messages"][0]["content"][:2] = [{"type": "file", "file": file}]

    return sends(sent)(adapter)


def _from_first_user_text(messages: tuple[Message, ...], keep: int) -> tuple[Message, ...]:
    """The last user turns only: `keep` of them."""
    starts = [i for i, m in enumerate(messages) if m.role is Role.USER and not m.tool_results]
    return messages[starts[-keep] :] if len(starts) > keep else messages


def _first_turn_dropped(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    starts = [i for i, m in enumerate(messages) if m.role is Role.USER and not m.tool_results]
    return messages[starts[1] :] if len(starts) > 1 else messages


def _old_results_cleared(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Results of earlier user turns make room."""
    starts = [i for i, m in enumerate(messages) if m.role is Role.USER and not m.tool_results]

    def cleared(part: Part) -> Part:
        return replace(part, content="[cleared]") if isinstance(part, ToolResult) else part

    return (*(edited_message(m, cleared) for m in messages[: starts[-1]]), *messages[starts[-1] :])


def _numbered(request: ChatRequest) -> ChatRequest:
    """The first text of the conversation says how many messages there are."""
    first = request.messages[0]
    parts = (Text(f"({len(request.messages)}) {first.text}"), *first.parts[1:])
    return replace(request, messages=(replace(first, parts=parts), *request.messages[1:]))


def _text_beside_calls_dropped(message: Message) -> Message:
    if message.role is Role.USER or not message.tool_calls:
        return message
    return edited_message(message, lambda part: None if isinstance(part, Text) else part)


def _opaque_last(message: Message) -> Message:
    opaque = tuple(part for part in message.parts if isinstance(part, Opaque | Thinking))
    return replace(message, parts=(*(part for part in message.parts if part not in opaque), *opaque))


def _image_first(message: Message) -> Message:
    return replace(message, parts=tuple(sorted(message.parts, key=lambda part: not isinstance(part, Image))))


def _file_first(message: Message) -> Message:
    return replace(message, parts=tuple(sorted(message.parts, key=lambda part: not isinstance(part, File))))


def _thinking_edited(_api: str, body: dict[str, Any]) -> None:
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "thinking":
                block["thinking"] = "(reasoning)"


def _foreign_as_own(request: ChatRequest) -> ChatRequest:
    """Wire fields of another API are taken for the adapter's own."""
    apis = ("anthropic", "openai-chat", "openai-responses", "gemini")

    def changed(part: Part) -> Part:
        foreign = None if isinstance(part, Opaque) else part.provider_metadata.get("vendor-of-old")
        return part if foreign is None else replace(part, provider_metadata=dict.fromkeys(apis, foreign))

    return replace(request, messages=tuple(edited_message(message, changed) for message in request.messages))


def _is(kind: Any) -> Callable[[Part], Part | None]:
    return lambda part: None if isinstance(part, kind) else part


FAULTS = (
    Fault(
        "first-turn-dropped", asks_messages(_first_turn_dropped), "history-two-turns", "history-append-only", TURN, 2
    ),
    Fault(
        "long-history-cut",
        asks_messages(lambda m: _from_first_user_text(m, 3)),
        "history-long-conversation",
        "history-append-only",
        TURN,
        4,
    ),
    Fault("last-turn-twice", asks_messages(lambda ms: (*ms, ms[-1])), "system-plain", "text-changed", TEXT, 0),
    Fault("first-text-changes", asks(_numbered), "history-without-tools", "history-append-only", TURN),
    Fault(
        "old-results-cleared", asks_messages(_old_results_cleared), "history-two-turns", "history-append-only", TURN, 2
    ),
    Fault(
        "assistant-text-dropped",
        asks_messages(lambda ms: tuple(map(_text_beside_calls_dropped, ms))),
        "call-after-text",
        "text-changed",
        BODY,
    ),
    Fault(
        "texts-stripped",
        asks_parts(lambda p: replace(p, text=p.text.upper()) if isinstance(p, Text) else p),
        "history-without-tools",
        "text-changed",
        TEXT,
        0,
    ),
    Fault(
        "reasoning-aloud",  # the model's own: it has a place to go back to
        asks_parts(lambda p: Text(p.text) if isinstance(p, Thinking) and p.text else p),
        "thinking-two-turns",
        "text-changed",
        TEXT,
        1,
        THINKING,
    ),
    Fault("image-dropped", asks_parts(_is(Image)), "image-from-user", "media-changed", BODY, 0),
    Fault(
        "image-altered",
        asks_parts(lambda p: replace(p, data=(p.data or b"")[:-4]) if isinstance(p, Image) else p),
        "image-from-user",
        "media-changed",
        everywhere(".+"),
        0,
    ),
    Fault(
        "image-first",
        asks_messages(lambda ms: tuple(map(_image_first, ms))),
        "image-from-user",
        "media-changed",
        everywhere(".+"),
        0,
    ),
    Fault("file-dropped", asks_parts(_is(File)), "file-from-user", "media-changed", BODY, 0),
    Fault(
        "file-read-as-text",
        asks_parts(lambda p: Text((p.data or b"").decode()) if isinstance(p, File) else p),
        "file-of-text",
        "media-changed",
        everywhere(".+"),
        1,
        tuple(target for target in ALL if target != "openai-chat"),  # which takes it no other way
        severity=Severity.WARNING,
    ),
    Fault(
        "file-read-as-text-and-stripped",
        asks_parts(lambda p: Text((p.data or b"").decode().strip()) if isinstance(p, File) else p),
        "file-of-text",
        "media-changed",
        BODY,
        1,
    ),
    Fault(
        "file-of-text-as-a-file",
        _file_of_text,
        "file-of-text",
        "openai-chat-file-type",
        everywhere(".+/file_data"),
        0,
        ("openai-chat",),
    ),
    Fault(
        "file-first",
        asks_messages(lambda ms: tuple(map(_file_first, ms))),
        "file-from-user",
        "media-changed",
        everywhere(".+"),
        0,
    ),
    Fault("sound-dropped", asks_parts(_is(File)), "audio-from-user", "media-changed", BODY, 0, GEMINI),
    Fault(
        "sound-as-a-file-of-bytes",
        asks_parts(lambda p: replace(p, media_type="application/octet-stream") if isinstance(p, File) else p),
        "audio-from-user",
        "media-changed",
        everywhere(".+"),
        0,
        GEMINI,
    ),
    Fault(
        "signature-lost",
        metadata(_without_signature),
        "thinking-tool-loop",
        "opaque-state-lost",
        PART_OR_BODY,
        1,
        ("anthropic", "gemini-3"),
    ),
    Fault(
        "signature-lost-where-it-is-optional",
        metadata(_without_signature),
        "thinking-tool-loop",
        "opaque-state-lost",
        PART_OR_BODY,
        1,
        ("gemini-2.5",),
        severity=Severity.WARNING,
    ),
    Fault("signature-altered", metadata(_altered), "thinking-parallel-calls", "opaque-state-lost", PART, 1, THINKING),
    Fault(
        "reasoning-dropped",
        asks_parts(_is(Thinking)),
        "thinking-two-turns",
        "opaque-state-lost",
        PART_OR_BODY,
        1,
        ("anthropic", "openai-responses"),
    ),
    Fault(
        "thinking-edited", sends(_thinking_edited), "thinking-tool-loop", "opaque-state-lost", PART, 1, ("anthropic",)
    ),
    Fault(
        "opaque-parts-dropped",
        asks_parts(_is(Opaque)),
        "history-opaque-parts",
        "opaque-state-lost",
        PART_OR_BODY,
        1,
        THINKING,
    ),
    Fault(
        "provider-tool-of-a-turn-dropped",
        asks_parts(_is(Opaque)),
        "thinking-provider-tool",
        "opaque-state-lost",
        PART_OR_BODY,
        1,
        ("anthropic", "openai-responses"),
    ),
    Fault(
        "opaque-parts-moved",
        asks_messages(lambda ms: tuple(map(_opaque_last, ms))),
        "thinking-tool-loop",
        "opaque-state-lost",
        PART_OR_BODY,
        1,
        ("anthropic", "openai-responses"),
    ),
    Fault(
        "foreign-fields-sent",
        asks(_foreign_as_own),
        "history-foreign-metadata",
        "chat-refused",
        BODY,
        0,
        ("anthropic", "openai-responses", *GEMINI),
    ),
)
