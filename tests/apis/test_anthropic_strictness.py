from __future__ import annotations

import json
from typing import Any

import pytest

from harness.apis.anthropic import API
from harness.apis.jsonvalue import resolve
from harness.contract.http import HttpRequest
from tests.apis import lawful

URL = "https://api.anthropic.com/v1/messages"
NULLABLE = {"type": ["string", "null"]}


def closed(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    needed = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def optional(count: int, of: Any = None) -> dict[str, Any]:
    return closed([], **{f"p{number}": of or {"type": "string"} for number in range(count)})


def unions(count: int, of: Any = None) -> dict[str, Any]:
    return closed(**{f"p{number}": of or NULLABLE for number in range(count)})


def found(*schemas: dict[str, Any], strict: bool = True) -> list[tuple[str, str]]:
    body = {
        "model": "claude-opus-5",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": f"f{n}", "input_schema": schema, "strict": strict} for n, schema in enumerate(schemas)],
    }
    violations = lawful.violations(API, HttpRequest("POST", URL, {}, json.dumps(body).encode()))
    assert all(resolve(body, each.pointer) is not None for each in violations)
    return [(each.rule.removeprefix("anthropic-"), each.severity) for each in violations]


NODE = closed(value={"type": "string"}, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})
FAULTS = [
    ([closed()] * 21, "strict-tools"),
    ([optional(25)], "strict-optional"),
    ([optional(12), optional(13)], "strict-optional"),
    ([closed(inner=optional(13)), closed(list={"type": "array", "items": optional(12)})], "strict-optional"),
    ([unions(17)], "strict-unions"),
    ([unions(8), unions(9, {"anyOf": [{"type": "string"}, {"type": "integer"}]})], "strict-unions"),
    ([closed(deep=closed(deeper=unions(17)))], "strict-unions"),
    ([{**closed(list={"$ref": "#/$defs/node"}), "$defs": {"node": NODE}}], "strict-recursion"),
    ([closed(self={"$ref": "#"})], "strict-recursion"),
    (
        [
            {
                **closed(a={"$ref": "#/$defs/a"}),
                "$defs": {"a": closed(b={"$ref": "#/$defs/b"}), "b": closed(a={"$ref": "#/$defs/a"})},
            }
        ],
        "strict-recursion",
    ),
    ([closed(map={"type": "object", "additionalProperties": {"type": "string"}})], "strict-map"),
    ([closed(map={"type": "object", "additionalProperties": True})], "strict-schema"),
]
GOOD = [
    [closed()] * 20,
    [optional(12), optional(12)],
    [unions(8), unions(8)],
    [unions(16, {"type": ["string"]}), unions(16)],  # a list of one type is no union
    [{**closed(a={"$ref": "#/$defs/leaf"}, b={"$ref": "#/$defs/leaf"}), "$defs": {"leaf": closed(x=NULLABLE)}}],
    [{**closed(a={"$ref": "#/$defs/node/x"}), "$defs": {"node/x": closed(), "node": closed(b={"$ref": "#/$defs/n"})}}],
    [closed(enum={"enum": [{"$ref": "#"}]})],
]


@pytest.mark.parametrize(("schemas", "rule"), FAULTS)
def test_what_strict_tools_may_not_be(schemas: list[dict[str, Any]], rule: str) -> None:
    assert found(*schemas) == [(rule, "error")]


@pytest.mark.parametrize(("schemas", "rule"), FAULTS)
def test_tools_that_are_not_strict_may_be_it(schemas: list[dict[str, Any]], rule: str) -> None:
    assert found(*schemas, strict=False) == []


@pytest.mark.parametrize("schemas", GOOD)
def test_what_strict_tools_may_be(schemas: list[dict[str, Any]]) -> None:
    assert found(*schemas) == []


@pytest.mark.parametrize("key", ["oneOf", "anyOf", "allOf"])
def test_no_tool_has_a_choice_among_schemas_at_its_root(key: str) -> None:
    assert found({**closed(), key: [closed()]}, strict=False) == [("tool-schema-union", "error")]
    assert found(closed(inner={key: [closed()]}), strict=False) == []
