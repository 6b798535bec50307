"""The progress bar of a long run: on standard error, where it is a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from harness.reports._costs import money
from harness.reports._words import label
from harness.results import CellResult, Spending

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_PATIENCE = 1.0
"""Seconds that a run may take without a bar."""


class Progress:
    """Counts cells, and says how fast they go, how long the rest will take and, where they are `paid` for, what they
    cost. Nothing is drawn for a run that is over at once, or where nobody watches."""

    def __init__(self, total: int, *, paid: bool = False) -> None:
        self._total = total
        self._paid = paid
        self._spent: Spending | None = None
        self._done = 0
        self._started = time.monotonic()
        self._watched = sys.stderr.isatty()
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __call__(self, cell: CellResult) -> None:
        """One cell is done."""
        self._done += 1
        if self._paid and cell.spending is not None:
            self._spent = Spending.together([each for each in (self._spent, cell.spending) if each is not None])
        if self._bar is None:
            if not self._watched or time.monotonic() - self._started < _PATIENCE:
                return
            self._bar = _bar()
            self._bar.start()
            self._bar.add_task("", total=self._total, completed=self._done, pace="")
        from rich.markup import escape  # noqa: PLC0415 - what is over at once needs no bar

        told = escape(f"{label(cell)} {cell.target}")
        [task] = self._bar.task_ids
        self._bar.update(task, completed=self._done, description=told, pace=self._pace())

    def _pace(self) -> str:
        seconds = max(time.monotonic() - self._started, 0.001)
        dollars = None if self._spent is None else self._spent.dollars
        return f"{self._done / seconds:.1f} cells/s" + ("" if dollars is None else f", {money(dollars)}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:  # rich before 15 ends a line that it never began
            self._bar.stop()


def _bar() -> Bar:
    from rich.console import Console  # noqa: PLC0415 - what is over at once needs no bar
    from rich.progress import (  # noqa: PLC0415 - the same
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    pace = TextColumn("{task.fields[pace]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), pace, TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
