"""What is taken for a schema without the metaschema is one by the metaschema, however it is broken on purpose."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harness.contract.model import JSON
from harness.scenarios.simple_schema import is_simple

SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "A place",
    "description": "Where to look.",
    "properties": {
        "city": {"type": "string", "enum": ["Oslo", None, 3]},
        "near": {"type": "array", "items": {"type": "object", "properties": {}, "additionalProperties": True}},
    },
    "required": ["city", "near"],
    "additionalProperties": False,
}

VALUES: list[JSON] = [
    None,
    True,
    0,
    1.5,
    "",
    "object",
    "text",
    [],
    ["a"],
    ["a", "a"],
    [1],
    {},
    {"type": "string"},
    {"a": 1},
]


def places(schema: dict[str, Any]) -> Iterator[tuple[str | int, ...]]:
    """Everything in a schema that can be replaced."""
    for key, value in schema.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, *rest) for rest in places(value))


def replaced(at: tuple[str | int, ...], value: JSON) -> JSON:
    made: Any = copy.deepcopy(SCHEMA)
    inner = made
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return made


def is_schema(value: Any) -> bool:
    return isinstance(value, dict) and not any(
        Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(value)
    )


@pytest.mark.parametrize("at", [*places(SCHEMA)], ids=lambda at: "/".join(map(str, at)))
def test_what_is_simple_is_a_schema(at: tuple[str | int, ...]) -> None:
    made = [replaced(at, value) for value in VALUES]
    assert all(is_schema(each) for each in made if is_simple(each))
    assert not all(map(is_simple, made))


def test_what_most_tools_have_is_simple_and_what_needs_a_closer_look_is_not() -> None:
    assert is_simple(SCHEMA)
    others: list[dict[str, Any]] = [{"$ref": "#"}, {"anyOf": [{}]}, {"type": ["null"]}, {"pattern": "("}, {"new": 1}]
    for more in others:
        assert not is_simple({**SCHEMA, **more})
    assert not is_simple(True)  # a schema, and nobody's
