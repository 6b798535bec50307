"""Options of `harness run`, `record` and `show`. `harness.cli.execution` implements the commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from harness.cli import app
from harness.cli.options import (
    BaseUrls,
    Cassettes,
    CellOptions,
    CellTimeout,
    LoopOptions,
    ModeName,
    NoColour,
    RecordOptions,
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


def run(args: RunOptions) -> int:
    """Run scenarios and report findings and differences. By default it runs offline, from cassettes (see --mode).

    Exit codes: 1 not conformant, or an expected failure did not happen;
    2 wrong usage, missing cassettes, or nothing ran; 130 interrupted; else 0.
    """
    from harness.cli import execution, generating, settings, watch  # noqa: PLC0415 - help and completion need the options alone

    if generating.is_generated(args):
        return generating.generate(settings.combine_options(args), every=True)
    options, mode = settings.combine_options(args), args.mode or ("reference" if args.hand_over else "replay")
    return watch.watch(options, mode, execution.play) if options.watch else execution.play(options, mode)


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
