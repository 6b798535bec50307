"""Changes of the prefix that the scenario requests are reported as the scenario's, not as the adapter's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.adapters import anthropic, openai_responses
from harness.apis import registry
from harness.apis.registry import Target
from harness.results import Blame, Severity, Verdict
from harness.rules.evidence import Evidence
from harness.runner.cells import Cell
from harness.runner.differences import observe
from harness.runner.suite_run import Run
from harness.scenarios.schema import ResultSpec, Scenario, TrimSpec
from tests.backends import InProcess, shipped_scenarios
from tests.broken.fault import sends
from tests.rules.transcripts import RULES, transcript_of

MODELS: Mapping[str, Any] = {
    "claude-fable-5-2": anthropic,
    "claude-opus-5-5": anthropic,
    "gpt-6.2-astra": openai_responses,
    "claude-opus-5": anthropic,
}
EFFECTS = {
    "claude-fable-5-2": "the provider refuses the reasoning after it",
    "claude-opus-5-5": "the provider refuses the reasoning after it, for accounts created since 2026-08-31",
    "gpt-6.2-astra": "the provider drops the reasoning after it",
    "claude-opus-5": "the prompt cache is lost",
}
Ask = Callable[[Scenario], dict[str, Any]]


def another_prompt(given: Scenario) -> dict[str, Any]:
    first, *others = given.turns
    return {"turns": [first, others[0].model_copy(update={"system": "Be brief."}), *others[1:]]}


def added_tool(given: Scenario) -> dict[str, Any]:
    *first, last = given.tools
    return {"tools": [*first, last.model_copy(update={"from_turn": 1})]}


def trim(given: Scenario) -> dict[str, Any]:
    """Only long results are trimmed."""
    first, *others = given.tools
    long = first.model_copy(update={"results": [ResultSpec.model_validate({"return": "184 " * 500})]})
    return {"tools": [long, *others], "trim": TrimSpec(tools=["tide_height"])}


def asked(model: str, ask: Ask) -> Cell:
    given = shipped_scenarios()["prefix-with-thinking"]
    made = given.model_copy(update={"id": "asks-for-it", **ask(given)})
    made.turns[1].model_fields_set.update({"system"} if ask is another_prompt else ())
    adapter = MODELS[model].ADAPTER
    return Cell(made, Target(model, adapter, model, registry.api(adapter.api).profile_for(model), model), "whole")


@pytest.mark.parametrize("ask", [another_prompt, added_tool, trim])
@pytest.mark.parametrize("model", MODELS)
def test_the_scenario_is_blamed_for_what_it_asks(model: str, ask: Ask) -> None:
    cell = asked(model, ask)
    result = Run(InProcess(), RULES)([cell]).cells[0]
    refused = model == "claude-fable-5-2"
    assert result.verdict is {"claude-fable-5-2": Verdict.FAIL, "claude-opus-5": Verdict.PASS}.get(model, Verdict.NOTE)
    assert {each.blame for each in result.findings} <= {Blame.SCENARIO}, result.findings
    reported = [each for each in result.findings if "as the scenario asks-for-it asks" in each.message]
    assert {each.severity for each in reported} == {
        "claude-fable-5-2": {Severity.ERROR, Severity.NOTE},
        "claude-opus-5": set(),
    }.get(model, {Severity.NOTE})
    assert ("anthropic-thinking-bound" in {each.rule for each in reported}) == refused


@pytest.mark.parametrize("model", MODELS)
def test_the_differences_show_the_effect_of_a_change_that_the_scenario_asks_for(model: str) -> None:
    seen = observe(Evidence(transcript_of(asked(model, added_tool))))
    assert seen["after a change of the prefix that the scenario asks for"] == {f"tools: {EFFECTS[model]}"}


def without_signatures(_api: str, body: dict[str, Any]) -> dict[str, Any]:
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            block.pop("signature", None)
    return body


def test_the_adapter_is_blamed_for_a_refusal_that_has_another_reason() -> None:
    cell = asked("claude-fable-5-2", another_prompt)
    broken = replace(cell.target, adapter=sends(without_signatures)(cell.target.adapter))
    result = Run(InProcess(), RULES)([replace(cell, target=broken)]).cells[0]

    refused = [each for each in result.findings if each.rule == "chat-refused"]
    assert {each.blame for each in refused} == {Blame.ADAPTER}
    assert all(each.follows is not None for each in refused)
