"""Playing the cells of a run or a recording: which they are, who plays them, and what is known of them in the end."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from harness import catalog
from harness.apis.targets import Target
from harness.catalog import versions
from harness.checking.adapter_check import AdapterCheck
from harness.cli import live
from harness.cli.options import Options, edition, named_values
from harness.cli.selection import Selection, select
from harness.cli.standing import Failures, Progress, Standing
from harness.contract.errors import UsageError
from harness.results import Blame, CellResult, Checked, Finding, Invocation, Kind, Mode, RunResult, Severity, Verdict
from harness.running import expected_failures
from harness.running.cells import Cell, scenarios_of
from harness.running.costs import models
from harness.running.expected_failures import ExpectedFailure
from harness.running.plan import Plan
from harness.running.recorder import Recorder, claim_cassettes, without_fresh, without_held
from harness.running.run import Execute, ResultCollector, Run
from harness.running.shards import Shard, definitions
from harness.running.verdicts import known_finding_ids
from harness.stdio.workers import ForeignAdapter, WorkerPool
from harness.tape.library import Library
from harness.tape.redact.address import shown as shown_url


@dataclass(frozen=True)
class Playing:
    """What is to be played, and who wants to know of it.

    Without a `recorder` nothing is written. `earlier` is the run that this one goes on with, `check` what a check plays
    of the cells, `failures` what failed before. With `conversations` the exchanges of all cells are kept.
    """

    options: Options
    mode: Mode
    libraries: Sequence[Library]
    recorder: Recorder | None
    standing: Standing
    earlier: RunResult | None
    check: AdapterCheck | None
    failures: Failures | None
    conversations: bool

    def result(self, workers: WorkerPool) -> RunResult:
        """Play the cells.

        Raises:
            UsageError: an option is wrong, or something that it names is missing.
        """
        jobs, expected = _jobs(self.options.jobs), _expected(self.options)
        chosen = select(self.options, workers)
        whole = _wanted(self.options, chosen.cells, self.check, self.failures)
        shard = None if self.options.shard is None else Shard.parsed(self.options.shard)
        selection = replace(chosen, cells=whole if shard is None else shard.of_cells(whole))
        plan = self._plan(selection, expected)
        playing = plan.run(selection.targets)
        with claim_cassettes(self.recorder, selection.cells):
            return self._result(chosen, whole, shard, selection, playing, plan, jobs, expected)

    def _result(  # noqa: PLR0913, PLR0917 - what was made of the options
        self,
        chosen: Selection,
        whole: Sequence[Cell],
        shard: Shard | None,
        selection: Selection,
        playing: Run,
        plan: Plan,
        jobs: int | None,
        expected: Sequence[ExpectedFailure],
    ) -> RunResult:
        cells = self._to_play(selection, playing, plan)
        gathering = playing.gathering(cells)
        added = self._added(chosen, selection, cells, plan)

        def completed(run: RunResult) -> RunResult:
            dealt = shard or (Shard(1, 1) if self.mode == "live" and self.recorder is None else None)
            if shard is not None:
                run = replace(run, stale=(), unmatched=())  # of which others may have seen more
            return replace(added(run), part=dealt and dealt.part(whole, expected, gathering.observed))

        self.standing.begin(cells, lambda: gathering.cells, completed)
        result = self._played(selection, cells, playing, plan, gathering, jobs)
        if self.check is not None:

            def again(tried: Sequence[Cell]) -> Sequence[CellResult]:
                # Offline one after the other: they take less time than it does to load the adapter a second time.
                at_once = jobs if self.mode == "live" else 1
                return plan.run(selection.targets)(tried, jobs=at_once).cells

            result = replace(result, check=self.check.report(chosen.cells, cells, result, again))
        return completed(result)

    def _plan(self, selection: Selection, expected: Sequence[ExpectedFailure]) -> Plan:
        options = self.options
        return Plan(
            rate_limits=live.rate_limits(options, selection.targets),
            budget=live.budget(options, selection.targets),
            mode=self.mode,
            libraries=self.libraries,
            own=frozenset(selection.files),
            base_urls=live.base_urls_for(options.base_urls, self.mode, selection.targets),
            expected=expected,
            recorder=self.recorder,
            recuts=options.recuts,
            strict=bool(options.strict),
            conversations=self.conversations,
            scope=options.scope,
            outdated=options.outdated,
        )

    def _to_play(self, selection: Selection, playing: Run, plan: Plan) -> Sequence[Cell]:
        """Those of the cells that are to be recorded, or all; what is to be known before it is said."""
        if self.recorder is None:
            return selection.cells
        found = playing.surveyed(selection.cells)
        live.say_notes(found.notes)
        wanted = without_fresh(selection.cells, found)
        left = len(selection.cells) - len(wanted)
        live.say_fresh(left, len(wanted), stale=self.recorder.outdated is not None)
        if plan.mode == "live":
            live.forecast_costs(without_held(wanted, found), plan.base_urls, self.recorder.max_requests)
        return wanted

    def _added(
        self, chosen: Selection, selection: Selection, cells: Sequence[Cell], plan: Plan
    ) -> Callable[[RunResult], RunResult]:
        """What is known of the run beside what happened in it."""
        options = self.options
        is_own = options.cassettes is None and all(cell.scenario.id in selection.files for cell in chosen.cells)
        folder = options.folder if is_own and self.mode == "replay" else None  # others are not looked at
        invocation = _invocation(options, self.mode, selection, recording=self.recorder is not None)

        def added(run: RunResult) -> RunResult:
            return replace(
                run,
                versions=run.versions or versions(),
                left_out=selection.left_out,
                invocation=invocation,
                definitions=definitions(scenarios_of(cells), selection.files),
                rules=plan.scope.only,
                ignored=plan.scope.ignored,
                cassettes=folder or run.cassettes,
            )

        return added

    def _played(  # noqa: PLR0913, PLR0917 - what is played, by whom, and where it goes
        self,
        selection: Selection,
        cells: Sequence[Cell],
        playing: Run,
        plan: Plan,
        gathering: ResultCollector,
        jobs: int | None,
    ) -> RunResult:
        options = self.options
        kept = live.resumed(options, self.earlier, cells)
        gathering.keep(kept.cells, kept.observed)
        if plan.budget is not None:
            plan.budget.foresee([cell for number, cell in enumerate(cells) if number not in kept.cells])
        try:
            with _elsewhere(options, self.mode, plan, selection.targets) as elsewhere:
                how = partial(playing, jobs=jobs, enough=options.enough, elsewhere=elsewhere, skip=kept.cells)
                return self._watched(how, cells, gathering)
        except BaseException:
            if self.recorder is not None:
                named = options.targets or options.adapters or options.models
                targets = [target.name for target in selection.targets] if named else []
                invocation = _invocation(options, self.mode, selection, recording=True)
                live.say_stopped(cells, playing.recorded, self.recorder, invocation, targets)
            raise
        finally:
            live.say_notes(playing.notes)
            live.spent(plan.budget)

    def _watched(
        self, playing: Callable[..., RunResult], cells: Sequence[Cell], gathering: ResultCollector
    ) -> RunResult:
        is_live = self.mode == "live"
        try:
            with Progress(len(cells), paid=is_live) as progress:

                def told(cell: CellResult) -> None:
                    if is_live:
                        self.standing.keep()
                    progress(cell)

                return playing(cells, progress=told, gathering=gathering)
        finally:
            if self.failures is not None:
                self.failures.keep(gathering.cells)


def _wanted(
    options: Options, every: Sequence[Cell], check: AdapterCheck | None, failures: Failures | None
) -> Sequence[Cell]:
    """Those of the chosen cells that are played: the sample of a check, what failed before, or all."""
    if check is not None:
        return check.select_cells(every)
    return failures.chosen(every) if failures is not None and options.last_failed else every


@contextmanager
def _elsewhere(options: Options, mode: Mode, plan: Plan, targets: Sequence[Target]) -> Generator[Execute | None]:
    """Who plays the cells, if `--executor` names somebody.

    Raises:
        UsageError: these cells cannot be played elsewhere, or nobody answers there.
    """
    if options.executor is None:
        yield None
        return
    from harness.running import processes  # noqa: PLC0415 - few runs go elsewhere

    if mode == "live":
        raise UsageError("--executor: it is for what is played offline: --mode replay or reference.")
    own = [target.name for target in targets if isinstance(target.adapter, ForeignAdapter)]
    if own:
        raise UsageError(
            f"--executor: {own[0]} is no target of an adapter that ships with harness, and is played in a process of "
            "its own here. Leave --executor out, or give each machine a --shard."
        )
    with processes.dask_executor(options.executor, processes.folders(plan)) as crew:
        yield partial(processes.run_sent, crew, plan)


def _expected(options: Options) -> list[ExpectedFailure]:
    file = options.expected_failures
    by = edition(options.as_of, options.facts)
    return expected_failures.load(Path(file), known_finding_ids(by)) if file else []


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
    law = (
        *day,
        *(word for file in options.facts or () for word in ("--facts", str(file))),
        *chain.from_iterable(counts),
    )
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


_LEAST_CELLS = 5
_LEAST_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class _HidingLimit:
    """The limit that most failed cells break, with one of these cells."""

    finding: Finding
    cell: CellResult
    model: str
    count: int
    failed: int


def with_accepting_model(playing: Playing, workers: WorkerPool, result: RunResult) -> RunResult:
    """Play a check again if one limit of a model that nobody named hides the rest, and note it in the result.

    Returns the given result where there is no such limit, or where no known model of the API is without it.
    """
    limit = _hiding_limit(result)
    options = playing.options
    if limit is None or options.models or options.default_models:
        return result
    target = limit.cell.target
    for model in _other_models(limit.cell.api, limit.model):
        chosen = replace(options, models=[f"{target}={model}"])
        one_scenario = replace(chosen, paths=[limit.cell.scenario])
        trial = replace(playing, options=one_scenario, check=None).result(workers)
        ran = [each for each in trial.cells if each.target == target and each.verdict is not Verdict.NOT_APPLICABLE]
        if not ran or any(finding.rule == limit.finding.rule for cell in ran for finding in cell.findings):
            continue
        again = replace(playing, options=chosen).result(workers)
        first, second = (shlex.join(["--model", f"{target}={each}"]) for each in (model, limit.model))
        note = (
            f"Played with {model}: {limit.count} of {limit.failed} failed cells break one limit of {limit.model} "
            f"({limit.finding.rule}: {limit.finding.message}). The check fails until you name the model that the "
            f"adapter is made for: {first} or {second}."
        )
        return replace(again, check=replace(again.check or Checked(), model_note=note))
    return result


def _hiding_limit(result: RunResult) -> _HidingLimit | None:
    failed = [cell for cell in result.cells if cell.verdict is Verdict.FAIL]
    broken = [(cell, finding) for cell in failed if (finding := _limit(cell)) is not None]
    if not broken:
        return None
    rule, count = Counter(finding.rule for _, finding in broken).most_common(1)[0]
    cell, finding = next(each for each in broken if each[1].rule == rule)
    model = cell.provenance.model_requested if cell.provenance else None
    if model is None or count < max(_LEAST_CELLS, _LEAST_SHARE * len(failed)):
        return None
    return _HidingLimit(finding, cell, model, count, len(failed))


def _limit(cell: CellResult) -> Finding | None:
    return next(
        (
            finding
            for finding in cell.findings
            if (finding.kind, finding.severity) == (Kind.LIMIT, Severity.ERROR)
            and finding.blame in (Blame.ADAPTER, Blame.CLIENT)
        ),
        None,
    )


def _other_models(api: str, model: str) -> Iterator[str]:
    """A current model with a long context for each other profile of the API, in the order of the profiles."""
    wire = catalog.api(api)
    own = wire.profile_for(model).name
    known = [each for each in models(api) if not each.deprecated and each.context]
    for profile in wire.profiles:
        of_profile = [each for each in known if each.profile == profile.name != own]
        if of_profile:
            yield max(of_profile, key=lambda each: each.context or 0).id
