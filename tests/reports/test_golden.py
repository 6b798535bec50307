"""Whole reports of two runs: one with two causes, and one with a bit of everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.reports import REPORTS
from harness.results import Presentation
from tests.reports.runs import red, two_causes

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("name", "report", "presentation"),
    [
        ("terminal-100.txt", "terminal", Presentation(width=100)),
        ("terminal-72.txt", "terminal", Presentation(width=72)),
        ("terminal-verbose.txt", "terminal", Presentation(width=100, verbose=True)),
        ("terminal-quiet.txt", "terminal", Presentation(width=100, quiet=True)),
        ("markdown.md", "markdown", Presentation()),
        ("junit.xml", "junit", Presentation()),
        ("red.txt", "terminal", Presentation(width=110)),
        ("red-verbose.txt", "terminal", Presentation(width=110, verbose=True)),
        ("red.md", "markdown", Presentation()),
        ("red.xml", "junit", Presentation()),
    ],
)
def test_a_red_run(name: str, report: str, presentation: Presentation) -> None:
    run = red() if name.startswith("red") else two_causes()
    assert REPORTS.load(report).render(run, presentation) == (GOLDEN / name).read_text()
