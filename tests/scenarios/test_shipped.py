from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import harness.scenarios
from harness.apis import registry
from harness.apis.response_rules import Subject
from harness.apis.view import Provocation
from harness.documents.document import read
from harness.model.messages import JsonSchema
from harness.model.protocols import Capability
from harness.runner.cells import Cell, not_applicable
from harness.scenarios.canonical import settings_of
from harness.scenarios.load import load_paths, problems, scenario_files
from harness.scenarios.schema import json_schema
from tests.backends import shipped_scenarios, shipped_targets

FOLDER = Path(__file__).resolve().parents[2] / "scenarios"
FILES = scenario_files([FOLDER])
SCENARIOS = load_paths([FOLDER])
SCHEMA = Path(harness.scenarios.__path__[0]) / "scenario.schema.json"

TARGETS = [
    registry.api("anthropic").profile_for("claude-opus-5-5"),
    registry.api("openai-chat").profile_for("gpt-5.6"),
    registry.api("openai-responses").profile_for("gpt-5.6"),
    registry.api("gemini").profile_for("gemini-3.6-flash"),
    registry.api("gemini").profile_for("gemini-2.5-flash"),
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_shipped_scenario_is_right(file: Path) -> None:
    assert [str(error) for error in problems(file)] == []
    assert file.read_text("utf-8").startswith(
        "# yaml-language-server: $schema=../harness/scenarios/scenario.schema.json\nversion: 1\n"
    )
    assert file.stat().st_size < 10_000
    Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(read(file.read_bytes(), file.name).value)


def test_the_shipped_schema_is_up_to_date() -> None:
    assert json.loads(SCHEMA.read_text("utf-8")) == json_schema(), (
        "write json.dumps(harness.scenarios.schema.json_schema(), indent=2) to harness/scenarios/scenario.schema.json"
    )


def test_the_shipped_schema_refuses_what_the_loader_refuses() -> None:
    validator = Draft202012Validator(json_schema())
    good = {"version": 1, "id": "a", "title": "t", "covers": ["tools"], "turns": [{"user": "x", "model": [{}]}]}
    assert validator.is_valid(good)
    for wrong in (
        {"version": 2},
        {"titel": "t"},
        {"covers": ["tool"]},
        {"requires": ["tool"]},
        {"turns": []},
        {"settings": {"tool_choice": "any"}},
    ):
        assert not validator.is_valid(good | wrong), wrong


def test_titles_are_sentences_and_unique_and_all_subjects_covered() -> None:
    assert len({scenario.title for scenario in SCENARIOS}) == len(SCENARIOS)
    assert {subject for scenario in SCENARIOS for subject in scenario.covers} == set(Subject)
    for scenario in SCENARIOS:
        assert re.fullmatch(r"[A-Z].*[^.]", scenario.title), scenario.title
        assert len(scenario.title.split()) > 4, scenario.title


def test_few_cells_are_not_applicable() -> None:
    lacking = [(s.id, p.name) for s in SCENARIOS for p in TARGETS if p.lacks & set(s.requires) or s.profiles]
    assert len(lacking) <= len(SCENARIOS) * len(TARGETS) / 10, lacking


def test_tool_and_parameter_names_are_legal_everywhere() -> None:
    for scenario in SCENARIOS:
        for tool in scenario.tools:
            legal = re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", tool.name)
            assert legal or tool.name in scenario.uncommon_names, (scenario.id, tool.name)
            properties = tool.parameters.get("properties", {})
            assert isinstance(properties, dict)
            assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", name) for name in properties), scenario.id


def test_the_script_keeps_to_the_response_format() -> None:
    checked = 0
    for scenario in SCENARIOS:
        for index, turn in enumerate(scenario.turns):
            wanted = settings_of(scenario, index).format()
            if wanted is not None:
                answer = json.loads(turn.model[-1].text or "")
                Draft202012Validator(wanted.schema if isinstance(wanted, JsonSchema) else {}).validate(answer)
                checked += 1
    assert checked >= 6


def test_each_provocation_has_a_scenario_of_its_own() -> None:
    asked = [scenario.provocations for scenario in shipped_scenarios().values() if scenario.provocations]
    assert {frozenset(each) for each in asked} == {frozenset([each]) for each in Provocation}


@pytest.mark.parametrize(
    ("scenario", "able"),
    [
        ("stream-provoked-interleaved-calls", {"openai-chat", "openai-responses"}),
        ("stream-provoked-unknown-events", {"anthropic"}),
        ("call-provoked-empty-arguments", {"openai-chat", "openai-responses"}),
    ],
)
def test_it_applies_to_apis_whose_streams_can_do_it(scenario: str, able: set[str]) -> None:
    targets = [target for target in shipped_targets().values() if target.api != "claude-cli"]
    cells = [Cell(shipped_scenarios()[scenario], target, "stream") for target in targets]
    assert {cell.target.api for cell in cells if not_applicable(cell, "reference")} == {
        cell.target.api for cell in cells
    } - able
    other = next(cell for cell in cells if cell.target.api == "gemini")
    (provocation,) = other.scenario.provocations
    assert not_applicable(other, "reference") == f"the API gemini has nothing that could do it: {provocation}"


def test_provider_tools_apply_to_their_apis_only() -> None:
    scenario, target = shipped_scenarios()["history-opaque-parts"], shipped_targets()["openai-chat"]
    able = replace(target.adapter, capabilities=target.adapter.capabilities | {Capability.PROVIDER_TOOLS})
    reason = not_applicable(Cell(scenario, replace(target, adapter=able), "whole"), "replay")
    assert reason == "the scenario has no tool that the provider of openai-chat runs"
    assert not_applicable(Cell(scenario, shipped_targets()["openai-responses"], "whole"), "replay") is None
