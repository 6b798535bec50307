"""What reports know of scenarios: the place of each in its file, and what it asks."""

from __future__ import annotations

from pathlib import Path

from harness.platform.files import shipped_folder
from harness.results import Definition
from harness.runner.shards import definitions
from harness.scenarios.load import load_file

SCENARIO = """\
# a comment

version: 1
title: Two turns
id: two-turns
covers: [tools]
requires: [history, tools]
tools:
  - name: look
    description: Looks.
    parameters: {type: object, properties: {}}
    results: [{when: {}, return: 1}]
turns:
  - user: One?
    model:
      - calls: [{look: {}}]
      - text: One.

  - model: [{text: Two.}]
    user: Two?
"""


def test_a_scenario_of_ones_own_has_the_lines_of_its_id_and_of_its_turns(tmp_path: Path) -> None:
    file = tmp_path / "two-turns.yaml"
    file.write_text(SCENARIO)

    made = definitions([load_file(file)], {"two-turns": str(file)})["two-turns"]

    assert (made.file, made.line, made.turns, made.requires) == (str(file), 5, (14, 19), ("history", "tools"))
    assert [made.line_of(turn) for turn in (0, 1, 2, None)] == [14, 19, 5, 5]


def test_a_shipped_scenario_is_not_a_file_of_the_user() -> None:
    scenario = load_file(shipped_folder("scenarios") / "stream-provoked-interleaved-calls.yaml")

    made = definitions([scenario], {})[scenario.id]

    assert made == Definition(made.digest, tuple(scenario.requires), ("interleaved-calls",))


def test_a_file_that_is_gone_meanwhile_has_no_lines(tmp_path: Path) -> None:
    file = tmp_path / "two-turns.yaml"
    file.write_text(SCENARIO)
    scenario = load_file(file)
    file.unlink()

    assert definitions([scenario], {"two-turns": str(file)})["two-turns"].line is None
