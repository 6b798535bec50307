"""What only replay can say: the request is another one, an exchange is left over, the cassette is old."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.results import Blame, CellResult, Verdict
from harness.runner import Recorder, Run
from harness.stages import Cell, Replay
from harness.tape.library import Library
from tests.broken.fault import ALL, Fault, Wrap
from tests.broken.playing import RULES, cell
from tests.broken.replayed import REPLAYED
from tests.stages import InProcess

CASES = [pytest.param(fault, target, id=f"{fault.name}-{target}") for fault in REPLAYED for target in fault.targets]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Cassettes that the shipped adapters recorded."""
    recorded = Library(tmp_path_factory.mktemp("cassettes"))
    cells = [cell(scenario, target) for scenario in {fault.scenario for fault in REPLAYED} for target in ALL]
    result = Run(InProcess(), RULES, recorder=Recorder(recorded))(cells)
    assert {each.verdict for each in result.cells} == {Verdict.PASS}
    return recorded


def replayed(library: Library, scenario: str, target: str, wrap: Wrap | None = None) -> CellResult:
    return Run(Replay([library]), RULES, strict=True)([cell(scenario, target, wrap)]).cells[0]


@pytest.mark.parametrize(("fault", "target"), CASES)
def test_a_broken_adapter_is_caught(library: Library, fault: Fault, target: str) -> None:
    result = replayed(library, fault.scenario, target, fault.wrap)
    assert fault.found_in(result.findings, result.api), result.findings
    assert result.verdict is Verdict.FAIL


@pytest.mark.parametrize(("fault", "target"), CASES)
def test_the_shipped_adapter_in_its_place_is_not(library: Library, fault: Fault, target: str) -> None:
    result = replayed(library, fault.scenario, target)
    assert result.verdict is Verdict.PASS, result.findings


@pytest.mark.parametrize("target", ALL)
def test_a_cassette_of_an_earlier_scenario_is_stale(tmp_path: Path, target: str) -> None:
    now = cell("call-single", target)
    then = Cell(now.scenario.model_copy(update={"max_iterations": 4}), now.target, now.variant)
    library = Library(tmp_path)
    Run(InProcess(), RULES, recorder=Recorder(library))([then])
    result = replayed(library, "call-single", target)
    assert [(f.rule, f.blame) for f in result.findings] == [("cassette-stale", Blame.CASSETTE)]
    assert result.verdict is Verdict.FAIL
