"""What the provider refuses in a single input item: types, roles, required fields, forms of ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.model import JSON
from harness.profiles import Profile
from harness.wire.jsonvalue import join
from harness.wire.openai_responses.items import item_kind
from harness.wire.openai_responses.refusals import EMPTY, MISSING, TOO_LONG, WRONG_TYPE, WRONG_VALUE, Limit, parameter
from harness.wire.view import Violation

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
"""A legal name of a function (RS-2)."""

_NAME_LENGTH = 64
_ID_LENGTH = 64

_ROLES = ("user", "assistant", "system", "developer")
_INPUT_PARTS = {"input_text": "text", "input_image": None, "input_file": None, "input_audio": "input_audio"}
_OUTPUT_PARTS = {"output_text": "text", "refusal": "refusal"}
"""Type of a content part → the field that it must have."""

_FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "function_call": {"call_id": (str,), "name": (str,), "arguments": (str,)},
    "function_call_output": {"call_id": (str,), "output": (str, list)},
    "custom_tool_call": {"call_id": (str,), "name": (str,), "input": (str,)},
    "custom_tool_call_output": {"call_id": (str,), "output": (str, list)},
    "reasoning": {"summary": (list,)},
    "item_reference": {"id": (str,)},
    "message": {"role": (str,), "content": (str, list)},
    "additional_tools": {"tools": (list,)},
}
"""Type of an item → the fields that it must have, and what they may be."""

_OTHERS = (
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "compaction",
    "compaction_trigger",
    "computer_call",
    "computer_call_output",
    "configuration_update",
    "file_search_call",
    "image_generation_call",
    "local_shell_call",
    "local_shell_call_output",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "program",
    "program_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
)
_PREFIXES = {
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "reasoning": "rs",
    "message": "msg",
    "web_search_call": "ws",
}

_ITEM_TYPE = Limit("item-type", "RS-1, S response_input_item_param")
_ITEM_ID = Limit("item-id", "RS-3")
_ITEM_CALL_ID = Limit("item-call-id", "RS-3, BigPizzaV3/CodexPlusPlus#315")
_CALL_SHAPE = Limit("call-shape", "RS-3, S response_custom_tool_call_param")
_CALL_NAME = Limit("call-name", "RS-2, openai/codex#9447")
_RESULT_SHAPE = Limit("result-shape", "RS-4, S response_custom_tool_call_output_param")
_RESULT_CONTENT = Limit("result-content", "RS-4")
_REASONING_SHAPE = Limit("reasoning-shape", "RS-7, newo-ether/Agora#126")
_REASONING_STATUS = Limit("reasoning-status", "1jehuang/jcode#1028", "warning")
_MESSAGE_SHAPE = Limit("message-shape", "RS-6, S easy_input_message_param")
_MESSAGE_CONTENT = Limit("message-content", "RS-6, openai/openai-go#485")
_ROLE = Limit("role", "RS-5, RS-6")

_SHAPES = {
    "function_call": _CALL_SHAPE,
    "function_call_output": _RESULT_SHAPE,
    "custom_tool_call": _CALL_SHAPE,
    "custom_tool_call_output": _RESULT_SHAPE,
    "reasoning": _REASONING_SHAPE,
    "message": _MESSAGE_SHAPE,
}


def item_limits(entries: JSON, profile: Profile) -> Iterator[Violation]:
    """What is refused in each item of `input`, seen alone."""
    for index, item in enumerate(entries if isinstance(entries, list) else ()):
        pointer = join("/input", index)
        if not isinstance(item, dict):
            text = f"Invalid type for '{parameter(pointer)}': expected an object."
            yield _ITEM_TYPE.broken(text, pointer, code=WRONG_TYPE, actual=item)
            continue
        kind = item_kind(item)
        if kind not in _FIELDS and kind not in _OTHERS:
            yield _unknown_type(item, pointer)
            continue
        yield from _fields(kind, item, pointer)
        yield from _ids(kind, item, pointer, profile)
        yield from _details(kind, item, pointer)


def _unknown_type(item: dict[str, JSON], pointer: str) -> Violation:
    if item.get("type") is None:
        text = f"Missing required parameter: '{parameter(pointer)}.type'."
        return _ITEM_TYPE.broken(text, pointer, code=MISSING)
    text = f"Invalid value: '{item['type']}'. '{parameter(pointer)}.type' is no known type of item."
    return _ITEM_TYPE.broken(text, join(pointer, "type"), code=WRONG_VALUE, actual=item["type"])


def _fields(kind: str, item: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    limit = _SHAPES.get(kind, _ITEM_TYPE)
    for key, types in _FIELDS.get(kind, {}).items():
        value, place = item.get(key), join(pointer, key)
        if value is None:
            text = f"Missing required parameter: '{parameter(place)}'."
            yield limit.broken(text, pointer, code=MISSING)
        elif not isinstance(value, types):
            names = " or ".join(one.__name__ for one in types)
            text = f"Invalid type for '{parameter(place)}': expected {names}, but got {type(value).__name__} instead."
            yield limit.broken(text, place, code=WRONG_TYPE, actual=value)


def _ids(kind: str, item: dict[str, JSON], pointer: str, profile: Profile) -> Iterator[Violation]:
    for key, limit in (("id", _ITEM_ID), ("call_id", _ITEM_CALL_ID)):
        value, place = item.get(key), join(pointer, key)
        if not isinstance(value, str):
            continue
        if not value:
            text = f"Invalid '{parameter(place)}': empty string. Expected at least one character."
            yield limit.broken(text, place, code=EMPTY)
        elif profile.strict_requests and len(value) > _ID_LENGTH:
            text = f"Invalid '{parameter(place)}': string too long, {len(value)} characters of at most {_ID_LENGTH}."
            yield limit.broken(text, place, code=TOO_LONG, actual=value)
    identity, prefix = item.get("id"), _PREFIXES.get(kind)
    if profile.strict_requests and prefix and isinstance(identity, str) and not identity.startswith(prefix):
        place = join(pointer, "id")
        text = f"Invalid '{parameter(place)}': '{identity}'. Expected an ID that begins with '{prefix}'."
        yield _ITEM_ID.broken(text, place, code=WRONG_VALUE, actual=identity)


def _details(kind: str, item: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    if kind in ("function_call", "custom_tool_call"):
        yield from name_limits(item.get("name"), join(pointer, "name"), _CALL_NAME)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield from _content(item.get("output"), join(pointer, "output"), _INPUT_PARTS, _RESULT_CONTENT)
    elif kind == "message":
        yield from _message(item, pointer)
    elif kind == "reasoning" and "status" in item:
        text = f"Some models refuse '{parameter(pointer)}.status', which belongs to output only."
        yield _REASONING_STATUS.broken(text, join(pointer, "status"), actual=item["status"])


def _message(item: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    role = item.get("role")
    if isinstance(role, str) and role not in _ROLES:
        text = f"Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
        yield _ROLE.broken(text, join(pointer, "role"), code=WRONG_VALUE, actual=role)
        return
    parts = _OUTPUT_PARTS if role == "assistant" else _INPUT_PARTS
    yield from _content(item.get("content"), join(pointer, "content"), parts, _MESSAGE_CONTENT)


def _content(content: JSON, pointer: str, allowed: Mapping[str, str | None], limit: Limit) -> Iterator[Violation]:
    for index, part in enumerate(content if isinstance(content, list) else ()):
        place = join(pointer, index)
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or not isinstance(kind, str) or kind not in allowed:
            values = ", ".join(f"'{name}'" for name in allowed)
            text = f"Invalid value for '{parameter(place)}.type': '{kind}'. Supported values are: {values}."
            yield limit.broken(text, place, code=WRONG_VALUE, actual=part)
            continue
        key = allowed[kind]
        if key is not None and not isinstance(part.get(key), dict if key == "input_audio" else str):
            text = f"Missing required parameter: '{parameter(place)}.{key}'."
            yield limit.broken(text, place, code=MISSING, actual=part)


def name_limits(name: JSON, pointer: str, limit: Limit) -> Iterator[Violation]:
    """What is refused in the name of a function, wherever it stands."""
    if not isinstance(name, str):
        return
    if not _NAME.fullmatch(name):
        text = f"Invalid '{parameter(pointer)}': expected a string of letters, digits, '_' and '-' only."
        yield limit.broken(text, pointer, code=WRONG_VALUE, actual=name)
    elif len(name) > _NAME_LENGTH:
        text = f"Invalid '{parameter(pointer)}': string too long, {len(name)} characters of at most {_NAME_LENGTH}."
        yield limit.broken(text, pointer, code=TOO_LONG, actual=name)
