"""Schemas and patterns of strangers: nothing is fetched or opened, and nothing takes for ever."""

from __future__ import annotations

import contextlib
import copy
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harness.apis.anthropic.checks import example_limits
from harness.documents.json_schema import CostlyPattern, UndecidedSchema, Validator, is_simple, lost_reference, search
from harness.equivalence.schema_changes import accepts, change
from harness.equivalence.schema_instances import matching
from harness.model.messages import JSON
from harness.rules import instructions as json_mode
from harness.scenarios.match import TurnOutcome, mismatches
from harness.scenarios.schema import Expectation
from tests.cli.conftest import Command, folder, harness  # noqa: F401 - fixtures

Schema = dict[str, JSON]

TEXT: Schema = {"type": "string"}
INSIDE: list[Schema] = [
    {"$ref": "#/$defs/a", "$defs": {"a": TEXT}},
    {"$ref": "#/anyOf/0/items", "anyOf": [{"items": TEXT}, {}]},
    {"$ref": "#named", "$defs": {"a": {"$anchor": "named", "type": "string"}}},
    {"$dynamicRef": "#node", "$defs": {"a": {"$dynamicAnchor": "node", "type": "string"}}},
    {"$id": "https://example.com/a", "$ref": "https://example.com/a#/$defs/a", "$defs": {"a": TEXT}},
    {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": TEXT}},
]
KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
OUTSIDE = ("http://127.0.0.1:9/a", "file:///etc/hostname", "/etc/hostname", "other.json", "#/$defs/none", "http://[")

CATASTROPHIC = ("^(a|a)*$", "^(?=(a|aa)+$)b", r"^(a|a)*\1$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(?:a{999}){65535}")
LONG = "a" * 40 + "!"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object, **__: object) -> None:
        pytest.fail("something was opened")

    monkeypatch.setattr(urllib.request, "urlopen", opened)


@pytest.mark.parametrize("schema", INSIDE)
def test_a_reference_inside_the_schema_is_followed(schema: Schema) -> None:
    assert lost_reference(schema) is None
    assert Validator(schema).is_valid("a")
    assert not Validator(schema).is_valid(1)


@pytest.mark.parametrize("keyword", KEYWORDS)
@pytest.mark.parametrize("reference", OUTSIDE)
def test_an_outside_reference_is_found(keyword: str, reference: str, offline: None) -> None:
    assert lost_reference({"properties": {"q": {keyword: reference}}}) == (("properties", "q", keyword), reference)


def test_what_only_looks_like_a_reference_is_none() -> None:
    assert lost_reference({"const": {"$ref": "http://a"}, "properties": {"$ref": TEXT, "enum": TEXT}}) is None


def problem(schema: Schema, value: JSON) -> object:
    return json_mode._problem(f'"{value}"', schema)


def example(schema: Schema, value: JSON) -> object:
    return [*example_limits({"input_examples": [value]}, schema, "/tools/0/input_schema")]


def expected(schema: Schema, value: JSON) -> object:
    return mismatches(Expectation.model_validate({"json_schema": {}}), TurnOutcome(text=f'"{value}"')) or mismatches(
        Expectation.model_construct(json_schema=schema), TurnOutcome(text=f'"{value}"')
    )


def compared(schema: Schema, _: JSON) -> object:
    other: Schema = {**schema, "type": "string"}
    return change(schema, other, "json-schema")


PLACES: list[Callable[[Schema, JSON], object]] = [problem, example, expected, compared, accepts]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("keyword", KEYWORDS)
def test_whoever_reads_a_schema_opens_nothing(
    place: Callable[[Schema, JSON], object], keyword: str, offline: None
) -> None:
    for reference in OUTSIDE:
        for draft in ("2020-12", "2019-09"):
            place({"$schema": f"https://json-schema.org/draft/{draft}/schema", keyword: reference}, "a")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_no_pattern_takes_for_ever(place: Callable[[Schema, JSON], object], pattern: str) -> None:
    began = time.monotonic()
    for draft in ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"):
        place({"$schema": draft, "pattern": pattern}, LONG)
        place({"anyOf": [{"$schema": draft, "pattern": pattern}]}, LONG)
    matching(pattern, 40)

    assert time.monotonic() - began < 10


def test_names_of_properties_are_matched_within_bounds() -> None:
    for pattern in CATASTROPHIC[:2]:
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            schema: Schema = {"patternProperties": {pattern: {}}, keyword: False}
            with contextlib.suppress(UndecidedSchema):
                assert not Validator(schema).is_valid({LONG: 1})

    closed: Schema = {"properties": {"a": {}}, "patternProperties": {"^x-": TEXT}, "additionalProperties": False}
    assert Validator(closed).is_valid({"a": 1, "x-a": "b"})
    assert not Validator(closed).is_valid({"x-a": 1})
    assert [*Validator(closed).errors({"b": 1})] == [
        ((), "Additional properties are not allowed, and no pattern matches 'b'")
    ]
    assert not Validator({**closed, "additionalProperties": TEXT}).is_valid({"b": 1})
    assert not Validator({"patternProperties": {"^x-": {}}, "unevaluatedProperties": False}).is_valid({"b": 1})


def test_references_that_multiply_end() -> None:
    levels: Schema = {f"l{at}": {"allOf": [{"$ref": f"#/$defs/l{at + 1}"}] * 2} for at in range(40)}
    with pytest.raises(UndecidedSchema, match="10000 references"):
        Validator({"$ref": "#/$defs/l0", "$defs": {**levels, "l40": TEXT}}).is_valid("a")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"^[\w.]+@\w+$", "a.b@c", True),
        (r"^(?!\s*$).+", "a" * 5000, True),
        (r"^(?!\s*$).+", "  ", False),
        (r"^(?=.*[A-Z])(?=.*\d).{8,}$", "Passw0rdX", True),
        (r"(?<![A-Z])\d{2,4}\Z", "a123", True),
        ("a", "\ud800a", True),
        ("^(a+)+$", "a" * 10**6, True),
    ],
)
def test_patterns_match_what_they_say(pattern: str, text: str, found: bool) -> None:
    assert search(pattern, text) is found


def test_an_expectation_with_a_costly_pattern_says_so() -> None:
    wanted = Expectation.model_validate({"text": {"matches": "(?=(a|a)+$)b"}})

    (mismatch,) = mismatches(wanted, TurnOutcome(text=LONG))

    assert "may take too long on a text of 41 characters" in mismatch.message
    with pytest.raises(CostlyPattern):
        search("(?=(a|a)+$)b", LONG)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "A place",
    "description": "Where to look.",
    "properties": {
        "city": {"type": "string", "enum": ["Oslo", None, 3]},
        "near": {"type": "array", "items": {"type": "object", "properties": {}, "additionalProperties": True}},
        "unit": {"type": ["string", "null"], "anyOf": [{"minLength": 1, "maxLength": 2}], "default": "km"},
        "range": {"oneOf": [{"minimum": 0, "maximum": 1.5}], "allOf": [{"const": 1}], "minItems": 0, "maxItems": 2},
    },
    "required": ["city", "near"],
    "additionalProperties": False,
}

VALUES: list[JSON] = [
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "object",
    "text",
    [],
    [{}],
    [{"type": "any"}],
    ["string", "object"],
    ["string", "string"],
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


def with_value(at: tuple[str | int, ...], value: JSON) -> JSON:
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
    made = [with_value(at, value) for value in VALUES]
    assert all(is_schema(each) for each in made if is_simple(each))
    assert at[-1] in ("const", "default") or not all(map(is_simple, made))


def test_common_schemas_are_simple_and_others_are_not() -> None:
    assert is_simple(SCHEMA)
    others: list[dict[str, Any]] = [{"$ref": "#"}, {"anyOf": []}, {"type": []}, {"pattern": "("}, {"new": 1}]
    for more in others:
        assert not is_simple({**SCHEMA, **more})
    assert not is_simple(True)
