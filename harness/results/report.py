"""What a report is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.results.run import RunResult


@dataclass(frozen=True, slots=True)
class Presentation:
    """How a run is to be shown to people; reports for machines have no use for it.

    `width` is in columns. `verbose`: every scenario and every finding, not groups of them; `quiet`: what fails, and the
    verdict. `all_differences`: also the facts that are the same for all targets. `against` is an earlier run, to show
    what has changed since.
    """

    colour: bool = False
    width: int = 120
    verbose: bool = False
    all_differences: bool = False
    against: RunResult | None = None
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """A way to show a run.

    `wants_conversations`: it shows what was said and sent in each cell. That is kept only for a run of which such a
    report is asked for: it is many times as large as all the rest. `compares`: it shows `Presentation.against`.
    """

    name: str
    render: Callable[[RunResult, Presentation], str]
    wants_conversations: bool = False
    compares: bool = False
