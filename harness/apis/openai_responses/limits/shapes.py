"""What the provider refuses in a single input item: types, roles, required fields, forms of ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from harness.apis.entries import entrywise
from harness.apis.jsonvalue import join
from harness.apis.law import Law
from harness.apis.limit import Limit, Violation
from harness.apis.openai_responses import limits
from harness.apis.openai_responses.limits.refusals import EMPTY, MISSING, TOO_LONG, WRONG_TYPE, WRONG_VALUE, parameter
from harness.apis.openai_responses.requests.items import item_kind
from harness.contract.model import JSON

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
"""A legal name of a function (openai-responses-tool-form)."""

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


_SHAPES = {
    "function_call": limits.CALL_SHAPE,
    "function_call_output": limits.RESULT_SHAPE,
    "custom_tool_call": limits.CALL_SHAPE,
    "custom_tool_call_output": limits.RESULT_SHAPE,
    "reasoning": limits.REASONING_SHAPE,
    "message": limits.MESSAGE_SHAPE,
}


def is_strict(law: Law) -> bool:
    """Whether unknown parameters and ids of a foreign form are refused: the provider's own servers do that, and
    compatible ones need not (openai-responses-input, openai-responses-call-form)."""
    return law.is_own and law.profile.strict_requests


def item_limits(entries: JSON, law: Law) -> Iterator[Violation]:
    """What is refused in each item of `input`, seen alone."""
    by_itself = _by_itself(own=law.is_own, strict=is_strict(law))
    for found in by_itself(entries, "/input"):
        yield from found


@cache
def _by_itself(*, own: bool, strict: bool) -> Callable[[JSON, str], Sequence[Sequence[Violation]]]:
    """What is refused in each item, told once though all requests behind it repeat it."""
    return entrywise(lambda item, pointer: [*_item(item, pointer, own=own, strict=strict)])


def _item(item: JSON, pointer: str, *, own: bool, strict: bool) -> Iterator[Violation]:
    if not isinstance(item, dict):
        text = f"Invalid type for '{parameter(pointer)}': expected an object."
        yield limits.ITEM_TYPE.broken(text, pointer, code=WRONG_TYPE, actual=item)
        return
    kind = item_kind(item)
    if kind not in _FIELDS and kind not in _OTHERS:
        yield _unknown_type(item, pointer)
        return
    yield from _fields(kind, item, pointer)
    yield from _ids(kind, item, pointer, strict=strict)
    yield from _details(kind, item, pointer, own=own)


def _unknown_type(item: dict[str, JSON], pointer: str) -> Violation:
    if item.get("type") is None:
        text = f"Missing required parameter: '{parameter(pointer)}.type'."
        return limits.ITEM_TYPE.broken(text, pointer, code=MISSING)
    text = f"Invalid value: '{item['type']}'. '{parameter(pointer)}.type' is no known type of item."
    return limits.ITEM_TYPE.broken(text, join(pointer, "type"), code=WRONG_VALUE, actual=item["type"])


def _fields(kind: str, item: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    limit = _SHAPES.get(kind, limits.ITEM_TYPE)
    for key, types in _FIELDS.get(kind, {}).items():
        value, place = item.get(key), join(pointer, key)
        if value is None:
            text = f"Missing required parameter: '{parameter(place)}'."
            yield limit.broken(text, pointer, code=MISSING)
        elif not isinstance(value, types):
            names = " or ".join(one.__name__ for one in types)
            text = f"Invalid type for '{parameter(place)}': expected {names}, but got {type(value).__name__} instead."
            yield limit.broken(text, place, code=WRONG_TYPE, actual=value)


def _ids(kind: str, item: dict[str, JSON], pointer: str, *, strict: bool) -> Iterator[Violation]:
    for key, limit in (("id", limits.ITEM_ID), ("call_id", limits.ITEM_CALL_ID)):
        value, place = item.get(key), join(pointer, key)
        if not isinstance(value, str):
            continue
        if not value:
            text = f"Invalid '{parameter(place)}': empty string. Expected at least one character."
            yield limit.broken(text, place, code=EMPTY)
        elif strict and len(value) > _ID_LENGTH:
            text = f"Invalid '{parameter(place)}': string too long, {len(value)} characters of at most {_ID_LENGTH}."
            yield limit.broken(text, place, code=TOO_LONG, actual=value)
    identity, prefix = item.get("id"), _PREFIXES.get(kind)
    if strict and prefix and isinstance(identity, str) and not identity.startswith(prefix):
        place = join(pointer, "id")
        text = f"Invalid '{parameter(place)}': '{identity}'. Expected an ID that begins with '{prefix}'."
        yield limits.ITEM_ID.broken(text, place, code=WRONG_VALUE, actual=identity)


def _details(kind: str, item: dict[str, JSON], pointer: str, *, own: bool) -> Iterator[Violation]:
    if kind in ("function_call", "custom_tool_call"):
        yield from name_limits(item.get("name"), join(pointer, "name"), limits.CALL_NAME)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield from _content(item.get("output"), join(pointer, "output"), _INPUT_PARTS, limits.RESULT_CONTENT)
    elif kind == "message":
        yield from _message(item, pointer)
    elif kind == "reasoning" and "status" in item:
        seen_refused = own and item["status"] is not None
        yield limits.REASONING_STATUS.broken(
            f"Unknown parameter: '{parameter(pointer)}.status'.",
            join(pointer, "status"),
            code="unknown_parameter",
            actual=item["status"],
            severity="error" if seen_refused else "warning",
        )


def _message(item: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    role = item.get("role")
    if isinstance(role, str) and role not in _ROLES:
        text = f"Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
        yield limits.ROLE.broken(text, join(pointer, "role"), code=WRONG_VALUE, actual=role)
        return
    parts = _OUTPUT_PARTS if role == "assistant" else _INPUT_PARTS
    yield from _content(item.get("content"), join(pointer, "content"), parts, limits.MESSAGE_CONTENT)


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
