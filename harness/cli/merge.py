"""`harness merge`: one run of its shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.colours import NoColour
from harness.cli.options import AllDifferences, Quiet, Reports, Verbose
from harness.contract.errors import UsageError


def merge(
    shards: Annotated[
        list[Path],
        typer.Argument(
            metavar="SHARD.json...", show_default=False, help="What 'harness run --shard I/N --report json:' wrote."
        ),
    ],
    *,
    reports: Reports = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
    all_differences: AllDifferences = False,
    _: NoColour = False,
) -> int:
    """Make one run of all its shards, and any report of it: the same as if one machine had played it, but for times.

    Exit codes: those of the run.
    """
    from harness.cli.kept import read  # noqa: PLC0415 - `harness --help` loads no pydantic
    from harness.cli.outputs import presented, with_pipeline  # noqa: PLC0415 - the same
    from harness.running.shards import merged  # noqa: PLC0415 - the same

    wanted = with_pipeline(reports or ())
    for output in wanted:
        if output.path is not None and any(_same(output.path, shard) for shard in shards):
            raise UsageError(f"--report: {output.path} is a shard, and would be overwritten. Name another file.")
    run = merged([(str(shard), read(shard)) for shard in shards])
    for output in wanted:
        output.write(run, presented(verbose=verbose, quiet=quiet, all_differences=all_differences))
    return run.exit_code


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
