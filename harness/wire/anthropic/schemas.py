"""JSON schemas: of tools, their examples, and the subset that strict tools and output formats take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator, validate
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from harness.model import JSON
from harness.wire.anthropic.conversation import dotted
from harness.wire.jsonvalue import join
from harness.wire.view import Violation

_SCHEMA_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = ("items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties")
_CONTESTED = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength")
"""Keywords that the documents forbid and some current models take (AN-6)."""


def schema_limits(schema: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    """AN-4: a valid schema of an object."""
    path = dotted(pointer)
    if schema.get("type") != "object":
        message = f"{path}.type: Input should be 'object'"
        yield Violation("anthropic-tool-schema", "error", message, pointer, "AN-4", schema.get("type"), "object")
    fault = _fault(schema)
    if fault:
        keys, reason = fault
        message = f"{path}: JSON schema is invalid. It must match JSON Schema draft 2020-12: {reason}"
        yield Violation("anthropic-tool-schema", "error", message, join(pointer, *keys), "AN-4")


def _fault(schema: dict[str, JSON]) -> tuple[tuple[str | int, ...], str] | None:
    """Where and why a schema is none."""
    try:
        return _judged(json.dumps(schema))
    except RecursionError:  # deeper than can be judged here
        return None


@lru_cache(maxsize=512)  # a conversation sends the same tools with every request
def _judged(schema: str) -> tuple[tuple[str | int, ...], str] | None:
    try:
        Draft202012Validator.check_schema(json.loads(schema))
    except SchemaError as error:
        return tuple(error.absolute_path), error.message
    return None


def example_limits(tool: dict[str, JSON], schema: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    """AN-5: each of `input_examples` is valid by the tool's schema."""
    examples = tool.get("input_examples")
    for index, example in enumerate(examples if isinstance(examples, list) else ()):
        if not _is_valid(example, schema):
            place = join(pointer, "input_examples", index)
            message = f"{dotted(place)}: does not match the input_schema"
            yield Violation("anthropic-tool-examples", "error", message, place, "AN-5", example)


def _is_valid(example: JSON, schema: dict[str, JSON]) -> bool:
    offline = Registry[Any]()  # the default one would fetch a remote $ref
    try:
        validate(example, schema, Draft202012Validator, registry=offline)
    except ValidationError:
        return False
    except (SchemaError, Unresolvable, RecursionError):  # a broken schema is a violation of its own
        return True
    return True


def strict_limits(schema: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    """AN-6: what strict tools and output formats take of JSON Schema."""
    for place, member in _subschemas(schema, pointer):
        if _is_object(member) and member.get("additionalProperties") is not False:
            message = f"{dotted(place)}: For 'object' type, 'additionalProperties' must be explicitly set to false"
            yield Violation("anthropic-strict-schema", "error", message, place, "AN-6", expected=False)
        for key in _CONTESTED:
            if key in member:
                message = f"{dotted(place)}: For this type, property '{key}' may not be supported"
                yield Violation("anthropic-strict-keyword", "warning", message, join(place, key), "AN-6", key)


def _is_object(schema: dict[str, JSON]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _subschemas(schema: JSON, pointer: str) -> Iterator[tuple[str, dict[str, JSON]]]:
    """A schema and all schemas inside it. Values of `enum`, `const`, `default` and `examples` are none."""
    waiting: list[tuple[str, JSON]] = [(pointer, schema)]
    while waiting:
        place, member = waiting.pop(0)
        if not isinstance(member, dict):
            continue
        yield place, member
        for key, value in member.items():
            inner = join(place, key)
            if key in _SCHEMAS:
                waiting.append((inner, value))
            elif key in _SCHEMA_MAPS and isinstance(value, dict):
                waiting.extend((join(inner, name), entry) for name, entry in value.items())
            elif key in _SCHEMA_LISTS and isinstance(value, list):
                waiting.extend((join(inner, index), entry) for index, entry in enumerate(value))
