"""The values of the contract as JSON: written, read, and described by a JSON Schema, all three from their fields.

A field that has its default may be left out. A value that may be of several classes says by `type` of which it is.
Bytes are base64. What JSON numbers of other languages cannot hold, integers beyond 2^53, is given twice: `arguments`
beside `arguments_json`, their text, and `content` beside `text`; of a call either is read, the text before the value.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from harness.contract.errors import InvalidValue
from harness.contract.model import (
    JSON,
    JsonMode,
    JsonSchema,
    NamedTool,
    Part,
    StreamEvent,
    ToolCall,
    ToolResult,
)

_TYPED: frozenset[type] = frozenset({*get_args(Part), *get_args(StreamEvent), JsonMode, JsonSchema, NamedTool})
"""The classes of which a field may hold one of several."""

_NAMES: dict[type, str] = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}

_ANYTHING: dict[str, JSON] = {}


def written(value: object) -> JSON:
    """A value of the contract as JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        document: dict[str, JSON] = {"type": _name(type(value))} if type(value) in _TYPED else {}
        for each in fields(value):
            held = getattr(value, each.name)
            if not _is_default(each, held):
                document[each.name] = written(held)
        if isinstance(value, ToolCall):
            document["arguments_json"] = json.dumps(value.arguments, ensure_ascii=False)
        if isinstance(value, ToolResult):
            document["text"] = value.text
            if isinstance(value.content, tuple):
                document["parts"] = document.pop("content")
        return document
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): written(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [written(item) for item in cast("list[object]", value)]
    return cast("JSON", value.value if isinstance(value, StrEnum) else value)


def read(kind: Any, document: JSON, place: str) -> Any:
    """The value that a document holds at `place`. Raises `ValueError`: it holds none of this kind; says where."""
    if kind is JSON or kind == Mapping[str, JSON]:
        return document
    if isinstance(kind, type):
        return _read_one(kind, document, place)
    origin, members = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _member(list(members), document, place)
    if origin is tuple:
        found = _of(list, "a list", document, place)
        return tuple(read(members[0], each, f"{place}[{at}]") for at, each in enumerate(found))
    if origin is dict:
        return _of(dict, "an object", document, place)
    return _read_one_of(members, document, place)


def _read_one(kind: type[Any], document: JSON, place: str) -> Any:
    if is_dataclass(kind):
        return _read_fields(cast("type", kind), document, place)
    if issubclass(kind, StrEnum):
        return kind(_member([each.value for each in kind], document, place))
    if kind is bytes:
        return _bytes(document, place)
    if kind is float and type(document) is int:
        return float(document)
    name = _NAMES[kind]
    if isinstance(document, bool) and kind is not bool:
        raise ValueError(_unlike(name, document, place))
    return _of(cast("type", kind), name, document, place)


def schema(kind: Any) -> dict[str, JSON]:
    """The JSON Schema of a kind of value, its classes by reference to `definitions`."""
    origin, members = get_origin(kind), get_args(kind)
    if kind is JSON:
        return dict(_ANYTHING)
    if isinstance(kind, type) and is_dataclass(kind):
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"enum": [each.value for each in kind]}
    if origin is Literal:
        return {"enum": list(members)}
    if origin is tuple:
        return {"type": "array", "items": schema(members[0])}
    if origin in (dict, Mapping) or kind == Mapping[str, JSON]:
        return {"type": "object"}
    if members:
        return {"anyOf": [schema(each) for each in members]}
    if kind is bytes:
        return {"type": "string", "contentEncoding": "base64"}
    return {"type": {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}[kind]}


def definitions(*kinds: Any) -> dict[str, JSON]:
    """The schemas of these classes and of all that they are made of, by name."""
    found: dict[str, JSON] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and is_dataclass(kind) and kind.__name__ not in found:
            found[kind.__name__] = _definition(kind)
            waiting += _hints(kind).values()
    return dict(sorted(found.items()))


def _definition(kind: type) -> dict[str, JSON]:
    hints = _hints(kind)
    properties: dict[str, JSON] = {each.name: schema(hints[each.name]) for each in fields(cast("Any", kind))}
    required: list[JSON] = [each.name for each in fields(cast("Any", kind)) if _is_required(each)]
    if kind in _TYPED:
        properties = {"type": {"const": _name(kind)}, **properties}
        required = ["type", *required]
    if kind is ToolCall:
        properties["arguments_json"] = {"type": "string", "contentMediaType": "application/json"}
        required.remove("arguments")
    if kind is ToolResult:
        properties |= {"content": {}, "parts": schema(_parts_of_result()), "text": {"type": "string"}}
        required.remove("content")
    document: dict[str, JSON] = {
        "description": " ".join((kind.__doc__ or "").partition("\n\n")[0].split()),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return document


def _read_fields(kind: type, document: JSON, place: str) -> Any:
    given = dict(_of(dict, "an object", document, place))
    hints = _hints(kind)
    if kind in _TYPED:
        _member([_name(kind)], given.pop("type", None), f"{place}.type")
    values = _said_twice(kind, given, place)
    for each in fields(cast("Any", kind)):
        if each.name in given and each.name not in values:
            values[each.name] = read(hints[each.name], given.pop(each.name), f"{place}.{each.name}")
        elif _is_required(each) and each.name not in values:
            raise ValueError(f"{place} has no {each.name!r}")
    if given:
        raise ValueError(f"{place} has {next(iter(given))!r}, which no {kind.__name__} has")
    try:
        return kind(**values)
    except InvalidValue as error:
        raise ValueError(f"{place}: {error}") from None


def _said_twice(kind: type, given: dict[str, JSON], place: str) -> dict[str, Any]:
    """What is taken from the other of two forms, neither of which is then left in `given`."""
    values: dict[str, Any] = {}
    if kind is ToolCall and "arguments_json" in given:
        given.pop("arguments", None)
        text = _of(str, "a text", given.pop("arguments_json"), f"{place}.arguments_json")
        try:
            values["arguments"] = _of(dict, "an object", json.loads(text), f"{place}.arguments_json")
        except json.JSONDecodeError as error:
            raise ValueError(f"{place}.arguments_json is no JSON: {error}") from None
    if kind is ToolResult:
        given.pop("text", None)
        if "parts" in given:
            values["content"] = read(_parts_of_result(), given.pop("parts"), f"{place}.parts")
    return values


def _read_one_of(kinds: tuple[Any, ...], document: JSON, place: str) -> Any:
    if document is None and NoneType in kinds:
        return None
    typed = {_name(each): each for each in kinds if each in _TYPED}
    if typed and isinstance(document, dict):
        name = _member(list(typed), document.get("type"), f"{place}.type")
        return read(typed[name], document, place)
    plain = [each for each in kinds if each is not NoneType and each not in _TYPED]
    return read(plain[0] if plain else kinds[0], document, place)


def _member(allowed: list[str], document: JSON, place: str) -> str:
    if not isinstance(document, str) or document not in allowed:
        raise ValueError(f"{place} is {_shown(document)}. Allowed: {', '.join(allowed)}")
    return document


def _bytes(document: JSON, place: str) -> bytes:
    try:
        return base64.b64decode(_of(str, "base64", document, place), validate=True)
    except binascii.Error:
        raise ValueError(_unlike("base64", document, place)) from None


def _of(kind: type, name: str, document: JSON, place: str) -> Any:
    if not isinstance(document, kind):
        raise ValueError(_unlike(name, document, place))  # noqa: TRY004 - one error for all of it
    return document


def _unlike(name: str, document: JSON, place: str) -> str:
    return f"{place} is {_shown(document)}, and has to be {name}"


def _shown(document: JSON) -> str:
    text = json.dumps(document, ensure_ascii=True)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _parts_of_result() -> Any:
    """What `ToolResult.content` is where it is no JSON value."""
    return next(each for each in get_args(_hints(ToolResult)["content"]) if each is not JSON)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _name(kind: type) -> str:
    """`tool_call_start` for `ToolCallStart`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def _is_required(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _is_default(each: Field[Any], value: object) -> bool:
    default = each.default_factory() if each.default_factory is not MISSING else each.default
    return default is not MISSING and type(default) is type(value) and default == value
