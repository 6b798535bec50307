from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.documents.json_schema import misfits
from harness.model.messages import JSON, StopReason, ToolCall
from harness.scenarios.match import Mismatch, TurnError, TurnOutcome, includes, mismatches
from harness.scenarios.schema import Expectation

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def found(expectation: dict[str, Any], **outcome: Any) -> list[Mismatch]:
    defaults: dict[str, Any] = {"stop_reason": StopReason.END_TURN}
    return mismatches(Expectation.model_validate(expectation, strict=False), TurnOutcome(**defaults | outcome))


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


RANGE = {"called": {"look": {"min": 0, "max": 1}, "see": {"min": 1, "max": 3}}}
ITEMS = {"json_schema": {"properties": {"a": {"items": {"type": "null"}}}}}
BROKEN = "connection-failed or malformed-response"
EITHER = {"error": {"name": BROKEN.split(" or "), "status": 200}}


def failing(name: str, **about: Any) -> dict[str, Any]:
    return {"error": {"name": name, **about}}


@pytest.mark.parametrize(
    ("expectation", "outcome", "mismatch"),
    [
        ({"text": {"equals": "Hi"}}, {"text": "Hi!"}, "text.equals: the text differs."),
        ({"text": {"contains": "18"}}, {"text": "19"}, "text.contains: the text does not contain '18'."),
        ({"text": {"contains": ["9", "18"]}}, {"text": "19"}, "text.contains[1]: the text does not contain '18'."),
        ({"text": {"matches": "^a+$"}}, {"text": "b"}, "text.matches: nothing in the text matches '^a+$'."),
        ({"text": {"not_contains": ["!", "Hi"]}}, {"text": "Hi"}, "text.not_contains[1]: the text contains 'Hi'."),
        (
            {"not_called": ["see", "look"]},
            {"calls": [call("look"), call("look")]},
            "not_called[1]: 'look' is called 2 times.",
        ),
        (
            {"called": {"look": 2, "see": 0}},
            {"calls": [call("look")]},
            "called.look: 'look' is called once, not 2 times.",
        ),
        ({"called": {"look": {"min": 1}}}, {}, "called.look: 'look' is called 0 times, at least 1 expected."),
        (
            RANGE,
            {"calls": [call("look"), call("look"), call("see")]},
            "called.look: 'look' is called 2 times, at least 0 and at most 1 expected.",
        ),
        ({"calls": [{"name": "look"}]}, {"calls": [call("see")]}, "calls[0].name: no call of 'look'."),
        (
            {"calls": [{"name": "look", "arguments": {"at": 1}}]},
            {"calls": [call("see", at=1), call("look", at=2)]},
            "calls[0].arguments: no call of 'look' has these arguments.",
        ),
        ({"json_schema": {"type": "object"}}, {"text": "[1]"}, "json_schema: at /: [1] is not of type 'object'."),
        (ITEMS, {"text": '{"a": [null, 3]}'}, "json_schema: at /a/1: 3 is not of type 'null'."),
        ({"json_schema": {}}, {"text": "NaN"}, "json_schema: the text is not JSON: NaN is not JSON."),
        ({"stop_reason": "refusal"}, {}, "stop_reason: the model stopped for end_turn, not for refusal."),
        (
            {"stop_reason": "refusal"},
            {"stop_reason": None},
            "stop_reason: the model stopped for no reason, not for refusal.",
        ),
        ({"error": "iteration-limit"}, {}, "error: the turn ended in no error, not in iteration-limit."),
        (
            {"error": "rate-limited"},
            {"error": TurnError("overloaded", 529)},
            "error: the turn ended in overloaded, not in rate-limited.",
        ),
        (EITHER, {}, f"error.name: the turn ended in no error, not in {BROKEN}."),
        (
            failing("overloaded", status=529),
            {"error": TurnError("overloaded", 503)},
            "error.status: the error has the status 503, not the status 529.",
        ),
        (
            failing("connection-failed", status=529),
            {"error": TurnError("connection-failed")},
            "error.status: the error has no status, not the status 529.",
        ),
        (
            failing("rate-limited", retry_after=7),
            {"error": TurnError("rate-limited", 429)},
            "error.retry_after: the error requests no wait, not the wait 7.",
        ),
        (
            failing("rate-limited", retry_after=None),
            {"error": TurnError("rate-limited", 429, 2.5)},
            "error.retry_after: the error requests the wait 2.5, not no wait.",
        ),
    ],
)
def test_a_mismatch_says_what_and_where(expectation: dict[str, Any], outcome: dict[str, Any], mismatch: str) -> None:
    assert [f"{each.path}: {each.message}" for each in found(expectation, **outcome)] == [mismatch]


def test_a_mismatch_has_both_values() -> None:
    (shape,) = found({"called": {"look": {"min": 1}}})
    (status,) = found(failing("overloaded", status=529), error=TurnError("overloaded", 503))
    assert [(each.actual, each.expected) for each in (shape, status)] == [([], {"min": 1}), (503, 529)]


@pytest.mark.parametrize(
    ("reported", "message"),
    [
        (["text", "done"], "event 1 is 'done', not 'call look'."),
        (["text", "call look", "error look", "text", "done"], "event 2 is 'error look', not 'result look'."),
        (["text", "call look", "result look", "text"], "event 4 is nothing, not 'done'."),
        (["text", "call look", "result look", "text", "done", "text"], "event 5 is 'text', not nothing."),
        ([], "event 0 is nothing, not 'text'."),
    ],
)
def test_events_must_match_completely(reported: list[str], message: str) -> None:
    wanted = ["text", "call look", "result look", "text", "done"]
    assert found({"events": wanted}, events=reported) == [Mismatch("events", [*reported], [*wanted], message)]
    assert found({"events": wanted}, events=wanted) == []


@pytest.mark.parametrize("word", ["Text", "call", "call ", "result", "finish", "done Error", "call a b", ""])
def test_a_word_that_is_no_handler_event_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="should match pattern"):
        Expectation.model_validate({"events": [word]})


def test_what_holds_gives_nothing() -> None:
    expectation: dict[str, Any] = {
        "text": {"contains": ["moons"], "matches": "2"},
        "calls": [{"name": "look", "arguments": {"at": {"planet": "Mars"}}}, {"name": "look"}],
        "json_schema": {"type": "object", "required": ["moons"]},
        "stop_reason": "end_turn",
    }
    calls = [call("look", at={"planet": "Mars", "year": 2026}, zoom=3)]
    assert found(expectation, text='{"moons": 2}', calls=calls) == []
    assert found({"error": "iteration-limit"}, error=TurnError("iteration-limit"), stop_reason=None) == []
    matcher = {"name": ["overloaded", "rate-limited"], "status": 429, "retry_after": 1.5}
    assert found({"error": matcher}, error=TurnError("rate-limited", 429, 1.5)) == []
    assert found({"error": {"name": "overloaded"}}, error=TurnError("overloaded", 529, 30)) == []
    assert found({}) == []


@pytest.mark.parametrize("text", ["", "{", '{"a": 1} ', "[" * 100_000, '{"a": 1}x', "1" * 5000])
def test_any_text_can_be_held_against_a_schema(text: str) -> None:
    is_object = text == '{"a": 1} '
    assert (found({"json_schema": {"type": "object"}}, text=text) == []) is is_object


SCHEMAS = st.recursive(
    st.sampled_from(["object", "string", "array", "boolean", "null", "integer", "number"]).map(
        lambda name: {"type": name}
    )
    | st.just({"enum": ["a", "b"]})
    | st.just({"minLength": 2})
    | st.just({}),
    lambda inner: (
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2)},
            optional={
                "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
                "additionalProperties": st.booleans(),
                "maxProperties": st.integers(0, 2),
                "description": st.just("said"),
            },
        )
        | inner.map(lambda items: {"type": "array", "items": items})
    ),
    max_leaves=6,
)
FITTING = st.recursive(
    st.sampled_from([None, True, 1, 1.0, 1.5, "a", "ab"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(SCHEMAS, FITTING)
def test_what_conforms_is_what_jsonschema_says(schema: dict[str, JSON], value: JSON) -> None:
    validator = jsonschema.Draft202012Validator(schema)

    assert (not list(misfits(schema, value))) == validator.is_valid(value)
