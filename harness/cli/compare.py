"""`harness compare`: what has changed from one run to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Verbose
from harness.contract.errors import UsageError

_RUN = "What '--report json:' or '--report archive:' wrote."


def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE.json", show_default=False, help=f"The earlier run. {_RUN}")],
    now: Annotated[Path, typer.Argument(metavar="NOW.json", show_default=False, help="The later one.")],
    *,
    reports: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            metavar="FORMAT[:PATH]",
            help="terminal, json, or markdown (for a comment on a pull request), to a file or the screen. Repeatable. "
            "If none goes to the screen, the terminal report does.",
        ),
    ] = None,
    verbose: Verbose = False,
) -> int:
    """Say what has changed from one run to another: causes, cells, expected failures, differences and costs.

    Where the two are not runs of the same scenarios, targets, versions or facts, that is said first: what changed may
    have changed for that. 'harness report NOW.json --against BEFORE.json --report html:PATH' has it in a page.

    Exit codes: 1 when something got worse: a cell ended worse, is new and bad, or has passed and is not applicable any
    more; an error or a warning has a new cause, or one shows in more cells; an expected failure does not happen any
    more; the later run was not played to its end. 2 for wrong usage; else 0.
    """
    from harness.cli.kept import read  # noqa: PLC0415 - `harness --help` loads no pydantic
    from harness.cli.outputs import comparing  # noqa: PLC0415 - the same
    from harness.reports._comparison import compared  # noqa: PLC0415 - the same
    from harness.results import Presentation  # noqa: PLC0415 - the same

    wanted = comparing(reports or ())
    then, later = read(before), read(now)
    if (then.audit is None) != (later.audit is None):
        raise UsageError(f"{before} and {now}: one is an audit and the other is not: they have nothing in common.")
    for output in wanted:
        output.compare(then, later, Presentation(verbose=verbose))
    return int(compared(later, then).worse)
