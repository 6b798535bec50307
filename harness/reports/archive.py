"""The run itself, as `json` has it, and with it what was said and sent in each cell: all that `harness report` needs to
make any other report of it on another day. Of the shipped suite it is seven times as large."""

from __future__ import annotations

from harness.results import Presentation, Report, RunResult


def render(run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - for programs only
    """The JSON of the run with its conversations."""
    return run.to_json(conversations=True)


REPORT = Report("archive", render, wants_conversations=True)
