"""Runs cells in threads or processes and collects their results. A plan holds the options of a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Generic, Self, TypeVar

from harness.apis.prices import price_version
from harness.apis.registry import Target
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.preflight import OutdatedFilter, Preflight
from harness.model.errors import UnknownName, UsageError
from harness.platform.environment import utc_now
from harness.results import CellResult, ExpectedFailure, Mode, RunResult, Verdict
from harness.results.run_result import Values
from harness.rules import EVERYTHING, Scope
from harness.rules.conversation_report import build_conversation, max_conversation_chars, with_earlier
from harness.rules.evidence import Evidence
from harness.rules.rule import Rule, all_rules
from harness.runner.backends import Backend, ReferenceBackend, ReplayBackend
from harness.runner.cell_runner import CellRunner
from harness.runner.cells import VARIANTS, Cell
from harness.runner.costs import Budget
from harness.runner.differences import ObservedValues, difference_rows
from harness.runner.executors import MIN_CELLS_PER_FORK, MIN_FOREIGN_CELLS_PER_FORK, can_fork, cpu_count, run_forked
from harness.runner.expected_failures import Expectations
from harness.runner.live import LiveBackend, RateLimits
from harness.runner.recorder import Recorder, check_cassettes, versions, without_fresh
from harness.runner.verdicts import CellJudge, JudgedCell
from harness.scenarios.schema import Variant
from harness.stdio.workers import ForeignAdapter, RunCancelled

CELL_SECONDS = 60.0
"""Default time limit for a cell of a third-party adapter in offline modes."""

LIVE_CELL_SECONDS = 900.0
"""Default time limit for a cell of a third-party adapter in live mode."""


class ResultCollector:
    """Collects the results of `number` cells in any order.

    `targets` are the names of the cells' targets. Only findings in `scope` are compared with the `expected` failures.
    """

    def __init__(
        self, number: int, targets: Iterable[str], expected: Sequence[ExpectedFailure], scope: Scope = EVERYTHING
    ) -> None:
        self._results: list[CellResult | None] = [None] * number
        self._observed = {target: ObservedValues() for target in targets}
        self._expectations = Expectations(expected, scope)

    def add(self, number: int, judged: JudgedCell) -> None:
        """Add the result of the cell with this number. Its evidence is discarded."""
        result = judged.result
        self._results[number] = result
        self._expectations.add(result, played=is_judged(result))
        if judged.observations is not None:
            self._observed[result.target].add(judged.observations)

    def keep(self, cells: Mapping[int, CellResult], observed: Values) -> None:
        """Add results of an earlier run, by their cell numbers in this run, and the values observed in that run."""
        for number, result in cells.items():
            self.add(number, JudgedCell(result))
        for target, values in observed.items():
            if target in self._observed:
                self._observed[target].add(values)

    @property
    def cells(self) -> tuple[CellResult, ...]:
        """The results of the finished cells, in the order of the run."""
        return tuple(result for result in self._results if result is not None)

    @property
    def observed(self) -> Values:
        """The values observed so far, by target."""
        return {target: seen.values for target, seen in self._observed.items()}

    def result(self, mode: Mode) -> RunResult:
        """Return the result of a run that consists of these cells."""
        return RunResult(
            mode,
            self.cells,
            difference_rows(self._observed),
            self._expectations.stale,
            versions() | price_version(),
            unmatched=self._expectations.unmatched,
        )


def is_judged(cell: CellResult) -> bool:
    """Return whether all rules checked the cell."""
    if cell.verdict is Verdict.ERROR:
        return bool(cell.findings)  # else it broke before a rule saw anything
    return cell.verdict not in (Verdict.NOT_APPLICABLE, Verdict.MISSING)


class EarlyStop:
    """Limits after which no further cell starts: a number of failures (`--maxfail`) and a time in seconds. `None` means
    no limit.

    The first `min_cells` cells start in any case.
    """

    def __init__(self, failures: int | None = None, seconds: float | None = None, min_cells: int = 0) -> None:
        self._left = failures
        self._end = None if seconds is None else time.monotonic() + seconds
        self._min_cells = min_cells

    @property
    def over(self) -> bool:
        """True once a limit is reached."""
        is_late = self._end is not None and time.monotonic() > self._end
        return self._left == 0 or (is_late and self._min_cells <= 0)

    @property
    def has_time_limit(self) -> bool:
        """True if the number of seconds is limited."""
        return self._end is not None

    def take(self, cell: CellResult) -> None:
        """Count a finished cell towards the limits."""
        if self._left and cell.verdict in (Verdict.FAIL, Verdict.ERROR):
            self._left -= 1
        self._min_cells -= 1


Item = TypeVar("Item")


class ThreadSafeIterator(Generic[Item]):
    """An iterator that several threads share. Each item goes to one thread. Iteration stops when `until` returns true
    or `end` is called.
    """

    def __init__(self, items: Iterator[Item], until: Callable[[], bool]) -> None:
        self._items = items
        self._until = until
        self._ended = False
        self._lock = Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        with self._lock:
            if self._ended or self._until():
                raise StopIteration
            return next(self._items)

    def end(self) -> None:
        """Stop the iteration in all threads."""
        self._ended = True


OnResult = Callable[[CellResult], None]
"""Callback for every finished cell. Several threads may call it, but never concurrently."""

OnCellDone = Callable[[int, JudgedCell], None]
"""Callback for the number and result of every finished cell. It is called under the same conditions as `OnResult`."""

Execute = Callable[[Sequence[Cell]], Generator[tuple[int, JudgedCell | None]]]
"""Runs cells in other processes. Yields the number of each cell with its result, or with `None` if the cell raised an
exception.
"""


class Run:
    """Runs cells and returns their results.

    Each streamed cell is repeated with whole responses, and `recuts` times with other chunk boundaries, or with the
    variants whose numbers `recuts` lists (see `CellRunner`). A broken convention fails a cell only if the run is
    `strict`, because third-party adapters need not follow conventions. With `conversations`, each result includes
    the messages and exchanges of its cell. Only findings in `scope` count. Requests to providers are subject to the
    rate limits and the budget.
    """

    def __init__(  # noqa: PLR0913 - all but the first two have a default that most runs keep
        self,
        backend: Backend,
        rules: Sequence[Rule],
        *,
        expected: Sequence[ExpectedFailure] = (),
        recorder: Recorder | None = None,
        recuts: int | Sequence[int] = 0,
        strict: bool = False,
        conversations: bool = False,
        scope: Scope = EVERYTHING,
        rate_limits: RateLimits | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._backend = backend
        numbers = range(recuts) if isinstance(recuts, int) else recuts
        self._runner = CellRunner(backend, CellJudge(rules, expected, strict, scope), recorder, numbers, budget)
        self._scope = scope
        self._expected = expected
        self._recorder = recorder
        self._conversations = conversations
        self._room = max_conversation_chars(1)
        self._rate_limits = rate_limits or RateLimits()
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._backend.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._backend.__exit__(*exception)

    @property
    def mode(self) -> Mode:
        """The mode of the run."""
        return self._runner.mode

    @property
    def recorded(self) -> Sequence[Cell]:
        """The cells whose cassettes were written."""
        return self._runner.recorded

    @property
    def notes(self) -> Sequence[str]:
        """Messages about interrupted recordings, from earlier runs and this one."""
        return self._runner.notes

    def survey_recordings(self, cells: Sequence[Cell]) -> Preflight:
        """Check the state of the cassettes of the cells to record.

        Raises:
            UsageError: A cell cannot be recorded, because its cassette must not be overwritten or another process is
                recording it.
        """
        if self._recorder is None:
            return Preflight()
        found = self._runner.survey = check_cassettes(cells, self._backend, self._recorder)
        return found

    def __call__(  # noqa: PLR0913 - options of one call
        self,
        cells: Sequence[Cell],
        *,
        jobs: int | None = None,
        progress: OnResult | None = None,
        stop: EarlyStop | None = None,
        collector: ResultCollector | None = None,
        elsewhere: Execute | None = None,
        skip: Container[int] = (),
    ) -> RunResult:
        """Run the cells, `jobs` at a time. If they are recorded, their cassettes are checked first.

        Without `jobs`, cells run one at a time. If they are offline and use built-in adapters, they run in one process
        per processor instead. After `stop` no further cell starts. `collector` is the collector to use; a
        caller that passes one can read results during the run. `elsewhere` runs the cells in other processes. Cells
        whose numbers are in `skip` are not run; only live runs support this.

        Raises:
            UsageError: An adapter cannot be connected, a key is missing, or a cassette must not be overwritten.
        """
        started, began = time.perf_counter(), utc_now()
        if self._recorder is not None and self._runner.survey is None:
            cells = without_fresh(cells, self.survey_recordings(cells))
        self._room = max_conversation_chars(len(cells))
        collector = self.collector(cells) if collector is None else collector
        stop = EarlyStop() if stop is None else stop

        def on_done(number: int, judged: JudgedCell) -> None:
            with self._lock:
                collector.add(number, judged)
                stop.take(judged.result)
                if progress:
                    progress(judged.result)

        try:
            self._dispatch(cells, jobs, on_done, stop, elsewhere, skip)
        finally:
            self._runner.survey = None
        result = collector.result(self.mode)
        if len(result.cells) < len(cells):  # a cell that did not run does not make an entry stale
            result = replace(result, unplayed=len(cells) - len(result.cells), stale=(), unmatched=())
        seconds = round(time.perf_counter() - started, 3)
        return replace(result, timing={"seconds": seconds}, played_at=began)

    def collector(self, cells: Sequence[Cell]) -> ResultCollector:
        """Return a collector for these cells."""
        targets = dict.fromkeys(cell.target.name for cell in cells)
        return ResultCollector(len(cells), targets, self._expected, self._scope)

    def judge_cell(self, cell: Cell) -> JudgedCell:
        """Run and judge a cell. The run's context must be open. The result is redacted, but the evidence is not.

        Raises:
            UsageError: An adapter cannot be connected, or a key is missing.
        """
        began = time.perf_counter()
        judged = self._runner.run_cell(cell)
        return self._redact(replace(judged, seconds=time.perf_counter() - began))

    def _redact(self, judged: JudgedCell) -> JudgedCell:
        result, redactor = judged.result, self._backend.redactor()
        redacted = replace(
            result,
            provenance=redactor.result(result.provenance),
            findings=redactor.result(result.findings),
            reason=redactor.result(result.reason),
            spending=redactor.result(result.spending),
            printed=redactor.result(result.printed),
            traceback=redactor.result(result.traceback),
            seconds=round(judged.seconds, 4),
        )
        if self._conversations and judged.evidence is not None:
            red = result.verdict is not Verdict.PASS
            conversation = build_conversation(judged.evidence, redactor, self._room, with_streams=red)
            if judged.earlier is not None:
                conversation = with_earlier(conversation, judged.earlier, redactor)
            redacted = replace(redacted, conversation=conversation)
        seen = judged.observations and {
            aspect: frozenset(map(redactor.text, values)) for aspect, values in judged.observations.items()
        }
        return JudgedCell(redacted, seen, judged.evidence)

    def collect(self, judged: Sequence[JudgedCell]) -> RunResult:
        """Return the result of a run that consists of these cells."""
        targets = dict.fromkeys(each.result.target for each in judged)
        collector = ResultCollector(len(judged), targets, self._expected, self._scope)
        for number, each in enumerate(judged):
            collector.add(number, each)
        return collector.result(self.mode)

    def run_one(self, cell: Cell) -> tuple[CellResult, Evidence | None]:
        """Run one cell. Return its result and, if it ran, its redacted evidence.

        Raises:
            UsageError: See `__call__`.
        """
        with self:
            judged, redactor = self.judge_cell(cell), self._backend.redactor()
        evidence = judged.evidence
        return judged.result, evidence and Evidence(redactor.result(evidence.transcript))

    def run_some(self, some: Sequence[Cell], cells: int) -> Sequence[JudgedCell | None]:
        """Run some cells of a run that has `cells` cells in total. If a cell raises an exception, its result and all
        later results are `None`.
        """
        self._room = max_conversation_chars(cells)
        done: list[JudgedCell | None] = []
        with suppress(Exception):  # the parent process runs the cell again, and raises
            done.extend(map(self._without_evidence, some))
        return [*done, *[None] * (len(some) - len(done))]

    def _dispatch(  # noqa: PLR0913, PLR0917 - as in `__call__`
        self,
        cells: Sequence[Cell],
        jobs: int | None,
        done: OnCellDone,
        stop: EarlyStop,
        elsewhere: Execute | None,
        skip: Container[int],
    ) -> None:
        processes = 1 if elsewhere is not None else self._fork_count(cells, jobs)
        if processes > 1:
            elsewhere = partial(run_forked, self, processes)
        if elsewhere is not None:
            with closing(elsewhere(cells)) as results:
                for number, judged in results:
                    done(number, self._raise_here(cells[number]) if judged is None else judged)
                    if stop.over:
                        break
            return
        with self:
            lines = self._queues((each for each in enumerate(cells) if each[0] not in skip), jobs or 1)
            shared = [(ThreadSafeIterator(iter(each), until=lambda: stop.over), number) for each, number in lines]
            if sum(number for _, number in shared) == 1:
                try:
                    self._run_queue(shared[0][0], done)
                except RunCancelled:  # the caller also ended the cell that was running
                    if not stop.has_time_limit:
                        raise
            else:
                self._run_threads(shared, cells, done)

    def _raise_here(self, cell: Cell) -> JudgedCell:
        """Run a cell again in this process, after it raised an exception in another process. The exception is then
        raised here.
        """
        with self:
            return self._without_evidence(cell)

    def _fork_count(self, cells: Sequence[Cell], jobs: int | None) -> int:
        """Return the number of forks to use.

        It is 1 if cells are recorded or live, or if there are too few of them. Foreign adapters are forked only if the
        caller passes `jobs`, because parallel instances may not be safe.
        """
        if self._recorder is not None or self._backend.mode not in ("replay", "reference") or not can_fork():
            return 1
        is_foreign = any(isinstance(cell.target.adapter, ForeignAdapter) for cell in cells)
        if is_foreign and jobs is None:
            return 1
        return min(
            jobs or cpu_count(), len(cells) // (MIN_FOREIGN_CELLS_PER_FORK if is_foreign else MIN_CELLS_PER_FORK)
        )

    def _without_evidence(self, cell: Cell) -> JudgedCell:
        """Run a cell and discard its evidence. Keeping the evidence of all cells would need too much memory."""
        return replace(self.judge_cell(cell), evidence=None)

    def _run_queue(self, left: Iterable[tuple[int, Cell]], done: OnCellDone) -> None:
        for number, cell in left:
            done(number, self._without_evidence(cell))

    def _queues(self, cells: Iterable[tuple[int, Cell]], jobs: int) -> list[tuple[Iterable[tuple[int, Cell]], int]]:
        """Return queues of cells, each with the number of cells to run concurrently. There is one queue, or one per
        target if `--concurrency` is set.
        """
        concurrent_cells = self._rate_limits.options.concurrent_cells
        if not concurrent_cells:
            return [(cells, jobs)]
        by_target: dict[str, list[tuple[int, Cell]]] = {}
        for number, cell in cells:
            by_target.setdefault(cell.target.name, []).append((number, cell))
        return [
            (each, concurrent_cells.get(target, concurrent_cells.get(None, 1))) for target, each in by_target.items()
        ] or [((), 1)]

    def _run_threads(
        self, lines: Sequence[tuple[ThreadSafeIterator[tuple[int, Cell]], int]], cells: Sequence[Cell], done: OnCellDone
    ) -> None:
        with ThreadPoolExecutor(sum(number for _, number in lines), thread_name_prefix="harness-cell") as pool:
            try:
                futures = [pool.submit(self._run_queue, left, done) for left, number in lines for _ in range(number)]
                for thread in as_completed(futures):
                    thread.result()
            except BaseException:
                for left, _ in lines:
                    left.end()
                self._runner.end()
                self._rate_limits.end()
                for adapter in {cell.target.adapter for cell in cells}:
                    if isinstance(adapter, ForeignAdapter):  # else the cells under way would hold up the end
                        adapter.workers.halt()
                raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The options for running and judging cells.

    `mode` selects the backend: cassettes from `libraries`, the reference server, or providers. `base_urls` maps targets
    to servers that replace their providers. `own` lists the ids of the user's scenarios, which never use shipped
    cassettes. With a `recorder`, cells are recorded. `outdated` is the maximum age of cassettes. The other options are
    those of `Run`.
    """

    mode: Mode
    libraries: Sequence[CassetteLibrary] = ()
    own: frozenset[str] = frozenset()
    base_urls: Mapping[str, str] = field(default_factory=dict[str, str])
    expected: Sequence[ExpectedFailure] = ()
    recorder: Recorder | None = None
    recuts: int = 0
    strict: bool = False
    conversations: bool = False
    scope: Scope = EVERYTHING
    outdated: OutdatedFilter | None = None
    rate_limits: RateLimits | None = None
    budget: Budget | None = None

    def run(self, targets: Sequence[Target]) -> Run:
        """Return a run for cells of these targets.

        Raises:
            UsageError: Requests cannot be sent to one of the targets.
        """
        self._check_loops(targets)
        return Run(
            self._backend(targets),
            all_rules(),
            expected=self.expected,
            recorder=self.recorder,
            recuts=self.recuts,
            strict=self.strict,
            conversations=self.conversations,
            scope=self.scope,
            rate_limits=self.rate_limits,
            budget=self.budget,
        )

    def _check_loops(self, targets: Sequence[Target]) -> None:
        for target in targets:
            if target.adapter.drive is not None and (self.mode != "reference" or self.recorder is not None):
                raise UsageError(
                    f"{target.name} runs its own tool loop, so it cannot replay cassettes. Use 'harness check', "
                    "'harness run --mode reference' or, under "
                    "pytest, harness_mode = reference."
                )

    def _backend(self, targets: Sequence[Target]) -> Backend:
        if self.mode == "replay":
            return ReplayBackend(self.libraries, self.own, self.outdated)
        if self.mode == "reference":
            return ReferenceBackend()
        live = LiveBackend(self.base_urls, self.rate_limits)
        for target in targets:
            live.check(target)
        return live


def variants(names: Sequence[str], option: str) -> list[Variant]:
    """Return the variants that the user named with `option`, or all variants if there are no names.

    Raises:
        UnknownName: There is no such variant.
    """
    for name in names:
        if name not in VARIANTS:
            raise UnknownName("variant", name, VARIANTS, option)
    return [variant for variant in VARIANTS if not names or variant in names]


def cell_seconds(given: float | None, option: str, *, live: bool = False) -> float:
    """Return the time limit for a cell of a third-party adapter. It is the value of `option`, or the mode's default if
    none is given.

    Raises:
        UsageError: The value is out of range.
    """
    if given is None:
        return LIVE_CELL_SECONDS if live else CELL_SECONDS
    if not 0 < given <= threading.TIMEOUT_MAX:
        raise UsageError(f"{option}: must be a number of seconds greater than 0.")
    return given
