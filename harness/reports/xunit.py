"""JUnit XML for Jenkins' xUnit plugin, which refuses a file with an attribute that its schema does not have: as
`junit`, with the file and the line of a scenario in the text of its case alone."""

from __future__ import annotations

from collections.abc import Iterator

from harness.reports._xml import Suites
from harness.results import Presentation, Report, RunResult


def render(run: RunResult, presentation: Presentation) -> str:
    """The XML, as text."""
    return "".join(pieces(run, presentation))


def pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:
    """The same, a case at a time."""
    return Suites(run, presentation, places=False).pieces()


REPORT = Report("xunit", render, pieces=pieces)
