"""Content blocks of Anthropic's format for third-party classes, which are recognised by the fields that they have."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from harness.bridge.clients.annotations import classes_among, hints_of, item_class, members_of
from harness.bridge.clients.names import ERROR_FLAG, FIELD_ALIASES, call_id_field, first_known
from harness.bridge.clients.tool_functions import parsed_arguments
from harness.bridge.clients.values import items_of, plain_fields

_BLOCK_FIELDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "text": {"text": ("text", "content", "value")},
    "thinking": {
        "thinking": ("thinking", "text", "content", "thought", "thoughts", "reasoning", "value"),
        "signature": ("signature", "sig", "thought_signature"),
    },
    "redacted_thinking": {"data": ("data", "redacted", "redacted_thinking")},
    "tool_use": {
        "id": ("id", *FIELD_ALIASES["id"], "use_id", "ref"),
        "name": ("name", *FIELD_ALIASES["name"]),
        "input": ("input", "arguments", "args", "params", "parameters"),
    },
    "tool_result": {
        "tool_use_id": ("tool_use_id", *FIELD_ALIASES["tool_call_id"], "id"),
        "content": ("content", *FIELD_ALIASES["content"], "response"),
        ERROR_FLAG: (ERROR_FLAG, "error", "failed"),
        "name": ("name", *FIELD_ALIASES["name"]),
    },
}
"""Type of a block → its keys, and the names of fields for each of them. A result needs no name."""


def block_field(hints: Mapping[str, object]) -> str | None:
    """Return the field of a message class that lists content blocks and is not called `content`, or `None`.

    The items of the list have several classes, of which one is for texts, or are dictionaries in a field named after
    blocks.
    """
    if {"content", *FIELD_ALIASES["content"]} & hints.keys():
        return None
    for name, hint in hints.items():
        if name in _BLOCK_LISTS and lists_dictionaries(hint):
            return name
        kinds = classes_among(members_of(item_class(hint)))
        if len(kinds) > 1 and block_arguments({"type": "text", "text": ""}, kinds) is not None:
            return name
    return None


_BLOCK_LISTS = ("blocks", "content_blocks")


def lists_dictionaries(hint: object) -> bool:
    """Return whether an annotation is that of a list of dictionaries."""
    return [*members_of(item_class(hint))] == [dict]


def block_arguments(block: Mapping[str, Any], kinds: Sequence[type[Any]]) -> tuple[type[Any], dict[str, object]] | None:
    """Return the class that has a field for each key of a block, and the arguments of its constructor.

    If several classes fit, return the one with the fewest other fields. If no class fits, return `None`.
    """
    found: list[tuple[int, type[Any], dict[str, object]]] = []
    for kind in kinds:
        names = _parameters_for(block, kind)
        if names and required_parameters(kind) <= {*names.values()}:
            parameters = inspect.signature(kind).parameters
            hints = hints_of(kind)
            given = {name: _as_field(block, key, hints.get(name)) for key, name in names.items()}
            found.append((len(parameters) - len(names), kind, given))
    best = min(found, key=lambda each: each[0], default=None)
    return None if best is None else best[1:]


def _parameters_for(block: Mapping[str, Any], kind: type[Any]) -> dict[str, str]:
    """Return the parameters of a class for the keys of a block.

    Return `{}` if the class has no parameter for a key, or is for another type of block.
    """
    known = _BLOCK_FIELDS.get(block["type"], {})
    try:
        parameters = inspect.signature(kind).parameters
    except (TypeError, ValueError):
        return {}
    given = parameters.get("type")
    if given is not None and given.default not in (given.empty, None, block["type"]):
        return {}
    found = {"type": "type"} if given is not None else dict[str, str]()
    for key in block.keys() - {"type"}:
        name = first_known(known.get(key, ()), frozenset(parameters))
        name = call_id_field(parameters) or name if key == "tool_use_id" else name
        if name is None and (block["type"], key) != ("tool_result", "name"):
            return {}
        found |= {key: name} if name else {}
    return found if len({*found.values()}) == len(found) else {}


def _as_field(block: Mapping[str, Any], key: str, hint: object) -> object:
    """Return the value of a key for a field of a class. A field that takes only texts gets arguments as JSON text, and
    the text of a failed result.
    """
    value, takes_only_text = block[key], str in (kinds := [*members_of(hint)]) and bool not in kinds
    if takes_only_text and isinstance(value, dict):
        return json.dumps(value)
    if takes_only_text and key == ERROR_FLAG:
        return block["content"] if value else None
    return cast("object", value)


def required_parameters(kind: Callable[..., object]) -> set[str]:
    """Return the parameters of a constructor that have no default."""
    single = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(kind).parameters.values()
    return {each.name for each in parameters if each.default is each.empty and each.kind not in single}


def blocks_of_message(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the content of a message, which may have OpenAI's format, as blocks of Anthropic's format."""
    content = message.get("content")
    flag = {ERROR_FLAG: message[ERROR_FLAG]} if ERROR_FLAG in message else {}
    if "tool_call_id" in message:
        name = plain_fields(message.get("answered_call")).get("name")
        named = {"name": name} if name else {}
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content, **named, **flag}]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    calls = cast("list[dict[str, Any]]", message.get("tool_calls") or [])
    return [*blocks, *({"type": "tool_use", **_call_fields(each)} for each in calls)]


def _call_fields(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"id": call["id"], "name": function["name"], "input": json.loads(function["arguments"] or "{}")}


def own_blocks(message: object) -> list[dict[str, Any]] | None:
    """Return the content of a third-party message as blocks of Anthropic's format.

    Return `None` if the message is of another kind, or has a part that is not such a block.
    """
    field = block_field(hints_of(type(message)))
    if field is None:
        return None
    blocks = [_block_of(each) for each in items_of(plain_fields(message).get(field)) or []]
    known = [each for each in blocks if each is not None]
    return known if len(known) == len(blocks) else None


def _block_of(part: object) -> dict[str, Any] | None:
    """Return a part of a third-party message as the kind of block that uses most of its fields."""
    fields, found = plain_fields(part), list[dict[str, Any]]()
    for kind, keys in _BLOCK_FIELDS.items():
        names = {key: first_known(names, frozenset(fields)) for key, names in keys.items()}
        if None not in [name for key, name in names.items() if key != ERROR_FLAG]:
            given = {key: fields[name] for key, name in names.items() if name is not None and fields[name] is not None}
            found.append({"type": kind, **given})
    block = max(found, key=len, default=None)
    if block is not None and isinstance(block.get("input"), str):
        block["input"] = parsed_arguments(block["input"])
    return block
