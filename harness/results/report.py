"""What a report is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.results.run import RunResult


@dataclass(frozen=True, slots=True)
class Presentation:
    """How a run is to be shown to people; reports for machines have no use for it.

    `width` is in columns. `verbose`: every scenario and every finding, not groups of them. `all_differences`: also the
    facts that are the same for all targets.
    """

    colour: bool = False
    width: int = 120
    verbose: bool = False
    all_differences: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """A way to show a run."""

    name: str
    render: Callable[[RunResult, Presentation], str]
