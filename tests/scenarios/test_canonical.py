from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from harness.model.messages import (
    Image,
    JsonMode,
    JsonSchema,
    Message,
    NamedTool,
    Role,
    Text,
    Thinking,
    ThinkingSettings,
    ToolCall,
    ToolResult,
)
from harness.scenarios.canonical import (
    MissingResult,
    ToolFailure,
    answer,
    called_before,
    history,
    scripted_events,
    settings_of,
    system_of,
    user_message,
)
from harness.scenarios.load import problems
from harness.scenarios.schema import Scenario, Settings
from tests.scenarios.files import MINIMAL, WITH_TOOLS, changed, scenario, written


def turns(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"user": "x", "model": [{"text": "y"}], **change} for change in changes]


def test_a_turns_system_prompt_holds_from_there_on(tmp_path: Path) -> None:
    each = turns({}, {"system": "B"}, {}, {"system": None}, {}, {"system": ""})
    loaded = scenario(tmp_path, {**MINIMAL, "system": "A", "requires": ["system-prompt", "history"], "turns": each})
    assert [system_of(loaded, index) for index in range(6)] == ["A", "B", "B", None, None, ""]


def test_a_turns_settings_hold_for_it_alone(tmp_path: Path) -> None:
    each = turns({}, {"settings": {"temperature": 0.5}}, {"settings": {}}, {})
    loaded = scenario(tmp_path, {**MINIMAL, "requires": ["history"], "settings": {"max_tokens": 9}, "turns": each})
    assert [settings_of(loaded, index).max_tokens for index in range(4)] == [9, None, None, 9]
    assert settings_of(loaded, 1).temperature == 0.5


def test_a_history_becomes_messages(tmp_path: Path) -> None:
    reported = [
        {"role": "user", "text": "Rome?"},
        {
            "role": "assistant",
            "thinking": "hm",
            "text": "Looking.",
            "metadata": {"anthropic": {"signature": "c2ln"}},
            "calls": [
                {"id": "a", "name": "get_weather", "arguments": {"city": "Rome"}, "metadata": {"gemini": {"x": 1}}},
                {"id": "b", "name": "get_wind"},
            ],
        },
        {
            "role": "user",
            "results": [{"call_id": "b", "content": 3, "is_error": True}, {"call_id": "a"}],
            "text": "So?",
        },
        {"role": "assistant", "text": "21", "metadata": {"gemini": {"thoughtSignature": "eA=="}}},
    ]
    content = {**WITH_TOOLS, "requires": ["tools", "parallel-tool-calls", "history"], "history": reported}
    assert history(scenario(tmp_path, content)) == (
        Message.user("Rome?"),
        Message(
            Role.ASSISTANT,
            (
                Thinking("hm", {"anthropic": {"signature": "c2ln"}}),
                Text("Looking."),
                ToolCall("a", "get_weather", {"city": "Rome"}, {"gemini": {"x": 1}}),
                ToolCall("b", "get_wind", {}),
            ),
        ),
        Message(
            Role.USER,
            (ToolResult("b", "get_wind", 3, is_error=True), ToolResult("a", "get_weather", None), Text("So?")),
        ),
        Message(Role.ASSISTANT, (Text("21", {"gemini": {"thoughtSignature": "eA=="}}),)),
    )


def test_user_parts_keep_their_order(tmp_path: Path) -> None:
    parts = [{"text": "a"}, {"image": {"media_type": "image/png", "uri": "https://example.org/x.png"}}, {"text": "b"}]
    loaded = scenario(tmp_path, {**MINIMAL, "requires": ["vision", "history"], "turns": turns({"user": parts}, {})})
    picture = Image("image/png", uri="https://example.org/x.png")
    assert user_message(loaded.turns[0]) == Message(Role.USER, (Text("a"), picture, Text("b")))
    assert user_message(loaded.turns[1]) == Message.user("x")


def test_settings_in_canonical_words() -> None:
    schema = {"type": "object"}
    reported = {
        "tool_choice": {"tool": "look"},
        "response_format": {"json_schema": schema, "name": "seen"},
        "thinking": {"effort": "high"},
    }
    settings = Settings.model_validate(reported)
    assert settings.choice() == NamedTool("look")
    assert settings.format() == JsonSchema({"type": "object"}, "seen")
    assert settings.reasoning() == ThinkingSettings("high", None)
    plain = Settings.model_validate({"tool_choice": "none", "response_format": "json"})
    assert (plain.choice(), plain.format(), plain.reasoning()) == ("none", JsonMode(), None)
    assert (Settings().choice(), Settings().format()) == (None, None)


PICTURE = base64.b64encode(b"\x89PNG").decode()

RESULTS: list[dict[str, Any]] = [
    {"when": {"city": "Paris", "unit": "F"}, "return": 64.4},
    {"when": {"city": "Paris"}, "return": {"temp_c": 18}},
    {"when": {"city": "Nowhere"}, "return": None},
    {"when": {"city": "Tokyo"}, "error": {"code": 7}},
    {"when": {"city": "Void"}, "error": None},
    {"when": {"city": "Rome"}, "raise": "station burnt down"},
    {"when": {"city": "Bonn"}, "parts": [{"text": "now"}, {"image": {"media_type": "image/png", "data": PICTURE}}]},
]


@pytest.fixture
def weather(tmp_path: Path) -> Scenario:
    content = changed(WITH_TOOLS, "tools.0.results", RESULTS)
    content["tools"][0]["parameters"]["properties"]["unit"] = {"type": "string"}
    return scenario(tmp_path, {**content, "requires": ["tools", "image-results"]})


@pytest.mark.parametrize(
    ("arguments", "content", "is_error"),
    [
        ({"city": "Paris"}, {"temp_c": 18}, False),
        ({"city": "Paris", "unit": "C"}, {"temp_c": 18}, False),
        ({"unit": "F", "city": "Paris"}, 64.4, False),
        ({"city": "Nowhere"}, None, False),
        ({"city": "Tokyo"}, {"code": 7}, True),
        ({"city": "Void"}, None, True),
        ({"city": "Bonn"}, (Text("now"), Image("image/png", b"\x89PNG")), False),
    ],
)
def test_the_first_result_whose_arguments_are_included_answers(
    weather: Scenario, arguments: dict[str, Any], content: Any, is_error: bool
) -> None:
    call = ToolCall("call_1", "get_weather", arguments)
    assert answer(weather, call) == ToolResult("call_1", "get_weather", content, is_error)


def test_a_tool_raises_when_its_scenario_says_so(weather: Scenario) -> None:
    with pytest.raises(ToolFailure) as raised:
        answer(weather, ToolCall("call_1", "get_weather", {"city": "Rome"}))
    assert str(raised.value) == "station burnt down"


def test_arguments_without_a_result_are_the_scenarios_fault(weather: Scenario) -> None:
    with pytest.raises(MissingResult) as raised:
        answer(weather, ToolCall("call_1", "get_weather", {"city": "Łódź"}))
    assert str(raised.value) == (
        "scenario 'with-tools': the tool 'get_weather' has no result for the arguments {\"city\": \"Łódź\"}. "
        "Add one to its results, or one without when, which matches all others."
    )


def test_a_result_answers_as_many_calls_as_it_says_and_the_next_one_those_after(tmp_path: Path) -> None:
    failing = [
        {"when": {"city": "Paris"}, "error": "busy", "times": 2},
        {"raise": "worn out", "times": 1},
        {"return": 18},
    ]
    weather = scenario(tmp_path, changed(WITH_TOOLS, "tools.0.results", failing))
    paris, rome = (ToolCall("", "get_weather", {"city": city}) for city in ("Paris", "Rome"))
    calls = [paris, rome, ToolCall("", "another", {"city": "Paris"}), paris, rome, paris, rome]

    reported: list[str] = []
    for at, call in enumerate(calls):
        if call.name == "get_weather":
            try:
                reported.append(f"{call.arguments['city']}: {answer(weather, call, calls[:at]).content}")
            except ToolFailure as raised:
                reported.append(f"{call.arguments['city']} raises {raised}")

    assert reported == ["Paris: busy", "Rome raises worn out", "Paris: busy", "Rome: 18", "Paris: 18", "Rome: 18"]


def test_the_calls_before_an_answer_are_those_that_are_made(tmp_path: Path) -> None:
    steps = [
        {"calls": [{"get_weather": {"city": "Paris"}}]},
        {"calls": [{"get_weather": {"city": "Rome"}}, {"get_weather": {"city": "Bonn"}}], "truncated": True},
        {"text": "18"},
    ]
    loaded = changed(WITH_TOOLS, "turns.0.model", steps)
    weather = scenario(tmp_path, {**loaded, "requires": ["tools", "parallel-tool-calls", "truncation"]})
    cities = [[call.arguments["city"] for call in called_before(weather, answers)] for answers in range(4)]
    assert cities == [[], ["Paris"], ["Paris", "Rome"], ["Paris", "Rome"]]


PARIS = {"get_weather": {"city": "Paris"}}


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
def test_the_script_determines_the_events_of_a_handler(
    tmp_path: Path, steps: list[dict[str, Any]], error: str | None, events: list[str] | None
) -> None:
    base = scenario(tmp_path, WITH_TOOLS)
    turn = type(base.turns[0]).model_validate({"user": "x", "model": steps}, strict=False)
    assert scripted_events(base, turn.model, error) == events


def test_a_turn_that_fails_is_done_with_its_error(tmp_path: Path) -> None:
    failing = {**WITH_TOOLS, "scripted": True, "faults": [{"answer": 1, "connection": "reset"}]}
    events = ["call get_weather", "result get_weather"]
    for ending in ("connection-failed", "malformed-response"):  # either is right for what breaks off
        expect = {"error": {"name": ["connection-failed", "malformed-response"]}, "events": [*events, f"done {ending}"]}
        assert problems(written(tmp_path, changed(failing, "turns.0.expect", expect))) == []
    wrong = {"error": "connection-failed", "events": [*events, "done"]}
    (error,) = problems(written(tmp_path, changed(failing, "turns.0.expect", wrong)))
    assert error.key == "turns[0].expect.events"


def test_the_events_of_a_tool_that_fails_first_are_right_in_each_turn(tmp_path: Path) -> None:
    failing = changed(WITH_TOOLS, "tools.0.results", [{"error": "busy", "times": 1}, {"return": 18}])
    turn = failing["turns"][0]
    first = {**turn, "expect": {"events": ["call get_weather", "error get_weather", "text", "done"]}}
    second = {**turn, "expect": {"events": ["call get_weather", "result get_weather", "text", "done"]}}
    whole = {**failing, "requires": ["tools", "history"], "turns": [first, second]}
    assert problems(written(tmp_path, whole)) == []
    assert [error.key for error in problems(written(tmp_path, {**whole, "turns": [second, second]}))] == [
        "turns[0].expect.events"
    ]
