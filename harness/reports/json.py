"""The run itself, for programs: `RunResult` as JSON. All other reports are projections of it."""

from __future__ import annotations

from harness.results import Presentation, Report, RunResult


def render(run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - for people only
    """The JSON of the run; two runs differ under `timing` only."""
    return run.to_json()


REPORT = Report("json", render)
