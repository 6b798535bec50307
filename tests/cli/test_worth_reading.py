"""Of many scenario files only those are read that `-k` may choose by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def many(folder: Path) -> Path:
    """Scenarios of their own, and files that nobody can read."""
    written = (ROOT / "scenarios" / "call-single.yaml").read_text()
    place = folder / "many"
    place.mkdir()
    for name in ("one", "another"):
        (place / f"{name}.yaml").write_text(written.replace("id: call-single", f"id: {name}"))
    listed = written.replace("id: call-single", "id: in-lines").replace(
        "covers: [id-matching, tools]", "covers:\n  - tools\n  - id-matching"
    )
    assert listed.count("  - id-matching") == 1
    (place / "in-lines.yaml").write_text(listed)
    (place / "no-yaml.yaml").write_text("covers: [json-mode]\nid: [")
    return place


@pytest.mark.parametrize(
    ("words", "cells"),
    [("one", 2), ("another or in-lines", 4), ("one and openai-chat", 2)],
)
def test_errors_in_unselected_files_are_not_reported(harness: Command, many: Path, words: str, cells: int) -> None:
    outcome = harness("run", "--mode", "reference", "--target", "openai-chat", "-k", words, str(many))
    assert outcome.code == 0, outcome.err
    assert f"PASS  {cells} cells" in outcome.out


@pytest.mark.parametrize("options", [[], ["-k", "yaml"], ["-k", "json"], ["-k", "id-matching"]])
def test_it_is_said_of_those_that_may_be_chosen(harness: Command, many: Path, options: list[str]) -> None:
    outcome = harness("run", "--mode", "reference", "--target", "openai-chat", *options, str(many))
    assert outcome.code == 2
    assert "no-yaml.yaml:2:" in outcome.err


def test_nothing_that_matches_is_said(harness: Command, many: Path) -> None:
    outcome = harness("run", "--mode", "reference", "--target", "openai-chat", "-k", "two", str(many))
    assert outcome.code == 2
    assert "-k 'two' matches no cell of the chosen scenarios and targets." in outcome.err
