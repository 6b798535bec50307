"""Faults at the system prompt and the history, and those that the five designs in `tests/seeds` describe."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from harness.model.protocols import Adapter
from harness.results import Severity
from tests.broken.fault import (
    ALL,
    GEMINI,
    OPENAI,
    THINKING,
    WITH_IDS,
    Expected,
    Fault,
    Table,
    Wrap,
    Wrapped,
    answers,
    asks,
    asks_messages,
    asks_parts,
    client,
    edited_message,
    edited_parts,
    sends,
)
from tests.broken.places import BODY, RESPONSE_CALL_ID, SYSTEM, SYSTEM_IN_CONVERSATION, TEXT, TURN, Place, everywhere


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


class _FirstPrompt(Wrapped):
    """Sends for ever the system prompt that it saw first."""

    prompt: str | None = None

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.prompt = self.prompt or request.system
        return replace(request, system=self.prompt)


def moved_behind(api: str, body: dict[str, Any]) -> None:
    """The system prompt as a message behind the first turns, where the API wants it in front."""
    if len(body.get("messages") or body["input"]) < 3:
        return
    if api == "openai-chat":
        body["messages"].insert(-1, body["messages"].pop(0))
    else:
        body["input"].insert(-1, {"role": "system", "content": body.pop("instructions")})


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


def _first_signature(_api: str, body: dict[str, Any]) -> None:
    for content in body["contents"]:
        for part in [part for part in content["parts"] if "functionCall" in part][1:]:
            part.pop("thoughtSignature", None)


def _copied_onto(field: str) -> Callable[[str, dict[str, Any]], None]:
    """The signature of an answer on all of its texts or calls."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for content in body["contents"]:
            parts = content["parts"] if content.get("role") == "model" else []
            signatures = [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]
            for part in parts if signatures else ():
                if field in part:
                    part.setdefault("thoughtSignature", signatures[0])

    return edit


def _altered(_api: str, fields: dict[str, Any]) -> Any:
    """The last characters of whatever looks like a signature."""
    return _rewritten(fields)


def _as_list(_api: str, fields: dict[str, Any]) -> Any:
    return {key: [item] if key in ("thoughtSignature", "signature") else item for key, item in fields.items()}


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


def _old_results_cleared(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Results of earlier user turns make room."""
    starts = [i for i, m in enumerate(messages) if m.role is Role.USER and not m.tool_results]

    def cleared(part: Part) -> Part:
        return replace(part, content="[cleared]") if isinstance(part, ToolResult) else part

    return (*(edited_message(m, cleared) for m in messages[: starts[-1]]), *messages[starts[-1] :])


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


def _images_twice(message: Message) -> Message:
    return replace(message, parts=(*message.parts, *(part for part in message.parts if isinstance(part, Image))))


def _is(kind: Any) -> Callable[[Part], Part | None]:
    return lambda part: None if isinstance(part, kind) else part


def _of_last_turn(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """What the user says last, and what has come of it: every turn is a conversation of its own."""
    starts = [i for i, m in enumerate(messages) if m.role is Role.USER and not m.tool_results]
    return messages[starts[-1] :]


def _stamped(response: ChatResponse) -> ChatResponse:
    """Ids of the agent's own, from a clock that stands still while an answer is read."""
    stamp = f"call_{1_760_000_000_000 + len(response.text)}"

    def edit(part: Part) -> Part:
        return replace(part, id=stamp) if isinstance(part, ToolCall) else part

    return replace(response, message=edited_message(response.message, edit))


def _last_call_first(response: ChatResponse) -> ChatResponse:
    """The calls of an answer come from a stack."""
    calls = list(response.tool_calls)
    edited = edited_message(response.message, lambda p: calls.pop() if isinstance(p, ToolCall) else p)
    return replace(response, message=edited)


def _turn_per_result(_api: str, body: dict[str, Any]) -> None:
    """Each result in a user message of its own."""
    key, inner = ("contents", "parts") if "contents" in body else ("messages", "content")
    apart: list[dict[str, Any]] = []
    for turn in body[key]:
        parts = turn[inner]
        is_answer = isinstance(parts, list) and any("functionResponse" in p or "tool_use_id" in p for p in parts)
        apart += [{**turn, inner: [part]} for part in parts] if is_answer else [turn]
    body[key] = apart


def _reads_as_system_text(request: ChatRequest) -> ChatRequest:
    """What was read in earlier turns goes into the system prompt, and its results leave the conversation."""
    turn = max(at for at, message in enumerate(request.messages) if message.role is Role.USER and message.text)
    reads = [result for message in request.messages[:turn] for result in message.tool_results]
    reads = [result for result in reads if result.name == "read_file"]
    reported = "".join(f"\n\nYou have read:\n{read.text}" for read in reads)
    without = edited_parts(request, lambda part: None if part in reads else part)
    return replace(without, system=f"{request.system}{reported}")


class _MarksOnce(Wrapped):
    """Asks for a cache mark where there is no cache yet, and then never again."""

    asked = 0

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.asked += 1
        return replace(request, cache=request.cache and self.asked == 1)


def _thinking_joined(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Thinking in several parts becomes one, with the last signature."""

    def joined(message: Message) -> Message:
        thoughts = [part for part in message.parts if isinstance(part, Thinking)]
        whole = [replace(thoughts[-1], text="".join(each.text for each in thoughts))] if thoughts else []
        return replace(message, parts=(*whole, *(part for part in message.parts if part not in thoughts)))

    return tuple(map(joined, messages))


def _unencrypted(_api: str, body: dict[str, Any]) -> None:
    body.pop("include", None)


FAULTS: Table = {
    Expected("openai-responses-stored-item-missing-store-false", everywhere(".*")): [
        Fault("reasoning-not-included", "thinking-tool-loop", sends(_unencrypted), ("openai-responses",))
    ],
    Expected("chat-refused", BODY, 0): [
        Fault(
            "foreign-fields-sent",
            "history-foreign-metadata",
            asks(_foreign_as_own),
            ("anthropic", "openai-responses", *GEMINI),
        )
    ],
    Expected("history-append-only", TURN, 2): [
        Fault("old-results-cleared", "history-two-turns", asks_messages(_old_results_cleared)),
        Fault("seeds-history-per-message", "seeds-issue-tracker-session", asks_messages(_of_last_turn)),
    ],
    Expected("media-changed", everywhere(".+"), 0, case="repeated"): [
        Fault("image-twice", "image-from-user", asks_messages(lambda ms: tuple(map(_images_twice, ms)))),
    ],
    Expected("media-changed", BODY, 0): [Fault("image-dropped", "image-from-user", asks_parts(_is(Image)))],
    Expected("media-changed", everywhere(".+"), 0): [
        Fault("file-first", "file-from-user", asks_messages(lambda ms: tuple(map(_file_first, ms)))),
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
        Fault("signature-as-list", "thinking-tool-loop", metadata(_as_list), ("gemini-3",)),
        Fault("opaque-parts-dropped", "history-opaque-parts", asks_parts(_is(Opaque)), THINKING),
        Fault("redacted-thinking-dropped", "thinking-provoked-blocks", asks_parts(_is(Opaque)), ("anthropic",)),
        Fault("thinking-joined", "thinking-provoked-blocks", asks_messages(_thinking_joined), ("anthropic",)),
    ],
    Expected("opaque-state-lost", PART_OR_BODY, severity=Severity.WARNING): [
        Fault(
            "signature-lost-where-it-is-optional", "thinking-tool-loop", metadata(_without_signature), ("gemini-2.5",)
        ),
        Fault("signature-of-first-call-alone", "call-provoked-signed-calls", sends(_first_signature), ("gemini-3",)),
    ],
    Expected("opaque-state-lost", PART, severity=Severity.WARNING, case="copied signature"): [
        Fault("signature-on-every-text", "call-after-text", sends(_copied_onto("text")), ("gemini-3",)),
        Fault("signature-on-every-call", "call-parallel-many", sends(_copied_onto("functionCall")), ("gemini-3",)),
    ],
    Expected("openai-chat-file-type", everywhere(".+/file_data"), 0): [
        Fault("file-of-text-as-a-file", "file-of-text", _file_of_text, ("openai-chat",))
    ],
    Expected("system-in-message", TEXT, 0): [
        Fault("system-as-first-message", "system-with-tools", asks(_as_first_message))
    ],
    Expected("system-missing", BODY, 0): [Fault("system-dropped", "system-plain", prompt(lambda _: None))],
    Expected("system-place", SYSTEM_IN_CONVERSATION): [
        Fault("system-behind-the-conversation", "system-changed", sends(moved_behind), OPENAI)
    ],
    Expected("system-repeated", SYSTEM): [Fault("system-repeated-each-turn", "system-changed", asks(_once_per_turn))],
    Expected("system-stale", SYSTEM): [Fault("system-kept-when-dropped", "system-dropped", client(_FirstPrompt))],
    Expected("system-when-absent", SYSTEM, 0): [
        Fault(
            "system-default",
            "system-absent",
            asks(lambda r: replace(r, system=r.system or "You are a helpful assistant.")),
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
    Expected("cache-mark", everywhere("/tools|/system")): [
        Fault("seeds-cached-once", "seeds-code-generator-cache", client(_MarksOnce), ("anthropic",))
    ],
    Expected("expectation", None, 2): [
        Fault("seeds-calls-from-a-stack", "seeds-terminal-assistant-events", answers(_last_call_first))
    ],
    Expected("issued-id-lost", RESPONSE_CALL_ID, 0): [
        Fault("seeds-ids-by-timestamp", "seeds-issue-tracker-parallel", answers(_stamped), WITH_IDS),
    ],
    Expected("results-split", TURN): [
        Fault(
            "seeds-one-message-per-result", "seeds-scene-agent-parallel-edits", sends(_turn_per_result), ("anthropic",)
        )
    ],
    Expected("setting-lost", BODY, 0): [
        Fault(
            "seeds-thinking-not-asked-for",
            "seeds-scene-agent-thinking",
            asks(lambda request: replace(request, thinking=None)),
            THINKING,
        )
    ],
    Expected("system-verbatim", SYSTEM, 4): [
        Fault("seeds-reads-as-system-text", "seeds-code-generator-read-then-write", asks(_reads_as_system_text))
    ],
}
