from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from harness.contract.model import Image, Text, ToolCall, ToolResult
from harness.scenarios.schema import Scenario
from harness.scenarios.tools import ToolFailure, Unanswered, UnknownTool, answer, called_before
from tests.scenarios.files import WITH_TOOLS, changed, scenario

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


def test_an_unknown_tool_is_named(weather: Scenario) -> None:
    with pytest.raises(UnknownTool) as raised:
        answer(weather, ToolCall("call_1", "get_wether", {}))
    assert str(raised.value) == "unknown tool 'get_wether'. Did you mean 'get_weather'? Known: get_weather."


def test_arguments_without_a_result_are_the_scenarios_fault(weather: Scenario) -> None:
    with pytest.raises(Unanswered) as raised:
        answer(weather, ToolCall("call_1", "get_weather", {"city": "Łódź"}))
    assert str(raised.value) == (
        "scenario 'with-tools': the tool 'get_weather' has no result for the arguments {\"city\": \"Łódź\"}. "
        "Add one to its results, or one without when, which answers all others."
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

    told: list[str] = []
    for at, call in enumerate(calls):
        if call.name == "get_weather":
            try:
                told.append(f"{call.arguments['city']}: {answer(weather, call, calls[:at]).content}")
            except ToolFailure as raised:
                told.append(f"{call.arguments['city']} raises {raised}")

    assert told == ["Paris: busy", "Rome raises worn out", "Paris: busy", "Rome: 18", "Paris: 18", "Rome: 18"]


def test_the_calls_before_an_answer_are_those_that_are_made(tmp_path: Path) -> None:
    steps = [
        {"calls": [{"get_weather": {"city": "Paris"}}]},
        {"calls": [{"get_weather": {"city": "Rome"}}, {"get_weather": {"city": "Bonn"}}], "truncated": True},
        {"text": "18"},
    ]
    played = changed(WITH_TOOLS, "turns.0.model", steps)
    weather = scenario(tmp_path, {**played, "requires": ["tools", "parallel-tool-calls", "truncation"]})
    cities = [[call.arguments["city"] for call in called_before(weather, answers)] for answers in range(4)]
    assert cities == [[], ["Paris"], ["Paris", "Rome"], ["Paris", "Rome"]]
