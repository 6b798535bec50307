from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from pydantic import ValidationError

from harness.apis.condition import Condition
from harness.apis.matching import ConditionFilter, Conditions, RequestData, SchemaPlaces

PLACES = SchemaPlaces(("tools[].input_schema",), ("format.schema",))
BODY: dict[str, Any] = {
    "a": {"b": 1, "none": None},
    "text": "hello",
    "flag": True,
    "list": [{"role": "user"}, {"role": "system", "n": 3}],
    "deep": [{"in": [{"a": 2, "b": 4}]}, {"in": [{"a": 2, "b": 2}, {"a": 1, "b": 2}], "c": 3}],
    "tools": [
        {"strict": True, "input_schema": {"type": "object", "properties": {"x": {"minItems": 2}}}},
        {"input_schema": {"anyOf": [{"pattern": "a"}], "properties": {"pattern": {}}}},
    ],
    "format": {"schema": {"$defs": {"d": {"format": "email", "default": None}}}},
    "generationConfig": {"thinking_config": {"level": "LOW"}},
}


def where(*conditions: dict[str, Any]) -> str | None:
    made = [Condition.model_validate_json(json.dumps(each)) for each in conditions]
    return Conditions(made).first_match(RequestData(BODY, {"x-beta": "one"}, PLACES))


@pytest.mark.parametrize(
    ("condition", "pointer"),
    [
        ({"at": "$", "unknown": [each for each in BODY if each != "flag"]}, "/flag"),
        ({"at": "$", "unknown": [*BODY]}, None),
        ({"at": "a.b", "is": 1}, "/a/b"),
        ({"at": "a.b", "is": 1.0}, "/a/b"),
        ({"at": "a.b", "is": True}, None),
        ({"at": "flag", "is": 1}, None),
        ({"at": "a.none", "is": None}, "/a/none"),
        ({"at": "a.none", "there": True}, None),
        ({"at": "a.none", "there": False}, "/a/none"),
        ({"at": "a.none", "out": [1]}, None),
        ({"at": "a.none.x", "there": False}, "/a/none"),
        ({"at": "a.c", "there": False}, "/a"),
        ({"at": "z.y.x", "there": False}, ""),
        ({"at": "a.c", "is": None}, None),
        ({"at": "a.b", "in": [2, 1]}, "/a/b"),
        ({"at": "a.b", "out": [2]}, "/a/b"),
        ({"at": "a.b", "out": [1]}, None),
        ({"at": "a.c", "out": [1]}, None),
        ({"at": "a.b", "over": 0}, "/a/b"),
        ({"at": "a.b", "over": 1}, None),
        ({"at": "flag", "over": 0}, None),
        ({"at": "a.b", "under": 2}, "/a/b"),
        ({"at": "text", "longer": 4}, "/text"),
        ({"at": "list", "longer": 2}, None),
        ({"at": "text", "like": "h.*o"}, "/text"),
        ({"at": "text", "like": "h"}, None),
        ({"at": "text", "unlike": "h"}, "/text"),
        ({"at": "text", "unlike": "h.*o"}, None),
        ({"at": "a.b", "unlike": "h"}, None),
        ({"at": "a.b", "not_kind": ["string", "array"]}, "/a/b"),
        ({"at": "a.b", "not_kind": ["number"]}, None),
        ({"at": "a.none", "not_kind": ["string"]}, None),
        ({"at": "a.b", "only": [1, 2]}, "/a/b"),
        ({"at": "a.b", "only": [2]}, None),
        ({"at": "a.none", "only": [2]}, "/a/none"),
        ({"at": "a.c", "only": [2]}, "/a"),
        ({"at": "a.c", "empty": True}, "/a"),
        ({"at": "a.none", "empty": True}, "/a/none"),
        ({"at": "text", "empty": True}, None),
        ({"at": "a", "unknown": ["b"]}, None),
        ({"at": "a", "unknown": ["none"]}, "/a/b"),
        ({"at": "a", "kind": "object"}, "/a"),
        ({"at": "flag", "kind": "number"}, None),
        ({"at": "a.none", "kind": "null"}, "/a/none"),
        ({"at": "list", "kind": "array"}, "/list"),
        ({"at": "text", "kind": "string"}, "/text"),
        ({"at": "a.b", "kind": "number"}, "/a/b"),
        ({"at": "flag", "kind": "boolean"}, "/flag"),
        ({"at": "list[].role", "is": "system"}, "/list/1/role"),
        ({"at": "list[0].role", "is": "system"}, None),
        ({"at": "list[-1].role", "is": "system"}, "/list/1/role"),
        ({"at": "list[7].role", "there": False}, ""),
        ({"at": "list[].n", "there": False}, None),
        ({"at": "list[].m", "there": False}, "/list/0"),
        ({"at": "text[].x", "there": True}, None),
        ({"at": "generationConfig.thinkingConfig.level", "is": "LOW"}, "/generationConfig/thinking_config/level"),
        ({"schema": "tools", "keyword": "minItems", "over": 1}, "/tools/0/input_schema/properties/x/minItems"),
        ({"schema": "tools", "keyword": "pattern", "there": True}, "/tools/1/input_schema/anyOf/0/pattern"),
        ({"schema": "strict-tools", "keyword": "pattern", "there": True}, None),
        (
            {"schema": "strict-tools", "keyword": "minItems", "there": True},
            "/tools/0/input_schema/properties/x/minItems",
        ),
        ({"schema": "tools", "keyword": "anyOf", "root": True, "there": True}, "/tools/1/input_schema/anyOf"),
        ({"schema": "tools", "keyword": "pattern", "root": True, "there": True}, None),
        ({"schema": "tools", "keyword": "type", "root": True, "there": False}, "/tools/1/input_schema"),
        ({"schema": "response", "keyword": "format", "is": "email"}, "/format/schema/$defs/d/format"),
        ({"schema": "response", "keyword": "default", "there": True}, "/format/schema/$defs/d/default"),
        ({"header": "X-Beta", "is": "one"}, ""),
        ({"header": "x-gamma", "there": False}, ""),
    ],
)
def test_a_condition_is_met_or_not(condition: dict[str, Any], pointer: str | None) -> None:
    assert where(condition) == pointer


CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system"},
        {"role": "user", "prefix": None, "parts": [{"call": 1}, {"call": 2}, {"media": 3}]},
        {"role": "tool", "args": {"x": [{"$ref": "#"}]}, "id": "a"},
        {"role": "user", "prefix": True, "id": "a", "parts": [{"call": 4}, {"media": 5}]},
        {"role": "user", "tool": "f"},
    ],
    "tools": [
        {"name": "g", "defer": True, "input_schema": {"properties": {"a": True, "b": {"enum": ["1", 2]}}}},
        {"name": "h", "defer": True, "input_schema": {"required": ["a", "b"], "properties": {"a": {}}}},
        {"input_schema": {"properties": {"x": {"anyOf": [], "title": "T", "nullable": None}, "y": {"anyOf": []}}}},
    ],
    "format": {"schema": {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}},
}


@pytest.mark.parametrize(
    ("conditions", "pointer"),
    [
        ([{"at": "messages[next].role", "is": "user"}, {"at": "messages[].role", "is": "tool"}], "/messages/3/role"),
        ([{"at": "messages[].role", "is": "user"}, {"at": "messages[next].role", "is": "user"}], "/messages/3/role"),
        ([{"at": "messages[].role", "is": "user"}, {"at": "messages[next].role", "is": "system"}], None),
        ([{"at": "messages[].role", "is": "system"}, {"at": "messages[later].role", "is": "tool"}], "/messages/0/role"),
        ([{"at": "messages[].role", "is": "tool"}, {"at": "messages[later].role", "is": "system"}], None),
        ([{"at": "messages[next].role", "is": "user"}], None),
        ([{"at": "messages[1:].role", "is": "system"}], None),
        ([{"at": "messages[1:].role", "is": "user"}], "/messages/1/role"),
        ([{"at": "messages[].args.**.$ref", "there": True}], "/messages/2/args/x/0/$ref"),
        ([{"at": "messages[].args.**.$id", "there": True}], None),
        ([{"at": "messages[-1].prefix", "not_in": [True]}], "/messages/4"),
        ([{"at": "messages[1].prefix", "not_in": [True]}], "/messages/1/prefix"),
        ([{"at": "messages[3].prefix", "not_in": [True]}], None),
        (
            [
                {"at": "messages[].parts[*].media", "there": True},
                {"at": "messages[].parts[].call", "there": True},
                {"at": "messages[].parts[later].call", "there": True},
            ],
            "/messages/1/parts/2/media",
        ),
        ([{"at": "tools[*].defer", "every": [True]}], None),
        ([{"at": "messages[*].role", "every": ["system", "user", "tool"]}], "/messages/0/role"),
        ([{"at": "no[*].role", "every": [True]}], None),
        ([{"at": "messages[*].id", "repeated": True}], "/messages/3/id"),
        ([{"at": "tools[*].name", "repeated": True}], None),
        ([{"at": "messages[*].tool", "outside": "tools[*].name"}], "/messages/4/tool"),
        ([{"at": "tools[*].name", "outside": "messages[*].tool"}], "/tools/0/name"),
        ([{"at": "messages[*].tool", "outside": "messages[*].tool"}], None),
        ([{"schema": "tools", "keyword": "properties", "members": "boolean"}], "/tools/0/input_schema/properties"),
        ([{"schema": "tools", "keyword": "enum", "members": "number"}], "/tools/0/input_schema/properties/b/enum"),
        ([{"schema": "tools", "keyword": "enum", "members": "null"}], None),
        ([{"schema": "tools", "keyword": "required", "outside": "properties"}], "/tools/1/input_schema/required"),
        ([{"schema": "response", "keyword": "required", "outside": "properties"}], None),
        ([{"schema": "response", "keyword": "properties", "outside": "required"}], "/format/schema/properties"),
        ([{"schema": "tools", "keyword": "anyOf", "beside": []}], "/tools/2/input_schema/properties/x/anyOf"),
        ([{"schema": "tools", "keyword": "anyOf", "beside": ["title"]}], None),
    ],
)
def test_conditions_about_other_places(conditions: list[dict[str, Any]], pointer: str | None) -> None:
    made = [Condition.model_validate_json(json.dumps(each)) for each in conditions]
    asked = RequestData(CHAT, {}, PLACES)
    assert Conditions(made).first_match(asked) == pointer
    assert pointer is None or ConditionFilter([Conditions(made)], PLACES).select(asked) == [0]


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def _image(width: int, height: int) -> str:
    header = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBBI", 13, b"IHDR", width, height, 1, 0, 0, 0, 0, 0)
    return base64.b64encode(header).decode()


_ASSET = {"type": "object", "description": "An asset.", "properties": {"x": {"type": "string"}}}
_LOOP = {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}
_DEFS = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": _nested(2)}}


@pytest.mark.parametrize(
    ("condition", "body", "is_met"),
    [
        ({"at": "tools", "bytes": 8}, {"tools": ["é", "x"]}, True),
        ({"at": "tools", "bytes": 10}, {"tools": ["é", "x"]}, False),
        ({"at": "image.**", "pixels": 8000}, {"image": {"data": _image(10, 8001)}}, True),
        ({"at": "image.**", "pixels": 8000}, {"image": {"data": _image(8000, 10)}}, False),
        ({"at": "image.**", "pixels": 8000}, {"image": ["no image", "iVBORw0KGgo!", "iVBORw0KGgo", 9000]}, False),
        ({"schema": "response", "keyword": "properties", "root": True, "deeper": 5}, _nested(6), True),
        ({"schema": "response", "keyword": "properties", "root": True, "deeper": 5}, _nested(5), False),
        ({"schema": "response", "keyword": "properties", "root": True, "deeper": 2}, _DEFS, True),
        ({"schema": "response", "keyword": "properties", "root": True, "deeper": 3}, _DEFS, False),
        ({"schema": "response", "keyword": "properties", "root": True, "deeper": 99}, _LOOP, True),
        (
            {"schema": "response", "keyword": "$ref", "shared": ["description"]},
            {"properties": {"a": {"$ref": "#/$defs/A", "description": "Mine."}}, "$defs": {"A": _ASSET}},
            True,
        ),
        (
            {"schema": "response", "keyword": "$ref", "shared": ["description"]},
            {"properties": {"a": {"$ref": "#/$defs/A", "title": "Mine."}}, "$defs": {"A": _ASSET}},
            False,
        ),
        (
            {"schema": "response", "keyword": "$ref", "shared": ["description"]},
            {"properties": {"a": {"$ref": "#/$defs/B", "description": "Mine."}}, "$defs": {"A": _ASSET}},
            False,
        ),
    ],
)
def test_measures_of_a_value_and_of_a_schema(condition: dict[str, Any], body: dict[str, Any], is_met: bool) -> None:
    asked = RequestData({"format": {"schema": body}} if "schema" in condition else body, {}, PLACES)
    assert (Conditions([Condition.model_validate_json(json.dumps(condition))]).first_match(asked) is not None) is is_met


def test_a_measure_of_a_schema_needs_a_schema() -> None:
    with pytest.raises(ValidationError, match="deeper is about a schema: write schema and keyword"):
        Condition.model_validate_json('{"at": "tools", "deeper": 3}')


@pytest.mark.parametrize(
    ("conditions", "pointers"),
    [
        ([{"at": "messages[].role", "is": "user"}], ["/messages/1/role", "/messages/3/role", "/messages/4/role"]),
        (
            [{"at": "messages[].id", "there": False}, {"at": "messages[].role", "is": "user"}],
            ["/messages/1", "/messages/4"],
        ),
        (
            [{"at": "messages[].parts[].media", "there": False}, {"at": "messages[].parts[].call", "over": 1}],
            ["/messages/1/parts/1", "/messages/3/parts/0"],
        ),
        ([{"at": "messages[].role", "is": "user"}, {"at": "tools[*].name", "is": "i"}], []),
        (
            [{"at": "messages[]", "unknown": ["role", "parts", "prefix", "id"]}],
            ["/messages/2/args", "/messages/4/tool"],
        ),
        (
            [{"at": "tools[].input_schema.required", "empty": True}, {"at": "tools[].name", "only": ["g"]}],
            ["/tools/0/input_schema", "/tools/2/input_schema"],
        ),
    ],
)
def test_every_place_that_meets_the_first_condition_is_found(
    conditions: list[dict[str, Any]], pointers: list[str]
) -> None:
    made = Conditions([Condition.model_validate_json(json.dumps(each)) for each in conditions])
    asked = RequestData(CHAT, {}, PLACES)
    assert [*made.places(asked)] == pointers
    assert not pointers or ConditionFilter([made], PLACES).select(asked) == [0]


def test_conditions_about_one_element_are_tried_on_each_element_alone() -> None:
    both = [Condition(at="messages[].args", there=True), Condition(at="messages[].tool", there=True)]
    local, other = Conditions(both), Conditions([*both, Condition(at="messages", there=True)])
    assert ConditionFilter([local, other], PLACES).select(RequestData(CHAT, {}, PLACES)) == [1]


def test_all_hold_together_and_the_first_says_where() -> None:
    assert where({"at": "a.b", "is": 1}, {"at": "flag", "is": True}) == "/a/b"
    assert where({"at": "a.b", "is": 1}, {"at": "flag", "is": False}) is None
    assert where() is None


@pytest.mark.parametrize(
    ("conditions", "pointer"),
    [
        ([{"at": "list[].role", "is": "system"}, {"at": "list[].n", "is": 3}], "/list/1/role"),
        ([{"at": "list[].role", "is": "user"}, {"at": "list[].n", "is": 3}], None),
        ([{"at": "list[].role", "is": "user"}, {"at": "list[*].n", "is": 3}], "/list/0/role"),
        ([{"at": "list[].role", "is": "user"}, {"at": "list[1].n", "is": 3}], "/list/0/role"),
        ([{"at": "list[].role", "is": "user"}, {"at": "list[].n", "there": False}], "/list/0/role"),
        ([{"at": "list[].n", "there": False}, {"at": "list[].role", "is": "user"}], "/list/0"),
        ([{"at": "list[].n", "there": False}, {"at": "list[].role", "is": "system"}], None),
        ([{"at": "list[].n", "there": False}], None),
        ([{"at": "deep[].in[].a", "is": 1}, {"at": "deep[].in[].b", "is": 2}], "/deep/1/in/1/a"),
        ([{"at": "deep[].in[].a", "is": 1}, {"at": "deep[].c", "is": 3}], "/deep/1/in/1/a"),
        ([{"at": "deep[].in[].b", "is": 4}, {"at": "deep[].c", "is": 3}], None),
        ([{"at": "deep[].in[].b", "is": 4}, {"at": "list[].n", "is": 3}], "/deep/0/in/0/b"),
        (
            [
                {"schema": "tools", "keyword": "minItems", "there": True},
                {"schema": "tools", "keyword": "items", "there": False},
            ],
            "/tools/0/input_schema/properties/x/minItems",
        ),
        (
            [
                {"schema": "tools", "keyword": "minItems", "there": True},
                {"schema": "tools", "keyword": "pattern", "there": True},
            ],
            None,
        ),
        (
            [
                {"schema": "tools", "keyword": "properties", "root": True, "there": True},
                {"schema": "tools", "keyword": "pattern", "there": True},
            ],
            "/tools/1/input_schema/properties",
        ),
        (
            [{"schema": "tools", "keyword": "minItems", "there": True}, {"at": "tools[].strict", "is": True}],
            "/tools/0/input_schema/properties/x/minItems",
        ),
        ([{"schema": "tools", "keyword": "anyOf", "there": True}, {"at": "tools[].strict", "is": True}], None),
        (
            [{"schema": "tools", "keyword": "anyOf", "there": True}, {"at": "tools[].strict", "there": False}],
            "/tools/1/input_schema/anyOf",
        ),
        (
            [{"schema": "tools", "keyword": "anyOf", "there": True}, {"at": "tools[*].strict", "is": True}],
            "/tools/1/input_schema/anyOf",
        ),
    ],
)
def test_conditions_of_one_fact_are_about_the_same_elements(conditions: list[dict[str, Any]], pointer: str) -> None:
    assert where(*conditions) == pointer


def test_an_invalid_place_is_refused() -> None:
    for place in ("a[x]", "a..b", "a[].", "[]", "a[]b", ""):
        with pytest.raises(ValidationError):
            Condition.model_validate_json(json.dumps({"at": place, "is": 1}))
