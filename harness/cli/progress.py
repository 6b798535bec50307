"""Partial reports, progress bar and interruption of a run."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from harness.cli.outputs import Output
from harness.model.errors import HarnessError
from harness.platform.exceptions import exception_text
from harness.reports.words import label, money
from harness.results import CellResult, Mode, Presentation, RunResult, Spending
from harness.runner.cells import Cell

_WRITE_INTERVAL_SECONDS = 10.0
_BAR_DELAY_SECONDS = 1.0
_NOT_FINISHED = "the run has not finished"


class PartialReports:
    """Report files of a run that has not ended, so that no report of an earlier run can be mistaken for its own.

    `cassettes` is the folder that the run reads or writes. `facts` are the fact files that it uses.

    Raises:
        UsageError: a report file cannot be written.
    """

    def __init__(
        self,
        outputs: Sequence[Output],
        mode: Mode,
        presentation: Presentation,
        cassettes: str | None = None,
        facts: tuple[str, ...] = (),
    ) -> None:
        self._outputs = outputs
        self._cassettes = cassettes
        self._facts = facts
        self._mode: Mode = mode
        self._presentation = presentation
        self.begin((), tuple)
        run = RunResult(mode, (), cassettes=cassettes, facts=facts, stopped=_NOT_FINISHED)
        for output in outputs:
            if output.is_file:
                output.write(run, presentation)

    def begin(
        self,
        cells: Sequence[Cell],
        done: Callable[[], tuple[CellResult, ...]],
        completed: Callable[[RunResult], RunResult] = lambda run: run,
    ) -> None:
        """Start a run with its cells. `done` returns the finished cells. `completed` adds further information to a
        result.
        """
        self._cells = cells
        self._done = done
        self._completed = completed
        self._written = time.monotonic()

    def update(self) -> None:
        """Rewrite the reports that `--resume` can read, at most every ten seconds."""
        if time.monotonic() - self._written > _WRITE_INTERVAL_SECONDS:
            for output in self._outputs:
                if output.is_file and output.report.reads_back:
                    output.write(self._unfinished_run(_NOT_FINISHED), self._presentation)
            self._written = time.monotonic()

    def end(self) -> None:
        """Release the cells of a finished run."""
        self.begin((), tuple)

    def stop(self, error: BaseException) -> None:
        """Write the reports of a run that was ended by `error`.

        They are printed on the screen only if there are cells and the error is not a known `HarnessError`.
        """
        run = self._unfinished_run(_reason(error))
        for output in self._outputs:
            if output.is_file or (self._cells and not isinstance(error, HarnessError)):
                output.write(run, self._presentation)

    def _unfinished_run(self, stopped: str) -> RunResult:
        run = RunResult(self._mode, self._done(), cassettes=self._cassettes, facts=self._facts, stopped=stopped)
        return self._completed(run)


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, HarnessError):
        return exception_text(error)
    return f"harness broke: {type(error).__name__}: {exception_text(error)}"


_SIGNALS = ("SIGTERM", "SIGHUP")
"""Names of signals that end a run. CI systems send the first. Closing a terminal sends the second, which some systems
lack.
"""


@contextmanager
def interruptible() -> Generator[None, None, None]:
    """Make `SIGTERM` and `SIGHUP` raise `KeyboardInterrupt` within the context, unless the process ignores them.

    Does nothing outside the main thread, because only that thread receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers if signal.getsignal(number) == signal.SIG_DFL}
    for number in before:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class Progress:
    """Progress bar on a terminal, with speed, remaining time and, if `paid` is set, costs. Short runs show no bar."""

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
        """Count a finished cell."""
        self._done += 1
        if self._paid and cell.spending is not None:
            self._spent = Spending.sum_of([each for each in (self._spent, cell.spending) if each is not None])
        if self._bar is None:
            if not self._watched or time.monotonic() - self._started < _BAR_DELAY_SECONDS:
                return
            self._bar = _bar()
            self._bar.start()
            self._bar.add_task("", total=self._total, completed=self._done, pace="")
        description = escape(f"{label(cell)} {cell.target}")
        [task] = self._bar.task_ids
        self._bar.update(task, completed=self._done, description=description, pace=self._pace())

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
    pace = TextColumn("{task.fields[pace]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), pace, TimeRemainingColumn())
    return Bar(*columns, console=Console(stderr=True), transient=True)
