"""The run itself, for programs: `RunResult` as JSON. All other reports are projections of it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.results import Presentation, Report, RunResult


def render(run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - for people only
    """The JSON of the run; two runs differ under `timing` only."""
    return run.to_json()


def pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:  # noqa: ARG001 - the same
    """The same, a cell at a time."""
    return run.json_pieces()


REPORT = Report("json", render, pieces=pieces)
