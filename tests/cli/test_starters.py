"""`harness check --init`: what it writes passes as it stands, and nothing is overwritten."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from harness.results import RunResult, Verdict
from tests.cli.conftest import Command

FEW = (
    "call-parallel-same-tool",
    "history-long-ids",
    "arguments-large-integers",
    "history-two-turns",
    "error-429-retry-after",
    "body-html",
)


def verdicts(folder: Path) -> set[Verdict]:
    cells = RunResult.from_json((folder / "run.json").read_text()).cells
    return {cell.verdict for cell in cells if cell.verdict is not Verdict.NOT_APPLICABLE}


WAYS = {
    "python": "--adapter=my_adapter:ADAPTER",
    "command": "--adapter-command=node my_adapter.mjs",
    "conversation": "--conversation=my_loop:drive",
    "agent": f"--agent-command={sys.executable} my_agent.py",
}


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.usefixtures("in_process")
def test_a_starter_passes_as_it_stands(harness: Command, folder: Path, kind: str) -> None:
    if kind == "command" and shutil.which("node") is None:
        pytest.skip("Node is not installed")
    kind_of = "agent" if kind in ("conversation", "agent") else "adapter"
    written = harness("check", kind_of, "--init", kind)
    outcome = harness("run", *FEW, "--mode=reference", "--target=openai-chat", WAYS[kind], "--report=json:run.json")

    assert (written.code, written.err) == (0, "")
    assert written.out.startswith("my_")
    assert outcome.code == 0, outcome.out
    assert verdicts(folder) == {Verdict.PASS}


@pytest.mark.parametrize("kind", ["adapter", "loop"])
def test_a_starter_is_not_taken_for_code_of_the_user(harness: Command, folder: Path, kind: str) -> None:
    first = harness("init", "--for", kind)
    again = harness("init")

    assert f"my_{kind}.py is written" in first.out
    assert "Found " not in again.out
