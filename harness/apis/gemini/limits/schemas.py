"""OpenAPI schemas, the older of the two schema languages (gemini-schema-fields, gemini-enum-not-empty,
gemini-enum-of-strings, gemini-array-items)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.gemini import limits
from harness.apis.gemini.requests.proto import ProtoMessage, repeated
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.contract.model import JSON

_TYPES = ("type_unspecified", "string", "number", "integer", "boolean", "array", "object", "null")
"""The types of a schema; the number of one is its index (google.ai.generativelanguage.v1beta.Type)."""


def schema_view(schema: JSON) -> JSON:
    """An OpenAPI schema in one spelling: keys in camelCase, types in lower case, absent fields left out
    (gemini-schema-fields)."""
    if not isinstance(schema, dict):
        return schema
    fields = ProtoMessage.of(schema).camelised()
    return {name: _schema_field(name, value) for name, value in fields.items()}


def _schema_field(name: str, value: JSON) -> JSON:
    match name, value:
        case "type", str():
            return value.lower()
        case "type", int() if 0 <= value < len(_TYPES):
            return _TYPES[value]
        case "items", dict():
            return schema_view(value)
        case "anyOf", _:
            return [schema_view(option) for option, _ in repeated(value, "")]
        case (("properties" | "defs"), dict()):
            return {key: schema_view(member) for key, member in value.items()}
        case _:
            return value


def violations(schema: JSON, pointer: str, path: str) -> Iterator[Violation]:
    """Types that are none, in a schema and those in it (`gemini-schema-type`). `path` is the provider's for messages.

    Raises:
        WireError: it is no schema; `fields` finds that before.
    """
    fields = ProtoMessage.of(schema, pointer)
    kind = fields.enum("type", _TYPES)
    if kind is not None and kind.lower() not in _TYPES:
        message = f"Invalid value at '{path}.type' (Type), \"{kind}\""
        yield limits.SCHEMA_TYPE.broken(message, fields.at("type"), actual=kind, expected=[*_TYPES])
    for inner, place, step in _inner(fields):
        yield from violations(inner, place, f"{path}.{step}")


def parameter_violations(schema: JSON, pointer: str, path: str) -> Iterator[Violation]:
    """gemini-enum-not-empty, gemini-enum-of-strings, gemini-array-items: enums and arrays that a function's
    `parameters` must not have.

    The refusals were seen at the Developer API, and none of a schema of the answer.
    """
    fields = ProtoMessage.of(schema, pointer)
    kind = (fields.enum("type", _TYPES) or "").lower()
    if kind == "array" and "items" not in fields.names:
        yield limits.SCHEMA_ITEMS.broken(f"* {path}.items: missing field.\n", pointer)
    values = repeated(fields.get("enum"), fields.at("enum"))
    if values and kind != "string":
        message = f"* {path}.enum: only allowed for STRING type\n"
        yield limits.SCHEMA_ENUM_TYPE.broken(message, fields.at("enum"), actual=kind or None, expected="string")
    for index, (value, place) in enumerate(values):
        if value == "":
            yield limits.SCHEMA_ENUM_EMPTY.broken(f"* {path}.enum[{index}]: cannot be empty\n", place, actual="")
    for inner, place, step in _inner(fields):
        yield from parameter_violations(inner, place, f"{path}.{step}")


def _inner(fields: ProtoMessage) -> Iterator[tuple[JSON, str, str]]:
    if "items" in fields.names:
        yield fields.get("items"), fields.at("items"), "items"
    for index, (option, place) in enumerate(repeated(fields.get("anyOf"), fields.at("anyOf"))):
        yield option, place, f"any_of[{index}]"
    for name in ("properties", "defs"):
        members = fields.get(name)
        if isinstance(members, dict):
            for key, member in members.items():
                yield member, join(fields.at(name), key), f"{name}[{key}]"
