"""Verdicts and causes over several runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.reports.finding_causes import causes
from harness.reports.run_changes import cause_title
from harness.results import RunResult, Severity, Verdict


@dataclass(frozen=True, slots=True)
class CauseHistory:
    """The number of cells that show a cause in each run. `message` is that of its last occurrence."""

    title: str
    message: str
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunHistory:
    """Runs from the oldest to the latest. `verdicts` are those that occur, and `causes` are errors and warnings, with
    those of the latest run first.
    """

    runs: tuple[RunResult, ...]
    verdicts: tuple[Verdict, ...]
    causes: tuple[CauseHistory, ...]


def run_history(run: RunResult, earlier: Sequence[RunResult]) -> RunHistory:
    """Return the history of a run and the earlier runs, which are in the order of their dates."""
    runs = (*earlier, run)
    counted: dict[str, list[int]] = {}
    messages: dict[str, str] = {}
    for at in reversed(range(len(runs))):
        for severity in (Severity.ERROR, Severity.WARNING):
            for cause in causes(runs[at], severity):
                title = cause_title(cause)
                messages.setdefault(title, cause.message)
                counted.setdefault(title, [0] * len(runs))[at] += cause.cells
    verdicts = tuple(each for each in Verdict if any(known.summary[each] for known in runs))
    return RunHistory(
        runs, verdicts, tuple(CauseHistory(title, messages[title], tuple(cells)) for title, cells in counted.items())
    )
