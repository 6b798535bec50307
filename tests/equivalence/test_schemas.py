from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harness.equivalence import schema_changes
from harness.equivalence.schema_changes import Dialect, change, version_difference

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OPTIONAL = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x", "y"]}
LINE = {
    "type": "object",
    "properties": {"from": {"$ref": "#/$defs/point"}, "to": {"$ref": "#/$defs/point"}},
    "required": ["from", "to"],
    "$defs": {"point": POINT},
}
TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
}
LIST = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
            "required": ["value"],
        }
    },
}
SHAPES = {
    "oneOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind"]},
        {"type": "object", "properties": {"kind": {"const": "square"}, "a": {"type": "number"}}, "required": ["kind"]},
    ]
}


def written_out(to: Any = POINT, start: Any = POINT) -> Any:
    return {"type": "object", "properties": {"from": start, "to": to}, "required": ["from", "to"]}


def strict(b: Any, **more: Any) -> Any:
    properties = {"a": {"type": "string"}, "b": b}
    return {"type": "object", "properties": properties, "required": ["a", "b"], "additionalProperties": False, **more}


def of(schema: Any, name: str = "p") -> Any:
    return {"type": "object", "properties": {name: schema}, "required": [name]}


def tree_with(children: Any) -> Any:
    return {**TREE, "properties": {**TREE["properties"], "children": children}}


EQUAL_AND_NOT: list[tuple[str, Any, Any, Any]] = [
    ("references written out", LINE, written_out(), written_out({**POINT, "required": ["x"]})),
    (
        "references under another name",
        LINE,
        {
            **written_out({"$ref": "#/definitions/P"}, {"$ref": "#/definitions/P"}),
            "definitions": {"P": {**POINT, "title": "P"}},
        },
        {
            **written_out({"$ref": "#/definitions/P"}, {"$ref": "#/definitions/P"}),
            "definitions": {"P": {**POINT, "required": []}},
        },
    ),
    (
        "a schema inside itself, by another name",
        TREE,
        {"$ref": "#/$defs/t", "$defs": {"t": tree_with({"type": "array", "items": {"$ref": "#/$defs/t"}})}},
        tree_with({"type": "array", "items": {"type": "object"}}),
    ),
    (
        "a schema inside itself, written out once",
        TREE,
        {
            **tree_with({"type": "array", "items": {"$ref": "#/$defs/t"}}),
            "$defs": {"t": tree_with({"type": "array", "items": {"$ref": "#/$defs/t"}})},
        },
        {
            **tree_with({"type": "array", "items": {"$ref": "#/$defs/t"}}),
            "$defs": {"t": tree_with({"type": "array", "items": {"type": "object"}})},
        },
    ),
    (
        "null in the types, as a choice",
        of({"type": ["string", "null"]}),
        of({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        of({"anyOf": [{"type": "string"}]}),
    ),
    (
        "null as a choice, in the types",
        of({"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]}),
        of({"type": ["null", "string"], "minLength": 2}),
        of({"type": ["null", "string"]}),
    ),
    ("null as a const", of({"type": "null"}), of({"const": None}), of({"const": False})),
    (
        "the type left out beside an enum of it",
        of({"type": "string", "enum": ["a", "b"]}),
        of({"enum": ["b", "a"]}),
        of({"enum": ["b", "a", 1]}),
    ),
    ("a const as an enum", of({"const": 1}), of({"type": "integer", "enum": [1.0]}), of({"const": True})),
    ("an enum of both booleans", of({"type": "boolean"}), of({"enum": [False, True]}), of({"enum": [True]})),
    (
        "choices of consts as an enum",
        of({"enum": ["a", "b"]}),
        of({"anyOf": [{"const": "b"}, {"const": "a"}]}),
        of({"anyOf": [{"const": "b"}]}),
    ),
    (
        "a title and a description added",
        CITY,
        {**of({"type": "string", "title": "City", "description": "Where."}, "city"), "title": "Args"},
        {**of({"type": "string", "title": "City", "maxLength": 9}, "city"), "title": "Args"},
    ),
    (
        "an order of its own",
        OPTIONAL,
        {"required": ["a"], "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}, "type": "object"},
        {"required": ["b"], "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}, "type": "object"},
    ),
    (
        "a dialect named, a property order, a default of null",
        CITY,
        {**CITY, "$schema": "https://json-schema.org/draft/2020-12/schema", "propertyOrdering": ["city"]},
        {**CITY, "$schema": "https://json-schema.org/draft/2020-12/schema", "required": ["town"]},
    ),
    (
        "what says nothing",
        of({"type": "array", "items": {"type": "string"}}),
        {**of({"type": "array", "items": {"type": "string"}, "minItems": 0}), "additionalProperties": True},
        {**of({"type": "array", "items": {"type": "string"}, "minItems": 1}), "additionalProperties": True},
    ),
    ("one schema of all", CITY, {"allOf": [CITY]}, {"allOf": [CITY, {"maxProperties": 1}]}),
    (
        "all of two that add up",
        of({"type": "string", "minLength": 2, "maxLength": 5}),
        of({"allOf": [{"type": "string", "minLength": 2}, {"maxLength": 5}]}),
        of({"allOf": [{"type": "string", "minLength": 2}, {"maxLength": 4}]}),
    ),
    (
        "one of those that exclude each other, any of them",
        SHAPES,
        {"anyOf": SHAPES["oneOf"][::-1]},
        {"anyOf": SHAPES["oneOf"][:1]},
    ),
    (
        "a bound of integers, in and out",
        of({"type": "integer", "exclusiveMinimum": 0, "maximum": 9.5}),
        of({"type": "integer", "minimum": 1, "maximum": 9}),
        of({"type": "integer", "minimum": 0, "maximum": 9}),
    ),
    (
        "a number written otherwise",
        of({"type": "number", "maximum": 3}),
        of({"type": "number", "maximum": 3.0}),
        of({"type": "number", "maximum": 4}),
    ),
    (
        "a range where integers fall the same",
        of({"type": "integer", "minimum": 1, "multipleOf": 1}),
        of({"type": "integer", "minimum": 1}),
        of({"type": "integer", "minimum": 1, "multipleOf": 2}),
    ),
    (
        "a pattern spelled otherwise",
        of({"type": "string", "pattern": "^[A-Z]{3}-[0-9]+$"}),
        of({"type": "string", "pattern": "^([A-Z]{3})-([0-9]+)$"}),
        of({"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"}),
    ),
    (
        "other properties allowed in so many words",
        {**CITY, "additionalProperties": True},
        CITY,
        {**CITY, "additionalProperties": False},
    ),
    (
        "other properties allowed in so many words, further in",
        of({"allOf": [{**CITY, "additionalProperties": {}}]}),
        of(CITY),
        of({**CITY, "additionalProperties": False}),
    ),
    (
        "a bound beyond what is quickly written down",
        of({"type": "string", "maxLength": 100_000}),
        of({"type": "string", "maxLength": 100_000.0}),
        of({"type": "string", "maxLength": 99_999}),
    ),
    (
        "names of properties that have a form",
        {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}},
        {"type": "object", "propertyNames": {"type": "string", "pattern": "^[a-z]+$"}},
        {"type": "object"},
    ),
    (
        "a refusal turned round",
        of({"type": ["string", "integer"], "not": {"type": "string"}}),
        of({"type": "integer"}),
        of({"type": "number"}),
    ),
]


def verified(found: Any, given: Any, wire: Any) -> None:
    """Both schemas, read by somebody else, say what the change says of its instance."""
    if found.inside == "" and found.accepted_by is not None:
        said = [Draft202012Validator(schema).is_valid(found.instance) for schema in (given, wire)]
        assert said == [found.accepted_by == "given", found.accepted_by == "wire"], found


@pytest.mark.parametrize(("given", "equal", "changed"), [pytest.param(*row[1:], id=row[0]) for row in EQUAL_AND_NOT])
def test_equal_forms_are_equal_and_near_changes_differ(given: Any, equal: Any, changed: Any) -> None:
    assert change(given, equal) is None
    assert change(equal, given) is None or "description" in str(equal)
    found = change(given, changed)
    assert found is not None
    assert found.accepted_by is not None
    verified(found, given, changed)


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
        (OPTIONAL, strict({"type": ["integer", "null"]})),
        (OPTIONAL, strict({"anyOf": [{"type": "integer"}, {"type": "null"}]})),
        ({"type": "array", "items": CITY}, {"type": "array", "items": {**CITY, "additionalProperties": False}}),
        ({"type": "integer", "default": None}, {"type": "integer"}),
        (strict({"type": "integer", "default": 3}), strict({"type": "integer"})),
        ({"properties": {"a": {"type": "string"}}}, {"type": "object", "properties": {"a": {"type": "string"}}}),
        ({"anyOf": [OPTIONAL, {"type": "null"}]}, {"anyOf": [{"type": "null"}, strict({"type": ["integer", "null"]})]}),
        (
            LIST,
            {
                "type": "object",
                "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
                "required": ["value", "next"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_documented_rewrites_say_the_same(given: Any, wire: Any) -> None:
    assert change(given, wire) is None


@pytest.mark.parametrize(
    ("given", "wire", "pointer", "accepted_by", "instance"),
    [
        (CITY, {"type": "object", "properties": {"city": {"type": "string"}}}, "/required", "wire", {}),
        (CITY, {**CITY, "required": ["city", "country"]}, "/required", "given", {"city": "a"}),
        (CITY, {**CITY, "properties": {}}, "/properties/city", "wire", {"city": None}),
        (CITY, of({"type": "integer"}, "city"), "/properties/city/type", "wire", {"city": 0}),
        (OPTIONAL, strict({"type": "integer"}), "/required", "given", {"a": "a"}),
        (OPTIONAL, strict({"type": ["string", "null"]}), "/properties/b/type", "given", {"a": "a", "b": 0}),
        ({"type": "string", "enum": ["a", "b"]}, {"type": "string"}, "/enum", "wire", ""),
        ({"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["a"]}, "/enum", "given", "b"),
        ({"const": 1}, {"const": True}, "/const", "wire", True),
        ({"type": ["string", "null"]}, {"type": "string"}, "/type", "given", None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}]}, "/anyOf", "given", None),
        ({"type": "array", "items": {"type": "array"}}, {"type": "array", "items": {}}, "/items/type", "wire", [None]),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "additionalProperties": False},
            "/additionalProperties",
            "given",
            {"another": ""},
        ),
        (
            of({"type": "object"}),
            of({"type": "object", "additionalProperties": False}),
            "/properties/p/additionalProperties",
            "given",
            {"p": {"a": 0}},
        ),
        (of({"type": "integer", "minimum": 3}), of({"type": "integer"}), "/properties/p/minimum", "wire", {"p": 0}),
        (
            of({"type": "integer", "maximum": 30_000}),
            of({"type": "integer", "maximum": 29_999}),
            "/properties/p/maximum",
            "given",
            {"p": 30_000},
        ),
        (
            of({"type": "string", "maxLength": 5}),
            of({"type": "string"}),
            "/properties/p/maxLength",
            "wire",
            {"p": "2026-11-22"},
        ),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, "/uniqueItems", "wire", ["a", "a"]),
        ({"type": "array", "maxItems": 4}, {"type": "array"}, "/maxItems", "wire", ["a"] * 5),
        ({"type": "number", "multipleOf": 0.25}, {"type": "number"}, "/multipleOf", "wire", 0.125),
        ({"type": "string", "nullable": True}, {"type": "string"}, "/nullable", "given", None),
    ],
)
def test_a_change_is_found_where_it_is_with_an_instance(
    given: Any, wire: Any, pointer: str, accepted_by: str, instance: Any
) -> None:
    found = change(given, wire)
    assert found is not None
    assert (found.pointer, found.accepted_by, found.instance) == (pointer, accepted_by, instance)
    if "nullable" not in given:  # which only OpenAPI knows
        verified(found, given, wire)


@pytest.mark.parametrize(
    ("given", "wire", "pointer"),
    [
        (CITY, None, ""),
        ({"$ref": "#/$defs/a", "$defs": {"a": CITY}}, {"$ref": "#/$defs/a"}, ""),
        ({"$ref": "https://example.org/s"}, {"type": "string"}, ""),
        ({"$ref": "#"}, {"type": "string"}, ""),
        ({"type": "text"}, {"type": "string"}, ""),
        (of({}, "any"), {"type": "object", "required": ["any"]}, "/properties/any"),
        (CITY, {**CITY, "properties": {**CITY["properties"], "reason": {}}}, "/properties/reason"),
        (of({"type": "string", "description": "IATA"}), of({"type": "string"}), "/properties/p/description"),
        (
            of({"type": "string", "description": "IATA"}),
            of({"type": "string", "description": "A code"}),
            "/properties/p/description",
        ),
        (of({"type": "string", "format": "date"}), of({"type": "string"}), "/properties/p/format"),
        (of({"type": "string"}), of({"type": "string", "format": "date"}), "/properties/p/format"),
        (of({"type": "string", "contentEncoding": "base64"}), of({"type": "string"}), "/properties/p/contentEncoding"),
        (of({"type": "integer", "default": 3}), of({"type": "integer", "default": 4}), "/properties/p/default"),
        (of({"type": "integer", "default": 3}), of({"type": "integer"}), "/properties/p/default"),
        (of({"type": "integer", "examples": [3]}), of({"type": "integer"}), "/properties/p/examples"),
    ],
)
def test_a_change_of_words_has_no_instance(given: Any, wire: Any, pointer: str) -> None:
    found = change(given, wire)
    assert found is not None
    assert (found.pointer, found.accepted_by, found.describe()) == (pointer, None, "")


@pytest.mark.parametrize(
    ("given", "wire"),
    [
        (
            of({"type": ["string", "null"], "description": "End"}),
            of({"anyOf": [{"type": "string", "description": "End"}, {"type": "null"}]}),
        ),
        (
            {**of({"$ref": "#/$defs/c", "description": "Home"}), "$defs": {"c": {**CITY, "description": "A city"}}},
            of({**CITY, "description": "Home"}),
        ),
        (
            of({**CITY, "description": "A city"}),
            {**of({"$ref": "#/$defs/c"}), "$defs": {"c": {**CITY, "description": "A city"}}},
        ),
    ],
)
def test_a_description_counts_where_it_is_the_value(given: Any, wire: Any) -> None:
    assert change(given, wire) is None


@pytest.mark.parametrize(
    ("given", "wire", "dialect", "same"),
    [
        ({"type": "string"}, {"type": "STRING"}, "openapi", True),
        ({"type": "integer", "default": 3}, {"type": "INTEGER"}, "openapi", True),
        ({"type": "integer", "default": 3}, {"type": "INTEGER", "default": 4}, "openapi", False),
        ({"type": "string"}, {"type": "STRING"}, "json-schema", False),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}, "openapi", True),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}, "json-schema", False),
        ({"type": ["string", "null"]}, {"type": "STRING"}, "openapi", False),
        ({"type": "string"}, {"type": "STRING", "nullable": True}, "openapi", False),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "STRING", "nullable": True}, "openapi", True),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}, "json-schema", True),
        ({"enum": ["a", None]}, {"type": "STRING", "enum": ["a"], "nullable": True}, "openapi", True),
        ({"type": "integer", "enum": [1, 2]}, {"type": "INTEGER", "enum": ["2", "1"]}, "openapi", True),
        ({"type": "integer", "enum": [1, 2]}, {"type": "INTEGER", "enum": ["2"]}, "openapi", False),
        ({"type": "array", "minItems": 2}, {"type": "ARRAY", "minItems": "2"}, "openapi", True),
        ({"type": "array", "minItems": 2}, {"type": "ARRAY", "minItems": "3"}, "openapi", False),
        ({"type": "integer"}, {"type": "INTEGER", "format": "int64"}, "openapi", True),
        ({"enum": ["a", "b"]}, {"type": "STRING", "format": "enum", "enum": ["a", "b"]}, "openapi", True),
        ({"enum": ["a", "b"]}, {"type": "STRING", "format": "date", "enum": ["a", "b"]}, "openapi", False),
        (CITY, {**CITY, "propertyOrdering": ["city"]}, "openapi", True),
        ({**CITY, "additionalProperties": False}, CITY, "openapi", True),
        ({**CITY, "additionalProperties": False}, CITY, "json-schema", False),
        (LINE, written_out(), "openapi", True),
    ],
)
def test_the_openapi_dialect_has_words_of_its_own(given: Any, wire: Any, dialect: Dialect, *, same: bool) -> None:
    assert (change(given, wire, dialect) is None) is same


@pytest.mark.parametrize(
    ("recorded", "sent", "same"),
    [
        (OPTIONAL, strict({"type": ["integer", "null"]}), True),
        (strict({"type": ["integer", "null"]}), OPTIONAL, True),
        (strict({"type": ["integer", "null"]}), {**OPTIONAL, "required": ["b"]}, False),
        (strict({"type": ["integer", "null"], "description": "B"}), OPTIONAL, False),
        (OPTIONAL, strict({"type": ["integer", "null"], "description": "B"}), True),
    ],
)
def test_two_schemas_made_of_one_may_each_be_rewritten(recorded: Any, sent: Any, *, same: bool) -> None:
    assert (version_difference(recorded, sent) is None) is same


def test_message_names_instance_accepting_schema_and_place() -> None:
    lost = change(of({"enum": ["a", "b"]}), of({"enum": ["a"]}))
    assert lost is not None
    assert lost.describe() == ': the given schema accepts {"p": "b"}, the one sent does not'
    assert lost.describe("the recorded one", "this") == ': the recorded one accepts {"p": "b"}, this does not'
    wide = change({"type": "string", "maxLength": 300}, {"type": "string"})
    assert wide is not None
    assert wide.describe() == f': the one sent accepts "{"a" * 199}… (303 characters), the given schema does not'


def test_the_same_pair_is_judged_once_and_alike() -> None:
    schema_changes._cached_change.cache_clear()
    first, second = change(CITY, of({"type": "integer"}, "city")), change(CITY, of({"type": "integer"}, "city"))
    assert first == second
    assert schema_changes._cached_change.cache_info().hits == 1
