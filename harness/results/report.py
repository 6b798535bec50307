"""What a report is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.results.run import RunResult


@dataclass(frozen=True, slots=True)
class Presentation:
    """How a run is to be shown.

    `width` is in columns. `verbose`: every scenario and every finding, not groups of them; `quiet`: what fails, and the
    verdict. `all_differences`: also the facts that are the same for all targets. `against` is an earlier run, to show
    what has changed since. `root` is the folder at the top of the repository, which files are named from where a
    pipeline reads them; empty: as they were named. `form` is one of the forms of the report (`Report.forms`); empty:
    the first. `most` is how many bytes of UTF-8 it may have, where that is bounded. `today` is the day on which it is
    made (`None`: that of the run).
    """

    colour: bool = False
    width: int = 120
    verbose: bool = False
    all_differences: bool = False
    against: RunResult | None = None
    quiet: bool = False
    root: str = ""
    form: str = ""
    most: int | None = None
    today: dt.date | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A way to show a run.

    `wants_conversations`: it shows what was said and sent in each cell. That is kept only for a run of which such a
    report is asked for: it is many times as large as all the rest. `compares`: it shows `Presentation.against`. `forms`
    are the endings of files that it can be written as, with their dot, the first for the screen; none: it has one form.
    `pieces` is what `render` returns, piece by piece: so the report of a long run need not be in memory as a whole.
    `compare` shows what has changed from one run to another, and nothing else: `harness compare` asks for it.
    `reads_back`: it is the run itself, which `RunResult.from_json` reads.
    """

    name: str
    render: Callable[[RunResult, Presentation], str]
    wants_conversations: bool = False
    compares: bool = False
    forms: tuple[str, ...] = ()
    pieces: Callable[[RunResult, Presentation], Iterable[str]] | None = None
    compare: Callable[[RunResult, RunResult, Presentation], str] | None = None
    reads_back: bool = False

    def made(self, run: RunResult, presentation: Presentation) -> Iterable[str]:
        """The report of a run, in pieces."""
        return [self.render(run, presentation)] if self.pieces is None else self.pieces(run, presentation)
