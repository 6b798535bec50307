"""Whether a schema on the wire still says what was given. The rewrites that an API forces are listed here, no others.

Allowed: `additionalProperties: false` beside properties where the given schema says nothing (AN-6, OC-11); every
property required, the ones that were optional made nullable (OC-11); a `default` dropped (OC-11); `propertyOrdering`
added (GM-13); in the OpenAPI dialect upper-case types and `nullable: true` for a null in the type list (GM-5); an
absent schema for one without properties (GM-5, OC-3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.model import JSON
from harness.wire.jsonvalue import equal, join

Dialect = Literal["json-schema", "openapi"]


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A place where the wire's schema says something else. `pointer` is relative to the schema."""

    pointer: str
    actual: JSON
    expected: JSON


def change(given: JSON, wire: JSON, dialect: Dialect = "json-schema") -> SchemaChange | None:
    """The first change that no documented rewrite explains, or `None`."""
    if isinstance(given, dict) and _takes_nothing(given):
        if wire is None or equal(given, wire):
            return None
        given = {"type": "object", "properties": {}, **given}  # the long form says the same
    return _Comparison(dialect).node(given, wire, "", optional=False)


def _takes_nothing(schema: dict[str, JSON]) -> bool:
    """The schema of a tool without arguments."""
    return (
        schema.keys() <= {"type", "properties", "required", "additionalProperties"}
        and schema.get("type", "object") == "object"
        and not schema.get("properties")
        and schema.get("additionalProperties", False) is False
    )


class _Comparison:
    def __init__(self, dialect: Dialect) -> None:
        self._openapi = dialect == "openapi"

    def node(self, given: JSON, wire: JSON, pointer: str, *, optional: bool) -> SchemaChange | None:
        """Compare two schemas; `optional` says that a strict API had to make this one nullable."""
        if not isinstance(given, dict) or not isinstance(wire, dict):
            return None if equal(given, wire) else SchemaChange(pointer, wire, given)
        if optional and not _takes_null(given):
            bare = self._without_null(given, wire)
            if bare is None:
                return SchemaChange(pointer, wire, given)
            wire = bare
        for key in (*given, *(k for k in wire if k not in given)):
            found = self._keyword(key, given, wire, pointer)
            if found is not None:
                return found
        return None

    def _without_null(self, given: dict[str, JSON], wire: dict[str, JSON]) -> dict[str, JSON] | None:
        """The wire's schema with the null undone that a strict API forces on an optional property."""
        choices = wire.get("anyOf")
        if "anyOf" not in given and isinstance(choices, list) and len(choices) == 2 and {"type": "null"} in choices:
            inner = next(choice for choice in choices if choice != {"type": "null"})
            if isinstance(inner, dict):
                return {**inner, **{key: value for key, value in wire.items() if key != "anyOf"}}
        types = wire.get("type")
        if isinstance(types, list) and "null" in types and "null" not in _types(given.get("type")):
            rest = [name for name in types if name != "null"]
            bare: dict[str, JSON] = {**wire, "type": rest[0] if len(rest) == 1 else rest}
            values = wire.get("enum")
            if isinstance(values, list) and "enum" in given:
                bare["enum"] = [value for value in values if value is not None]
            return bare
        if isinstance(choices, list) and {"type": "null"} in choices and "anyOf" in given:
            return {**wire, "anyOf": [choice for choice in choices if choice != {"type": "null"}]}
        return None

    def _keyword(self, key: str, given: dict[str, JSON], wire: dict[str, JSON], pointer: str) -> SchemaChange | None:
        at = join(pointer, key)
        one, other = given.get(key), wire.get(key)
        if key not in wire:
            dropped = key == "default" or (key == "additionalProperties" and one is False and self._openapi)
            return None if dropped or (key in ("properties", "required") and not one) else SchemaChange(at, None, one)
        if key not in given:
            return None if self._addition(key, given, wire) else SchemaChange(at, other, None)
        if key in ("properties", "$defs", "definitions", "patternProperties"):
            return self._members(given, one, other, at, wire if key == "properties" else None)
        if key == "required":
            return self._required(one, other, wire, at)
        if key == "type":
            return self._type(one, other, wire, at)
        if key in ("items", "additionalProperties", "not"):
            return self.node(one, other, at, optional=False)
        if key in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return SchemaChange(at, other, one)
            found = (
                self.node(a, b, join(at, i), optional=False) for i, (a, b) in enumerate(zip(one, other, strict=True))
            )
            return next((change for change in found if change is not None), None)
        return None if equal(one, other) else SchemaChange(at, other, one)

    def _addition(self, key: str, given: dict[str, JSON], wire: dict[str, JSON]) -> bool:
        match key:
            case "additionalProperties":
                return wire[key] is False and "properties" in given
            case "required":
                return set(_names(wire[key])) <= set(_keys(given.get("properties")))
            case "properties":
                return not wire[key]
            case "type":
                return wire[key] == "object" and "properties" in given
            case "nullable":
                return self._openapi and wire[key] is True and "null" in _types(given.get("type"))
            case _:
                return key == "propertyOrdering"

    def _members(
        self, given: dict[str, JSON], one: JSON, other: JSON, at: str, strict_object: dict[str, JSON] | None
    ) -> SchemaChange | None:
        if not isinstance(one, dict) or not isinstance(other, dict):
            return None if equal(one, other) else SchemaChange(at, other, one)
        made_required: set[str] = set()
        if strict_object is not None:
            made_required = set(_names(strict_object.get("required"))) - set(_names(given.get("required")))
        for name in (*one, *(n for n in other if n not in one)):
            if name not in one or name not in other:
                return SchemaChange(join(at, name), other.get(name), one.get(name))
            found = self.node(one[name], other[name], join(at, name), optional=name in made_required)
            if found is not None:
                return found
        return None

    def _required(self, one: JSON, other: JSON, wire: dict[str, JSON], at: str) -> SchemaChange | None:
        given, sent = set(_names(one)), set(_names(other))
        allowed = given == sent or (given < sent <= set(_keys(wire.get("properties"))))
        return None if allowed else SchemaChange(at, other, one)

    def _type(self, one: JSON, other: JSON, wire: dict[str, JSON], at: str) -> SchemaChange | None:
        given, sent = _types(one), _types(other)
        if self._openapi:
            sent = {name.lower() for name in sent} | ({"null"} if wire.get("nullable") is True else set[str]())
        return None if given == sent else SchemaChange(at, other, one)


def _takes_null(schema: dict[str, JSON]) -> bool:
    if not schema or "null" in _types(schema.get("type")):
        return True
    choices = schema.get("anyOf")
    return isinstance(choices, list) and any(isinstance(each, dict) and _takes_null(each) for each in choices)


def _types(value: JSON) -> set[str]:
    return {value} if isinstance(value, str) else set(_names(value))


def _names(value: JSON) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _keys(value: JSON) -> list[str]:
    return list(value) if isinstance(value, dict) else []
