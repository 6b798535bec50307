"""Write, read and describe the values of the contract as JSON: see `harness.contract.model.typed`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any, cast, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError

from harness.contract.model import JSON, JsonMode, JsonSchema, NamedTool, Part, StreamEvent
from harness.contract.model.typed import type_name
from harness.host.shortened import shortened

_UNEXPECTED = re.compile(r"field_name='(\w+)', input_value=(.*), input_type=(\w+)\]")

_CONFIG = ConfigDict(extra="forbid", ser_json_bytes="base64", ser_json_inf_nan="constants")

_UNIONS: dict[Any, Any] = {
    each: union for union in (Part, StreamEvent) for each in get_args(get_args(cast("Any", union))[0])
}
"""The classes that say their type, each with the union to which it belongs."""

_TYPES = frozenset(type_name(each) for each in _UNIONS)


def written(value: object, place: str = "the value") -> JSON:
    """Return a value of the contract as JSON; fields that have their default are left out.

    Raises:
        TypeError: something in it is no value of the contract.
    """
    kind = next(each for each in type(value).__mro__ if is_dataclass(each) and each.__module__.startswith("harness."))
    try:
        (document,) = _adapter(_UNIONS.get(kind, kind)).dump_python(
            [value], mode="json", exclude_defaults=True, warnings="error"
        )
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise TypeError(f"{place} cannot be written as JSON: {_reason(error)}") from None
    return document


def read(kind: Any, document: JSON, place: str) -> Any:
    """Return the value that a document holds at `place`.

    Raises:
        ValueError: it holds none of this kind; the text says where.
    """
    try:
        (value,) = _adapter(_UNIONS.get(kind, kind)).validate_python([document])
    except ValidationError as error:
        raise ValueError(_explained(error.errors(include_url=False)[0], place)) from None
    return value


def schemas(kinds: Sequence[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the JSON Schema of each kind of value, and the definitions that they refer to."""
    every = [(each, "validation", _adapter(_UNIONS.get(each, each))) for each in kinds]
    found, document = TypeAdapter.json_schemas(every)  # pyright: ignore[reportArgumentType]
    definitions: dict[str, Any] = document["$defs"]
    for kind in (*_UNIONS, JsonMode, JsonSchema, NamedTool):
        described = definitions[kind.__name__]
        described["properties"] = {"type": {"const": type_name(kind)}, **described.get("properties", {})}
        described["required"] = ["type", *described.get("required", ())]
        described["description"] = " ".join((kind.__doc__ or "").split())
    for each in definitions.values():
        if "properties" in each:
            each["additionalProperties"] = False
    call, result = definitions["ToolCall"], definitions["ToolResult"]
    call["required"].remove("arguments")  # it has one of the two
    call["properties"]["arguments_json"] = {"type": "string", "contentMediaType": "application/json"}
    result["required"].remove("content")
    content, parts = result["properties"]["content"]["anyOf"]
    result["properties"] |= {"content": content, "parts": parts, "text": {"type": "string"}}
    return [found[each, "validation"]["items"] for each in kinds], definitions


@cache
def _adapter(kind: Any) -> TypeAdapter[list[Any]]:
    return TypeAdapter(list[kind], config=_CONFIG)  # pyright: ignore[reportInvalidTypeForm]


def _reason(error: Exception) -> str:
    """Return what pydantic cannot write, or the last line of what it says."""
    text = str(error)
    found: list[tuple[str, str, str]] = _UNEXPECTED.findall(text)
    if found:
        field, value, kind = min(
            found, key=lambda each: each[2] in {kind.__name__ for kind in _UNIONS}
        )  # not what holds it
        return f"{field} holds {shortened(value, 300)}, a {kind}, which is no JSON value"
    return text.rpartition("`: ")[2].splitlines()[-1].strip()


def _explained(error: ErrorDetails, place: str) -> str:
    """Return an error of pydantic at its place, in words of the protocol."""
    *steps, last = [step for step in error["loc"][1:] if isinstance(step, int) or step.isidentifier()] or [""]
    names = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps if step not in _TYPES]
    parent, own = place + "".join(names), f"[{last}]" if isinstance(last, int) else f".{last}" if last else ""
    shown = shortened(json.dumps(error["input"], default=str), 200)
    match error["type"]:
        case "missing":
            return f"{parent} has no {last!r}"
        case "unexpected_keyword_argument":
            return f"{parent} has {last!r}, which is no field of it"
        case "union_tag_invalid" | "union_tag_not_found":
            allowed = error.get("ctx", {}).get("expected_tags", "those of the schema")
            given: Any = error["input"]
            found = json.dumps(cast("dict[str, Any]", given).get("type")) if isinstance(given, dict) else shown
            return f"{parent}{own}.type is {found}. Allowed: {allowed.replace(chr(39), '')}"
        case _:
            said = error["msg"].removeprefix("Value error, ")
            return f"{parent}{own} is {shown}: {said[0].lower()}{said[1:]}"
