"""Execution of the cells of a run or a recording: selection, rate limits, costs, reports and messages."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import partial
from itertools import chain
from pathlib import Path

import typer

import harness
from harness.apis import registry
from harness.apis.prices import price_version
from harness.apis.registry import Target
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.redact import Redactor
from harness.cassettes.redact.secret_patterns import display_url as shown_url
from harness.checks.adapter_check import AdapterCheck
from harness.cli.options import RecordOptions
from harness.cli.outputs import current_checkout, load_run, presentation_of, with_pipeline
from harness.cli.progress import PartialReports, Progress, interruptible
from harness.cli.selection import LastFailed, Selection, select
from harness.cli.settings import (
    EffectiveOptions,
    combine_options,
    complete_options,
    fact_options,
    named_values,
    settings,
)
from harness.kit import factories
from harness.model.errors import UnknownName, UsageError
from harness.platform.environment import hidden_variables
from harness.platform.files import shipped_folder
from harness.reports.groups import missing
from harness.reports.words import costs, count, forecast, money, plain
from harness.results import CellResult, ExpectedFailure, Invocation, Mode, RunResult, Verdict
from harness.runner import expected_failures
from harness.runner.cells import Cell, not_applicable, scenarios_of
from harness.runner.costs import Budget, estimate
from harness.runner.live import RateLimits, RateOptions, base_urls_of
from harness.runner.recorder import Recorder, lock_cassettes, recordable_cells, versions, without_fresh
from harness.runner.shards import ResumedCells, Shard, definitions, resumed_cells
from harness.runner.suite_run import EarlyStop, Execute, Plan, ResultCollector, Run, cell_seconds
from harness.runner.verdicts import known_finding_ids
from harness.stdio.workers import ForeignAdapter, WorkerPool


def run_and_report(options: EffectiveOptions, mode: Mode) -> int:
    """Run the selected cells, write the reports, and return the exit code.

    Raises:
        UsageError: an option is wrong, or names something that does not exist.
    """
    options = complete_options(options, mode)
    libraries, named = cassette_libraries(options) if mode == "replay" else ([], None)
    with environment(mode):
        return _run_with_options(options, mode, libraries, named, last_failed=LastFailed(settings().folder, mode))


def play_check(options: EffectiveOptions, check: AdapterCheck, again: Rerun) -> int:
    """Run the cells of a check, write the reports with its scorecard, and return the exit code.

    `again` may replace the result with the result of a second execution.

    Raises:
        UsageError: an option is wrong, or names something that does not exist.
    """
    with environment("reference"):
        return _run_with_options(complete_for_check(options), "reference", [], None, check=check, again=again)


def complete_for_check(options: EffectiveOptions) -> EffectiveOptions:
    """Return the options of a check, completed by the project's settings, but with its own suite instead of the
    project's.
    """
    return replace(complete_options(options, "reference"), paths=options.paths)


def record(args: RecordOptions) -> int:
    """Record the selected cells and return the exit code. Raises `UsageError` like `run_and_report`."""
    if args.stale and args.missing:
        raise UsageError(
            "--stale: it selects cells that have a cassette, and --missing the others. Use only one of them."
        )
    if args.max_age is not None and not args.stale:
        raise UsageError(f"--max-age {args.max_age}: it defines which cassettes are stale, so add --stale.")
    mode: Mode = "live" if args.origin == "provider" else "reference"
    options = complete_options(combine_options(args), mode, records=True)
    folder = Path(options.cassettes or options.folder)
    if Path(os.path.realpath(folder)).is_relative_to(Path(os.path.realpath(harness.__file__)).parent):
        raise UsageError(
            f"--cassettes {folder}: this is inside the installed package, which an update replaces. "
            "Name another folder."
        )
    outdated = options.outdated if args.stale else None
    recorder = Recorder(
        CassetteLibrary(folder), args.force, args.max_requests, args.missing, outdated, tuple(args.allowed or ())
    )
    with environment(mode):
        return _run_with_options(options, mode, [], str(folder), recorder=recorder)


def environment(mode: Mode) -> AbstractContextManager[None]:
    """Return a context that hides every environment variable that an SDK reads, unless the run is live. Enter it before
    an SDK is imported.
    """
    return contextlib.nullcontext() if mode == "live" else hidden_variables()


def _run_with_options(  # noqa: PLR0913 - what distinguishes a run, a recording and a check
    options: EffectiveOptions,
    mode: Mode,
    libraries: Sequence[CassetteLibrary],
    cassettes: str | None,
    *,
    recorder: Recorder | None = None,
    check: AdapterCheck | None = None,
    again: Rerun | None = None,
    last_failed: LastFailed | None = None,
) -> int:
    wanted = with_pipeline(options.reports or ())
    presentation = presentation_of(options, all_differences=options.all_differences)
    facts = tuple(map(str, options.facts or ()))
    _check_live_options(options, mode)
    earlier = None if options.resume is None else load_run(options.resume, "--resume")
    reports = PartialReports(wanted, "record" if recorder else mode, presentation, cassettes, facts)
    conversations = any(each.report.wants_conversations for each in wanted)
    execution = Execution(options, mode, libraries, recorder, reports, earlier, check, last_failed, conversations)
    try:
        with (
            interruptible(),
            redactor_of(options, mode).redact_exceptions(),
            WorkerPool(cell_time_limit(options, mode), offline=mode != "live") as workers,
        ):
            result = execution.result(workers)
            if again is not None:
                result = again(execution, workers, result)
    except BaseException as error:
        reports.stop(error)
        raise
    reports.end()
    result = replace(result, cassettes=result.cassettes or cassettes, facts=facts, checkout=current_checkout())
    if recorder is not None and mode == "live" and not any(each.shows_terminal for each in wanted):
        _print_all(costs(result))
    nothing_missing = recorder is not None and _is_complete(recorder, result)
    for output in wanted:
        if output.is_file or not nothing_missing:
            output.write(result, presentation)
    return 0 if nothing_missing else result.exit_code


def _is_complete(recorder: Recorder, result: RunResult) -> bool:
    if recorder.outdated is not None:
        return all(cell.verdict is Verdict.NOT_APPLICABLE for cell in result.cells)
    return recorder.missing and not result.cells


def cassette_libraries(options: EffectiveOptions) -> tuple[list[CassetteLibrary], str]:
    """Return the cassette folders in the order of lookup, and how messages refer to them."""
    given = options.cassettes
    if given is not None:
        if Path(given).is_file():
            raise UsageError(f"--cassettes {given}: this is a file. Name the folder of the cassettes.")
        if not Path(given).is_dir():
            raise UsageError(
                f"--cassettes {given}: there is no such folder. 'harness record --cassettes {given}' would create it."
            )
        return [CassetteLibrary(Path(given))], given
    is_own = options.paths or Path(options.folder).is_dir()
    named = f"{options.folder} and the shipped cassettes" if is_own else "the shipped cassettes"
    return [CassetteLibrary(Path(options.folder)), CassetteLibrary(shipped_folder("cassettes"))], named


def redactor_of(options: EffectiveOptions, mode: Mode) -> Redactor:
    """Return the redactor of error messages. These appear on the screen and in the reports of unfinished runs."""
    return Redactor.of_run((given.partition("=")[2] for given in options.base_urls or ()), shaped=mode == "live")


def cell_time_limit(options: EffectiveOptions, mode: Mode) -> float:
    """Return the time limit in seconds for a cell of a third-party adapter."""
    given = options.cell_timeout
    return cell_seconds(given, f"--cell-timeout {given:g}" if given is not None else "", live=mode == "live")


@dataclass(frozen=True)
class Execution:
    """Execution of the selected cells.

    Without a `recorder` nothing is recorded. `earlier` is the run named by `--resume`. With `conversations` the
    exchanges of all cells are kept.
    """

    options: EffectiveOptions
    mode: Mode
    libraries: Sequence[CassetteLibrary]
    recorder: Recorder | None
    reports: PartialReports
    earlier: RunResult | None
    check: AdapterCheck | None
    last_failed: LastFailed | None
    conversations: bool

    def result(self, workers: WorkerPool) -> RunResult:
        """Run the cells and return their result.

        Raises:
            UsageError: an option is wrong, or names something that does not exist.
        """
        jobs, expected = _jobs(self.options.jobs), expected_failures_of(self.options)
        chosen = select(self.options, workers, live=self.mode == "live")
        whole = self._wanted_cells(chosen.cells)
        shard = None if self.options.shard is None else Shard.parse(self.options.shard)
        selection = replace(chosen, cells=whole if shard is None else shard.of_cells(whole))
        plan = self._plan(selection, expected)
        run = plan.run(selection.targets)
        with lock_cassettes(self.recorder, selection.cells):
            cells = self._cells_to_run(selection, run, plan)
            collector = run.collector(cells)
            described = self._describer(chosen, selection, cells, plan)

            def complete(result: RunResult) -> RunResult:
                dealt = shard or (Shard(1, 1) if self.mode == "live" and self.recorder is None else None)
                if shard is not None:  # other shards may have matched these entries
                    result = replace(result, stale=(), unmatched=())
                return replace(described(result), part=dealt and dealt.part(whole, expected, collector.observed))

            self.reports.begin(cells, lambda: collector.cells, complete)
            result = self._run_cells(selection, cells, run, plan, collector, jobs)
            if self.check is not None:

                def again(tried: Sequence[Cell]) -> Sequence[CellResult]:
                    # Offline cells take less time one by one than a second process needs to load the adapter.
                    at_once = jobs if self.mode == "live" else 1
                    return plan.run(selection.targets)(tried, jobs=at_once).cells

                result = replace(result, check=self.check.report(chosen.cells, cells, result, again))
            return complete(result)

    def _wanted_cells(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        if self.check is not None:
            return self.check.select_cells(cells)
        return self.last_failed.choose(cells) if self.last_failed is not None and self.options.last_failed else cells

    def _plan(self, selection: Selection, expected: Sequence[ExpectedFailure]) -> Plan:
        options, names = self.options, [target.name for target in selection.targets]
        return Plan(
            rate_limits=RateLimits(RateOptions.parse(options.rates or (), options.concurrency or (), names)),
            budget=_budget(options, selection.targets),
            mode=self.mode,
            libraries=self.libraries,
            own=frozenset(selection.files),
            base_urls=base_urls_for(options.base_urls, self.mode, selection.targets),
            expected=expected,
            recorder=self.recorder,
            recuts=options.recuts,
            strict=bool(options.strict),
            conversations=self.conversations,
            scope=options.scope,
            outdated=options.outdated,
        )

    def _cells_to_run(self, selection: Selection, run: Run, plan: Plan) -> Sequence[Cell]:
        """Return the cells to record, or all cells without a recorder.

        For a recording, print notes about the existing cassettes and, if requests go to a provider, the expected cost.
        """
        if self.recorder is None:
            return selection.cells
        found = run.survey_recordings(selection.cells)
        _print_all(found.notes)
        wanted = without_fresh(selection.cells, found)
        _print_fresh(len(selection.cells) - len(wanted), len(wanted), stale=self.recorder.outdated is not None)
        if plan.mode == "live":
            print_cost_forecast(recordable_cells(wanted, found), plan.base_urls, self.recorder.max_requests)
        return wanted

    def _describer(
        self, chosen: Selection, selection: Selection, cells: Sequence[Cell], plan: Plan
    ) -> Callable[[RunResult], RunResult]:
        """Return a function that adds versions, commands and definitions to a result."""
        options = self.options
        is_own = options.cassettes is None and all(cell.scenario.id in selection.files for cell in chosen.cells)
        folder = options.folder if is_own and self.mode == "replay" else None  # the shipped cassettes are not read
        invocation = _invocation(options, self.mode, selection, recording=self.recorder is not None)

        def describe(run: RunResult) -> RunResult:
            return replace(
                run,
                versions=run.versions or versions(),
                left_out=selection.left_out,
                invocation=invocation,
                definitions={} if options.hand_over else definitions(scenarios_of(cells), selection.files),
                rules=plan.scope.only,
                ignored=plan.scope.ignored,
                cassettes=folder or run.cassettes,
            )

        return describe

    def _run_cells(  # noqa: PLR0913, PLR0917 - the parts of a run
        self,
        selection: Selection,
        cells: Sequence[Cell],
        run: Run,
        plan: Plan,
        collector: ResultCollector,
        jobs: int | None,
    ) -> RunResult:
        options = self.options
        resumed = self._resume(cells)
        collector.keep(resumed.cells, resumed.observed)
        if plan.budget is not None:
            plan.budget.plan_cells([cell for number, cell in enumerate(cells) if number not in resumed.cells])
        try:
            with _executor(options, self.mode, plan, selection.targets) as elsewhere:
                check = self.check or AdapterCheck()
                stop = EarlyStop(options.failure_limit, check.seconds, check.least_cells)
                start = partial(run, jobs=jobs, stop=stop, elsewhere=elsewhere, skip=resumed.cells)
                return self._with_progress(start, cells, collector)
        except BaseException:
            if self.recorder is not None:
                named = options.targets or options.adapters or options.models
                targets = [target.name for target in selection.targets] if named else []
                invocation = _invocation(options, self.mode, selection, recording=True)
                _print_stopped(cells, run.recorded, self.recorder, invocation, targets)
            raise
        finally:
            _print_all(run.notes)
            if plan.budget is not None:
                _print(f"Budget: {money(plan.budget.spent)} of ${plan.budget.limit:f} spent, by list prices.")

    def _resume(self, cells: Sequence[Cell]) -> ResumedCells:
        """Return the finished cells of the earlier run. Raises `UsageError` if that was a different run."""
        if self.earlier is None:
            return ResumedCells()
        file = self.options.resume
        found = resumed_cells(self.earlier, str(file), cells)
        left = len(cells) - len(found.cells)
        typer.echo(f"--resume {file}: {count(len(found.cells), 'cell')} kept, {left} to run.", err=True)
        return found

    def _with_progress(
        self, start: Callable[..., RunResult], cells: Sequence[Cell], collector: ResultCollector
    ) -> RunResult:
        is_live = self.mode == "live"
        try:
            with Progress(len(cells), paid=is_live) as progress:

                def finished(cell: CellResult) -> None:
                    if is_live:
                        self.reports.update()
                    progress(cell)

                return start(cells, progress=finished, collector=collector)
        finally:
            if self.last_failed is not None:
                self.last_failed.store(collector.cells)


Rerun = Callable[[Execution, WorkerPool, RunResult], RunResult]


@contextmanager
def _executor(
    options: EffectiveOptions, mode: Mode, plan: Plan, targets: Sequence[Target]
) -> Generator[Execute | None]:
    """Connect to the Dask workers of `--executor`; without this option, yield `None`.

    Raises:
        UsageError: the run is live, an adapter is third-party, or the workers cannot be used.
    """
    if options.executor is None:
        yield None
        return
    from harness.runner import executors  # noqa: PLC0415 - few runs need Dask

    if mode == "live":
        raise UsageError("--executor: it applies only to offline runs (--mode replay or reference).")
    own = [target.name for target in targets if isinstance(target.adapter, ForeignAdapter)]
    if own:
        raise UsageError(
            f"--executor: {own[0]} is not a target of a built-in adapter, so it can only be run on this machine. "
            "Leave --executor out, or use --shard."
        )
    with executors.dask_executor(options.executor, executors.folders(plan)) as crew:
        yield partial(executors.run_sent, crew, plan)


def expected_failures_of(options: EffectiveOptions) -> list[ExpectedFailure]:
    """Return the entries of the file of expected failures."""
    file = options.expected_failures
    return (
        expected_failures.load(Path(file), known_finding_ids(fact_options(options.as_of, options.facts)))
        if file
        else []
    )


def _jobs(given: str | None) -> int | None:
    if given is None:
        return None
    if given == "auto":
        return os.cpu_count() or 1
    if not (given.isascii() and given.isdigit() and int(given) > 0):
        raise UsageError(f"-n {given}: it must be a whole number of at least 1, or 'auto'.")
    return int(given)


def _check_live_options(options: EffectiveOptions, mode: Mode) -> None:
    if options.hand_over and mode == "replay":
        raise UsageError("--hand-over: no cassettes have hand-overs. Leave --mode out, or give --mode live.")
    if options.hand_over and options.budget:
        raise UsageError(
            "--budget: it does not count the requests to the first target of a hand-over. Use only one of them."
        )
    live_only = {
        "--rate": options.rates,
        "--concurrency": options.concurrency,
        "--budget": options.budget,
        "--resume": options.resume,
    }
    for option, value in live_only.items():
        if value and mode != "live":
            raise UsageError(f"{option}: it applies only to live requests: add --mode live, or record --from provider.")
    if options.concurrency and options.jobs not in (None, "1"):
        raise UsageError(
            "--concurrency: it counts the cells of each target, and -n those of all. Use only one of them."
        )


def _budget(options: EffectiveOptions, targets: Sequence[Target]) -> Budget | None:
    given = options.budget
    if given is None:
        return None
    try:
        limit = Decimal(given.removeprefix("$"))
    except InvalidOperation:
        limit = Decimal(0)
    if not limit.is_finite() or limit <= 0:
        raise UsageError(f"--budget {given!r}: it must be an amount of US dollars above 0, as in --budget 2.50.")
    Budget.check(targets)
    return Budget(limit)


def base_urls_for(given: Sequence[str] | None, mode: Mode, targets: Sequence[Target]) -> Mapping[str, str]:
    """Return the base URLs that replace the providers of these targets, from the option or from environment variables.

    Raises:
        UsageError: a value is not a URL or does not name a target, or the run is not live.
    """
    base_urls = named_values("--base-url", given, "URL")
    known = sorted({target.name for target in targets} | {shipped.name for shipped in registry.all_targets()})
    for target, url in base_urls.items():
        if mode != "live":
            raise UsageError(
                "--base-url: it applies only to live requests: add --mode live, or record --from provider."
            )
        if target not in known:
            raise UnknownName("target", target, known, "--base-url")
        if not factories.is_base_url(url):
            raise UsageError(f"--base-url {target}: {factories.INVALID_BASE_URL}")
    return base_urls_of(base_urls, targets) if mode == "live" else {}


def _hand_over_invocation(options: EffectiveOptions, mode: Mode, selection: Selection) -> Invocation:
    """Return the commands of a hand-over run. The command that shows a cell is empty, because `harness show` cannot
    show hand-overs.
    """
    given = tuple(word for variant in options.variants or () for word in ("--variant", variant))
    live = ("--mode", "live") if mode == "live" else ()
    rerun = ("harness", "run", "--hand-over", *live, *given, *(("--strict",) if options.strict else ()))
    return Invocation(rerun, (), rerun, tuple(options.paths or ()), selection.files, selection.words, show=())


def _invocation(options: EffectiveOptions, mode: Mode, selection: Selection, *, recording: bool) -> Invocation:
    if options.hand_over:
        return _hand_over_invocation(options, mode, selection)
    alone = ("--variant", *selection.variants) if len(selection.variants) == 1 else ()
    cassettes = () if options.cassettes is None else ("--cassettes", options.cassettes)
    given = named_values("--base-url", options.base_urls, "URL").items()
    urls = tuple(word for target, url in given for word in ("--base-url", f"{target}={shown_url(url)}"))
    strict = ("--strict",) if options.strict else ()
    judgement = (
        *(() if options.as_of is None else ("--as-of", options.as_of)),
        *(word for file in options.facts or () for word in ("--facts", str(file))),
        *chain.from_iterable(("--rule", each) for each in options.scope.only),
        *chain.from_iterable(("--ignore", each) for each in options.scope.ignored),
    )
    record = ("harness", "record", *cassettes)
    reference = ("harness", "run", "--mode", "reference", *judgement)
    if recording:
        record = rerun = (*record, *(urls if mode == "live" else ("--from", "reference")), *judgement)
    else:
        rerun = ("harness", "run", *cassettes) if mode == "replay" else ("harness", "run", "--mode", mode, *urls)
        rerun = (*rerun, *strict, *judgement)
    show = ("harness", "show", *(cassettes if mode == "replay" else ("--mode", mode)), *urls, *strict, *judgement)
    return Invocation(
        (*rerun, *alone),
        (*record, *alone),
        (*reference, *alone),
        (*(options.paths or ()), *(() if options.words is None else ("-k", options.words))),
        selection.files,
        selection.words,
        ("--recut", str(options.recuts)) if options.recuts else (),
        show,
    )


def print_cost_forecast(cells: Sequence[Cell], base_urls: Mapping[str, str], max_requests: int | None) -> None:
    """Print the expected cost of the applicable cells, by target."""
    sent = [cell for cell in cells if not_applicable(cell, "live") is None]
    parts = estimate(sent, base_urls=base_urls, max_requests=max_requests)
    _print_all(forecast(parts, price_version()))


def _print_fresh(number: int, left: int, *, stale: bool) -> None:
    if number and stale:
        again = f"{count(left, 'cell')} to record again" if left else "nothing to record again"
        _print(f"{count(number, 'chosen cell')} without a stale cassette, which --stale does not replace; {again}.")
    elif number:
        rest = f"{count(left, 'cell')} to record" if left else "nothing to record"
        _print(f"{count(number, 'chosen cell')} with a fresh cassette, which --missing does not replace; {rest}.")


def _print_stopped(
    cells: Sequence[Cell], recorded: Sequence[Cell], recorder: Recorder, invocation: Invocation, named: Sequence[str]
) -> None:
    """Print the finished cells of a recording that was stopped, and the command that records the others.

    `named` holds the targets that the user named, if any.
    """
    complete = {id(cell) for cell in recorded}
    done, left = [[cell for cell in cells if (id(cell) in complete) is wanted] for wanted in (True, False)]
    _print(f"Recorded before it stopped: {len(done)} of {count(len(cells), 'cell')}{':' if done else '.'}")
    for name in dict.fromkeys(cell.target.name for cell in done):
        _print(f"  {name}: {', '.join(map(_label, (cell for cell in done if cell.target.name == name)))}")
    if not left:
        return
    force = ("--force",) if recorder.force else ()
    if recorder.force and not recorder.missing and recorder.outdated is None:  # --missing would leave old cassettes
        verdicts = [cell.result(Verdict.PASS if id(cell) in complete else Verdict.MISSING) for cell in cells]
        forced = replace(invocation, record=(*invocation.record, *force))
        commands = [group.record for group in missing(RunResult("record", tuple(verdicts), invocation=forced))]
    else:
        which = ("--missing",) if recorder.outdated is None else recorder.outdated.words
        commands = [invocation.command((*invocation.record, *which, *force), named)]
    for command in commands:
        _print(f"To go on: {command}")


def _label(cell: Cell) -> str:
    return cell.scenario.id if cell.variant == "whole" else f"{cell.scenario.id} ({cell.variant})"


def _print_all(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        _print(sentence)


def _print(text: str) -> None:
    typer.echo(plain(text), err=True)
