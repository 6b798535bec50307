"""The options of what is sent live: how fast, how much at once, for how much money, and to go on with what stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

_PANEL = "What is sent live"

Rates: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--rate",
        metavar="[TARGET=]N/min",
        rich_help_panel=_PANEL,
        help="At most so many requests of each target, or of one, in a time: 60/min, 5/s, 1000/h. Repeatable.",
    ),
]
Concurrency: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--concurrency",
        metavar="[TARGET=]N",
        rich_help_panel=_PANEL,
        help="So many cells of each target, or of one, at a time; -n counts those of all targets. Repeatable.",
    ),
]
Budget: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="DOLLARS",
        show_default=False,
        rich_help_panel=_PANEL,
        help="Send nothing that could cost more than what is left of it, by list prices.",
    ),
]
Resume: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        metavar="RUN.json",
        show_default=False,
        rich_help_panel=_PANEL,
        help="Keep the cells that this live run has finished, and play only the others.",
    ),
]


@dataclass(frozen=True, slots=True)
class Sending:
    """What was typed of it. Nothing is checked yet."""

    rates: Sequence[str] = ()
    concurrency: Sequence[str] = ()
    budget: str | None = None
    resume: Path | None = None

    @property
    def given(self) -> dict[str, object]:
        """The values by option; `None` where none was typed."""
        return {
            "--rate": self.rates or None,
            "--concurrency": self.concurrency or None,
            "--budget": self.budget,
            "--resume": self.resume,
        }


NOTHING_SAID = Sending()
"""As fast as answers come, one cell after the other, whatever it costs."""


def sending(
    rates: list[str] | None, concurrency: list[str] | None, budget: str | None, resume: Path | None = None
) -> Sending:
    """The options, as they were typed."""
    return Sending(tuple(rates or ()), tuple(concurrency or ()), budget, resume)
