"""Tests of the system prompt's place with GPT-6.2, which adds `instructions` after the conversation."""

from __future__ import annotations

from typing import Any

import pytest

from harness.apis import registry
from harness.results import CellResult, Finding, Kind, Verdict
from harness.runner.cells import Cell
from harness.runner.suite_run import Run
from harness.stdio import adapter_specs
from tests.backends import InProcess, shipped_scenarios
from tests.broken.fault import Wrap, sends
from tests.rules.transcripts import RULES

SCENARIOS = ("system-plain", "system-with-tools", "json-mode-unmentioned")


def run_with_model(scenario: str, model: str, wrap: Wrap | None = None) -> tuple[CellResult, str]:
    """The result of the Responses adapter with a model, and the place of its system prompt."""
    (shipped,) = (each for each in registry.targets() if each.name == "openai-responses")
    adapter = adapter_specs.adapter(shipped.adapter)
    chosen = registry.target_for(shipped, wrap(adapter) if wrap else adapter, {shipped.name: model})
    run = Run(InProcess(), RULES, strict=True)([Cell(shipped_scenarios()[scenario], chosen, "whole")])
    rows = {row.aspect: next(iter(row.values.values())) for row in run.differences}
    return run.cells[0], rows["where the system prompt sits"]


def _as_instructions(_api: str, body: dict[str, Any]) -> None:
    first = body["input"].pop(0)
    body["instructions"] = first["content"]


def _as_system_role(_api: str, body: dict[str, Any]) -> None:
    body["input"][0]["role"] = "system"


def of_rule(result: CellResult) -> list[Finding]:
    return [each for each in result.findings if each.rule == "system-after-conversation"]


@pytest.mark.parametrize("model", ["gpt-6.2-astra", "gpt-6.2-sol", "gpt-6.2-astra-law"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_shipped_adapter_begins_the_input_with_it(scenario: str, model: str) -> None:
    result, place = run_with_model(scenario, model)
    assert result.verdict is Verdict.PASS, result.findings
    assert place == "input[].content (message:developer)"


@pytest.mark.parametrize("scenario", SCENARIOS[:2])
def test_instructions_are_a_note_there_and_nothing_before(scenario: str) -> None:
    result, place = run_with_model(scenario, "gpt-6.2-sol", sends(_as_instructions))
    finding = of_rule(result)[0]
    assert (finding.kind, finding.pointer, finding.actual) == (Kind.CONVENTION, "/instructions", "instructions")
    assert result.verdict is Verdict.FAIL  # the run is strict
    assert place == "instructions, after the conversation"
    result, place = run_with_model(scenario, "gpt-6-astra")
    assert (result.verdict, place) == (Verdict.PASS, "instructions")


def test_a_first_message_with_the_role_system_is_as_good() -> None:
    result, _ = run_with_model("system-with-tools", "gpt-6.2-astra", sends(_as_system_role))
    assert result.verdict is Verdict.PASS, result.findings
