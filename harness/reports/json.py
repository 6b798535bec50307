"""The run itself, for programs: `RunResult` as JSON. All other reports are projections of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from harness.reports._comparison import compared
from harness.results import Presentation, Report, RunResult


def render(run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - for people only
    """The JSON of the run; two runs differ under `timing` only."""
    return run.to_json()


def pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:  # noqa: ARG001 - the same
    """The same, a cell at a time."""
    return run.json_pieces()


def compare(before: RunResult, run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - as above
    """What has changed, as JSON: lists of changes, each with what was and what is."""
    made = compared(run, before)
    return json.dumps({"worse": made.worse, **asdict(made)}, ensure_ascii=False, indent=2) + "\n"


REPORT = Report("json", render, pieces=pieces, compare=compare, reads_back=True)
