"""From red to green: only what failed, no more than has to be seen, progress and colours."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from harness.cli import progress
from harness.model.messages import Usage
from harness.results import Spending
from tests.cli.conftest import NO_SUCH_TOOL, Command
from tests.reports.runs import cell
from tests.runner.test_processes import FORKING

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


def scenarios_of(report: str) -> list[str]:
    return [cell["scenario"] for cell in json.loads(report)["cells"]]


def run(harness: Command, *words: str, scenarios: Sequence[str] = SCENARIOS) -> tuple[int, list[str], str]:
    """The exit code, the scenarios that were run, and what was said."""
    outcome = harness("run", *scenarios, *ANTHROPIC, "--report=json", *words)
    return outcome.code, scenarios_of(outcome.out), outcome.err


def test_only_failed_cells_run_again_until_they_pass(harness: Command, red: Path) -> None:
    assert red.is_dir()
    assert run(harness)[0] == 0
    assert not (red / ".harness").exists()
    assert run(harness, "--facts=ours.yaml")[:2] == (1, [*SCENARIOS])

    again = run(harness, "--facts=ours.yaml", "--last-failed")
    one_is_mended = run(harness, "--last-failed", scenarios=SCENARIOS[:2])
    other = run(harness, "--lf", scenarios=SCENARIOS[:3])
    last = run(harness, "--lf")
    none = run(harness, "--lf")

    assert again == (1, FAILING, "--last-failed: 2 of 4 cells, which failed when last run.\n")
    assert one_is_mended == (0, FAILING[:1], "--last-failed: 1 of 2 cells, which failed when last run.\n")
    reported = "--last-failed: none of these cells failed when it was last run; 3 cells to run.\n"
    assert other == (0, [*SCENARIOS[:3]], reported)
    assert last == (0, FAILING[1:], "--last-failed: 1 of 4 cells, which failed when last run.\n")
    assert none == (0, [*SCENARIOS], "--last-failed: no failure is known here; 4 cells to run.\n")
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


def test_a_run_stops_early_and_counts_the_other_cells(harness: Command, red: Path) -> None:
    assert red.is_dir()
    facts = "--facts=ours.yaml"

    first = harness("run", *SCENARIOS, *ANTHROPIC, facts, "-x", "--report=json:first.json")
    second = run(harness, facts, "--maxfail=2")
    threads = run(harness, facts, "-x", "-n2", scenarios=("call-single", *MANY))
    none = run(harness, "-x")

    assert first.code == 1
    verdict = "FAIL  2 cells (whole): 1 pass, 1 fail; stopped there, 2 cells not run"
    assert first.out.startswith(verdict)
    kept = json.loads((red / "first.json").read_text())
    assert (kept["unplayed"], kept["finished"], len(kept["cells"])) == (2, False, 2)
    assert harness("report", "first.json").out.startswith(verdict)
    assert second[:2] == (1, [*SCENARIOS])
    assert threads[0] == 1
    assert len(threads[1]) <= len(MANY)
    assert none[:2] == (0, [*SCENARIOS])


def test_processes_stop_as_well(red: Path) -> None:
    command = ["-c", FORKING, "run", "-k", "call-", *ANTHROPIC, "--facts=ours.yaml", "-x", "-n2", "--report=json"]

    done = subprocess.run([sys.executable, *command], cwd=red, env=_environment(), capture_output=True, check=False)

    kept = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert kept["summary"]["fail"] == 1
    assert kept["unplayed"] > 5


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.Progress(2) as bar:
        bar(cell("first-scenario"))
        bar(cell("second-scenario", "gemini-3", variant="stream"))
    return stream.getvalue()


def test_only_a_long_run_at_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "scenario" not in drawn(Terminal(), monkeypatch)
    monkeypatch.setattr(progress, "_BAR_DELAY_SECONDS", 0.0)
    assert "second-scenario [stream] gemini-3" in drawn(Terminal(), monkeypatch)
    assert drawn(io.StringIO(), monkeypatch) == ""


def test_it_says_how_fast_it_goes_and_what_was_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(progress, "_BAR_DELAY_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "stderr", stream)
    cost = Spending("m", 1, Usage(1, 1), Decimal("0.75"))

    with progress.Progress(3, paid=True) as bar:
        for number in range(3):
            bar(cell(f"scenario-{number}", spending=cost))

    assert "3/3" in stream.getvalue()
    assert re.search(r"\d+\.\d cells/s, \$2\.25", stream.getvalue())
