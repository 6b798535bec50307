"""What no provider was recorded doing: who may ask for it, to whom it applies, and that nobody else gets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.running.cells import Cell, not_applicable
from harness.scenarios.load import problems
from harness.scenarios.schema import Provocation
from tests.scenarios.files import ABSENT, MINIMAL, changed, written
from tests.stages import shipped_scenarios, shipped_targets

UNKNOWN: dict[str, Any] = {**MINIMAL, "provocations": ["unknown-events"], "variants": ["stream"], "scripted": True}

MISTAKES = [
    (UNKNOWN, "provocations", ["unknown-event"], ("provocations[0]: unknown provocation 'unknown-event'. Did you mean "
     "'unknown-events'? Known: empty-arguments, interleaved-calls, raw-line-separators, unknown-events.")),
    (UNKNOWN, "provocations", ["unknown-events", "unknown-events"],
     "provocations[1]: 'unknown-events' stands here twice."),
    (UNKNOWN, "provocations", "unknown-events", "provocations: must be a list, not the text 'unknown-events'."),
    (UNKNOWN, "variants", ABSENT, "provocations: they are of streams alone. Add variants: [stream]."),
    (UNKNOWN, "scripted", ABSENT, "provocations: no provider does this when asked to. Add scripted: true."),
    (UNKNOWN, "provocations", ["interleaved-calls"],
     "provocations: no answer has two whole calls that could come in turns. Add one."),
    (UNKNOWN, "provocations", ["empty-arguments"], "provocations: no answer has a call without arguments. Add one."),
]  # fmt: skip


@pytest.mark.parametrize(("base", "path", "value", "message"), MISTAKES)
def test_a_mistake_is_named(tmp_path: Path, base: dict[str, Any], path: str, value: object, message: str) -> None:
    file = written(tmp_path, changed(base, path, value))
    assert [text for text in map(str, problems(file)) if f" at {message}" in text], [*map(str, problems(file))]


def test_without_a_mistake_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert not [*problems(written(tmp_path, UNKNOWN))]


def test_each_provocation_has_a_scenario_of_its_own() -> None:
    asked = [scenario.provocations for scenario in shipped_scenarios().values() if scenario.provocations]
    assert sorted(asked) == [[each] for each in sorted(Provocation)]


@pytest.mark.parametrize(
    ("scenario", "able"),
    [
        ("stream-provoked-interleaved-calls", {"openai-chat", "openai-responses"}),
        ("stream-provoked-unknown-events", {"anthropic"}),
        ("call-provoked-empty-arguments", {"openai-chat"}),
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
