"""`harness run`, `record` and `show`: scenarios are played through adapters, and the findings reported."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer

import harness
from harness.checking.adapter_check import AdapterCheck
from harness.cli import _show_text, completion, live
from harness.cli.options import (
    Adapted,
    AllowedSecrets,
    Jobs,
    Judged,
    Looped,
    NoColour,
    Options,
    Played,
    combined,
)
from harness.cli.outputs import on_screen, presented, with_pipeline
from harness.cli.playing import Playing, with_accepting_model
from harness.cli.selection import select
from harness.cli.settings import completed, settings
from harness.cli.standing import Failures, Standing, interruptible
from harness.cli.watch import watch
from harness.contract.errors import UsageError
from harness.host.environment import hidden_variables
from harness.reports.words import listed
from harness.results import Mode, Presentation, RunResult, Verdict
from harness.running.plan import Plan, cell_seconds
from harness.running.recorder import Recorder
from harness.scenarios import suite
from harness.stdio.workers import WorkerPool
from harness.tape.library import Library
from harness.tape.redact import Redactor

_FROM: Mapping[Literal["provider", "reference"], Mode] = {"provider": "live", "reference": "reference"}


@dataclass(frozen=True, kw_only=True)
class RecordOptions(Played):
    """The options of `record`."""

    origin: Annotated[
        Literal["provider", "reference"],
        typer.Option("--from", help="From the providers (needs keys), or from the bundled reference server."),
    ] = "provider"
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace what was recorded live, with another model, or cannot be read."),
    ] = False
    missing: Annotated[
        bool, typer.Option("--missing", help="Only the cells that have no cassette, or one of what was sent before.")
    ] = False
    stale: Annotated[
        bool,
        typer.Option(
            "--stale",
            help="Only the cells that have a cassette of what was sent before, or, with --max-age, an older one; it is "
            "replaced, whoever recorded it.",
        ),
    ] = False
    max_requests: Annotated[
        int | None, typer.Option("--max-requests", metavar="N", min=1, help="Send no more than so many requests.")
    ] = None
    cassettes: Annotated[
        str | None,
        typer.Option(
            "--cassettes", metavar="DIR", show_default=False, help="Folder to write to. Default: ./cassettes."
        ),
    ] = None
    jobs: Jobs = "1"
    allowed: AllowedSecrets = None


@dataclass(frozen=True, kw_only=True)
class ShowOptions(Judged, Adapted, Looped):
    """The options of `show`."""

    cell: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            show_default=False,
            autocompletion=completion.scenarios,
            help="A scenario file, or a shipped scenario's id.",
        ),
    ]
    mode: Annotated[
        Literal["replay", "reference", "live"], typer.Option(help="Where the answers come from, as for 'harness run'.")
    ] = "replay"
    no_colour: NoColour = False


def run(typed: Options) -> int:
    """Play scenarios and report findings and differences. Offline from cassettes unless --mode says otherwise.

    Exit codes: 1 not conformant, or an expected failure did not happen;
    2 wrong usage, missing cassettes, or nothing ran; 130 interrupted; else 0.
    """
    options, mode = combined(typed), typed.mode or "replay"
    return watch(options, mode, play) if options.watch else play(options, mode)


def record(typed: RecordOptions) -> int:
    """Record cassettes. A cell's cassette is replaced only when the new one is complete.

    What was answered is kept: the same command, or the one with --missing, goes on where a recording has stopped.

    From providers it says before anything is sent about how much it will cost, and after it how much it was.

    Exit codes as for `harness run`.
    """
    if typed.stale and typed.missing:
        raise UsageError("--stale: it is for cells that have a cassette, and --missing for the others. Leave one out.")
    if typed.max_age is not None and not typed.stale:
        raise UsageError(f"--max-age {typed.max_age}: it says which cassettes are stale: add --stale.")
    mode = _FROM[typed.origin]
    options = completed(combined(typed), mode, records=True)
    folder = Path(options.cassettes or options.folder)
    if Path(os.path.realpath(folder)).is_relative_to(Path(os.path.realpath(harness.__file__)).parent):
        raise UsageError(
            f"--cassettes {folder}: this is inside the installed package, which an update replaces. "
            "Name another folder."
        )
    outdated = options.outdated if typed.stale else None
    recorder = Recorder(
        Library(folder), typed.force, typed.max_requests, typed.missing, outdated, tuple(typed.allowed or ())
    )
    with _environment(mode):
        return _play(options, mode, [], recorder, str(folder))


def show(typed: ShowOptions) -> int:
    """Play one cell and print its conversation as canonical turns beside the exchanges, with the findings' places.

    Without --variant it is the whole answer, or the stream where that is all there is.

    Exit codes as for 'harness run'.
    """
    mode, any_variant = typed.mode, not typed.variants
    options = completed(combined(typed, paths=[typed.cell], jobs="1"), mode)
    libraries = _libraries(options)[0] if mode == "replay" else []
    with (
        _environment(mode),
        _redactor(options, mode).raising(),
        WorkerPool(_seconds(options, mode), offline=mode != "live") as workers,
    ):
        selection = select(options, workers)
        cells = [*selection.cells]
        if any_variant:
            cells = [each for each in cells if each.variant == "whole"] or cells
        if len(cells) > 1:
            chosen = listed([f"--target {each.target.name} --variant {each.variant}" for each in cells], 3)
            raise UsageError(f"{len(cells)} cells are chosen, and one can be shown. Name it, by: {chosen}.")
        base_urls = live.base_urls_for(options.base_urls, mode, selection.targets)
        plan = Plan(
            mode=mode,
            libraries=libraries,
            own=frozenset(selection.files),
            base_urls=base_urls,
            strict=bool(options.strict),
            scope=options.scope,
            outdated=options.outdated,
        )
        result, evidence = plan.run(selection.targets).look(cells[0])
    for line in _show_text.lines(result, evidence, on_screen(Presentation(verbose=True))):
        typer.echo(line)
    return RunResult(mode, (result,)).exit_code


def play(options: Options, mode: Mode) -> int:
    """Play the chosen cells, write the reports, and return the exit code.

    Raises:
        UsageError: an option is wrong, or something that it names is missing.
    """
    options = completed(options, mode)
    libraries, named = _libraries(options) if mode == "replay" else ([], None)
    failures = Failures(settings().folder, mode)
    with _environment(mode):
        return _play(options, mode, libraries, None, named, failures=failures)


def play_check(options: Options, check: AdapterCheck) -> int:
    """Play what a check plays of the chosen cells, write the reports with its scorecard, and return the exit code.

    Raises:
        UsageError: an option is wrong, or something that it names is missing.
    """
    options = replace(completed(options, "reference"), paths=options.paths)  # its own suite, not the project's
    with _environment("reference"):
        return _play(options, "reference", [], None, None, check=check)


def _environment(mode: Mode) -> AbstractContextManager[None]:
    """What a run may read of the environment: offline nothing that an SDK reads, from before one is imported."""
    return contextlib.nullcontext() if mode == "live" else hidden_variables()


def _play(  # noqa: PLR0913 - what a run is made of
    options: Options,
    mode: Mode,
    libraries: Sequence[Library],
    recorder: Recorder | None,
    cassettes: str | None,
    *,
    check: AdapterCheck | None = None,
    failures: Failures | None = None,
) -> int:
    wanted = with_pipeline(options.reports or ())
    presentation = presented(options, all_differences=options.all_differences)
    facts = tuple(map(str, options.facts or ()))
    live.check(options, mode)
    earlier = live.earlier(options)
    standing = Standing(wanted, "record" if recorder else mode, presentation, cassettes, facts)
    conversations = any(each.report.wants_conversations for each in wanted)
    playing = Playing(options, mode, libraries, recorder, standing, earlier, check, failures, conversations)
    try:
        with (
            interruptible(),
            _redactor(options, mode).raising(),
            WorkerPool(_seconds(options, mode), offline=mode != "live") as workers,
        ):
            result = playing.result(workers)
            if check is not None:
                result = with_accepting_model(playing, workers, result)
    except BaseException as error:
        standing.stop(error)
        raise
    standing.end()
    result = replace(result, cassettes=result.cassettes or cassettes, facts=facts)
    if recorder is not None and mode == "live" and not any(each.shows_terminal for each in wanted):
        live.say_costs(result)
    nothing_missing = recorder is not None and _is_fresh(recorder, result)
    for output in wanted:
        if output.is_file or not nothing_missing:
            output.write(result, presentation)
    return 0 if nothing_missing else result.exit_code


def _is_fresh(recorder: Recorder, result: RunResult) -> bool:
    """Whether nothing was to be recorded of what was asked for."""
    if recorder.outdated is not None:
        return all(cell.verdict is Verdict.NOT_APPLICABLE for cell in result.cells)
    return recorder.missing and not result.cells


def _libraries(options: Options) -> tuple[list[Library], str]:
    """The folders to look in, one after the other, and what they are called."""
    given = options.cassettes
    if given is not None:
        if Path(given).is_file():
            raise UsageError(f"--cassettes {given}: this is a file. Name the folder that holds the cassettes.")
        if not Path(given).is_dir():
            raise UsageError(
                f"--cassettes {given}: there is no such folder. 'harness record --cassettes {given}' would make it."
            )
        return [Library(Path(given))], given
    is_own = options.paths or Path(options.folder).is_dir()
    named = f"{options.folder} and the shipped cassettes" if is_own else "the shipped cassettes"
    return [Library(Path(options.folder)), Library(suite.shipped("cassettes"))], named


def _redactor(options: Options, mode: Mode) -> Redactor:
    """For what is raised, which is said on the screen and in reports of runs that did not come to their end."""
    return Redactor.of_run((given.partition("=")[2] for given in options.base_urls or ()), shaped=mode == "live")


def _seconds(options: Options, mode: Mode) -> float:
    """How long a foreign adapter may take for a cell."""
    given = options.cell_timeout
    return cell_seconds(given, f"--cell-timeout {given:g}" if given is not None else "", live=mode == "live")
