"""What a loop declares it is asked for, and it is seen whether it does it; what it does not declare is tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import main
from harness.results import CellResult, RunResult, Verdict
from tests.cli.conftest import without_workers
from tests.once import once

ASKED = {
    "choice-named": ("loop-settings", "the tool choice of the request differs from the caller's"),
    "choice-none": ("loop-settings", "the tool choice of the request differs from the caller's"),
    "json-mode": ("loop-settings", "JSON was requested, but no part of the request asks for it"),
    "json-schema": ("loop-settings", "JSON with a schema was requested, but no part of the request has this schema"),
    "image-from-user": ("loop-history", "an image of the user is not in the request"),
    "call-single": (),
}
"""Scenarios, and what is found of a loop that is deaf to what they ask for."""

FAILING = "error-in-tool-loop"
UNHEARD = (
    "loop-settings",
    "a streamed answer was requested from the client, but its request does not ask for a stream",
)

Cells = dict[tuple[str, str, str], CellResult]


@pytest.fixture(scope="session")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    def make(folder: Path) -> Cells:
        report = folder / "run.json"
        reports = [f"--report=json:{report}", f"--report=terminal:{folder / 'run.txt'}"]
        cells: Cells = {}
        for names, scenarios in ((("CAPABLE", "DEAF"), ASKED), (("CAPABLE", "ANEW", "DOUBLING"), [FAILING])):
            loops = [f"--conversation=tests.driving.capable:{name}" for name in names]
            with pytest.MonkeyPatch.context() as patch:
                without_workers(patch)
                assert main(["run", "--mode=reference", *scenarios, *loops, *reports]) == 1
            run = RunResult.from_json(report.read_text(encoding="utf-8"))
            cells |= {(cell.scenario, cell.target, cell.variant): cell for cell in run.cells}
        return cells

    return once(tmp_path_factory, "capable", make)


def found(cell: CellResult) -> list[tuple[str, str]]:
    return [(finding.rule, finding.message) for finding in cell.findings]


@pytest.mark.parametrize("variant", ["whole", "stream"])
@pytest.mark.parametrize("scenario", [*ASKED, FAILING])
def test_what_is_declared_and_done_passes(cells: Cells, scenario: str, variant: str) -> None:
    cell = cells[scenario, "capable", variant]

    assert (cell.verdict, found(cell)) == (Verdict.PASS, [])


@pytest.mark.parametrize("scenario", ASKED)
def test_what_is_declared_and_not_done_is_found(cells: Cells, scenario: str) -> None:
    wanted = [ASKED[scenario]] if ASKED[scenario] else []

    assert found(cells[scenario, "deaf", "whole"]) == wanted
    assert found(cells[scenario, "deaf", "stream"]) == sorted([*wanted, UNHEARD], key=lambda each: each == UNHEARD)


def test_a_failure_that_has_a_tool_run_again_is_found(cells: Cells) -> None:
    cell = cells[FAILING, "anew", "whole"]

    assert cell.verdict is Verdict.FAIL
    assert [finding.rule for finding in cell.findings if finding.follows is None] == ["tool-run-again"]


def test_a_result_that_is_sent_twice_after_a_failure_is_found(cells: Cells) -> None:
    cell = cells[FAILING, "doubling", "whole"]

    assert cell.verdict is Verdict.FAIL
    assert [finding.rule for finding in cell.findings if finding.follows is None] == ["result-duplicate"]


def test_streams_are_repeated_in_other_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_workers(monkeypatch)
    report = tmp_path / "run.json"
    loops = [f"--conversation=tests.driving.capable:{name}" for name in ("CAPABLE", "NAIVE")]

    assert main(["run", "call-single", "--mode=reference", "--recut=3", *loops, f"--report=json:{report}"]) == 1

    cells = RunResult.from_json(report.read_text(encoding="utf-8")).cells
    assert {(cell.target, cell.variant): (cell.verdict, cell.recuts) for cell in cells} == {
        ("capable", "whole"): (Verdict.PASS, 0),
        ("capable", "stream"): (Verdict.PASS, 7),  # with the four forms of its call that the official SDK reads
        ("naive", "whole"): (Verdict.PASS, 0),
        ("naive", "stream"): (Verdict.FAIL, 3),
    }
    said = next(message for cell in cells for _, message in found(cell))
    assert said.startswith(
        "streams rewritten (CRLF line ends, each cut in two): the conversation broke off: it raises JSONDecodeError"
    )


def test_without_retries_no_failure_is_asked_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_workers(monkeypatch)
    report = tmp_path / "run.json"
    loop = ["--conversation=tests.driving.ways:drive", "--api=openai-chat"]

    assert main(["run", "--mode=reference", FAILING, "error-401", *loop, f"--report=json:{report}"]) == 2

    cells = RunResult.from_json(report.read_text(encoding="utf-8")).cells
    assert {cell.scenario: cell.reason for cell in cells} == {
        FAILING: "the loop does not have: retries",
        "error-401": "it ends in a failure, which only the loop's caller sees",
    }
