"""The progress bar of a long run: on standard error, where it is a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Bar
from rich.progress import TaskID

from harness.reports._words import label
from harness.results import CellResult

_PATIENCE = 1.0
"""Seconds that a run may take without a bar."""


class Progress:
    """Counts cells. Nothing is drawn for a run that is over at once, or where nobody watches."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._started = time.monotonic()
        self._watched = sys.stderr.isatty()
        self._bar = Bar(console=Console(stderr=True), transient=True)
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __call__(self, cell: CellResult) -> None:
        """One cell is done."""
        self._done += 1
        if self._task is None:
            if not self._watched or time.monotonic() - self._started < _PATIENCE:
                return
            self._bar.start()
            self._task = self._bar.add_task("", total=self._total)
        self._bar.update(self._task, completed=self._done, description=escape(f"{label(cell)} {cell.target}"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._task is not None:  # rich before 15 ends a line that it never began
            self._bar.stop()
