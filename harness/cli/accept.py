"""`harness accept`: what is red in a run, as a file of expected failures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.days import edition
from harness.contract.errors import UsageError


def accept(
    run: Annotated[
        Path, typer.Argument(metavar="RUN.json", show_default=False, help="What 'harness run --report json:' wrote.")
    ],
    *,
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="File of expected failures. What it has already is kept.")
    ] = Path("expected-failures.yaml"),
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why they are expected, until each entry says it better.")
    ] = "accepted as it was; say why",
) -> int:
    """Write an entry for each finding that fails a cell of the run, for 'harness run --expected-failures FILE'.

    What no rule has found, such as an adapter that ended the process, is named and cannot be accepted: then 1, else 0.
    """
    from harness.checking.gateways import judging  # noqa: PLC0415 - the same
    from harness.checking.servers import checks  # noqa: PLC0415 - the same
    from harness.cli.kept import read  # noqa: PLC0415 - the same
    from harness.reports._words import count  # noqa: PLC0415 - the same
    from harness.results import Verdict  # noqa: PLC0415 - the same
    from harness.running import expected_failures  # noqa: PLC0415 - `harness --help` loads no pydantic
    from harness.running.findable import findable  # noqa: PLC0415 - the same

    if not reason.strip():
        raise UsageError("--reason: it has to say something, as in --reason 'tracked as #123'.")
    result = read(run)
    if not result.finished:
        raise UsageError(f"{run}: this run was not played to its end ({result.stopped}). Play it again first.")
    ids = findable(edition(None, [Path(each) for each in result.facts])) | checks.RULES | judging.RULES
    known = expected_failures.load(to, ids) if to.exists() else []
    entries = expected_failures.entries(result.cells, reason.strip(), known)
    for entry in entries:
        if wrong := expected_failures.unfindable(entry, ids):
            raise UsageError(f"{run}: {wrong}")
    try:
        with to.open("a", encoding="utf-8") as file:
            file.write(expected_failures.written(entries))
    except OSError as error:
        raise UsageError(f"--to {to}: cannot be written: {error.strerror}.") from None
    added = f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"
    typer.echo(f"{added} added to {to}: harness run --expected-failures {to}")
    left = [
        cell
        for cell in result.cells
        if cell.verdict is Verdict.ERROR and not any(finding.fails for finding in cell.findings)
    ]
    for cell in left:
        typer.echo(f"not accepted: {cell.scenario} [{cell.variant}], {cell.target}: {cell.reason}", err=True)
    if left:
        typer.echo(f"{count(len(left), 'cell')} ended without a finding that an entry could name.", err=True)
    return 1 if left else 0
