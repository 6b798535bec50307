from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from harness.contract.model import Image, Text, ToolCall, ToolResult
from harness.scenarios.schema import Scenario
from harness.scenarios.tools import ToolFailure, Unanswered, UnknownTool, answer
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
