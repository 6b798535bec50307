"""One run or recording, from the options to the exit code."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

import typer

import harness
from harness import catalog
from harness.apis.targets import Target
from harness.checking.check import Check
from harness.cli import _show_text, estimates, live, recordings
from harness.cli.days import edition
from harness.cli.failures import Failures
from harness.cli.interruption import interruptible
from harness.cli.options import Options, named_values
from harness.cli.outputs import on_screen, presented, with_pipeline
from harness.cli.progress import Progress
from harness.cli.selection import Selection, select
from harness.cli.settings import completed, settings
from harness.cli.standing import Standing
from harness.contract.errors import UnknownName, UsageError
from harness.host.environment import isolated
from harness.kit import factories
from harness.reports._words import listed
from harness.results import CellResult, Invocation, Mode, Presentation, RunResult, Verdict
from harness.running import expected_failures
from harness.running.definitions import definitions
from harness.running.expected_failures import ExpectedFailure
from harness.running.findable import findable
from harness.running.gathering import Gathering
from harness.running.plan import Plan, cell_seconds
from harness.running.recorder import Recorder, to_record, without_held
from harness.running.run import Elsewhere, Run
from harness.running.shards import Shard
from harness.running.stages import Cell
from harness.running.stages.live import base_urls_of
from harness.running.versions import versions
from harness.running.workers.pool import Foreign, Workers
from harness.scenarios import suite
from harness.tape.library import Library
from harness.tape.redact import Redactor
from harness.tape.redact.address import shown as shown_url

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
        UsageError: an option is wrong, something that it names is missing, or more than one cell is chosen.
    """
    options = completed(options, mode)
    libraries = _libraries(options)[0] if mode == "replay" else []
    with (
        _environment(mode),
        _redactor(options, mode).raising(),
        Workers(_seconds(options, mode), offline=mode != "live") as workers,
    ):
        selection = select(options, workers)
        if len(selection.cells) > 1:
            chosen = listed([f"--target {each.target.name} --variant {each.variant}" for each in selection.cells], 3)
            raise UsageError(f"{len(selection.cells)} cells are chosen, and one can be shown. Name it, by: {chosen}.")
        base_urls = base_urls_for(options.base_urls, mode, selection.targets)
        plan = Plan(
            mode=mode,
            libraries=libraries,
            own=frozenset(selection.files),
            base_urls=base_urls,
            strict=bool(options.strict),
            scope=options.scope,
            outdated=options.outdated,
        )
        result, evidence = plan.run(selection.targets).look(selection.cells[0])
    for line in _show_text.lines(result, evidence, on_screen(Presentation(verbose=True))):
        typer.echo(line)
    return RunResult(mode, (result,)).exit_code


def record(
    options: Options,
    origin: Literal["provider", "reference"],
    *,
    force: bool,
    which: Literal["all", "missing", "stale"],
    max_requests: int | None,
) -> int:
    """Record the chosen cells, write the reports, and return the exit code.

    Raises:
        UsageError: an option is wrong, or something that it names is missing or must not be overwritten.
    """
    options = completed(options, _FROM[origin])
    folder = Path(options.cassettes or options.folder)
    if Path(os.path.realpath(folder)).is_relative_to(Path(os.path.realpath(harness.__file__)).parent):
        raise UsageError(
            f"--cassettes {folder}: this is inside the installed package, which an update replaces. "
            "Name another folder."
        )
    outdated = options.outdated if which == "stale" else None
    recorder = Recorder(Library(folder), force, max_requests, which == "missing", outdated)
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
    try:
        with (
            interruptible(),
            _redactor(options, mode).raising(),
            Workers(_seconds(options, mode), offline=mode != "live") as workers,
        ):
            result = _played(
                options,
                mode,
                libraries,
                recorder,
                workers=workers,
                standing=standing,
                earlier=earlier,
                check=check,
                failures=failures,
                conversations=any(each.report.wants_conversations for each in wanted),
            )
    except BaseException as error:
        standing.stop(error)
        raise
    result = replace(result, cassettes=result.cassettes or cassettes, facts=facts)
    if recorder is not None and mode == "live" and not any(each.shows_terminal for each in wanted):
        estimates.after(result)
    nothing_missing = recorder is not None and _is_fresh(recorder, result)
    for output in wanted:
        if output.is_file or not nothing_missing:
            output.write(result, presentation)
    return 0 if nothing_missing else result.exit_code


def _played(  # noqa: PLR0913 - what a run is made of
    options: Options,
    mode: Mode,
    libraries: Sequence[Library],
    recorder: Recorder | None,
    *,
    workers: Workers,
    standing: Standing,
    earlier: RunResult | None,
    check: Check | None,
    failures: Failures | None,
    conversations: bool,
) -> RunResult:
    jobs, expected = _jobs(options.jobs), _expected(options)
    selection = select(options, workers)
    every = selection.cells
    whole = _wanted(options, every, check, failures)
    selection = replace(selection, cells=whole)
    shard = None if options.shard is None else Shard.parsed(options.shard)
    if shard is not None:
        selection = replace(selection, cells=shard.of_cells(whole))
    purse = live.purse(options, selection.targets)
    plan = Plan(
        pace=live.pace(options, selection.targets),
        purse=purse,
        mode=mode,
        libraries=libraries,
        own=frozenset(selection.files),
        base_urls=base_urls_for(options.base_urls, mode, selection.targets),
        expected=expected,
        recorder=recorder,
        recuts=options.recuts,
        strict=bool(options.strict),
        conversations=conversations,
        scope=options.scope,
        outdated=options.outdated,
    )
    playing = plan.run(selection.targets)
    invocation = _invocation(options, mode, selection, recording=recorder is not None)
    cells = selection.cells if recorder is None else _to_record(selection.cells, playing, plan, recorder)
    gathering = playing.gathering(cells)
    is_own = options.cassettes is None and all(cell.scenario.id in selection.files for cell in every)

    def completed(run: RunResult) -> RunResult:
        dealt = shard or (Shard(1, 1) if mode == "live" and recorder is None else None)
        if shard is not None:
            run = replace(run, stale=(), unmatched=())  # of which others may have seen more
        return replace(
            run,
            versions=run.versions or versions(),
            left_out=selection.left_out,
            invocation=invocation,
            definitions=definitions({cell.scenario.id: cell.scenario for cell in cells}.values(), selection.files),
            rules=plan.scope.only,
            ignored=plan.scope.ignored,
            cassettes=options.folder if is_own and mode == "replay" else run.cassettes,  # others are not looked at
            part=dealt and dealt.part(whole, expected, gathering.observed),
        )

    standing.begin(cells, gathering.spool, completed)
    kept = live.resumed(options, earlier, cells)
    gathering.keep(kept.cells, kept.observed)
    if purse is not None:
        purse.foresee([cell for number, cell in enumerate(cells) if number not in kept.cells])
    try:
        with _elsewhere(options, mode, plan, selection.targets) as elsewhere:
            how = partial(playing, jobs=jobs, enough=options.enough, elsewhere=elsewhere, skip=kept.cells)
            result = _progressing(how, cells, gathering, failures, standing if mode == "live" else None)
    except BaseException:
        if recorder is not None:
            named = options.targets or options.adapters or options.models
            targets = [target.name for target in selection.targets] if named else []
            recordings.stopped(cells, playing.recorded, recorder, invocation, targets)
        raise
    finally:
        recordings.notes(playing.notes)
        live.spent(purse)
    if check is not None:
        said = check.said(every, cells, result, lambda tried: plan.run(selection.targets)(tried, jobs=jobs).cells)
        result = replace(result, check=said)
    return completed(result)


def _wanted(options: Options, every: Sequence[Cell], check: Check | None, failures: Failures | None) -> Sequence[Cell]:
    """Those of the chosen cells that are played: the sample of a check, what failed before, or all."""
    if check is not None:
        return check.chosen(every)
    return failures.chosen(every) if failures is not None and options.last_failed else every


def _progressing(
    playing: Callable[..., RunResult],
    cells: Sequence[Cell],
    gathering: Gathering,
    failures: Failures | None,
    standing: Standing | None,
) -> RunResult:
    try:
        with Progress(len(cells), paid=standing is not None) as progress:

            def told(cell: CellResult) -> None:
                if failures is not None:
                    failures.add(cell)
                if standing is not None:
                    standing.keep()
                progress(cell)

            return playing(cells, progress=told, gathering=gathering)
    finally:
        if failures is not None:
            failures.keep()


def _is_fresh(recorder: Recorder, result: RunResult) -> bool:
    """Whether nothing was to be recorded of what was asked for."""
    if recorder.outdated is not None:
        return all(cell.verdict is Verdict.NOT_APPLICABLE for cell in result.cells)
    return recorder.missing and not result.cells


@contextlib.contextmanager
def _elsewhere(options: Options, mode: Mode, plan: Plan, targets: Sequence[Target]) -> Generator[Elsewhere | None]:
    """Who plays the cells, if `--executor` names somebody.

    Raises:
        UsageError: these cells cannot be played elsewhere, or nobody answers there.
    """
    if options.executor is None:
        yield None
        return
    from harness.running.elsewhere import dask, work  # noqa: PLC0415 - few runs go elsewhere

    if mode == "live":
        raise UsageError("--executor: it is for what is played offline: --mode replay or reference.")
    own = [target.name for target in targets if isinstance(target.adapter, Foreign)]
    if own:
        raise UsageError(
            f"--executor: {own[0]} is no target of an adapter that ships with harness, and is played in a process of "
            "its own here. Leave --executor out, or give each machine a --shard."
        )
    with dask.crew(options.executor, work.folders(plan)) as crew:
        yield partial(work.played, crew, plan)


def _expected(options: Options) -> list[ExpectedFailure]:
    file = options.expected_failures
    by = edition(options.as_of, options.facts)
    return expected_failures.load(Path(file), findable(by)) if file else []


def _to_record(cells: Sequence[Cell], playing: Run, plan: Plan, recorder: Recorder) -> Sequence[Cell]:
    """Those of the cells that are to be recorded; what is to be known before it is said."""
    found = playing.surveyed(cells)
    recordings.notes(found.notes)
    wanted = to_record(cells, found)
    recordings.fresh(len(cells) - len(wanted), len(wanted), stale=recorder.outdated is not None)
    if plan.mode == "live":
        estimates.before(without_held(wanted, found), plan.base_urls, recorder.max_requests)
    return wanted


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


def base_urls_for(given: Sequence[str] | None, mode: Mode, targets: Sequence[Target]) -> Mapping[str, str]:
    """The servers in place of the providers of these targets: as given, or by the environment.

    Raises:
        UsageError: one is no URL, is for no target, or nothing is sent live.
    """
    base_urls = named_values("--base-url", given, "URL")
    known = sorted({target.name for target in targets} | {shipped.name for shipped in catalog.targets()})
    for target, url in base_urls.items():
        if mode != "live":
            raise UsageError("--base-url: it is for what is sent live: add --mode live, or record --from provider.")
        if target not in known:
            raise UnknownName("target", target, known, "--base-url")
        if not factories.is_base_url(url):
            raise UsageError(f"--base-url {target}: {factories.NO_BASE_URL}")
    if mode != "live":
        return {}
    return base_urls_of(base_urls, targets)


def _seconds(options: Options, mode: Mode) -> float:
    """How long a foreign adapter may take for a cell."""
    given = options.cell_timeout
    return cell_seconds(given, f"--cell-timeout {given:g}" if given is not None else "", live=mode == "live")


def _jobs(given: str | None) -> int | None:
    if given is None:
        return None
    if given == "auto":
        return os.cpu_count() or 1
    if not (given.isascii() and given.isdigit() and int(given) > 0):
        raise UsageError(f"-n {given}: it has to be a whole number from 1 on, or 'auto'.")
    return int(given)


def _invocation(options: Options, mode: Mode, selection: Selection, *, recording: bool) -> Invocation:
    alone = ("--variant", *selection.variants) if len(selection.variants) == 1 else ()
    kept = () if options.cassettes is None else ("--cassettes", options.cassettes)
    given = named_values("--base-url", options.base_urls, "URL").items()
    urls = tuple(word for target, url in given for word in ("--base-url", f"{target}={shown_url(url)}"))
    strict = ("--strict",) if options.strict else ()
    counts = (
        *(("--rule", each) for each in options.scope.only),
        *(("--ignore", each) for each in options.scope.ignored),
    )
    day = () if options.as_of is None else ("--as-of", options.as_of)
    law = (*day, *(word for file in options.facts for word in ("--facts", str(file))), *chain.from_iterable(counts))
    record = ("harness", "record", *kept)
    reference = ("harness", "run", "--mode", "reference", *law)
    if recording:
        record = rerun = (*record, *(urls if mode == "live" else ("--from", "reference")), *law)
    else:
        rerun = ("harness", "run", *kept) if mode == "replay" else ("harness", "run", "--mode", mode, *urls)
        rerun = (*rerun, *strict, *law)
    shown = ("harness", "show", *(kept if mode == "replay" else ("--mode", mode)), *urls, *strict, *law)
    expression = () if options.words is None else ("-k", options.words)
    return Invocation(
        (*rerun, *alone),
        (*record, *alone),
        (*reference, *alone),
        (*(options.paths or ()), *expression),
        selection.files,
        selection.words,
        ("--recut", str(options.recuts)) if options.recuts else (),
        shown,
    )
