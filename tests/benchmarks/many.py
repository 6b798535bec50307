"""Many cells from few recordings: shipped scenarios under other names, which all play the shipped cassettes."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from harness.cassettes.cassette import Cassette
from harness.cassettes.library import CassetteLibrary
from harness.cli.outputs import Output
from harness.reports import REPORTS
from harness.results import Presentation, Variant
from harness.runner.cells import Cell, cells
from harness.runner.suite_run import Plan
from harness.scenarios.load import digest
from harness.scenarios.schema import Scenario
from tests.backends import shipped_scenarios, shipped_targets
from tests.benchmarks.contenders import ROOT

CHOSEN = ("call-parallel-same-tool", "call-single", "error-429", "json-schema-nested", "system-changed")
"""Of several subjects; each is run with every target that sends requests, whole and streamed."""


class Shared(CassetteLibrary):
    """The shipped cassettes, for scenarios that are called like their owners with a number behind."""

    def load(self, target: str, scenario: str, variant: Variant) -> Cassette:
        shipped, _, _number = scenario.rpartition("-no-")
        cassette = super().load(target, shipped, variant)
        assert cassette.metadata is not None
        whole = digest(_named(shipped_scenarios()[shipped], scenario))
        return replace(cassette, metadata=replace(cassette.metadata, scenario=scenario, scenario_digest=whole))


def _named(scenario: Scenario, name: str) -> Scenario:
    return scenario.model_copy(update={"id": name})


def some_cells(number: int) -> list[Cell]:
    """So many cells."""
    return [cell for _, cell in zip(range(number), _cells(), strict=False)]


def _cells() -> Iterator[Cell]:
    chosen = [shipped_scenarios()[name] for name in CHOSEN]
    targets = list(shipped_targets().values())
    copy = 0
    while True:
        named = [_named(each, f"{each.id}-no-{copy}") for each in chosen]
        yield from cells(named, targets)
        copy += 1


def run_seconds(chosen: Sequence[Cell], folder: Path, processes: int) -> float:
    """Run cells and write the JSON and the terminal's report into a folder; seconds of the processor, with those of
    all processes."""
    run = Plan(mode="replay", libraries=[Shared(ROOT / "cassettes")]).run(list(shipped_targets().values()))
    begin = _seconds()
    result = run(chosen, jobs=processes)
    for name in ("terminal", "json"):
        Output(REPORTS.load(name), folder / name).write(result, Presentation())
    if len(result.cells) != len(chosen) or result.exit_code:
        raise SystemExit(f"the run failed: {result.summary}")
    return _seconds() - begin


def _seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
