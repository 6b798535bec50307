"""What stands in the files of a run's reports until it has ended: that it has not, so that no report of an earlier run
can be taken for this one's, however this one ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from harness.cli.outputs import Output
from harness.contract.errors import HarnessError
from harness.host.crash import said
from harness.results import CellResult, Mode, Presentation, RunResult
from harness.running.stages import Cell

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
        return said(error)
    return f"harness broke: {type(error).__name__}: {said(error)}"
