"""An adapter that is a command, through the public command: run as any other, and broken for its cell alone."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.results import CellResult, RunResult
from harness.stdio import workers
from tests.stdio.test_workers import SCENARIO

BROKEN = {
    "dies": "the adapter ended the process with exit code 3",
    "prints": "BrokenCommand: the command wrote a line that is not a JSON-RPC 2.0 message: 'thinking about it ...'. "
    "Standard output is only for messages; write other output to standard error",
    "says-something-else": "BrokenCommand: the command answered with what is no response: the response has no "
    "'message'",
    "misspells": "BrokenCommand: the command answered with what is no response: the response.message.parts[0] has no "
    "'arguments'",
    "another-id": ", 'chat', with a message that is not a result or an error with that id",
    "crashes": "BrokenCommand: TypeError: undefined is not a function",
    "half-an-error": "BrokenCommand: the command answered with an error that cannot be read: error.data.kind is "
    "'rate_limited'. Allowed: unsupported, connection_failed, malformed_response, provider_error",
    "hangs": "the adapter did not come back within 2 seconds",
}
"""Part of the cell's reason or of a finding, by what the command does."""

RIGHT = ("call-parallel-same-tool", "arguments-large-integers", "error-429-retry-after", "error-in-tool-loop")
COMMAND = shlex.join([sys.executable, str(Path(__file__).parent / "child.py")])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reports of one run of all scenarios."""
    place = tmp_path_factory.mktemp("commands")
    files = [place / f"{way}.yaml" for way in BROKEN]
    for file in files:
        file.write_text(SCENARIO.format(way=file.stem))
    reports = [f"--report=json:{place / 'run.json'}", f"--report=terminal:{place / 'run.txt'}"]
    options = ["--mode=reference", "-n2", "--cell-timeout=2", f"--adapter-command={COMMAND}"]
    assert main(["run", *RIGHT, *map(str, files), *options, *reports]) == 1
    return place


@pytest.fixture(scope="module")
def cells(folder: Path) -> dict[str, CellResult]:
    return {cell.scenario: cell for cell in RunResult.from_json((folder / "run.json").read_text()).cells}


@pytest.mark.parametrize("way", BROKEN)
def test_a_broken_command_fails_its_cell(cells: dict[str, CellResult], way: str) -> None:
    found = [cells[way].reason or "", *(finding.message for finding in cells[way].findings)]
    assert any(BROKEN[way] in each for each in found), found
    assert cells[way].verdict in ("fail", "error")


def test_standard_error_is_in_the_report(cells: dict[str, CellResult]) -> None:
    assert cells["dies"].printed == "a last word\n"
    assert cells["hangs"].printed == "about to hang\n"


def test_a_right_command_passes_with_failures_of_the_provider(cells: dict[str, CellResult]) -> None:
    assert {cells[each].verdict.value for each in RIGHT} == {"pass"}


def test_the_command_that_repeats_a_cell_names_the_adapter_command(folder: Path) -> None:
    text = " ".join((folder / "run.txt").read_text().split())
    again = re.search(r"Run again (harness run .*?) --target openai-chat", text)
    assert again
    words = shlex.split(again.group(1))
    assert words[words.index("--adapter-command") + 1] == COMMAND


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--adapter-command", "no-such-command-here --x"], "it cannot be started: No such file or directory."),
        ([], "name one adapter"),
        (
            ["--adapter-command", "sh -c 'echo node: cannot find module >&2; exit 1'"],
            "the adapter ended the process with exit code 1. It printed: node: cannot find module",
        ),
        (["--adapter-command", "'"], "not a command line: No closing quotation."),
        (
            ["slow_import:ADAPTER", "--cell-timeout=1"],
            (
                "the adapter 'slow_import:ADAPTER' cannot be used: importing it took longer than 3 seconds "
                "(slow_import.py, line 3); a longer --cell-timeout allows it more "
                "(under pytest, harness_cell_timeout). It printed: begun\n"
            ),
        ),
    ],
)
def test_what_is_no_adapter_ends_the_check(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slow_import.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "_LOADING_SECONDS", 3.0)

    assert main(["check", *words]) == 2

    assert said in capsys.readouterr().err
