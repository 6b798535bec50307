"""`harness shrink`: the smallest conversations that show what fails in a cell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import app
from harness.cli.options import (
    ADAPTERS,
    CellOptions,
    LoopOptions,
    ReportOptions,
    StrictOptions,
    argument,
    option,
)


@dataclass(frozen=True, kw_only=True)
class ShrinkOptions(StrictOptions, CellOptions, LoopOptions, ReportOptions):
    """Options of `shrink`."""

    cell: Annotated[
        str,
        argument(
            "SCENARIO", "A scenario file, or the id of a shipped scenario.", autocompletion=app.complete_scenarios
        ),
    ]
    variants: Annotated[
        list[str] | None,
        option(
            "--variant whole|stream",
            "Run the cell with whole or with streamed answers. Default: the first of the two that fails.",
            ADAPTERS,
            autocompletion=app.complete_variants,
        ),
    ] = None
    recuts: Annotated[
        int,
        option("--recut N", "Also split each stream in N other ways, to shrink failures that occur only then.", min=0),
    ] = 0
    save: Annotated[str, option("--save DIR", "Folder for the smallest conversations.")] = "generated"


def shrink(args: ShrinkOptions) -> int:
    """Shrink the conversation of a failing cell: for each cause, save the smallest one that still fails in this way.

    The cell is run against the reference server. Without --variant, the first variant that fails is used.

    Exit codes as for 'harness run'; 2 if the cell does not fail.
    """
    from harness.checks.generation import causes_of, shrink_cause  # noqa: PLC0415 - help and completion need the options
    from harness.cli.execution import cell_time_limit, environment, play  # noqa: PLC0415
    from harness.cli.generating import generated_run, write  # noqa: PLC0415
    from harness.cli.selection import select  # noqa: PLC0415
    from harness.cli.settings import combine_options, complete_options  # noqa: PLC0415
    from harness.model.errors import UsageError  # noqa: PLC0415
    from harness.stdio.workers import WorkerPool  # noqa: PLC0415

    options = complete_options(combine_options(args, paths=[args.cell]), "reference")
    with environment("reference"), WorkerPool(cell_time_limit(options, "reference"), offline=True) as workers:
        cells = select(options, workers).cells
        targets = {cell.target.name: cell.target for cell in cells}
        if len(targets) != 1:
            raise UsageError(f"{args.cell}: name one target, as in --target {next(iter(targets), 'anthropic')}.")
        with generated_run(options) as run:
            played = ((cell, causes_of(run([cell], jobs=1).cells[0])) for cell in cells)
            failed = next(((cell, causes) for cell, causes in played if causes), None)
            if failed is None:
                raise UsageError(f"{args.cell}: it does not fail, so there is nothing to shrink.")
            cell, causes = failed
            files: list[Path] = []
            for number, key in enumerate(causes, 1):
                small = shrink_cause(cell, key, lambda each: run([each], jobs=1).cells[0])
                name = f"{cell.scenario.id}-small-{number}"[-80:].lstrip("-")
                files.append(write(Path(args.save), small.scenario.model_copy(update={"id": name})))
                typer.echo(f"{files[-1]}: {len(files[-1].read_text('utf-8').splitlines())} lines, for {key[0]}")
    return play(replace(options, paths=[*map(str, files)], words=None, variants=[cell.variant]), "reference")
