from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.reports import REPORTS
from harness.reports.run_json import render
from harness.results import Presentation, RunResult
from tests.reports.runs import red, whole_suite


@pytest.mark.parametrize("run", [red(), whole_suite()])
def test_the_json_is_the_run(run: RunResult) -> None:
    assert RunResult.from_json(render(run, Presentation())) == run


def test_it_has_the_keys_that_programs_rely_on() -> None:
    document = json.loads(render(red(), Presentation()))

    assert {"mode", "cells", "differences", "stale", "summary", "versions", "timing"} <= set(document)
    cell = document["cells"][1]
    assert {"scenario", "target", "adapter", "api", "variant", "verdict", "provenance", "findings", "recuts"} <= set(
        cell
    )
    keys = {"rule", "kind", "severity", "blame", "message", "pointer", "actual", "expected"}
    assert keys <= set(cell["findings"][0])
    assert document["summary"]["fail"] == 2


def test_only_the_timing_differs_between_two_runs() -> None:
    first, second = (render(replace(red(), timing={"seconds": each}), Presentation()) for each in (1.0, 2.0))

    different = [a for a, b in zip(first.splitlines(), second.splitlines(), strict=True) if a != b]
    assert different == ['    "seconds": 1.0']


def test_every_report_is_found_by_name_and_shows_any_run() -> None:
    names = [
        "archive",
        "badge",
        "github",
        "gitlab",
        "html",
        "json",
        "junit",
        "markdown",
        "table",
        "terminal",
        "worst",
        "xunit",
    ]
    assert REPORTS.names() == names
    for name in REPORTS.names():
        report = REPORTS.load(name)
        assert report.name == name
        for run in (red(), whole_suite(), RunResult("replay", ())):
            assert f"\n{report.render(run, Presentation())}".endswith("\n")  # of a clean run GitHub gets nothing
