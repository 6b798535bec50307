"""For CI servers: JUnit XML, a suite for each target and a case for each cell.

A finding at error severity is a failure. What broke and what is missing are errors: neither may read as a pass. A case
names the file of its scenario and the line, which GitLab and Jenkins' JUnit plugin take. `xunit` has the same without.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.reports._xml import Suites
from harness.results import Presentation, Report, RunResult


def render(run: RunResult, presentation: Presentation) -> str:
    """The XML, as text."""
    return "".join(pieces(run, presentation))


def pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:
    """The same, a case at a time."""
    return Suites(run, presentation, places=True).pieces()


REPORT = Report("junit", render, pieces=pieces)
