from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model import JSON, StopReason, ToolCall
from harness.scenarios.match import Mismatch, includes, mismatches
from harness.scenarios.schema import Expectation

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def found(expectation: dict[str, Any], **outcome: Any) -> list[Mismatch]:
    defaults: dict[str, Any] = {"text": "", "calls": [], "stop_reason": StopReason.END_TURN, "error": None}
    return mismatches(Expectation.model_validate(expectation, strict=False), **defaults | outcome)


def call(name: str, **arguments: JSON) -> ToolCall:
    return ToolCall("id", name, arguments)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": {"b": {"c": [1], "d": 0}}}, {"a": {"b": {"c": [1]}}}),
        ([{"a": 1, "b": 2}], [{"b": 2}]),
        ({"a": 1}, {}),
        (1, 1.0),
        (1.0, 1),
        (9007199254740993, 9007199254740992.0),
        (None, None),
        ({"a": None}, {"a": None}),
    ],
)
def test_what_is_included(actual: JSON, expected: JSON) -> None:
    assert includes(actual, expected)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ({"a": 1}, {"a": 2}),
        ({}, {"a": None}),
        ({"a": [1, 2]}, {"a": [1]}),
        ([1, 2], [2, 1]),
        (True, 1),
        (0, False),
        (1.0, True),
        ("1", 1),
        (None, False),
        (None, ""),
        ([], {}),
        ({}, []),
        (9007199254740993, 9007199254740992),
        (10**400, 1e308),
        (1e308, 10**400),
        ("e\u0301", "\u00e9"),
    ],
)
def test_what_is_not_included(actual: JSON, expected: JSON) -> None:
    assert not includes(actual, expected)


@given(JSON_VALUES)
def test_everything_includes_itself(value: JSON) -> None:
    assert includes(value, value)


@given(st.dictionaries(st.text(), JSON_VALUES), st.text(), JSON_VALUES)
def test_more_keys_do_not_matter_and_missing_ones_do(value: dict[str, JSON], key: str, more: JSON) -> None:
    rest = {name: each for name, each in value.items() if name != key}
    assert includes({**rest, key: more}, rest)
    assert not includes(rest, {**rest, key: more})


@pytest.mark.parametrize(
    ("expectation", "outcome", "mismatch"),
    [
        (
            {"text": {"equals": "Hi"}},
            {"text": "Hi!"},
            Mismatch("text.equals", "Hi!", "Hi", "the text is another one."),
        ),
        (
            {"text": {"contains": "18"}},
            {"text": "19 °C"},
            Mismatch("text.contains", "19 °C", "18", "the text does not contain '18'."),
        ),
        (
            {"text": {"contains": ["°C", "18"]}},
            {"text": "19 °C"},
            Mismatch("text.contains[1]", "19 °C", "18", "the text does not contain '18'."),
        ),
        (
            {"text": {"matches": "^[0-9]+$"}},
            {"text": "19 °C"},
            Mismatch("text.matches", "19 °C", "^[0-9]+$", "nothing in the text matches '^[0-9]+$'."),
        ),
        (
            {"calls": [{"name": "look"}]},
            {"calls": [call("see")]},
            Mismatch("calls[0].name", ["see"], "look", "no call of 'look'."),
        ),
        (
            {"calls": [{"name": "look", "arguments": {"at": 1}}]},
            {"calls": [call("see", at=1), call("look", at=2)]},
            Mismatch("calls[0].arguments", [{"at": 2}], {"at": 1}, "no call of 'look' has these arguments."),
        ),
        (
            {"json_schema": {"type": "object"}},
            {"text": "[1]"},
            Mismatch("json_schema", [1], {"type": "object"}, "at /: [1] is not of type 'object'."),
        ),
        (
            {"json_schema": {"properties": {"a": {"items": {"type": "null"}}}}},
            {"text": '{"a": [null, 3]}'},
            Mismatch(
                "json_schema",
                {"a": [None, 3]},
                {"properties": {"a": {"items": {"type": "null"}}}},
                "at /a/1: 3 is not of type 'null'.",
            ),
        ),
        (
            {"json_schema": {}},
            {"text": "NaN"},
            Mismatch("json_schema", "NaN", {}, "the text is not JSON: NaN is not JSON."),
        ),
        (
            {"stop_reason": "refusal"},
            {"stop_reason": StopReason.END_TURN},
            Mismatch("stop_reason", "end_turn", "refusal", "the model stopped for end_turn, not for refusal."),
        ),
        (
            {"stop_reason": "refusal"},
            {"stop_reason": None},
            Mismatch("stop_reason", None, "refusal", "the model stopped for no reason, not for refusal."),
        ),
        (
            {"error": "iteration-limit"},
            {},
            Mismatch("error", None, "iteration-limit", "the turn ended in no error, not in iteration-limit."),
        ),
    ],
)
def test_a_mismatch_says_what_and_where(
    expectation: dict[str, Any], outcome: dict[str, Any], mismatch: Mismatch
) -> None:
    assert found(expectation, **outcome) == [mismatch]


def test_all_mismatches_are_found() -> None:
    expectation = {"text": {"contains": "a", "matches": "b"}, "calls": [{"name": "c"}], "stop_reason": "tool_use"}
    paths = [each.path for each in found(expectation, text="x")]
    assert paths == ["text.contains", "text.matches", "calls[0].name", "stop_reason"]


def test_what_holds_gives_nothing() -> None:
    expectation: dict[str, Any] = {
        "text": {"contains": ["moons"], "matches": "2"},
        "calls": [{"name": "look", "arguments": {"at": {"planet": "Mars"}}}, {"name": "look"}],
        "json_schema": {"type": "object", "required": ["moons"]},
        "stop_reason": "end_turn",
    }
    calls = [call("look", at={"planet": "Mars", "year": 2026}, zoom=3)]
    assert found(expectation, text='{"moons": 2}', calls=calls) == []
    assert found({"error": "iteration-limit"}, error="iteration-limit", stop_reason=None) == []
    assert found({}) == []


@pytest.mark.parametrize("text", ["", "{", '{"a": 1} ', "[" * 100_000, '{"a": 1}x', "1" * 5000])
def test_any_text_can_be_held_against_a_schema(text: str) -> None:
    is_object = text == '{"a": 1} '
    assert (found({"json_schema": {"type": "object"}}, text=text) == []) is is_object
