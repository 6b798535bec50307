"""The subset of JSON Schema that strict tools and output formats take, and what all strict tools may be together."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from harness.apis.anthropic import limits
from harness.apis.anthropic.limits.conversation import dotted
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.apis.subschemas import subschemas
from harness.contract.model import JSON

_CONTESTED = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength")
"""Keywords that the documents forbid and some current models take (anthropic-strict-closed)."""
_UNIONS = ("anyOf", "oneOf")

_MOST_TOOLS, _MOST_OPTIONAL, _MOST_UNIONS = 20, 24, 16


def schema_limits(schema: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    """anthropic-strict-closed, for one schema: every object is closed, nothing leads back to itself."""
    for place, member in subschemas(schema, pointer):
        others = member.get("additionalProperties")
        if isinstance(others, dict):
            message = f"{dotted(place)}: 'additionalProperties' cannot be a schema: name every property"
            yield limits.STRICT_MAP.broken(message, join(place, "additionalProperties"), actual=others, expected=False)
        elif _is_object(member) and others is not False:
            message = f"{dotted(place)}: For 'object' type, 'additionalProperties' must be explicitly set to false"
            yield limits.STRICT_SCHEMA.broken(message, place, expected=False)
        for key in _CONTESTED:
            if key in member:
                message = f"{dotted(place)}: For this type, property '{key}' may not be supported"
                yield limits.STRICT_KEYWORD.broken(message, join(place, key), actual=key)
    recursive = _recursive(schema, pointer)
    if recursive is not None:
        message = f"{dotted(recursive)}: Recursive schemas are not supported"
        yield limits.STRICT_RECURSION.broken(message, recursive)


def tools_limits(schemas: list[tuple[str, dict[str, JSON]]]) -> Iterator[Violation]:
    """anthropic-strict-closed, anthropic-strict-complexity, for the schemas of all strict tools together, each with its
    pointer.

    The provider has one text for all of it. That its grammar may be too large far below these bounds
    (anthropic-strict-grammar-size) is a matter of the model, and of more than can be counted.
    """
    message = "Schema is too complex for compilation. Try reducing the number of tools or simplifying tool schemas."
    if len(schemas) > _MOST_TOOLS:
        place = schemas[_MOST_TOOLS][0]
        yield limits.STRICT_TOOLS.broken(message, place, actual=len(schemas), expected=_MOST_TOOLS)
    members = [member for pointer, schema in schemas for member in subschemas(schema, pointer)]
    optional = [place for place, member in members for place in _optional(member, place)]
    if len(optional) > _MOST_OPTIONAL:
        place = optional[_MOST_OPTIONAL]
        yield limits.STRICT_OPTIONAL.broken(message, place, actual=len(optional), expected=_MOST_OPTIONAL)
    unions = [place for place, member in members for place in _unions(member, place)]
    if len(unions) > _MOST_UNIONS:
        place = unions[_MOST_UNIONS]
        yield limits.STRICT_UNIONS.broken(message, place, actual=len(unions), expected=_MOST_UNIONS)


def _properties(schema: dict[str, JSON], pointer: str) -> Iterator[tuple[str, str, JSON]]:
    properties = schema.get("properties")
    for name, member in properties.items() if isinstance(properties, dict) else ():
        yield name, join(pointer, "properties", name), member


def _optional(schema: dict[str, JSON], pointer: str) -> list[str]:
    """The properties of an object that it does not require."""
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return [place for name, place, _ in _properties(schema, pointer) if name not in needed]


def _unions(schema: dict[str, JSON], pointer: str) -> list[str]:
    """The properties of an object that may be of several types."""
    return [place for _, place, member in _properties(schema, pointer) if _is_union(member)]


def _is_union(schema: JSON) -> bool:
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    return any(key in schema for key in _UNIONS) or (isinstance(kind, list) and len(kind) > 1)


def _recursive(schema: dict[str, JSON], pointer: str) -> str | None:
    """Where a `$ref` stands that leads back to itself.

    A reference leads to those that stand inside of what it names. `#` is the whole schema.
    """
    places = {
        place.removeprefix(pointer): reference.removeprefix("#")
        for place, member in subschemas(schema, pointer)
        if isinstance(reference := member.get("$ref"), str) and reference.startswith("#")
    }
    leads = {
        place: [inner for inner in places if inner == target or inner.startswith(f"{target}/")]
        for place, target in places.items()
    }
    try:
        TopologicalSorter(leads).prepare()
    except CycleError as error:
        return pointer + error.args[1][0]
    return None


def _is_object(schema: dict[str, JSON]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)
