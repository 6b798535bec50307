"""One run or recording, from the options to the exit code."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import typer

import harness
from harness.checking.check import Check
from harness.cli import estimates, live
from harness.cli.failures import Failures
from harness.cli.interruption import interruptible
from harness.cli.options import Options
from harness.cli.outputs import on_screen, presented, with_pipeline
from harness.cli.playing import Playing
from harness.cli.selection import select
from harness.cli.settings import completed, settings
from harness.cli.standing import Standing
from harness.contract.errors import UsageError
from harness.host.environment import isolated
from harness.reports._words import listed
from harness.results import Mode, Presentation, RunResult, Verdict
from harness.running.plan import Plan, cell_seconds
from harness.running.recorder import Recorder
from harness.scenarios import suite
from harness.stdio.workers import Workers
from harness.tape.library import Library
from harness.tape.redact import Redactor

_FROM: Mapping[Literal["provider", "reference"], Mode] = {"provider": "live", "reference": "reference"}


def run(options: Options, mode: Mode) -> int:
    """Play the chosen cells, write the reports, and return the exit code.

    Raises:
        UsageError: an option is wrong, or something that it names is missing.
    """
    options = completed(options, mode)
    libraries, named = _libraries(options) if mode == "replay" else ([], None)
    failures = Failures(settings().folder, mode)
    with _environment(mode):
        return _play(options, mode, libraries, None, named, failures=failures)


def check(options: Options, asked: Check) -> int:
    """Play what a check plays of the chosen cells, write the reports with its scorecard, and return the exit code.

    Raises:
        UsageError: an option is wrong, or something that it names is missing.
    """
    options = replace(completed(options, "reference"), paths=options.paths)  # its own suite, not the project's
    with _environment("reference"):
        return _play(options, "reference", [], None, None, check=asked)


def show(options: Options, mode: Mode) -> int:
    """Play the one chosen cell, print all that happened in it, and return the exit code.

    Raises:
        UsageError: an option is wrong, something that it names is missing, or more than one cell is chosen. Of one
            scenario and target the whole variant is chosen, unless `--variant` names another.
    """
    from harness.cli import _show_text  # noqa: PLC0415 - rich, which a run without a report for people does not need

    any_variant = not options.variants
    options = completed(options, mode)
    libraries = _libraries(options)[0] if mode == "replay" else []
    with (
        _environment(mode),
        _redactor(options, mode).raising(),
        Workers(_seconds(options, mode), offline=mode != "live") as workers,
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


def record(  # noqa: PLR0913 - an option each
    options: Options,
    origin: Literal["provider", "reference"],
    *,
    force: bool,
    which: Literal["all", "missing", "stale"],
    max_requests: int | None,
    allowed: tuple[str, ...] = (),
) -> int:
    """Record the chosen cells, write the reports, and return the exit code.

    Raises:
        UsageError: an option is wrong, or something that it names is missing or must not be overwritten.
    """
    options = completed(options, _FROM[origin], records=True)
    folder = Path(options.cassettes or options.folder)
    if Path(os.path.realpath(folder)).is_relative_to(Path(os.path.realpath(harness.__file__)).parent):
        raise UsageError(
            f"--cassettes {folder}: this is inside the installed package, which an update replaces. "
            "Name another folder."
        )
    outdated = options.outdated if which == "stale" else None
    recorder = Recorder(Library(folder), force, max_requests, which == "missing", outdated, allowed)
    with _environment(_FROM[origin]):
        return _play(options, _FROM[origin], [], recorder, str(folder))


def _environment(mode: Mode) -> AbstractContextManager[None]:
    """What a run may read of the environment: offline nothing that an SDK reads, from before one is imported."""
    return contextlib.nullcontext() if mode == "live" else isolated()


def _play(  # noqa: PLR0913 - what a run is made of
    options: Options,
    mode: Mode,
    libraries: Sequence[Library],
    recorder: Recorder | None,
    cassettes: str | None,
    *,
    check: Check | None = None,
    failures: Failures | None = None,
) -> int:
    wanted = with_pipeline(options.reports or ())
    presentation = presented(verbose=options.verbose, quiet=options.quiet, all_differences=options.all_differences)
    facts = tuple(map(str, options.facts))
    live.check(options, mode)
    earlier = live.earlier(options)
    standing = Standing(wanted, "record" if recorder else mode, presentation, cassettes, facts)
    conversations = any(each.report.wants_conversations for each in wanted)
    playing = Playing(options, mode, libraries, recorder, standing, earlier, check, failures, conversations)
    try:
        with (
            interruptible(),
            _redactor(options, mode).raising(),
            Workers(_seconds(options, mode), offline=mode != "live") as workers,
        ):
            result = playing.result(workers)
            if check is not None:
                from harness.cli.model_choice import with_accepting_model  # noqa: PLC0415 - it imports a price list

                result = with_accepting_model(playing, workers, result)
    except BaseException as error:
        standing.stop(error)
        raise
    standing.end()
    result = replace(result, cassettes=result.cassettes or cassettes, facts=facts)
    if recorder is not None and mode == "live" and not any(each.shows_terminal for each in wanted):
        estimates.after(result)
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
