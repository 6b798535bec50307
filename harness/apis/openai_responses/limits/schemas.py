"""JSON Schemas: what the provider refuses in those of functions, and in those under `strict`."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import join, keys
from harness.apis.metaschema import schema_fault
from harness.apis.subschemas import inner
from harness.contract.model import JSON

_KEYWORDS = ("properties", "$defs", "definitions", "anyOf", "items")
"""Keywords that have schemas which are looked at."""


def strict_faults(schema: JSON, pointer: str) -> Iterator[tuple[str, str]]:
    """Each fault as a pointer and a sentence.

    Every object has to close itself and to require all of its properties (openai-chat-strict-schema). Limits on
    keywords are contested and left alone.
    """
    for place, member in _nested(schema, pointer):
        yield from _object_faults(member, place, keys(place.removeprefix(pointer)))


def invalid(schema: JSON, pointer: str) -> Iterator[tuple[str, str]]:
    """What makes a schema none (openai-responses-schema-valid), as a pointer and a reason."""
    fault = schema_fault(schema, lenient=True) if isinstance(schema, dict) else None
    if fault is not None:
        yield join(pointer, *fault[0]), fault[1]


def array_faults(schema: JSON, pointer: str) -> Iterator[tuple[str, str]]:
    """Each array that does not say what its items are (openai-chat-array-items), as a pointer and a sentence."""
    for place, member in _nested(schema, pointer):
        kind = member.get("type")
        if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and "items" not in member:
            yield place, f"In context={keys(place.removeprefix(pointer))}, array schema missing items."


def _nested(schema: JSON, pointer: str) -> Iterator[tuple[str, dict[str, JSON]]]:
    """A schema and those in it, each before those inside it."""
    pending: list[tuple[str, JSON]] = [(pointer, schema)]
    while pending:
        place, member = pending.pop()
        if isinstance(member, dict):
            yield place, member
            pending.extend(reversed([*inner(member, place, _KEYWORDS)]))


def _object_faults(schema: dict[str, JSON], pointer: str, context: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    kind, properties, required = schema.get("type"), schema.get("properties"), schema.get("required")
    if not (kind == "object" or (isinstance(kind, list) and "object" in kind) or isinstance(properties, dict)):
        return
    if schema.get("additionalProperties") is not False:
        yield pointer, f"In context={context}, 'additionalProperties' is required to be supplied and to be false."
    listed = required if isinstance(required, list) else []
    missing = [name for name in (properties if isinstance(properties, dict) else ()) if name not in listed]
    if missing:
        yield pointer, f"In context={context}, 'required' has to list every property. Missing: {', '.join(missing)}."
