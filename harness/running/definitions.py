"""What reports know of the scenarios of a run: where each is written, and what it asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.contract.errors import ScenarioError
from harness.results import Definition
from harness.scenarios.load import digest, lines
from harness.scenarios.schema import Scenario

_DIGITS = 16


def definitions(scenarios: Iterable[Scenario], files: Mapping[str, str]) -> dict[str, Definition]:
    """The definitions by the ids of the scenarios; `files` names those that do not ship with harness."""
    return {each.id: _definition(each, files.get(each.id)) for each in scenarios}


def beginning(scenario: Scenario) -> str:
    """The beginning of its digest, which tells two states of it apart."""
    return digest(scenario)[:_DIGITS]


def _definition(scenario: Scenario, file: str | None) -> Definition:
    line, turns = _lines(file) if file is not None else (None, ())
    return Definition(
        beginning(scenario),
        tuple(each.value for each in scenario.requires),
        tuple(each.value for each in scenario.provocations),
        file,
        line,
        turns,
    )


def _lines(file: str) -> tuple[int | None, tuple[int, ...]]:
    try:
        return lines(Path(file))
    except ScenarioError:  # it could be read when the run began
        return None, ()
