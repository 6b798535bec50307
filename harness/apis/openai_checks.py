"""Checks that both APIs of OpenAI share: types and bounds of fields, and JSON schemas in requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias, cast

from harness.apis.facts import Facts
from harness.apis.jsonvalue import join
from harness.apis.limit import Limit, Violation
from harness.apis.metaschema import schema_fault
from harness.apis.subschemas import inner
from harness.contract.model import JSON

_NAMES = {
    "integer": "an integer",
    "number": "a decimal",
    "boolean": "a boolean",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}

Fields: TypeAlias = Mapping[str, Mapping[str, JSON]]
"""Fields of a request, each with a JSON Schema of a type and bounds; an empty one is looked at elsewhere."""


class Entries:
    """The limits of an API that Python checks find, by what follows the API's name in their ids."""

    def __init__(self, facts: Facts, prefix: str) -> None:
        self._facts = facts
        self._prefix = prefix

    def __getitem__(self, name: str) -> Limit:
        return self._facts.limits[f"{self._prefix}-{name}"][0]

    @cached_property
    def fields(self) -> Fields:
        """The fields that the API knows: the parameters of its limit of unknown fields."""
        entries = self._facts.limits.values()
        return cast("Fields", next(entry.parameters for _, entry in entries if entry.parameters is not None))


def field_faults(entries: Entries, name: str, value: JSON) -> Iterator[Violation]:
    """The type and the bounds of a field that the API knows."""
    schema, place = entries.fields[name], join("", name)
    if message := _wrong_type(name, value, schema):
        yield entries["parameter-type"].broken(message, place, actual=value, code="invalid_type")
    elif beyond := _out_of_range(name, value, schema):
        yield entries["parameter-range"].broken(beyond[0], place, actual=value, code=beyond[1])


def _wrong_type(name: str, value: JSON, schema: Mapping[str, JSON]) -> str | None:
    kinds = schema.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds] if kinds else []
    if not listed or any(_is(value, str(kind)) for kind in listed):
        return None
    expected = " or ".join(_NAMES[str(kind)] for kind in listed)
    return f"Invalid type for '{name}': expected {expected}, but got {_named(value)} instead."


def _out_of_range(name: str, value: JSON, schema: Mapping[str, JSON]) -> tuple[str, str] | None:
    """The refusal of a number beyond the bounds, and its code."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    kind = "integer" if schema.get("type") == "integer" else "decimal"
    least, most = schema.get("minimum"), schema.get("maximum")
    if isinstance(least, int | float) and value < least:
        side, bound, code = "below minimum", f">= {least:g}", f"{kind}_below_min_value"
    elif isinstance(most, int | float) and value > most:
        side, bound, code = "above maximum", f"<= {most:g}", f"{kind}_above_max_value"
    else:
        return None
    return f"Invalid '{name}': {kind} {side} value. Expected a value {bound}, but got {value} instead.", code


def _is(value: JSON, kind: str) -> bool:
    match value:
        case bool():
            return kind == "boolean"
        case int():
            return kind in ("integer", "number")
        case float():
            return kind == "number" or (kind == "integer" and value.is_integer())
        case str():
            return kind == "string"
        case list():
            return kind == "array"
        case _:
            return kind == "object" and isinstance(value, dict)


def _named(value: JSON) -> str:
    if isinstance(value, float):
        return "a decimal number"
    return next((text for kind, text in _NAMES.items() if _is(value, kind)), "null")


def invalid_schema(schema: JSON, pointer: str) -> Iterator[tuple[str, str]]:
    """The fault of a schema that is none (openai-chat-schema-valid), as a pointer and a reason."""
    fault = schema_fault(schema, lenient=True) if isinstance(schema, dict) else None
    if fault is not None:
        yield join(pointer, *fault[0]), fault[1]


Nodes: TypeAlias = "Sequence[tuple[str, dict[str, JSON]]]"
"""A schema and the schemas in it, with their pointers."""


def schema_nodes(schema: JSON, pointer: str, keywords: Sequence[str]) -> Nodes:
    """A schema and the schemas that these keywords have in it."""
    found: list[tuple[str, dict[str, JSON]]] = []
    waiting: list[tuple[str, JSON]] = [(pointer, schema)]
    while waiting:
        place, node = waiting.pop()
        if isinstance(node, dict):
            found.append((place, node))
            waiting.extend(inner(node, place, [each for each in keywords if each in node]))
    return found


def bare_arrays(nodes: Nodes) -> Iterator[str]:
    """The pointers of arrays that do not say what their items are (openai-chat-array-items)."""
    return (place for place, node in nodes if _is_of(node, "array") and "items" not in node)


def open_objects(nodes: Nodes) -> Iterator[tuple[str, dict[str, JSON], list[str]]]:
    """The objects of a schema that are outside of the strict subset (openai-chat-strict-schema): pointer, schema, and
    the properties that they do not require."""
    for place, node in nodes:
        properties, required = node.get("properties"), node.get("required")
        if _is_of(node, "object") or isinstance(properties, dict):
            given = required if isinstance(required, list) else []
            missing = [name for name in (properties if isinstance(properties, dict) else ()) if name not in given]
            if missing or node.get("additionalProperties") is not False:
                yield place, node, missing


def _is_of(node: dict[str, JSON], kind: str) -> bool:
    said = node.get("type")
    return said == kind or (isinstance(said, list) and kind in said)
