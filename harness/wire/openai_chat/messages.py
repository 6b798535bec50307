"""The shape of messages: roles, content, calls (OC-1, OC-2, OC-5, OC-8)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.model import JSON
from harness.protocols import Capability
from harness.wire.jsonvalue import join, loads
from harness.wire.openai_chat.chat import Chat, calls_of, param, shown, type_name
from harness.wire.view import Violation, WireError

_ROLES = ("developer", "system", "user", "assistant", "tool", "function")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_PARTS = {
    "developer": ("text",),
    "system": ("text",),
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text",),
}
"""Role → the kinds of content parts that it takes (OC-8 and the SDK's message types)."""

_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")


def violations(chat: Chat) -> Iterator[Violation]:
    """What is wrong with each message by itself."""
    messages = chat.body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield Violation(
            rule="openai-chat-messages-missing",
            severity="error",
            message="Invalid 'messages': expected an array with at least one message.",
            pointer="/messages" if "messages" in chat.body else "",
            source="OC-1",
            actual=messages,
        )
        return
    for index, message in enumerate(messages):
        pointer = join("/messages", index)
        if isinstance(message, dict):
            yield from _message(chat, message, pointer)
        else:
            yield Violation(
                rule="openai-chat-message-type",
                severity="error",
                message=(
                    f"Invalid type for '{param(pointer)}': expected an object, but got {type_name(message)} instead."
                ),
                pointer=pointer,
                source="OC-1",
                code="invalid_type",
                actual=message,
            )


def _message(chat: Chat, message: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        yield Violation(
            rule="openai-chat-role-unknown",
            severity="error",
            message=f"Invalid value for '{param(pointer)}.role': {shown(role)}. Supported are: {', '.join(_ROLES)}.",
            pointer=join(pointer, "role") if "role" in message else pointer,
            source="OC-1",
            code="invalid_value",
            actual=role,
            expected=[*_ROLES],
        )
        return
    if role in ("system", "developer") and Capability.SYSTEM_PROMPT in chat.profile.lacks:
        yield Violation(
            rule="openai-chat-system-unsupported",
            severity="error",
            message=f"Unsupported value: '{param(pointer)}.role' does not support '{role}' with this model.",
            pointer=join(pointer, "role"),
            source="janhq/jan#4392 (OpenAI's guide to o1), microsoft/agent-framework#1077",
            code="unsupported_value",
            actual=role,
        )
    yield from _content(chat, message, role, pointer)
    yield from _name(chat, message, role, pointer)
    yield from _calls(chat, message, role, pointer)
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield Violation(
            rule="openai-chat-result-id-missing",
            severity="error",
            message=f"Missing required parameter: '{param(pointer)}.tool_call_id'.",
            pointer=join(pointer, "tool_call_id") if "tool_call_id" in message else pointer,
            source="OC-7",
            code="missing_required_parameter",
            actual=message.get("tool_call_id"),
        )


def _content(chat: Chat, message: dict[str, JSON], role: str, pointer: str) -> Iterator[Violation]:
    content, place = message.get("content"), join(pointer, "content")
    if content is None:
        excused = role == "function" or (role == "assistant" and any(map(message.get, _INSTEAD_OF_CONTENT)))
        if chat.openai and not excused:
            yield Violation(
                rule="openai-chat-content-missing",
                severity="error",
                message="Invalid value for 'content': expected a string, got null.",
                pointer=place if "content" in message else pointer,
                source="OC-5, OC-8",
                expected="a string or content parts",
            )
    elif isinstance(content, list):
        if chat.openai:
            yield from _parts(content, role, place)
    elif not isinstance(content, str):
        yield Violation(
            rule="openai-chat-content-type",
            severity="error",
            message=(
                f"Invalid type for '{param(place)}': expected a string or an array, "
                f"but got {type_name(content)} instead."
            ),
            pointer=place,
            source="OC-5, OC-8",
            code="invalid_type",
            actual=content,
        )


def _parts(content: list[JSON], role: str, pointer: str) -> Iterator[Violation]:
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        allowed = _PARTS.get(role, ())
        if kind not in allowed:
            place = join(pointer, index)
            yield Violation(
                rule="openai-chat-content-part",
                severity="error",
                message=(
                    f"Invalid value for '{param(place)}.type': {shown(kind)}. Role '{role}' takes only parts "
                    f"of type {', '.join(allowed)}."
                ),
                pointer=place,
                source="OC-8",
                code="invalid_value",
                actual=kind,
                expected=[*allowed],
            )


def _name(chat: Chat, message: dict[str, JSON], role: str, pointer: str) -> Iterator[Violation]:
    name = message.get("name")
    if chat.openai and role != "tool" and isinstance(name, str) and not NAME.fullmatch(name):
        yield _bad_name(name, join(pointer, "name"))


def _calls(chat: Chat, message: dict[str, JSON], role: str, pointer: str) -> Iterator[Violation]:
    calls, place = message.get("tool_calls"), join(pointer, "tool_calls")
    if role != "assistant" or calls is None:
        return
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        yield Violation(
            rule="openai-chat-calls-type",
            severity="error",
            message=f"Invalid type for '{param(place)}': expected an array of objects.",
            pointer=place,
            source="OC-5",
            code="invalid_type",
            actual=calls,
        )
    elif not calls and chat.openai:
        yield Violation(
            rule="openai-chat-calls-empty",
            severity="warning",
            message=f"Invalid '{param(place)}': empty array. Leave the field out instead.",
            pointer=place,
            source="OC-3",
            code="empty_array",
        )
    for at, call in calls_of(message, pointer):
        yield from _call(chat, call, at)


def _call(chat: Chat, call: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    yield from _call_id(chat, call, pointer)
    kind = call.get("type")
    if kind not in ("function", "custom") and (kind is not None or chat.openai):
        yield Violation(
            rule="openai-chat-call-type",
            severity="error",
            message=f"Invalid value for '{param(pointer)}.type': {shown(kind)}. Supported are: function, custom.",
            pointer=join(pointer, "type") if "type" in call else pointer,
            source="OC-5",
            code="invalid_value",
            actual=kind,
        )
    if kind == "custom":
        return
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        yield Violation(
            rule="openai-chat-call-name-missing",
            severity="error",
            message=f"Missing required parameter: '{param(pointer)}.function.name'.",
            pointer=join(pointer, "function") if "function" in call else pointer,
            source="OC-5",
            code="missing_required_parameter",
            actual=function,
        )
        return
    name = function["name"]
    if chat.openai and isinstance(name, str) and not NAME.fullmatch(name):
        yield _bad_name(name, join(pointer, "function", "name"))
    yield from _arguments(function, join(pointer, "function"))


def _call_id(chat: Chat, call: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    call_id, place = call.get("id"), join(pointer, "id")
    if not isinstance(call_id, str):
        yield Violation(
            rule="openai-chat-call-id-missing",
            severity="error",
            message=f"Missing required parameter: '{param(place)}'.",
            pointer=place if "id" in call else pointer,
            source="OC-5",
            code="missing_required_parameter",
            actual=call_id,
        )
    elif chat.openai and len(call_id) > 40:
        yield Violation(
            rule="openai-chat-call-id-length",
            severity="warning",
            message=f"Invalid '{param(place)}': string too long. Expected at most 40 characters, got {len(call_id)}.",
            pointer=place,
            source="OC-5",
            code="string_above_max_length",
            actual=call_id,
        )
    elif chat.host == "api.mistral.ai" and not _MISTRAL_ID.fullmatch(call_id):
        yield Violation(
            rule="openai-chat-call-id-mistral",
            severity="error",
            message=f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9.",
            pointer=place,
            source="editor-code-assistant/eca#233",
            code="3280",
            actual=call_id,
        )


def _arguments(function: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    arguments, place = function.get("arguments"), join(pointer, "arguments")
    if not isinstance(arguments, str):
        yield Violation(
            rule="openai-chat-arguments-type",
            severity="error",
            message=f"Invalid type for '{param(place)}': expected a string, but got {type_name(arguments)} instead.",
            pointer=place if "arguments" in function else pointer,
            source="OC-5",
            code="invalid_type",
            actual=arguments,
            expected="a string of JSON",
        )
        return
    try:
        value = loads(arguments)
    except WireError:
        value = None
    if not isinstance(value, dict):
        yield Violation(
            rule="openai-chat-arguments-json",
            severity="warning",
            message=f"'{param(place)}' is not the text of a JSON object.",
            pointer=place,
            source="OC-5, OC-P1",
            actual=arguments,
        )


def _bad_name(name: str, pointer: str) -> Violation:
    return Violation(
        rule="openai-chat-name-pattern",
        severity="error",
        message=(
            f"Invalid '{param(pointer)}': expected at most 64 characters that match the pattern '^[a-zA-Z0-9_-]+$'."
        ),
        pointer=pointer,
        source="OC-2",
        code="invalid_value",
        actual=name,
        expected="^[a-zA-Z0-9_-]{1,64}$",
    )
