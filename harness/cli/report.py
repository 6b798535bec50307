"""`harness report`: any report of a run that was kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.colours import NoColour
from harness.cli.options import AllDifferences, Quiet, Reports, Verbose
from harness.contract.errors import UsageError


def report(  # noqa: PLR0913 - a parameter for each option
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN.json", show_default=False, help="What '--report json:' or '--report archive:' wrote."
        ),
    ],
    *,
    reports: Reports = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="OLD.json",
            show_default=False,
            help="An earlier run: the html report says what is new, gone or changed since.",
        ),
    ] = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
    all_differences: AllDifferences = False,
    _: NoColour = False,
) -> int:
    """Make any report of a run that was kept. Nothing is played.

    What each cell has said and sent is in an archive only: the html report of a json file shows findings without it.

    Exit codes: those of the run.
    """
    from harness.cli.kept import read  # noqa: PLC0415 - `harness --help` loads no pydantic
    from harness.cli.outputs import outputs, presented  # noqa: PLC0415 - the same

    presentation = presented(verbose=verbose, quiet=quiet, all_differences=all_differences)
    wanted = outputs(reports or ())
    if against is not None and not any(each.report.compares for each in wanted):
        raise UsageError("--against: none of these reports compares runs: add --report html:PATH.")
    kept = read(run)
    presentation = replace(presentation, against=None if against is None else read(against, "--against"))
    for output in wanted:
        output.write(kept, presentation)
    return kept.exit_code
