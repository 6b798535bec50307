"""What stands in the files of a run's reports until it has ended: that it has not, so that no report of an earlier run
can be taken for this one's, however this one ends."""

from __future__ import annotations

from collections.abc import Sequence

from harness.cli.outputs import Output
from harness.contract.errors import HarnessError
from harness.host.crash import said
from harness.results import Mode, Presentation, RunResult, Spool
from harness.running.stages import Cell

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
        self._cells: Sequence[Cell] = ()
        self._done = Spool(0)
        run = RunResult(mode, (), cassettes=cassettes, facts=facts, stopped=_BEGUN)
        for output in outputs:
            if output.is_file:
                output.write(run, presentation)

    def begin(self, cells: Sequence[Cell], done: Spool) -> None:
        """These are the cells of the run, which begins to play them, and where those are that are done."""
        self._cells = cells
        self._done = done

    def stop(self, error: BaseException) -> None:
        """Write the reports of a run that `error` has ended; on the screen only if it has played cells, unless what has
        to change is said there."""
        run = RunResult(self._mode, self._done.cells, cassettes=self._cassettes, facts=self._facts, stopped=_why(error))
        for output in self._outputs:
            if output.is_file or (self._cells and not isinstance(error, HarnessError)):
                output.write(run, self._presentation)


def _why(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, HarnessError):
        return said(error)
    return f"harness broke: {type(error).__name__}: {said(error)}"
