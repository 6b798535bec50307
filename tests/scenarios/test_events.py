"""What a handler is told of a turn, by the thread and by the script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.contract.errors import IterationLimit, RateLimited
from harness.contract.model import ToolCall, ToolResult
from harness.kit.handlers import Answered, Called, Done, HandlerEvent, Said
from harness.scenarios.events import scripted, told
from harness.scenarios.load import problems
from tests.scenarios.files import MINIMAL, WITH_TOOLS, changed, scenario, written

PARIS = {"get_weather": {"city": "Paris"}}


class TooFast(RateLimited):
    """An adapter's own."""


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (Said("Hello"), "text"),
        (Called(ToolCall("c1", "look", {})), "call look"),
        (Answered(ToolResult("c1", "look", "")), "result look"),
        (Answered(ToolResult("c1", "look", "no", is_error=True)), "error look"),
        (Done(), "done"),
        (Done(IterationLimit(3)), "done iteration-limit"),
        (Done(TooFast(429, "slow down")), "done rate-limited"),
        (Done(KeyError("id")), "done key-error"),
    ],
)
def test_each_event_has_a_word(event: HandlerEvent, word: str) -> None:
    assert told(event) == word


@pytest.mark.parametrize(
    ("steps", "error", "events"),
    [
        ([{"text": "Hi"}], None, ["text", "done"]),
        ([{"text": ""}], None, ["done"]),
        ([{"text": "So", "calls": [PARIS]}, {"text": "18"}], None,
         ["text", "call get_weather", "result get_weather", "text", "done"]),
        ([{"calls": [PARIS, {"nobody": {}}]}], "iteration-limit",
         ["call get_weather", "result get_weather", "call nobody", "error nobody", "done iteration-limit"]),
        ([{"calls": [PARIS, {"nobody": {}}], "answers": [1, 0]}, {"text": "18"}], None,
         ["call get_weather", "result get_weather", "call nobody", "error nobody", "text", "done"]),
        ([{"calls": [PARIS, PARIS], "truncated": True}, {"text": "18"}], None,
         ["call get_weather", "result get_weather", "text", "done"]),
        ([{"refusal": "No"}], None, None),
        ([{"raw": {"anthropic": []}, "text": "Hi"}], None, None),
    ],
)  # fmt: skip
def test_the_script_says_what_a_handler_is_told(
    tmp_path: Path, steps: list[dict[str, Any]], error: str | None, events: list[str] | None
) -> None:
    base = scenario(tmp_path, WITH_TOOLS)
    turn = type(base.turns[0]).model_validate({"user": "x", "model": steps}, strict=False)
    assert scripted(base, turn.model, error) == events


def test_a_turn_that_fails_is_done_with_its_error(tmp_path: Path) -> None:
    failing = {**WITH_TOOLS, "scripted": True, "faults": [{"answer": 1, "connection": "reset"}]}
    events = ["call get_weather", "result get_weather"]
    for ending in ("connection-failed", "malformed-response"):  # either is right for what breaks off
        expect = {"error": {"name": ["connection-failed", "malformed-response"]}, "events": [*events, f"done {ending}"]}
        assert problems(written(tmp_path, changed(failing, "turns.0.expect", expect))) == []
    wrong = {"error": "connection-failed", "events": [*events, "done"]}
    (error,) = problems(written(tmp_path, changed(failing, "turns.0.expect", wrong)))
    assert error.key == "turns[0].expect.events"


def test_what_the_script_does_not_say_is_not_held_against_it(tmp_path: Path) -> None:
    refusing = changed(MINIMAL, "turns.0", {"user": "x", "model": [{"refusal": "No"}], "expect": {"events": ["done"]}})
    assert problems(written(tmp_path, refusing)) == []


def test_a_tool_that_fails_first_is_told_as_it_fails_in_each_turn(tmp_path: Path) -> None:
    failing = changed(WITH_TOOLS, "tools.0.results", [{"error": "busy", "times": 1}, {"return": 18}])
    turn = failing["turns"][0]
    first = {**turn, "expect": {"events": ["call get_weather", "error get_weather", "text", "done"]}}
    second = {**turn, "expect": {"events": ["call get_weather", "result get_weather", "text", "done"]}}
    whole = {**failing, "requires": ["tools", "history"], "turns": [first, second]}
    assert problems(written(tmp_path, whole)) == []
    assert [error.key for error in problems(written(tmp_path, {**whole, "turns": [second, second]}))] == [
        "turns[0].expect.events"
    ]
