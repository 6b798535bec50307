"""JSON Schemas: what the provider refuses in those of functions, and in those under `strict`."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import join
from harness.contract.model import JSON

_NAMED = ("properties", "$defs", "definitions")

_Place = tuple[JSON, str, tuple[str, ...]]
"""A schema, its pointer, and its place as the provider's messages write it."""


def strict_faults(schema: JSON, pointer: str) -> Iterator[tuple[str, str]]:
    """Each fault as a pointer and a sentence.

    Every object has to close itself and to require all of its properties (openai-chat-strict-schema). Limits on
    keywords are contested and left alone.
    """
    for member, place, context in _nested(schema, pointer):
        yield from _object_faults(member, place, context)


def array_faults(schema: JSON, pointer: str) -> Iterator[tuple[str, str]]:
    """Each array that does not say what its items are (openai-chat-array-items), as a pointer and a sentence."""
    for member, place, context in _nested(schema, pointer):
        if member.get("type") == "array" and "items" not in member:
            yield place, f"In context={context}, array schema missing items."


def _nested(schema: JSON, pointer: str) -> Iterator[tuple[dict[str, JSON], str, tuple[str, ...]]]:
    """A schema and those in it."""
    pending: list[_Place] = [(schema, pointer, ())]
    while pending:  # no recursion: a schema may be nested more deeply than Python's stack
        member, place, context = pending.pop()
        if isinstance(member, dict):
            yield member, place, context
            pending.extend(reversed(list(_members(member, place, context))))


def _members(schema: dict[str, JSON], pointer: str, context: tuple[str, ...]) -> Iterator[_Place]:
    for keyword in _NAMED:
        members = schema.get(keyword)
        for name, member in members.items() if isinstance(members, dict) else ():
            yield member, join(pointer, keyword, name), (*context, keyword, name)
    branches = schema.get("anyOf")
    for index, branch in enumerate(branches if isinstance(branches, list) else ()):
        yield branch, join(pointer, "anyOf", index), (*context, "anyOf", str(index))
    yield schema.get("items"), join(pointer, "items"), (*context, "items")


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
