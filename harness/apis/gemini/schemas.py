"""OpenAPI schemas, the older of the two schema languages (gemini-schema-fields, gemini-enum-not-empty,
gemini-enum-of-strings, gemini-array-items)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.gemini.fields import limit
from harness.apis.gemini.requests.proto import TYPES, ProtoMessage, repeated
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.contract.model import JSON


def violations(schema: JSON, pointer: str, path: str) -> Iterator[Violation]:
    """Types that are none, in a schema and those in it (`gemini-schema-type`). `path` is the provider's for messages.

    Raises:
        WireError: it is no schema; `fields` finds that before.
    """
    fields = ProtoMessage.of(schema, pointer)
    kind = fields.enum("type", TYPES)
    if kind is not None and kind.lower() not in TYPES:
        message = f"Invalid value at '{path}.type' (Type), \"{kind}\""
        yield limit("schema-type").broken(message, fields.at("type"), actual=kind, expected=[*TYPES])
    for inner, place, step in _inner(fields):
        yield from violations(inner, place, f"{path}.{step}")


def parameter_violations(schema: JSON, pointer: str, path: str) -> Iterator[Violation]:
    """gemini-enum-not-empty, gemini-enum-of-strings, gemini-array-items: enums and arrays that a function's
    `parameters` must not have.

    The refusals were seen at the Developer API, and none of a schema of the answer.
    """
    fields = ProtoMessage.of(schema, pointer)
    kind = (fields.enum("type", TYPES) or "").lower()
    if kind == "array" and "items" not in fields.names:
        yield limit("schema-items").broken(f"* {path}.items: missing field.\n", pointer)
    values = repeated(fields.get("enum"), fields.at("enum"))
    if values and kind != "string":
        message = f"* {path}.enum: only allowed for STRING type\n"
        yield limit("schema-enum-type").broken(message, fields.at("enum"), actual=kind or None, expected="string")
    for index, (value, place) in enumerate(values):
        if value == "":
            yield limit("schema-enum-empty").broken(f"* {path}.enum[{index}]: cannot be empty\n", place, actual="")
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
