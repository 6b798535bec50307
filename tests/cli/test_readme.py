"""What the README and the topics show is what happens."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from harness.cli.help import topics
from harness.scenarios.load import load_paths
from tests.cli.conftest import Command

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOPIC = textwrap.dedent(topics()["scenarios"].partition("\n\n")[2].partition("\n\n'model'")[0])


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_it_is_read_in_one_sitting() -> None:
    assert len(README.splitlines()) < 200


@pytest.mark.parametrize("text", [*blocks("yaml"), TOPIC], ids=["README", "topic"])
def test_the_scenario_that_is_shown_can_be_played(harness: Command, folder: Path, text: str) -> None:
    name = "weather-in-two-cities.yaml"
    (folder / name).write_text(text, encoding="utf-8")

    assert harness("validate", name).code == 0
    outcome = harness("run", "--mode", "reference", "--target", "openai-chat", name)
    assert (outcome.code, outcome.out.partition(" (")[0]) == (0, "PASS  2 cells")


def test_the_adapter_that_is_wrong_is_told_as_it_is_shown(harness: Command) -> None:
    (shown,) = [block for block in blocks("") if "swapped_results" in block]
    command, _, told = shown.partition("\n")

    outcome = harness(*command.split()[2:])

    def timeless(text: str) -> str:
        return re.sub(r"\(\d+\.\d s\)", "(… s)", text)

    assert outcome.code == 1
    assert timeless(outcome.out).startswith(timeless(told))


def test_it_counts_what_ships_and_names_every_topic() -> None:
    assert f"{len(load_paths([ROOT / 'scenarios']))} scenarios" in README
    named = README.partition("`harness help` lists")[2].partition("[`CONTRIBUTING.md`]")[0]
    assert re.findall(r"`(\w+)`", named) == list(topics())


def test_what_it_points_at_is_there() -> None:
    assert [target for target in re.findall(r"\]\(([^)]+)\)", README) if not (ROOT / target).exists()] == []
