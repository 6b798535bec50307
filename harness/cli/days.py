"""By which facts requests are judged: the options `--as-of` and `--facts`, and what the project says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from harness.apis.facts import Edition

AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="DAY",
        show_default=False,
        help="Judge by the facts of this day: 2026-07-01, or today. Else it is the day on which a request was made.",
    ),
]


def day(text: str | None) -> dt.date | None:
    """The day that was given, if one was. Raises `UsageError`: it is none."""
    from harness.apis import facts  # noqa: PLC0415 - `harness --help` loads no APIs

    return None if text is None else facts.day(text, "--as-of")


FactFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--facts",
        metavar="FILE",
        show_default=False,
        help="Facts of your own, which join the shipped ones, or change those of the same id. Repeatable; those of "
        r"\[tool.harness] in pyproject.toml come before.",
    ),
]


def fact_files(given: Sequence[Path] | None) -> tuple[Path, ...]:
    """The files of facts of one's own: those of the project that the working folder is in, then those that were given.
    Raises `UsageError`: the project's settings are wrong."""
    from harness.host.project import project  # noqa: PLC0415 - `harness list rules` reads no settings

    return tuple(dict.fromkeys((*project(Path()).facts, *(given or ()))))


def edition(as_of: str | None, files: Sequence[Path]) -> Edition:
    """The edition of the facts that was asked for. Raises `UsageError`: the day is none, or a file cannot be read."""
    from harness import catalog  # noqa: PLC0415 - `harness --help` loads no APIs
    from harness.apis.facts import Edition  # noqa: PLC0415 - the same

    made = Edition(day(as_of), tuple(files))
    made.check(catalog.APIS.names())
    return made
