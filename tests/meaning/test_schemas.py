from __future__ import annotations

from typing import Any

import pytest

from harness.meaning.schemas import Dialect, change

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OPTIONAL = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}


def strict(b: Any) -> Any:
    return {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": b},
        "required": ["a", "b"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("given", "wire"),
    [
        ({}, None),
        ({}, {}),
        ({}, {"type": "object"}),
        ({}, {"type": "object", "properties": {}, "additionalProperties": False}),
        ({"type": "object"}, {"type": "object", "properties": {}, "required": [], "additionalProperties": False}),
        ({"type": "object", "properties": {}}, None),
        (CITY, {**CITY, "additionalProperties": False}),
        (CITY, {"required": ["city"], "properties": {"city": {"type": "string"}}, "type": "object"}),
        (OPTIONAL, strict({"type": ["integer", "null"]})),
        (OPTIONAL, strict({"anyOf": [{"type": "integer"}, {"type": "null"}]})),
        ({"type": "array", "items": CITY}, {"type": "array", "items": {**CITY, "additionalProperties": False}}),
        ({"type": "integer", "default": 3}, {"type": "integer"}),
        ({"type": ["string", "null"]}, {"type": ["null", "string"]}),
        ({**CITY, "required": []}, {"type": "object", "properties": {"city": {"type": "string"}}}),
        ({"type": "number", "maximum": 3}, {"type": "number", "maximum": 3.0}),
    ],
)
def test_documented_rewrites_say_the_same(given: Any, wire: Any) -> None:
    assert change(given, wire) is None


@pytest.mark.parametrize(
    ("given", "wire", "pointer"),
    [
        (CITY, None, ""),
        (CITY, {"type": "object", "properties": {"city": {"type": "string"}}}, "/required"),
        (CITY, {**CITY, "required": ["city", "country"]}, "/required"),
        (CITY, {**CITY, "properties": {}}, "/properties/city"),
        (CITY, {**CITY, "properties": {"city": {"type": "integer"}}}, "/properties/city/type"),
        (CITY, {**CITY, "properties": {**CITY["properties"], "reason": {}}}, "/properties/reason"),
        (CITY, {**CITY, "title": "City"}, "/title"),
        (OPTIONAL, strict({"type": "integer"}), "/properties/b"),
        (OPTIONAL, strict({"type": ["string", "null"]}), "/properties/b/type"),
        ({"type": "string", "enum": ["a", "b"]}, {"type": "string"}, "/enum"),
        ({"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["a"]}, "/enum"),
        ({"const": 1}, {"const": True}, "/const"),
        ({"type": ["string", "null"]}, {"type": "string"}, "/type"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"}, "/anyOf"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}]}, "/anyOf"),
        ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "integer"}]}, "/anyOf/0/type"),
        ({"type": "array", "items": {"type": "array", "items": {}}}, {"type": "array", "items": {}}, "/items/type"),
        ({"$ref": "#/$defs/a", "$defs": {"a": CITY}}, {"$ref": "#/$defs/a"}, "/$defs"),
        ({"$ref": "#/$defs/a", "$defs": {"a": CITY}}, {"$ref": "#/$defs/a", "$defs": {"a": {}}}, "/$defs/a/type"),
        ({"properties": {"any": {}}}, {"properties": {"any": {"type": "object"}}}, "/properties/any/type"),
        ({"properties": {"a/b": {}}}, {"properties": {"a/b": {"type": "null"}}}, "/properties/a~1b/type"),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "additionalProperties": False},
            "/additionalProperties",
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, None, ""),
        (
            {"properties": {"free": {"type": "object"}}},
            {"properties": {"free": {"type": "object", "additionalProperties": False}}},
            "/properties/free/additionalProperties",
        ),
        ({"type": "string", "nullable": True}, {"type": "string"}, "/nullable"),
    ],
)
def test_any_other_change_is_found_where_it_is(given: Any, wire: Any, pointer: str) -> None:
    found = change(given, wire)
    assert found is not None
    assert found.pointer == pointer


@pytest.mark.parametrize(
    ("given", "wire", "dialect", "same"),
    [
        ({"type": "string"}, {"type": "STRING"}, "openapi", True),
        ({"type": "string"}, {"type": "STRING"}, "json-schema", False),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}, "openapi", True),
        ({"type": ["string", "null"]}, {"type": "STRING"}, "openapi", False),
        ({"type": "string"}, {"type": "STRING", "nullable": True}, "openapi", False),
        (CITY, {**CITY, "propertyOrdering": ["city"]}, "openapi", True),
        ({**CITY, "additionalProperties": False}, CITY, "openapi", True),
        ({**CITY, "additionalProperties": False}, CITY, "json-schema", False),
    ],
)
def test_the_openapi_dialect_has_words_of_its_own(given: Any, wire: Any, dialect: Dialect, *, same: bool) -> None:
    assert (change(given, wire, dialect) is None) is same
