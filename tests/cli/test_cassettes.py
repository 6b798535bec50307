"""Cassettes that no scenario plays any more, that answer another question, or that are too old."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cassettes.library import CassetteLibrary
from harness.platform.files import shipped_folder
from harness.results import Variant
from tests.cli.conftest import Command, Outcome

SHIPPED = shipped_folder("scenarios")
NOW = dt.datetime.now(dt.UTC)


@pytest.fixture
def mine(folder: Path, cassettes: Path) -> Path:
    """A project with three scenarios, of which all was recorded once, for two targets."""
    (folder / "pyproject.toml").write_text(
        '[tool.harness]\nscenarios = ["llm"]\ntargets = ["anthropic"]\nvariants = ["whole"]\n'
    )
    (folder / "llm").mkdir()
    for name in ("call-single", "json-mode", "system-plain"):
        shutil.copy(SHIPPED / f"{name}.yaml", folder / "llm")
        (folder / "cassettes" / name).mkdir(parents=True)
        for recording in ("anthropic.yaml", "anthropic.stream.yaml", "gemini-3.yaml"):
            shutil.copy(cassettes / name / recording, folder / "cassettes" / name)
    return folder


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))


def aged(folder: Path, scenario: str, days: int, variant: Variant = "whole") -> None:
    """Have a provider have answered so many days ago."""
    library = CassetteLibrary(folder / "cassettes")
    cassette = library.load("anthropic", scenario, variant)
    assert cassette.metadata is not None
    at = (NOW - dt.timedelta(days=days)).isoformat(timespec="seconds")
    library.save(replace(cassette, metadata=replace(cassette.metadata, origin="provider", recorded_at=at)), force=True)


def listed(outcome: Outcome) -> dict[str, tuple[str, str]]:
    """State and reason of each cassette."""
    rows = [re.split(r"  +", line) for line in outcome.out.splitlines()]
    assert rows[0] == ["CASSETTE", "STATE", "ORIGIN", "MODEL", "RECORDED", "WHY"]
    return {row[0].removeprefix("cassettes/"): (row[1], row[5]) for row in rows[1:]}


def test_each_cassette_is_listed_with_its_state_and_why(harness: Command, mine: Path) -> None:
    edit(mine / "llm" / "system-plain.yaml", "\nsystem: ", "\nsystem: Again. ")
    (mine / "llm" / "json-mode.yaml").rename(mine / "llm" / "mode-json.yaml")
    edit(mine / "llm" / "mode-json.yaml", "id: json-mode", "id: mode-json")
    (mine / "cassettes" / "system-plain" / "gemini-3.yaml").write_text("interactions: [")
    aged(mine, "call-single", 100)

    outcome = harness("list", "cassettes", "--max-age", "12w")

    day = str((NOW - dt.timedelta(days=100)).date())
    renamed = ("orphaned", "there is no scenario json-mode; mode-json sends the same")
    states = listed(outcome)
    unread = states.pop("system-plain/gemini-3.yaml")
    assert states == {
        "call-single/anthropic.yaml": (
            "old",
            f"recorded on {day}, 100 days ago: older than the limit of 84 days",
        ),
        "call-single/anthropic.stream.yaml": ("unused", "it is not run streamed"),
        "call-single/gemini-3.yaml": ("unused", "the target gemini-3 is not run"),
        "json-mode/anthropic.yaml": renamed,
        "json-mode/anthropic.stream.yaml": renamed,
        "json-mode/gemini-3.yaml": renamed,
        "system-plain/anthropic.yaml": ("stale", "what the scenario sends has changed"),
        "system-plain/anthropic.stream.yaml": ("unused", "it is not run streamed"),
    }
    assert unread[0] == "unreadable"
    assert outcome.code == 0
    assert outcome.err == (
        "1 stale, 1 old, 3 unused, 3 orphaned, 1 unreadable. "
        "To record stale and old ones again: harness record --stale\n"
    )


def test_a_cassette_in_another_s_place_is_named(harness: Command, mine: Path) -> None:
    shutil.copy(mine / "cassettes/call-single/anthropic.yaml", mine / "cassettes/json-mode/anthropic.yaml")

    states = listed(harness("list", "cassettes"))

    assert states["json-mode/anthropic.yaml"] == (
        "unused",
        "it is that of call-single on anthropic, whole, and is stored elsewhere",
    )
    assert states["call-single/anthropic.yaml"] == ("fresh", "-")


def test_a_cassette_of_the_target_s_former_model_is_stale(harness: Command, mine: Path) -> None:
    library = CassetteLibrary(mine / "cassettes")
    cassette = library.load("anthropic", "json-mode", "whole")
    assert cassette.metadata is not None
    present = cassette.metadata.model_requested
    library.save(replace(cassette, metadata=replace(cassette.metadata, model_requested="claude-1")), force=True)

    assert listed(harness("list", "cassettes"))["json-mode/anthropic.yaml"] == (
        "stale",
        f"the target's model is {present} now: harness record --force replaces it",
    )


def test_only_fresh_cassettes_are_conformant_where_it_is_strict(harness: Command, mine: Path) -> None:
    found = harness("list", "cassettes", "--strict")
    for gone in (*mine.glob("cassettes/*/*.stream.yaml"), *mine.glob("cassettes/*/gemini-3.yaml")):
        gone.unlink()

    fresh = harness("list", "cassettes", "--strict")

    assert (found.code, fresh.code, fresh.err) == (1, 0, "3 fresh\n")


@pytest.mark.parametrize("how", ["option", "project"])
def test_an_old_recording_is_a_warning_or_strictly_an_error(harness: Command, mine: Path, how: str) -> None:
    aged(mine, "call-single", 91)
    aged(mine, "json-mode", 89)
    words = ["--max-age=90d"] if how == "option" else []
    if how == "project":
        with (mine / "pyproject.toml").open("a") as file:
            file.write('max-age = "90d"\n')

    lenient, strict = (harness("run", "--report=json", *words, *more) for more in ((), ("--strict",)))

    cells = {cell["scenario"]: cell for cell in json.loads(lenient.out)["cells"]}
    assert {name: cell["verdict"] for name, cell in cells.items()} == {
        "call-single": "warn",
        "json-mode": "pass",
        "system-plain": "pass",
    }
    (finding,) = cells["call-single"]["findings"]
    assert (finding["rule"], finding["severity"], finding["blame"]) == ("cassette-old", "warning", "cassette")
    assert "91 days ago: older than the limit of 90 days; record it again" in finding["message"]
    assert (lenient.code, strict.code) == (0, 1)


def test_only_what_is_stale_or_too_old_is_recorded_again(harness: Command, mine: Path) -> None:
    edit(mine / "llm" / "system-plain.yaml", "\nsystem: ", "\nsystem: Again. ")
    (mine / "cassettes" / "json-mode" / "anthropic.yaml").unlink()
    aged(mine, "call-single", 91)
    kept = (mine / "cassettes" / "call-single" / "anthropic.yaml").read_text()
    again = ("record", "--from=reference", "--stale", "--report=json")

    stale = harness(*again)
    unchanged = (mine / "cassettes" / "call-single" / "anthropic.yaml").read_text()
    old = harness(*again, "--max-age=90d")
    none = harness("record", "--from=reference", "--stale", "--max-age=90d")

    assert [cell["scenario"] for cell in json.loads(stale.out)["cells"]] == ["system-plain"]
    assert unchanged == kept
    assert [cell["scenario"] for cell in json.loads(old.out)["cells"]] == ["call-single"]
    assert (none.code, none.out) == (0, "")
    left = "3 chosen cells without a stale cassette, which --stale does not replace"
    assert (none.err, old.err) == (
        f"{left}; nothing to record again.\n",
        f"{left.replace('3', '2')}; 1 cell to record again.\n",
    )
    assert not (mine / "cassettes" / "json-mode" / "anthropic.yaml").exists()
