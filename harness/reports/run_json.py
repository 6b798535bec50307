"""The run itself as JSON. `archive` also contains the conversations, so that any other report can be made from it
later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from harness.reports.run_changes import compare_runs
from harness.results import Presentation, Report, RunResult


def render(run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - for people only
    """Return the run as JSON. Two runs with the same results differ only under `timing`."""
    return run.to_json()


def _pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:  # noqa: ARG001 - for people only
    return run.json_pieces()


def _render_archive(run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - for people only
    return run.to_json(conversations=True)


def _archive_pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:  # noqa: ARG001 - for people only
    return run.json_pieces(conversations=True)


def compare(before: RunResult, run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - for people only
    """Return the changes as JSON lists. Each change has the earlier and the current value."""
    made = compare_runs(run, before)
    return json.dumps({"worse": made.worse, **asdict(made)}, ensure_ascii=False, indent=2) + "\n"


JSON_REPORT = Report("json", render, pieces=_pieces, compare=compare, reads_back=True)
ARCHIVE = Report("archive", _render_archive, wants_conversations=True, pieces=_archive_pieces, reads_back=True)
