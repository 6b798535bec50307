"""JSON schemas of tools and answers: their form, their examples, and the subset that strict ones may use."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from harness.apis.anthropic.conversation import dotted, limit
from harness.apis.anthropic.requests import objects
from harness.apis.jsonvalue import join, resolve
from harness.apis.limit import Violation
from harness.apis.metaschema import schema_fault
from harness.apis.subschemas import subschemas
from harness.contract.model import JSON
from harness.scenarios.json_schema import UndecidedSchema, Validator, schema_error

_CONTESTED = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength")
"""Keywords that the documents forbid and some current models take (anthropic-strict-closed)."""
_UNIONS = ("anyOf", "oneOf")

_MOST_TOOLS, _MOST_OPTIONAL, _MOST_UNIONS = 20, 24, 16


def schema_limits(body: dict[str, JSON]) -> Iterator[Violation]:
    """The schemas of the caller's tools, and that of the answer."""
    strict: list[tuple[str, dict[str, JSON]]] = []
    for pointer, tool in objects(body.get("tools"), "/tools"):
        schema, place = tool.get("input_schema"), join(pointer, "input_schema")
        if not is_custom(tool) or not isinstance(schema, dict):
            continue
        if schema.get("type") != "object":
            message = f"{dotted(place)}.type: Input should be 'object'"
            yield limit("tool-schema").broken(message, place, actual=schema.get("type"), expected="object")
        fault = schema_fault(schema)
        if fault:
            keys, reason = fault
            message = f"{dotted(place)}: JSON schema is invalid. It must match JSON Schema draft 2020-12: {reason}"
            yield limit("tool-schema").broken(message, join(place, *keys))
        yield from example_limits(tool, schema, pointer)
        if tool.get("strict") is True:
            strict.append((place, schema))
            yield from _strict(schema, place)
    yield from _together(strict)
    answer, place = resolve(body, "/output_config/format/schema"), "/output_config/format/schema"
    if isinstance(answer, dict):
        yield from _strict(answer, place)


def is_custom(tool: dict[str, JSON]) -> bool:
    """Whether the caller runs this tool; the provider's own have a type of their own."""
    return tool.get("type") in (None, "custom")


def example_limits(tool: dict[str, JSON], schema: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    """anthropic-tool-examples-valid: each of `input_examples` is valid by the tool's schema."""
    examples = tool.get("input_examples")
    for index, example in enumerate(examples if isinstance(examples, list) else ()):
        if not _is_valid(example, schema):
            place = join(pointer, "input_examples", index)
            yield limit("tool-examples").broken(
                f"{dotted(place)}: does not match the input_schema", place, actual=example
            )


def _is_valid(example: JSON, schema: dict[str, JSON]) -> bool:
    """Whether an example is valid, or cannot be judged: a broken schema is a violation of its own."""
    try:
        return schema_error(schema) is not None or Validator(schema).is_valid(example)
    except (UndecidedSchema, RecursionError):
        return True


def _strict(schema: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    """anthropic-strict-closed, for one schema: every object is closed, nothing leads back to itself."""
    for place, member in subschemas(schema, pointer):
        others = member.get("additionalProperties")
        if isinstance(others, dict):
            message = f"{dotted(place)}: 'additionalProperties' cannot be a schema: name every property"
            yield limit("strict-map").broken(
                message, join(place, "additionalProperties"), actual=others, expected=False
            )
        elif _is_object(member) and others is not False:
            message = f"{dotted(place)}: For 'object' type, 'additionalProperties' must be explicitly set to false"
            yield limit("strict-schema").broken(message, place, expected=False)
        for key in _CONTESTED:
            if key in member:
                message = f"{dotted(place)}: For this type, property '{key}' may not be supported"
                yield limit("strict-keyword").broken(message, join(place, key), actual=key)
    recursive = _recursive(schema, pointer)
    if recursive is not None:
        message = f"{dotted(recursive)}: Recursive schemas are not supported"
        yield limit("strict-recursion").broken(message, recursive)


def _together(schemas: list[tuple[str, dict[str, JSON]]]) -> Iterator[Violation]:
    """anthropic-strict-closed, anthropic-strict-complexity, for the schemas of all strict tools together, each with its
    pointer.

    The provider has one text for all of it. That its grammar may be too large far below these bounds
    (anthropic-strict-grammar-size) is a matter of the model, and of more than can be counted.
    """
    message = "Schema is too complex for compilation. Try reducing the number of tools or simplifying tool schemas."
    if len(schemas) > _MOST_TOOLS:
        place = schemas[_MOST_TOOLS][0]
        yield limit("strict-tools").broken(message, place, actual=len(schemas), expected=_MOST_TOOLS)
    members = [member for pointer, schema in schemas for member in subschemas(schema, pointer)]
    optional = [place for place, member in members for place in _optional(member, place)]
    if len(optional) > _MOST_OPTIONAL:
        place = optional[_MOST_OPTIONAL]
        yield limit("strict-optional").broken(message, place, actual=len(optional), expected=_MOST_OPTIONAL)
    unions = [place for place, member in members for place in _unions(member, place)]
    if len(unions) > _MOST_UNIONS:
        place = unions[_MOST_UNIONS]
        yield limit("strict-unions").broken(message, place, actual=len(unions), expected=_MOST_UNIONS)


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
