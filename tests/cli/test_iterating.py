"""From red to green: only what failed, no more than has to be seen, and colours where they are wanted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import NO_SUCH_TOOL, Command

ROOT = Path(__file__).parent.parent.parent
SCENARIOS = ("arguments-floats", "call-single", "result-boolean", "result-error-in-parallel")
MANY = tuple(f"results-{name}" for name in ("deep", "escapes", "floats", "large-integers", "unicode")) + tuple(
    f"system-{name}" for name in ("absent", "added", "changed", "dropped", "empty", "multiline", "plain", "unicode")
)
ANTHROPIC = ("--target=anthropic", "--variant=whole")
RULE = "anthropic-ours-no-weather"
FAILING = ["call-single", "result-error-in-parallel"]


@pytest.fixture
def red(folder: Path) -> Path:
    """A folder with facts by which two of the four `SCENARIOS` are refused."""
    (folder / "ours.yaml").write_text(NO_SUCH_TOOL)
    return folder


def played(report: str) -> list[str]:
    return [cell["scenario"] for cell in json.loads(report)["cells"]]


def run(harness: Command, *words: str, scenarios: Sequence[str] = SCENARIOS) -> tuple[int, list[str], str]:
    """The exit code, the scenarios that were played, and what was said."""
    outcome = harness("run", *scenarios, *ANTHROPIC, "--report=json", *words)
    return outcome.code, played(outcome.out), outcome.err


def test_only_what_failed_is_played_again_until_it_passes(harness: Command, red: Path) -> None:
    assert red.is_dir()
    assert run(harness)[0] == 0
    assert not (red / ".harness").exists()
    assert run(harness, "--facts=ours.yaml")[:2] == (1, [*SCENARIOS])

    again = run(harness, "--facts=ours.yaml", "--last-failed")
    one_is_mended = run(harness, "--last-failed", scenarios=SCENARIOS[:2])
    other = run(harness, "--lf", scenarios=SCENARIOS[:3])
    last = run(harness, "--lf")
    none = run(harness, "--lf")

    assert again == (1, FAILING, "--last-failed: 2 of 4 cells, which failed when last played.\n")
    assert one_is_mended == (0, FAILING[:1], "--last-failed: 1 of 2 cells, which failed when last played.\n")
    told = "--last-failed: none of these cells failed when it was last played; 3 cells to play.\n"
    assert other == (0, [*SCENARIOS[:3]], told)
    assert last == (0, FAILING[1:], "--last-failed: 1 of 4 cells, which failed when last played.\n")
    assert none == (0, [*SCENARIOS], "--last-failed: no failure is known here; 4 cells to play.\n")
    assert (red / ".harness" / ".gitignore").read_text() == "*\n"


def test_failures_are_those_of_the_project_and_of_the_mode(
    harness: Command, red: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (red / "pyproject.toml").write_text('[tool.harness]\nfacts = ["ours.yaml"]\n')
    (red / "tests").mkdir()
    assert run(harness)[0] == 1
    monkeypatch.chdir(red / "tests")

    assert run(harness, "--lf")[1] == FAILING
    assert run(harness, "--lf", "--mode=reference")[1] == [*SCENARIOS]


@pytest.mark.parametrize("kept", ["{", "[]", '{"replay": 5}', '{"replay": [["call-single"], 5]}'])
def test_an_invalid_file_of_failures_is_ignored(harness: Command, red: Path, kept: str) -> None:
    (red / ".harness").mkdir()
    (red / ".harness" / "last-failed.json").write_text(kept)

    assert run(harness, "--lf")[:2] == (0, [*SCENARIOS])


def test_failures_that_cannot_be_kept_are_no_failure(harness: Command, red: Path) -> None:
    (red / ".harness").write_text("in the way")

    code, _, said = run(harness, "--facts=ours.yaml")

    assert code == 1
    assert said == "harness: .harness/last-failed.json: File exists: failures are not stored for --last-failed.\n"


def test_a_run_stops_early_and_counts_unplayed_cells(harness: Command, red: Path) -> None:
    assert red.is_dir()
    facts = "--facts=ours.yaml"

    first = harness("run", *SCENARIOS, *ANTHROPIC, facts, "-x", "--report=json:first.json")
    second = run(harness, facts, "--maxfail=2")
    threads = run(harness, facts, "-x", "-n2", scenarios=("call-single", *MANY))
    none = run(harness, "-x")

    assert first.code == 1
    verdict = "FAIL  2 cells (whole): 1 pass, 1 fail; stopped there, 2 cells not played"
    assert first.out.startswith(verdict)
    kept = json.loads((red / "first.json").read_text())
    assert (kept["unplayed"], kept["finished"], len(kept["cells"])) == (2, False, 2)
    assert harness("report", "first.json").out.startswith(verdict)
    assert second[:2] == (1, [*SCENARIOS])
    assert threads[0] == 1
    assert len(threads[1]) <= len(MANY)
    assert none[:2] == (0, [*SCENARIOS])


def test_processes_stop_as_well(red: Path) -> None:
    command = ["-m", "harness", "run", *ANTHROPIC, "--facts=ours.yaml", "-x", "-n2", "--report=json"]

    done = subprocess.run([sys.executable, *command], cwd=red, env=_environment(), capture_output=True, check=False)

    kept = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert kept["summary"]["fail"] == 1
    assert kept["unplayed"] > 50


def test_a_recording_stops_as_well(harness: Command, red: Path) -> None:
    words = (*ANTHROPIC, "--facts=ours.yaml", "--report=json")

    outcome = harness("record", "--from=reference", *SCENARIOS, *words, "-x")

    assert (outcome.code, played(outcome.out)) == (1, [*SCENARIOS[:2]])
    assert not (red / "cassettes" / "result-boolean").exists()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_the_quiet_report_has_what_fails_and_the_verdict(harness: Command, red: Path) -> None:
    assert red.is_dir()

    green = harness("run", *SCENARIOS, *ANTHROPIC, "-q", "--report=json:run.json", "--report=terminal")
    failed = harness("run", *SCENARIOS, *ANTHROPIC, "--facts=ours.yaml", "--quiet", "--ignore=usage")

    assert green.out.startswith("PASS  4 cells (whole): 4 pass")
    assert green.out.count("\n") == 1
    assert harness("report", "run.json", "-q").out == green.out
    heads = [line for line in failed.out.splitlines() if line and not line.startswith(" ")]
    assert heads[0].startswith("Cause 1: ")
    assert f"{RULE}: the provider refuses it; at fault: adapter; 2 cells" in failed.out
    assert heads[-1].startswith("FAIL  4 cells (whole): 2 pass, 2 fail")
    assert "Ignored: usage; that hides nothing." in failed.out
    assert "subject" not in failed.out


def test_the_quiet_audit_has_no_table_and_no_warnings(harness: Command, red: Path, cassettes: Path) -> None:
    assert red.is_dir()
    recorded = str(cassettes / "call-single" / "anthropic.yaml")

    green, failed = harness("audit", recorded, "-q"), harness("audit", recorded, "-q", "--facts=ours.yaml")

    assert green.out == "Audit of 1 cassette\n\n0 of 2 accepted and 0 of 0 refused requests break a limit.\n"
    assert f"error: {RULE} (limit), 2 times" in failed.out
    assert "exchanges" not in failed.out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("variables", "words", "coloured"),
    [
        ({}, [], True),
        ({"TERM": "dumb"}, [], False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, [], True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, [], False),
        ({"NO_COLOR": ""}, [], True),
        ({"FORCE_COLOR": "1"}, ["--no-color"], False),
    ],
)
def test_colours_are_where_they_are_wanted(
    harness: Command, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: list[str], coloured: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    out = harness("run", "call-single", *ANTHROPIC, *words).out

    assert ("\x1b[" in out) is coloured
    assert os.environ.get("NO_COLOR") == variables.get("NO_COLOR")


def test_colours_can_be_asked_for_where_no_terminal_is(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folder.is_dir()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    assert "\x1b[" not in harness("run", "call-single", *ANTHROPIC).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in harness("run", "call-single", *ANTHROPIC).out
