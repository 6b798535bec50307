"""The shape of messages: roles, content, calls (openai-chat-required-fields, openai-chat-names, openai-chat-call-form,
openai-chat-result-text-only, openai-chat-file-inline-pdf)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from harness.apis.entries import entrywise
from harness.apis.jsonvalue import join, loads
from harness.apis.limit import Violation
from harness.apis.openai_chat import limits
from harness.apis.openai_chat.limits.chat import MISTRAL, Chat, calls_of, param, shown, type_name
from harness.apis.view import WireError
from harness.contract.model import JSON
from harness.contract.protocols import Capability

_ROLES = ("developer", "system", "user", "assistant", "tool", "function")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_PARTS = {
    "developer": ("text",),
    "system": ("text",),
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text",),
}
"""Role → the kinds of content parts that it takes (openai-chat-result-text-only and the SDK's message types)."""

_SOUNDS = ("wav", "mp3")
"""Formats of sound (openai-chat-audio-form)."""

_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_DATA_URL = re.compile(r"data:([^;,]*)")
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")


def violations(chat: Chat) -> Iterator[Violation]:
    """What is wrong with each message by itself."""
    messages = chat.body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield limits.MESSAGES_MISSING.broken(
            "Invalid 'messages': expected an array with at least one message.",
            "/messages" if "messages" in chat.body else "",
            actual=messages,
        )
        return
    lacks = chat.profile.lacks
    takes = Capability.SYSTEM_PROMPT not in lacks, Capability.AUDIO not in lacks
    by_itself = _by_itself(_Manner(chat.openai, chat.law.service == MISTRAL, *takes))
    for found in by_itself(messages, "/messages"):
        yield from found


class _Manner(NamedTuple):
    """What a message is judged by, whatever else is in the request: whether OpenAI's own rules hold, or Mistral's, and
    whether the model takes a system prompt, and sound."""

    openai: bool
    mistral: bool
    takes_system: bool
    takes_sound: bool


@cache
def _by_itself(manner: _Manner) -> Callable[[JSON, str], Sequence[Sequence[Violation]]]:
    """What is wrong with each message, told once though all requests behind it repeat it."""
    return entrywise(lambda message, pointer: [*_message(manner, message, pointer)])


def _message(manner: _Manner, message: JSON, pointer: str) -> Iterator[Violation]:
    if not isinstance(message, dict):
        yield limits.MESSAGE_TYPE.broken(
            f"Invalid type for '{param(pointer)}': expected an object, but got {type_name(message)} instead.",
            pointer,
            actual=message,
            code="invalid_type",
        )
        return
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        yield limits.ROLE_UNKNOWN.broken(
            f"Invalid value for '{param(pointer)}.role': {shown(role)}. Supported are: {', '.join(_ROLES)}.",
            join(pointer, "role") if "role" in message else pointer,
            actual=role,
            expected=[*_ROLES],
            code="invalid_value",
        )
        return
    if role in ("system", "developer") and not manner.takes_system:
        yield limits.SYSTEM_UNSUPPORTED.broken(
            f"Unsupported value: '{param(pointer)}.role' does not support '{role}' with this model.",
            join(pointer, "role"),
            actual=role,
            code="unsupported_value",
        )
    yield from _content(manner, message, role, pointer)
    yield from _name(manner, message, role, pointer)
    yield from _calls(manner, message, role, pointer)
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield limits.RESULT_ID_MISSING.broken(
            f"Missing required parameter: '{param(pointer)}.tool_call_id'.",
            join(pointer, "tool_call_id") if "tool_call_id" in message else pointer,
            actual=message.get("tool_call_id"),
            code="missing_required_parameter",
        )


def _content(manner: _Manner, message: dict[str, JSON], role: str, pointer: str) -> Iterator[Violation]:
    content, place = message.get("content"), join(pointer, "content")
    if content is None:
        excused = role == "function" or (role == "assistant" and any(map(message.get, _INSTEAD_OF_CONTENT)))
        if manner.openai and not excused:
            yield limits.CONTENT_MISSING.broken(
                "Invalid value for 'content': expected a string, got null.",
                place if "content" in message else pointer,
                expected="a string or content parts",
            )
    elif isinstance(content, list):
        if manner.openai:
            yield from _parts(content, role, place)
            yield from _sound(manner, content, place)
            yield from _files(content, place)
    elif not isinstance(content, str):
        yield limits.CONTENT_TYPE.broken(
            f"Invalid type for '{param(place)}': expected a string or an array, but got {type_name(content)} instead.",
            place,
            actual=content,
            code="invalid_type",
        )


def _parts(content: list[JSON], role: str, pointer: str) -> Iterator[Violation]:
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        allowed = _PARTS.get(role, ())
        if kind not in allowed:
            place = join(pointer, index)
            yield limits.CONTENT_PART.broken(
                f"Invalid value for '{param(place)}.type': {shown(kind)}. Role '{role}' takes only parts "
                f"of type {', '.join(allowed)}.",
                place,
                actual=kind,
                expected=[*allowed],
                code="invalid_value",
            )


def _sound(manner: _Manner, content: list[JSON], pointer: str) -> Iterator[Violation]:
    for index, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "input_audio":
            continue
        place, audio = join(pointer, index), part.get("input_audio")
        if not manner.takes_sound:
            yield limits.AUDIO_MODEL.broken(
                f"Invalid value for '{param(place)}': content blocks of this model are text, image_url or file.",
                place,
                actual="input_audio",
                code="invalid_value",
            )
        if not isinstance(audio, dict) or audio.get("format") not in _SOUNDS:
            yield limits.AUDIO_FORMAT.broken(
                f"Invalid value for '{param(place)}.input_audio.format'. Supported are: {', '.join(_SOUNDS)}.",
                place,
                actual=audio.get("format") if isinstance(audio, dict) else audio,
                expected=[*_SOUNDS],
                code="invalid_value",
            )


def _files(content: list[JSON], pointer: str) -> Iterator[Violation]:
    for index, part in enumerate(content):
        held = part.get("file") if isinstance(part, dict) and part.get("type") == "file" else None
        data = held.get("file_data") if isinstance(held, dict) else None
        media_type = _DATA_URL.match(data) if isinstance(data, str) else None
        if media_type is not None and media_type[1] != "application/pdf":
            place = join(pointer, index, "file", "file_data")
            yield limits.FILE_TYPE.broken(
                f"Invalid file data: '{param(place)}'. Expected a base64-encoded data URL with an application/pdf MIME "
                f"type, but got unsupported MIME type '{media_type[1]}'.",
                place,
                actual=media_type[1],
                expected="application/pdf",
                code="invalid_value",
            )


def _name(manner: _Manner, message: dict[str, JSON], role: str, pointer: str) -> Iterator[Violation]:
    name = message.get("name")
    if manner.openai and role != "tool" and isinstance(name, str) and not NAME.fullmatch(name):
        yield _bad_name(name, join(pointer, "name"))


def _calls(manner: _Manner, message: dict[str, JSON], role: str, pointer: str) -> Iterator[Violation]:
    calls, place = message.get("tool_calls"), join(pointer, "tool_calls")
    if role != "assistant" or calls is None:
        return
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        yield limits.CALLS_TYPE.broken(
            f"Invalid type for '{param(place)}': expected an array of objects.",
            place,
            actual=calls,
            code="invalid_type",
        )
    for at, call in calls_of(message, pointer):
        yield from _call(manner, call, at)


def _call(manner: _Manner, call: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    yield from _call_id(manner, call, pointer)
    kind = call.get("type")
    if kind not in ("function", "custom") and (kind is not None or manner.openai):
        yield limits.CALL_TYPE.broken(
            f"Invalid value for '{param(pointer)}.type': {shown(kind)}. Supported are: function, custom.",
            join(pointer, "type") if "type" in call else pointer,
            actual=kind,
            code="invalid_value",
        )
    if kind == "custom":
        return
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        yield limits.CALL_NAME_MISSING.broken(
            f"Missing required parameter: '{param(pointer)}.function.name'.",
            join(pointer, "function") if "function" in call else pointer,
            actual=function,
            code="missing_required_parameter",
        )
        return
    name = function["name"]
    if manner.openai and isinstance(name, str) and not NAME.fullmatch(name):
        yield _bad_name(name, join(pointer, "function", "name"))
    yield from _arguments(function, join(pointer, "function"))


def _call_id(manner: _Manner, call: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    call_id, place = call.get("id"), join(pointer, "id")
    if not isinstance(call_id, str):
        yield limits.CALL_ID_MISSING.broken(
            f"Missing required parameter: '{param(place)}'.",
            place if "id" in call else pointer,
            actual=call_id,
            code="missing_required_parameter",
        )
    elif manner.mistral and not _MISTRAL_ID.fullmatch(call_id):
        yield limits.CALL_ID_MISTRAL.broken(
            f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9.",
            place,
            actual=call_id,
            code="3280",
        )


def _arguments(function: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    arguments, place = function.get("arguments"), join(pointer, "arguments")
    if not isinstance(arguments, str):
        yield limits.ARGUMENTS_TYPE.broken(
            f"Invalid type for '{param(place)}': expected a string, but got {type_name(arguments)} instead.",
            place if "arguments" in function else pointer,
            actual=arguments,
            expected="a string of JSON",
            code="invalid_type",
        )
        return
    try:
        value = loads(arguments)
    except WireError:
        value = None
    if not isinstance(value, dict):
        yield limits.ARGUMENTS_JSON.broken(
            f"'{param(place)}' is not the text of a JSON object.", place, actual=arguments
        )


def _bad_name(name: str, pointer: str) -> Violation:
    return limits.NAME_PATTERN.broken(
        f"Invalid '{param(pointer)}': expected at most 64 characters that match the pattern '^[a-zA-Z0-9_-]+$'.",
        pointer,
        actual=name,
        expected="^[a-zA-Z0-9_-]{1,64}$",
        code="invalid_value",
    )
