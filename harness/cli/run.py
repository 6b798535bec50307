"""Commands that run cells: `run`, `record`, `show` and `shrink`. `harness.cli.execution` runs the cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import app
from harness.cli.options import (
    ADAPTERS,
    BaseUrls,
    Cassettes,
    CellOptions,
    CellTimeout,
    LoopOptions,
    ModeName,
    NoColour,
    RecordOptions,
    ReportOptions,
    RunOptions,
    StrictOptions,
    argument,
    option,
)


@dataclass(frozen=True, kw_only=True)
class ShowOptions(StrictOptions, CellOptions, LoopOptions):
    """Options of `show`."""

    cell: Annotated[
        str,
        argument(
            "SCENARIO", "A scenario file, or the id of a shipped scenario.", autocompletion=app.complete_scenarios
        ),
    ]
    base_urls: BaseUrls = None
    cassettes: Cassettes = None
    cell_timeout: CellTimeout = None
    mode: Annotated[ModeName, option("--mode MODE", "replay, reference or live, as for 'harness run'.")] = "replay"
    no_colour: NoColour = False


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


def run(args: RunOptions) -> int:
    """Run scenarios and report findings and differences. By default it runs offline, from cassettes (see --mode).

    Exit codes: 1 not conformant, or an expected failure did not happen;
    2 wrong usage, missing cassettes, or nothing ran; 130 interrupted; else 0.
    """
    from harness.cli import execution, generating, settings, watch  # noqa: PLC0415 - help and completion need the options alone

    if generating.is_generated(args):
        return generating.generate(settings.combine_options(args), every=True)
    options, mode = settings.combine_options(args), args.mode or ("reference" if args.hand_over else "replay")
    return (
        watch.watch(options, mode, execution.run_and_report)
        if options.watch
        else execution.run_and_report(options, mode)
    )


def record(args: RecordOptions) -> int:
    """Record cassettes. A cassette is replaced only when the new one is complete.

    If a recording stops early, its answers are kept. Repeat the command, or add --missing, to continue. The cost is
    printed before requests are sent to a provider, and again at the end.

    Exit codes as for 'harness run'.
    """
    from harness.cli import execution  # noqa: PLC0415 - see `run`

    return execution.record(args)


def show(args: ShowOptions) -> int:
    """Run one cell and print its conversation and its HTTP exchanges, with each finding where it occurs.

    Without --variant it shows the whole answer, or the stream if there is no whole answer.

    Exit codes as for 'harness run'.
    """
    from harness.cli import settings  # noqa: PLC0415 - see `run`
    from harness.cli.show import show_cell  # noqa: PLC0415 - see `run`

    return show_cell(settings.combine_options(args, paths=[args.cell], jobs="1"), args.mode)


def shrink(args: ShrinkOptions) -> int:
    """Shrink the conversation of a failing cell: for each cause, save the smallest one that still fails in this way.

    The cell is run against the reference server. Without --variant, the first variant that fails is used.

    Exit codes as for 'harness run'; 2 if the cell does not fail.
    """
    from harness.checks.generation import causes_of, shrink_cause  # noqa: PLC0415 - see `run`
    from harness.cli.execution import cell_time_limit, environment, run_and_report  # noqa: PLC0415
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
    return run_and_report(replace(options, paths=[*map(str, files)], words=None, variants=[cell.variant]), "reference")
