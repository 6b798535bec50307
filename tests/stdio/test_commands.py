"""Adapters that are commands, through the public command: played as any other, and broken for their cell alone."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.results import CellResult, RunResult

CHILD = Path(__file__).parent / "child.py"

BROKEN = {
    "dies": "the adapter ended the process with exit code 3",
    "prints": "BrokenCommand: the command wrote a line that is no message of JSON-RPC 2.0: 'thinking about it ...'. "
    "Standard output is for messages; whatever else there is to say goes to standard error",
    "says-something-else": "BrokenCommand: the command answered with what is no response: the response has no "
    "'message'",
    "misspells": "BrokenCommand: the command answered with what is no response: the response.message.parts[0] has no "
    "'arguments'",
    "another-id": ", 'chat', with a message that is no result or error of that id",
    "crashes": "BrokenCommand: TypeError: undefined is not a function",
    "half-an-error": "BrokenCommand: the command answered with an error that cannot be read: error.data.kind is "
    "'rate_limited'. Allowed: unsupported, connection_failed, malformed_response, provider_error",
    "hangs": "the adapter did not come back within 3 seconds",  # and the line, where a slow machine was still importing
}
"""What the cell says."""


def command(way: str) -> str:
    return shlex.join([sys.executable, str(CHILD), way])


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[CellResult]]:
    """The cells of each way, of two scenarios, two cells at a time."""
    report = tmp_path_factory.mktemp("commands") / "run.json"
    chosen = [word for way in BROKEN for word in ("--adapter-command", command(way))]
    scenarios = ["call-single", "system-plain"]
    options = ["--mode", "reference", "-n", "2", "--cell-timeout", "3", f"--report=json:{report}"]
    assert main(["run", *scenarios, *options, f"--report=terminal:{report}.txt", *chosen]) == 1
    found: dict[str, list[CellResult]] = {}
    for cell in RunResult.from_json(report.read_text()).cells:
        found.setdefault(cell.adapter.removeprefix("child-"), []).append(cell)
    return found


@pytest.mark.parametrize("way", BROKEN)
def test_what_is_wrong_is_said_of_the_cell_and_the_next_is_played(
    played: dict[str, list[CellResult]], way: str
) -> None:
    assert len(played[way]) == 2
    for cell in played[way]:
        said = [cell.reason or "", *(finding.message for finding in cell.findings)]
        assert any(BROKEN[way] in each for each in said), said
        assert cell.verdict in ("fail", "error")


def test_standard_error_is_in_the_report(played: dict[str, list[CellResult]]) -> None:
    assert played["dies"][0].printed == "a last word\n"
    assert played["hangs"][0].printed == "about to hang\n"


def test_a_command_is_played_as_any_adapter_is_and_its_failures_are_those_of_the_provider(tmp_path: Path) -> None:
    report = tmp_path / "run.json"
    scenarios = ["call-parallel-same-tool", "arguments-large-integers", "error-429-retry-after", "error-in-tool-loop"]

    reports = [f"--report=json:{report}", f"--report=terminal:{report}.txt"]

    code = main(["run", *scenarios, "--mode=reference", f"--adapter-command={command('right')}", *reports])

    run = RunResult.from_json(report.read_text())
    assert code == 0, Path(f"{report}.txt").read_text()
    assert {(cell.target, cell.verdict.value) for cell in run.cells} == {("child-right", "pass")}


def test_the_commands_that_are_shown_ask_for_the_command_again(tmp_path: Path) -> None:
    report = tmp_path / "run.txt"

    crashing = f"--adapter-command={command('crashes')}"
    main(["run", "call-single", "--mode=reference", crashing, f"--report=terminal:{report}"])

    shown = " ".join(report.read_text().split())
    again = re.search(r"Play again (harness run .*?) --target openai-chat", shown)
    assert again
    words = shlex.split(again.group(1))
    assert words[words.index("--adapter-command") + 1] == command("crashes")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("no-such-command-here --x", "it cannot be started: No such file or directory."),
        ("", "name one adapter"),
        (
            command("mute"),
            "the adapter ended the process with exit code 1. It printed: node: cannot find module",
        ),
        ("'", "it is no command line: No closing quotation."),
    ],
)
def test_a_command_that_is_no_adapter_ends_the_check_with_what_it_said(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--adapter-command", line] if line else ["check"]) == 2

    assert said in capsys.readouterr().err
