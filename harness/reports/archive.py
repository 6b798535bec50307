"""The run itself, as `json` has it, and with it what was said and sent in each cell: all that `harness report` needs to
make any other report of it on another day. Of the shipped suite it is seven times as large."""

from __future__ import annotations

from collections.abc import Iterator

from harness.results import Presentation, Report, RunResult


def render(run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - for programs only
    """The JSON of the run with its conversations."""
    return run.to_json(conversations=True)


def pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:  # noqa: ARG001 - the same
    """The same, a cell at a time."""
    return run.json_pieces(conversations=True)


REPORT = Report("archive", render, wants_conversations=True, pieces=pieces, reads_back=True)
