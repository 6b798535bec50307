"""Code that owns its tool loop: installed libraries, and a program for Node."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.results import CellResult, RunResult, Verdict
from tests.cli.conftest import without_workers

HERE = Path(__file__).parent
FEW = ("call-parallel-same-tool", "history-two-turns", "result-error")


def run_cells(folder: Path, *words: str) -> dict[str, CellResult]:
    """The cells of a few scenarios, by their names."""
    report = folder / "run.json"
    main(["run", "--mode=reference", "-n", "2", *words, f"--report=json:{report}", f"--report=terminal:{report}.txt"])
    cells = RunResult.from_json(report.read_text(encoding="utf-8")).cells
    return {f"{cell.scenario} {cell.variant}": cell for cell in cells if cell.verdict is not Verdict.NOT_APPLICABLE}


def test_a_library_runs_its_own_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_workers(monkeypatch)
    loop = ("--conversation=tests.examples.runner_loop:LOOP", "--target=anthropic")

    cells = run_cells(tmp_path, *FEW, "error-in-tool-loop", *loop)

    assert [(name, finding.message) for name, cell in cells.items() for finding in cell.findings] == []
    assert len(cells) == len(FEW) + 1


def test_a_loop_is_declared_in_twenty_lines() -> None:
    body = (HERE / "runner_loop.py").read_text(encoding="utf-8").split('"""', 2)[2]
    lines = [line for line in body.splitlines() if line.strip() and not line.startswith(("import ", "from "))]

    assert len([line for line in lines if not line.startswith(("CAN = ", "LOOP = "))]) <= 22


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_an_agent_that_rounds_integers_is_found(tmp_path: Path) -> None:
    program = f"--agent-command=node {HERE / 'agent.mjs'}"

    cells = run_cells(tmp_path, *FEW, "arguments-large-integers", program, "--target=anthropic")
    rounded = cells.pop("arguments-large-integers whole")

    assert {name: cell.verdict for name, cell in cells.items()} == {f"{name} whole": Verdict.PASS for name in FEW}
    (found,) = [each for each in rounded.findings if each.rule == "tool-run-otherwise"]
    assert (found.actual, found.expected) == ({"event_id": 9007199254740992}, {"event_id": 9007199254740993})
