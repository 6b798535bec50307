"""Faults at the system prompt and the history."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from harness.model.messages import ChatRequest, File, Image, Message, Opaque, Part, Role, Text, Thinking, ToolResult
from harness.model.protocols import Adapter
from harness.results import Severity
from tests.broken.fault import (
    ALL,
    GEMINI,
    OPENAI,
    THINKING,
    Expected,
    Fault,
    Table,
    Wrap,
    Wrapped,
    asks,
    asks_messages,
    asks_parts,
    client,
    edited_message,
    sends,
)
from tests.broken.places import BODY, SYSTEM, SYSTEM_IN_CONVERSATION, TEXT, TURN, Place, everywhere


def prompt(edit: Callable[[str], str | None]) -> Wrap:
    """The system prompt is changed on its way, where there is one."""
    return asks(lambda request: replace(request, system=edit(request.system)) if request.system else request)


def _as_first_message(request: ChatRequest) -> ChatRequest:
    if not request.system:
        return request
    return replace(request, system=None, messages=(Message.user(request.system), *request.messages))


def _once_per_turn(request: ChatRequest) -> ChatRequest:
    """One copy more with every user turn."""
    turns = sum(message.role is Role.USER and not message.tool_results for message in request.messages)
    return replace(request, system="\n".join([request.system] * turns)) if request.system else request


def _first_turn_only(request: ChatRequest) -> ChatRequest:
    return replace(request, system=None) if len(request.messages) > 1 else request


class _FirstPrompt(Wrapped):
    """Sends for ever the system prompt that it saw first."""

    prompt: str | None = None

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.prompt = self.prompt or request.system
        return replace(request, system=self.prompt)


def _filled_in(text: str) -> str:
    return text.replace("{{name}}", "Ada")


def _moved_behind(api: str, body: dict[str, Any]) -> None:
    """The system prompt as a message behind the first turns, where the API wants it in front."""
    if len(body.get("messages") or body["input"]) < 3:
        return
    if api == "openai-chat":
        body["messages"].insert(-1, body["messages"].pop(0))
    else:
        body["input"].insert(-1, {"role": "system", "content": body.pop("instructions")})


def _without_markup(request: ChatRequest) -> ChatRequest:
    """Lines that look like a system prompt are taken out of what the user says."""
    messages = tuple(
        replace(m, parts=tuple(Text(p.text.replace("system", "")) if isinstance(p, Text) else p for p in m.parts))
        for m in request.messages
    )
    return replace(request, messages=messages)


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


def _old_results_cleared(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Results of earlier user turns make room."""
    starts = [i for i, m in enumerate(messages) if m.role is Role.USER and not m.tool_results]

    def cleared(part: Part) -> Part:
        return replace(part, content="[cleared]") if isinstance(part, ToolResult) else part

    return (*(edited_message(m, cleared) for m in messages[: starts[-1]]), *messages[starts[-1] :])


def _text_beside_calls_dropped(message: Message) -> Message:
    if message.role is Role.USER or not message.tool_calls:
        return message
    return edited_message(message, lambda part: None if isinstance(part, Text) else part)


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


FAULTS: Table = {
    Expected("chat-refused", BODY, 0): [
        Fault(
            "foreign-fields-sent",
            "history-foreign-metadata",
            asks(_foreign_as_own),
            ("anthropic", "openai-responses", *GEMINI),
        )
    ],
    Expected("history-append-only", TURN, 2): [
        Fault("old-results-cleared", "history-two-turns", asks_messages(_old_results_cleared))
    ],
    Expected("history-append-only", TURN, 4): [
        Fault("long-history-cut", "history-long-conversation", asks_messages(lambda m: _from_first_user_text(m, 3)))
    ],
    Expected("media-changed", BODY, 0): [Fault("image-dropped", "image-from-user", asks_parts(_is(Image)))],
    Expected("media-changed", BODY): [
        Fault(
            "file-read-as-text-and-stripped",
            "file-of-text",
            asks_parts(lambda p: Text((p.data or b"").decode().strip()) if isinstance(p, File) else p),
        )
    ],
    Expected("media-changed", everywhere(".+"), 0): [
        Fault("file-first", "file-from-user", asks_messages(lambda ms: tuple(map(_file_first, ms)))),
        Fault(
            "sound-as-a-file-of-bytes",
            "audio-from-user",
            asks_parts(lambda p: replace(p, media_type="application/octet-stream") if isinstance(p, File) else p),
            GEMINI,
        ),
    ],
    Expected("media-changed", everywhere(".+"), severity=Severity.WARNING): [
        # which takes it no other way
        Fault(
            "file-read-as-text",
            "file-of-text",
            asks_parts(lambda p: Text((p.data or b"").decode()) if isinstance(p, File) else p),
            tuple(target for target in ALL if target != "openai-chat"),
        )
    ],
    Expected("opaque-state-lost", PART): [
        Fault("signature-altered", "thinking-parallel-calls", metadata(_altered), THINKING),
        Fault("thinking-edited", "thinking-tool-loop", sends(_thinking_edited), ("anthropic",)),
    ],
    Expected("opaque-state-lost", PART_OR_BODY): [
        Fault("signature-lost", "thinking-tool-loop", metadata(_without_signature), ("anthropic", "gemini-3")),
        Fault("opaque-parts-dropped", "history-opaque-parts", asks_parts(_is(Opaque)), THINKING),
        Fault(
            "provider-tool-of-a-turn-dropped",
            "thinking-provider-tool",
            asks_parts(_is(Opaque)),
            ("anthropic", "openai-responses"),
        ),
    ],
    Expected("opaque-state-lost", PART_OR_BODY, severity=Severity.WARNING): [
        Fault(
            "signature-lost-where-it-is-optional", "thinking-tool-loop", metadata(_without_signature), ("gemini-2.5",)
        )
    ],
    Expected("openai-chat-file-type", everywhere(".+/file_data"), 0): [
        Fault("file-of-text-as-a-file", "file-of-text", _file_of_text, ("openai-chat",))
    ],
    Expected("system-in-message", TEXT, 0): [
        Fault("system-as-first-message", "system-with-tools", asks(_as_first_message))
    ],
    Expected("system-missing", BODY, 0): [Fault("system-dropped", "system-plain", prompt(lambda _: None))],
    Expected("system-missing", BODY): [Fault("system-dropped-on-turn-two", "system-added", asks(_first_turn_only))],
    Expected("system-place", SYSTEM_IN_CONVERSATION): [
        Fault("system-behind-the-conversation", "system-changed", sends(_moved_behind), OPENAI)
    ],
    Expected("system-repeated", SYSTEM): [Fault("system-repeated-each-turn", "system-changed", asks(_once_per_turn))],
    Expected("system-stale", SYSTEM): [Fault("system-kept-when-dropped", "system-dropped", client(_FirstPrompt))],
    Expected("system-verbatim", SYSTEM, 0): [
        Fault("system-one-line", "system-multiline", prompt(lambda text: " ".join(text.split()))),
        Fault("system-stripped-where-it-speaks-of-json", "seeds-code-search-planner", prompt(str.strip)),
        Fault("system-filled-in", "system-template-like", prompt(_filled_in)),
        Fault("system-ascii", "system-unicode", prompt(lambda text: text.encode("ascii", "replace").decode())),
    ],
    Expected("system-when-absent", SYSTEM, 0): [
        Fault(
            "system-default",
            "system-absent",
            asks(lambda r: replace(r, system=r.system or "You are a helpful assistant.")),
        ),
        Fault(
            "system-blank-for-empty", "system-empty", asks(lambda r: replace(r, system=" ") if r.system == "" else r)
        ),
    ],
    Expected("text-changed", BODY): [
        Fault(
            "assistant-text-dropped",
            "call-after-text",
            asks_messages(lambda ms: tuple(map(_text_beside_calls_dropped, ms))),
        )
    ],
    Expected("text-changed", TEXT, 0): [
        Fault("user-markup-removed", "system-like-user-text", asks(_without_markup)),
        Fault(
            "texts-stripped",
            "history-without-tools",
            asks_parts(lambda p: replace(p, text=p.text.upper()) if isinstance(p, Text) else p),
        ),
    ],
    Expected("text-changed", TEXT): [
        # the model's own: it has a place to go back to
        Fault(
            "reasoning-aloud",
            "thinking-two-turns",
            asks_parts(lambda p: Text(p.text) if isinstance(p, Thinking) and p.text else p),
            THINKING,
        )
    ],
}
