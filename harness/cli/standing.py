"""What stands in the files of a run's reports until it has ended: that it has not, so that no report of an earlier run
can be taken for this one's, however this one ends."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self, TypeAlias, cast

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from harness.cli import streams
from harness.cli.outputs import Output
from harness.contract.errors import HarnessError
from harness.host import files
from harness.host.exceptions import exception_text
from harness.host.files import read_file
from harness.reports.words import count, label, money
from harness.results import CellResult, Mode, Presentation, RunResult, Spending, Verdict
from harness.running.cells import Cell

_OFTEN = 10.0
"""Seconds from one time that is written to the next."""

_BEGUN = "the run was begun and did not come to its end"


class Standing:
    """The cells of a run that are done, for the reports of one that is not played to its end. `cassettes` is where it
    looks for cassettes, or writes them, `facts` the files of facts by which it judges.

    Raises:
        UsageError: a report cannot be written where it is wanted.
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
        run = RunResult(mode, (), cassettes=cassettes, facts=facts, stopped=_BEGUN)
        for output in outputs:
            if output.is_file:
                output.write(run, presentation)

    def begin(
        self,
        cells: Sequence[Cell],
        done: Callable[[], tuple[CellResult, ...]],
        completed: Callable[[RunResult], RunResult] = lambda run: run,
    ) -> None:
        """These are the cells of the run, which begins to play them. `done` returns those that are done. `completed`
        adds what else is known of it by then."""
        self._cells = cells
        self._done = done
        self._completed = completed
        self._written = time.monotonic()

    def keep(self) -> None:
        """Write, from time to time, what was paid for: whatever ends the run, it can be gone on with."""
        if time.monotonic() - self._written > _OFTEN:
            for output in self._outputs:
                if output.is_file and output.report.reads_back:
                    output.write(self._until_now(_BEGUN), self._presentation)
            self._written = time.monotonic()

    def end(self) -> None:
        """The run has come to its end. What it was made of, which may be more than came of it, is let go."""
        self.begin((), tuple)

    def stop(self, error: BaseException) -> None:
        """Write the reports of a run that `error` has ended; on the screen only if it has played cells, unless what has
        to change is said there."""
        run = self._until_now(_why(error))
        for output in self._outputs:
            if output.is_file or (self._cells and not isinstance(error, HarnessError)):
                output.write(run, self._presentation)

    def _until_now(self, stopped: str) -> RunResult:
        run = RunResult(self._mode, self._done(), cassettes=self._cassettes, facts=self._facts, stopped=stopped)
        return self._completed(run)


def _why(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, HarnessError):
        return exception_text(error)
    return f"harness broke: {type(error).__name__}: {exception_text(error)}"


_NAMES = ("SIGTERM", "SIGHUP")
"""A CI system sends the first, a terminal that is closed the second, which not every system has."""


@contextmanager
def interruptible() -> Generator[None, None, None]:
    """These signals raise `KeyboardInterrupt` in the context, unless whoever started this process lets it ignore them.

    Signals reach the main thread; in another one nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
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
    pace = TextColumn("{task.fields[pace]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), pace, TimeRemainingColumn())
    return Bar(*columns, console=Console(stderr=True), transient=True)


FOLDER = ".harness"
_FILE = "last-failed.json"
_MOST = 16 << 20
_FAILED = (Verdict.FAIL, Verdict.ERROR)

_Key: TypeAlias = tuple[str, str, str]


class Failures:
    """Those of a project, in one mode."""

    def __init__(self, project: Path, mode: Mode) -> None:
        self._path = project / FOLDER / _FILE
        self._mode = mode

    def chosen(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Those of the cells that failed when they were last played; all, if none of them did. Says which it is."""
        failed = self._known().get(self._mode, set())
        again = [cell for cell in cells if (cell.scenario.id, cell.target.name, cell.variant) in failed]
        if again:
            streams.tell(f"--last-failed: {len(again)} of {count(len(cells), 'cell')}, which failed when last played.")
            return again
        none = "none of these cells failed when it was last played" if failed else "no failure is known here"
        streams.tell(f"--last-failed: {none}; {count(len(cells), 'cell')} to play.")
        return cells

    def keep(self, done: Iterable[CellResult]) -> None:
        """Remember which of the cells that are done have failed. One at which nobody could look is as it was."""
        known = self._known()
        before = known.get(self._mode, set[_Key]())
        after = set(before)
        for cell in done:
            if cell.verdict in _FAILED:
                after.add(cell.key)
            elif cell.verdict is not Verdict.MISSING:
                after.discard(cell.key)
        if after == before:
            return
        known[self._mode] = after
        pieces = json.JSONEncoder(indent=1).iterencode({mode: sorted(keys) for mode, keys in known.items()})
        try:
            self._path.parent.mkdir(exist_ok=True)
            ignoring = self._path.parent / ".gitignore"
            if not ignoring.exists():
                ignoring.write_text("*\n")
            files.replace_file(self._path, (piece.encode() for piece in chain(pieces, ["\n"])))
        except OSError as error:
            streams.tell(f"harness: {self._path}: {error.strerror}: what failed is not kept for --last-failed.")

    def _known(self) -> dict[str, set[_Key]]:
        """What is known; nothing, where the file is not there or is none of ours."""
        try:
            document: Any = json.loads(read_file(self._path, _MOST))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(document, dict):
            return {}
        return {mode: set(_keys(each)) for mode, each in cast("dict[str, Any]", document).items()}


def _keys(found: Any) -> Iterable[_Key]:
    for each in cast("list[Any]", found) if isinstance(found, list) else ():
        match each:
            case [str(scenario), str(target), str(variant)]:
                yield scenario, target, variant
            case _:
                pass
