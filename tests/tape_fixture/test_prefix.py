"""A client on tape whose second request has its tools in another order, before reasoning that is sent back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.audit.audit.cassettes import exchange, request, response, write

URL = "https://api.anthropic.com/v1/messages"
SCHEMA = {"type": "object", "properties": {}}
TOOLS = [{"name": name, "description": name, "input_schema": SCHEMA} for name in ("tide", "wind")]
THINKING = {"type": "thinking", "thinking": "The tide matters.", "signature": "c2lnbmF0dXJl" * 8}
CALL = {"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": "tide", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": CALL["id"], "content": "High at noon."}
TESTS = """
import httpx2
import pytest

@pytest.mark.tape
def test_tide():
    for body in BODIES:
        httpx2.post(URL, json=body, headers={"anthropic-version": "2023-06-01"}).raise_for_status()
"""


def bodies(model: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    asked = {"role": "user", "content": "When is the tide high?"}
    first = {"model": model, "max_tokens": 999, "tools": TOOLS, "messages": [asked], "thinking": {"type": "adaptive"}}
    answered = {"role": "assistant", "content": [THINKING, CALL]}
    second = {**first, "tools": tools, "messages": [asked, answered, {"role": "user", "content": [RESULT]}]}
    return [first, second]


def answers(model: str) -> list[dict[str, Any]]:
    usage = {"input_tokens": 9, "output_tokens": 9}
    common = {"type": "message", "role": "assistant", "model": model, "stop_sequence": None, "usage": usage}
    text = {"type": "text", "text": "At noon."}
    return [
        {**common, "id": "msg_01A", "content": [THINKING, CALL], "stop_reason": "tool_use"},
        {**common, "id": "msg_01B", "content": [text], "stop_reason": "end_turn"},
    ]


@pytest.mark.parametrize(
    ("model", "tools", "outcome", "reported"),
    [
        ("claude-fable-5-2", TOOLS, "passed", ""),
        ("claude-fable-5-2", TOOLS[::-1], "failed", "prefix-changed: the tools are sent in a different order"),
        ("claude-opus-5-5", TOOLS[::-1], "passed", "prefix-changed (loss, warning): the tools are sent"),
        ("claude-opus-5", TOOLS[::-1], "passed", ""),
    ],
)
def test_a_changed_prefix_on_tape_is_as_grave_as_the_provider_takes_it(  # noqa: PLR0917 - its fixtures
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    tools: list[dict[str, Any]],
    outcome: str,
    reported: str,
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    sent = bodies(model, tools)
    dated = {"date": ["Thu, 26 Nov 2026 10:04:00 GMT"], "content-type": ["application/json"]}
    exchanges = (
        exchange(request(body, URL), {**response(answer), "headers": dated})
        for body, answer in zip(sent, answers(model), strict=True)
    )
    write(pytester.path / "cassettes" / "test_tide" / "test_tide.yaml", *exchanges)
    (pytester.path / "test_tide.py").write_text(f"URL = {URL!r}\nBODIES = {json.dumps(sent)}\n{TESTS}")
    done = pytester.inline_run("-p", "harness.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist")
    (report,) = (each for each in done.getreports("pytest_runtest_logreport") if each.when == "call" or each.failed)
    assert report.outcome == outcome, report.longreprtext
    said = report.longreprtext + "".join(text for name, text in report.sections if "harness tape" in name)
    assert reported in said
    assert ("prefix-changed" in said) is bool(reported)
