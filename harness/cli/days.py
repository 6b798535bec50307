"""The option `--as-of`: the day by whose facts requests are judged."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from harness.contract.errors import UsageError

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
    if text is None:
        return None
    if text == "today":
        return dt.datetime.now(dt.UTC).date()
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--as-of: {text!r} is no day. Write it as in 2026-07-01, or today.") from None
