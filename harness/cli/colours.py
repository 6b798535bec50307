"""`--no-color`: said to all that print, in the variable that they read."""

from __future__ import annotations

import os
from typing import Annotated, TypeAlias

import typer

_VARIABLE = "NO_COLOR"


def _without(context: typer.Context, wanted: bool) -> None:
    if not wanted:
        return
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = "1"

    def restore() -> None:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before

    context.call_on_close(restore)


NoColour: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--no-color",
        callback=_without,
        is_eager=True,
        help="No colours, as with NO_COLOR in the environment; FORCE_COLOR asks for them where no terminal is.",
    ),
]
