from __future__ import annotations

import pytest

from harness.reports import REPORTS
from harness.reports.run_changes import render
from harness.results import Presentation, RunResult
from tests.reports.runs import red, whole_suite


@pytest.mark.parametrize("run", [red(), whole_suite()])
def test_the_json_is_the_run(run: RunResult) -> None:
    assert RunResult.from_json(render(run, Presentation())) == run


def test_every_report_is_found_by_name_and_shows_any_run() -> None:
    names = [
        "archive",
        "badge",
        "features",
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
