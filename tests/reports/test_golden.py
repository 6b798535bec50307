"""What a red run looks like: two causes, one of them with what follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import catalog
from harness.results import Presentation
from tests.reports.runs import two_causes

GOLDEN = Path(__file__).parent / "golden"
"""One file for each way to show `two_causes`."""


@pytest.mark.parametrize(
    ("name", "report", "presentation"),
    [
        ("terminal-100.txt", "terminal", Presentation(width=100)),
        ("terminal-72.txt", "terminal", Presentation(width=72)),
        ("terminal-verbose.txt", "terminal", Presentation(width=100, verbose=True)),
        ("terminal-quiet.txt", "terminal", Presentation(width=100, quiet=True)),
        ("markdown.md", "markdown", Presentation()),
        ("junit.xml", "junit", Presentation()),
    ],
)
def test_a_red_run(name: str, report: str, presentation: Presentation) -> None:
    assert catalog.REPORTS.load(report).render(two_causes(), presentation) == (GOLDEN / name).read_text()
