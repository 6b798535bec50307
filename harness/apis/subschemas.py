"""The schemas that stand in a JSON Schema, wherever a keyword has a place for one.

Values of `enum`, `const`, `default` and `examples` are none. Without recursion: a schema may be nested more deeply than
Python's stack.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from harness.apis.jsonvalue import join
from harness.contract.model import JSON

ONE = frozenset({"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"})
"""Keywords whose value is a schema."""
LISTS = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})
"""Keywords whose value is a list of schemas."""
MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords whose value is an object of schemas."""


def inner(schema: dict[str, JSON], pointer: str, keywords: Iterable[str]) -> Iterator[tuple[str, JSON]]:
    """What stands where these keywords of a schema have schemas, each with its pointer, keyword by keyword.

    What is no schema, though one should stand there, is among it.
    """
    for keyword in keywords:
        value = schema.get(keyword)
        if keyword in ONE:
            if keyword in schema:
                yield join(pointer, keyword), value
        elif keyword in LISTS:
            for index, member in enumerate(value if isinstance(value, list) else ()):
                yield join(pointer, keyword, index), member
        elif keyword in MAPS:
            for name, member in value.items() if isinstance(value, dict) else ():
                yield join(pointer, keyword, name), member


def subschemas(schema: JSON, pointer: str) -> Iterator[tuple[str, dict[str, JSON]]]:
    """A schema and all schemas inside it, level by level, each with its pointer."""
    waiting: deque[tuple[str, JSON]] = deque([(pointer, schema)])
    while waiting:
        place, member = waiting.popleft()
        if isinstance(member, dict):
            yield place, member
            waiting.extend(inner(member, place, member))
