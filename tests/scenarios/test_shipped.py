from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import harness.scenarios
from harness import catalog
from harness.contract.model import JsonSchema
from harness.scenarios.canonical import settings_of
from harness.scenarios.document import read
from harness.scenarios.load import load_paths, problems, scenario_files
from harness.scenarios.schema import Scenario, Subject, json_schema

FOLDER = Path(__file__).resolve().parents[2] / "scenarios"
FILES = scenario_files([FOLDER])
SCENARIOS = load_paths([FOLDER])
SCHEMA = Path(harness.scenarios.__path__[0]) / "scenario.schema.json"

TARGETS = [
    catalog.api("anthropic").profile_for("claude-opus-5-5"),
    catalog.api("openai-chat").profile_for("gpt-5.6"),
    catalog.api("openai-responses").profile_for("gpt-5.6"),
    catalog.api("gemini").profile_for("gemini-3.6-flash"),
    catalog.api("gemini").profile_for("gemini-2.5-flash"),
]

COVERED = [
    "call-single",
    "call-parallel-different-tools",
    "call-parallel-same-tool",
    "call-parallel-twice",
    "call-sequential",
    "call-results-reordered",
    "call-after-text",
    "call-empty-arguments",
    "call-without-parameters",
    "call-identical-twice",
    "call-fails-then-answers",
    "call-in-text",
    "thinking-not-in-text",
    "call-unknown-tool",
    "arguments-unicode",
    "arguments-escapes",
    "arguments-large-integers",
    "arguments-floats",
    "arguments-deep",
    "arguments-empty-values",
    "results-unicode",
    "results-escapes",
    "results-large-integers",
    "results-floats",
    "results-deep",
    "result-object",
    "result-list",
    "result-number",
    "result-null",
    "result-empty-text",
    "result-parts",
    "result-image",
    "result-error",
    "result-tool-raises",
    "history-two-turns",
    "history-long-conversation",
    "history-openai-ids",
    "history-anthropic-ids",
    "history-kimi-ids",
    "history-long-ids",
    "history-opaque-parts",
    "system-absent",
    "system-empty",
    "system-multiline",
    "system-changed",
    "system-dropped",
    "system-unicode",
    "system-template-like",
    "system-like-user-text",
    "json-mode",
    "json-schema",
    "json-schema-nested",
    "json-with-tools",
    "json-after-tool-loop",
    "json-mode-unmentioned",
    "choice-auto",
    "choice-none",
    "choice-required",
    "choice-named",
    "schema-references",
    "schema-const",
    "schema-enums",
    "schema-nullable",
    "schema-optional",
    "schema-required-nullable",
    "schema-map",
    "schema-nested-arrays",
    "stop-max-tokens",
    "stop-refusal",
    "thinking-tool-loop",
    "thinking-parallel-calls",
    "image-from-user",
    "file-from-user",
    "file-of-text",
    "audio-from-user",
    "iteration-limit",
    "body-empty",
    "body-html",
    "body-invalid-json",
    "body-wrong-type",
    "call-malformed",
    "call-truncated",
    "call-truncated-next-turn",
    "connection-cut",
    "connection-cut-at-end",
    "connection-cut-clean",
    "connection-reset",
    "connection-slow",
    "error-400",
    "error-401",
    "error-402",
    "error-403",
    "error-404",
    "error-408",
    "error-409",
    "error-413",
    "error-422",
    "error-429",
    "error-429-retry-after",
    "error-500",
    "error-502",
    "error-503",
    "error-503-retry-after",
    "error-504",
    "error-529",
    "error-in-tool-loop",
    "stream-cut-before-end",
    "stream-cut-in-arguments",
    "stream-empty-text",
    "stream-ends-behind-call",
    "stream-error-at-start",
    "stream-error-behind-text",
    "stream-error-in-arguments",
    "stream-line-separators",
    "stream-long-arguments",
    "stream-nested-escapes",
    "stream-numbers",
    "stream-parallel-empty-arguments",
    "stream-parallel-long-arguments",
    "stream-split-characters",
    "stream-text-then-calls",
]


def named(name: str) -> Scenario:
    return next(scenario for scenario in SCENARIOS if scenario.id == name)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_shipped_scenario_is_right(file: Path) -> None:
    assert [str(error) for error in problems(file)] == []
    assert file.read_text("utf-8").startswith(
        "# yaml-language-server: $schema=../harness/scenarios/scenario.schema.json\nversion: 1\n"
    )
    assert file.stat().st_size < 10_000


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_editors_find_nothing_wrong_either(file: Path) -> None:
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


def test_everything_that_has_to_be_covered_is() -> None:
    assert set(COVERED) - {scenario.id for scenario in SCENARIOS} == set()
    assert len({scenario.title for scenario in SCENARIOS}) == len(SCENARIOS)
    assert {subject for scenario in SCENARIOS for subject in scenario.covers} == set(Subject)


def test_titles_are_sentences() -> None:
    for scenario in SCENARIOS:
        assert re.fullmatch(r"[A-Z].*[^.]", scenario.title), scenario.title
        assert len(scenario.title.split()) > 4, scenario.title


def test_few_cells_are_not_applicable() -> None:
    lacking = [(s.id, p.name) for s in SCENARIOS for p in TARGETS if p.lacks & set(s.requires) or s.profiles]
    assert len(lacking) <= len(SCENARIOS) * len(TARGETS) / 10, lacking


def test_tool_and_parameter_names_are_legal_everywhere() -> None:
    for scenario in SCENARIOS:
        for tool in scenario.tools:
            assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", tool.name), (scenario.id, tool.name)
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


def test_scenarios_are_about_what_their_names_say() -> None:
    long = named("history-long-conversation")
    assert len(long.turns) >= 20
    assert sum(bool(step.calls) for turn in long.turns for step in turn.model) >= 5
    assert max(len(call.id) for message in named("history-long-ids").history for call in message.calls) > 64
    assert named("arguments-large-integers").turns[0].model[0].named_calls[0][1] == {"event_id": 9007199254740993}
    assert "system" in named("system-dropped").turns[1].model_fields_set
    assert named("call-results-reordered").turns[0].model[0].answers == [1, 2, 0]
    unmentioned = named("json-mode-unmentioned")
    assert "json" not in f"{unmentioned.system}{unmentioned.turns[0].user}".lower()
    multiline = named("system-multiline").system
    assert multiline is not None
    assert "\n\n" in multiline
    assert "\t" in multiline


def test_what_no_model_does_when_asked_is_scripted() -> None:
    scripted = {scenario.id for scenario in SCENARIOS if scenario.scripted}
    assert scripted >= {
        "stop-refusal",
        "stop-max-tokens",
        "call-unknown-tool",
        "iteration-limit",
        "history-opaque-parts",
    }
