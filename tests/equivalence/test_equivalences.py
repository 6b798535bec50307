"""Any schema and a rewriting of it that changes nothing are equal; one with a keyword changed is not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from harness.equivalence.schema_changes import change
from harness.equivalence.schema_documents import SchemaDocument
from harness.equivalence.schema_forms import Acceptance, read_form

NAMES = ("a", "b", "c")
SCALARS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda low, span: {"type": "integer", "minimum": low, "maximum": low + span}, *[st.integers(0, 9)] * 2),
    st.builds(lambda low: {"type": "number", "exclusiveMinimum": low}, st.integers(-5, 5)),
    st.builds(
        lambda low, span: {"type": "string", "minLength": low, "maxLength": low + span}, *[st.integers(0, 4)] * 2
    ),
    st.builds(lambda values: {"type": "string", "enum": sorted(values)}, st.sets(st.sampled_from("vwxyz"), min_size=2)),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": "string"}, {"type": ["integer", "null"]}]),
    st.sampled_from([{"type": "string", "pattern": "^[a-f]{2}$"}, {"const": 7}, {"type": "number", "multipleOf": 3}]),
)


def objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    def build(members: dict[str, Any], required: set[str], closed: Any) -> dict[str, Any]:
        names = sorted(required & members.keys())
        return {"type": "object", "properties": members, "required": names, "additionalProperties": closed}

    members = st.dictionaries(st.sampled_from(NAMES), inner, min_size=1)
    return st.builds(build, members, st.sets(st.sampled_from(NAMES)), st.sampled_from([False, {"type": "integer"}]))


SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        objects(inner),
        st.builds(lambda items, most: {"type": "array", "items": items, "maxItems": most}, inner, st.integers(1, 3)),
        st.builds(lambda one: {"anyOf": [one, {"type": "null"}]}, inner),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-6, 20) | st.sampled_from(["", "a", "v", "ab", "abcde", 0.5, 7.0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "d"]), inner, max_size=3),
    max_leaves=5,
)


def respelled(schema: Any, random: Any) -> Any:
    """The schema in other words, chosen for each schema in it."""
    if not isinstance(schema, dict):
        return schema
    node = {key: value for key, value in schema.items() if key not in ("properties", "items", "anyOf")}
    if "properties" in schema:
        entries = [(name, respelled(each, random)) for name, each in schema["properties"].items()]
        random.shuffle(entries)
        node["properties"] = dict(entries)
    if "items" in schema:
        node["items"] = respelled(schema["items"], random)
    if "anyOf" in schema:
        node["anyOf"] = [respelled(each, random) for each in schema["anyOf"]][::-1]
    ways: list[Callable[[dict[str, Any]], dict[str, Any]]] = [
        lambda it: it,
        lambda it: {"allOf": [it]},
        lambda it: {"anyOf": [it]},
        lambda it: {**it, "title": "T", "description": "D"},
        lambda it: {key: value for key, value in it.items() if key != "type"} if "enum" in it else it,
        lambda it: {"anyOf": [{**it, "type": kind} for kind in it["type"]]} if isinstance(it.get("type"), list) else it,
        lambda it: {**it, "required": it["required"][::-1]} if "required" in it else it,
        lambda it: {"enum": [it["const"]]} if "const" in it else it,
    ]
    return random.choice(ways)(node)


def places(schema: Any) -> list[dict[str, Any]]:
    """The schemas in it that a value can get to: not those of properties without instances."""
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    inner += [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    return [schema, *(place for each in inner for place in places(each))]


def mutated(schema: Any, random: Any) -> Any:
    """The schema with one keyword, that says something, lost or moved."""
    changed = copy.deepcopy(schema)
    moves: list[tuple[dict[str, Any], str]] = [
        (place, key)
        for place in places(changed)
        for key in ("minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "enum", "pattern", "maxItems")
        if key in place and not (key == "minLength" and not place[key])
    ]
    moves += [(place, "required") for place in places(changed) if place.get("required")]
    if not moves:
        return {"type": "array", "items": changed}
    place, key = random.choice(moves)
    if key in ("enum", "required"):
        place[key] = place[key][1:]
    else:
        del place[key]
    return changed


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEMAS, st.randoms(use_true_random=False))
def test_a_schema_is_equal_to_itself_in_other_words(schema: dict[str, Any], random: Any) -> None:
    assert change(schema, respelled(schema, random)) is None


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEMAS, st.randoms(use_true_random=False))
def test_a_schema_is_not_equal_to_one_that_lost_a_keyword(schema: dict[str, Any], random: Any) -> None:
    changed = mutated(schema, random)
    found = change(schema, changed)
    assert found is not None
    assert found.accepted_by is not None
    if not found.inside:
        said = [Draft202012Validator(each).is_valid(found.instance) for each in (schema, changed)]
        assert said == [found.accepted_by == "given", found.accepted_by == "wire"]


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEMAS, st.lists(VALUES, min_size=5, max_size=20))
def test_the_normal_form_accepts_what_the_schema_does(schema: dict[str, Any], values: list[Any]) -> None:
    accepted = Acceptance(read_form(SchemaDocument(schema, "json-schema", nullable=False)))
    plain = Draft202012Validator(schema)
    assert [accepted(value) for value in values] == [plain.is_valid(value) for value in values]
