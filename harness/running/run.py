"""Runs cells: each is played on its stage and judged, and what was judged is collected."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Generic, Self, TypeVar

from harness.catalog import versions
from harness.host.environment import now
from harness.results import CellResult, Mode, RunResult, Verdict
from harness.results.run import Values
from harness.rules.conversation import conversation, room
from harness.rules.evidence import Evidence
from harness.rules.rule import Rule
from harness.rules.scope import EVERYTHING, Scope
from harness.running.backends import Stages
from harness.running.budget import Purse
from harness.running.cell_runner import Trials
from harness.running.cells import Cell
from harness.running.costs import price_version
from harness.running.differences import Observed, tables
from harness.running.expected_failures import Expectations, ExpectedFailure
from harness.running.live import Pace
from harness.running.processes import WORTH, WORTH_IMPORTING, can_fork, forked, processors
from harness.running.recorder import Recorder, surveyed, to_record
from harness.running.verdicts import Judge, Judged
from harness.stdio.workers import Foreign
from harness.tape.survey import Survey


class Gathering:
    """Takes the `number` cells of a run as they are done, in any order. `targets` are the names of their targets. Of
    what is `expected` only findings in `scope` count."""

    def __init__(
        self, number: int, targets: Iterable[str], expected: Sequence[ExpectedFailure], scope: Scope = EVERYTHING
    ) -> None:
        self._results: list[CellResult | None] = [None] * number
        self._observed = {target: Observed() for target in targets}
        self._expectations = Expectations(expected, scope)

    def add(self, number: int, judged: Judged) -> None:
        """The cell with this number is done. Its evidence is not kept."""
        result = judged.result
        self._results[number] = result
        self._expectations.see(result, played=is_judged(result))
        if judged.observations is not None:
            self._observed[result.target].see(judged.observations)

    def keep(self, cells: Mapping[int, CellResult], observed: Values) -> None:
        """Cells that were played in an earlier run, by their numbers in this one, and what was observed there."""
        for number, result in cells.items():
            self.add(number, Judged(result))
        for target, values in observed.items():
            if target in self._observed:
                self._observed[target].see(values)

    @property
    def cells(self) -> tuple[CellResult, ...]:
        """The results of the cells that are done, in the order of the run."""
        return tuple(result for result in self._results if result is not None)

    @property
    def observed(self) -> Values:
        """What the cells have shown on the wire until now."""
        return {target: seen.values for target, seen in self._observed.items()}

    def result(self, mode: Mode) -> RunResult:
        """The run of these cells."""
        return RunResult(
            mode,
            self.cells,
            tables(self._observed),
            self._expectations.stale,
            versions() | price_version(),
            unmatched=self._expectations.unmatched,
        )


def is_judged(cell: CellResult) -> bool:
    """Whether all that is wrong with a cell has been looked for."""
    if cell.verdict is Verdict.ERROR:
        return bool(cell.findings)  # else it broke before a rule saw anything
    return cell.verdict not in (Verdict.NOT_APPLICABLE, Verdict.MISSING)


class Patience:
    """Counts the cells that fail; with `None` it bears all of them."""

    def __init__(self, enough: int | None) -> None:
        self._left = enough

    @property
    def over(self) -> bool:
        """Whether no other cell is to be begun."""
        return self._left == 0

    def take(self, cell: CellResult) -> None:
        """This cell is done."""
        if self._left and cell.verdict in (Verdict.FAIL, Verdict.ERROR):
            self._left -= 1


Item = TypeVar("Item")


class Shared(Generic[Item]):
    """Gives each item to one of the threads that iterate over it, until there is enough, or it has ended."""

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
        """There are no more items."""
        self._ended = True


Progress = Callable[[CellResult], None]
"""Told of every cell that is done. May be called from several threads, one at a time."""

Done = Callable[[int, Judged], None]
"""Takes a cell that is done, and its number in the run; the same."""

Elsewhere = Callable[[Sequence[Cell]], Generator[tuple[int, Judged | None]]]
"""Plays cells in other processes: each as it is done, with its number, and nothing for one that raised."""


class Run:
    """One run over some cells: how they are staged, judged, and what failures are known.

    Every streamed answer is told to the adapter again as a whole one, unless the whole cell before had it, and `recuts`
    times cut elsewhere. What breaks a convention is noted, and fails its cell only in a `strict` run: adapters of ours
    are held to them, others need not know them. With `conversations` each result has what was said and sent in its
    cell. Only findings in `scope` count. What is sent to providers goes at a `pace`, as far as a `purse` lasts.
    """

    def __init__(  # noqa: PLR0913 - all but the first two have a default that most runs keep
        self,
        stages: Stages,
        rules: Sequence[Rule],
        *,
        expected: Sequence[ExpectedFailure] = (),
        recorder: Recorder | None = None,
        recuts: int = 0,
        strict: bool = False,
        conversations: bool = False,
        scope: Scope = EVERYTHING,
        pace: Pace | None = None,
        purse: Purse | None = None,
    ) -> None:
        self._stages = stages
        self._trials = Trials(stages, Judge(rules, expected, strict, scope), recorder, recuts, purse)
        self._scope = scope
        self._expected = expected
        self._recorder = recorder
        self._conversations = conversations
        self._room = room(1)
        self._pace = pace or Pace()
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._stages.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stages.__exit__(*exception)

    @property
    def mode(self) -> Mode:
        """What kind of run it is."""
        return self._trials.mode

    @property
    def recorded(self) -> Sequence[Cell]:
        """The cells whose cassettes are written."""
        return self._trials.recorded

    @property
    def notes(self) -> Sequence[str]:
        """What came of what earlier recordings have left, and what this one leaves; in sentences."""
        return self._trials.notes

    def surveyed(self, cells: Sequence[Cell]) -> Survey:
        """What lies in the places of the cells that are to be recorded.

        Raises:
            UsageError: a cell cannot be recorded: a cassette must not be overwritten, another process records it.
        """
        if self._recorder is None:
            return Survey()
        found = self._trials.survey = surveyed(cells, self._stages, self._recorder)
        return found

    def __call__(  # noqa: PLR0913 - how much at a time, until when, by whom, who is told
        self,
        cells: Sequence[Cell],
        *,
        jobs: int | None = None,
        progress: Progress | None = None,
        enough: int | None = None,
        gathering: Gathering | None = None,
        elsewhere: Elsewhere | None = None,
        skip: Container[int] = (),
    ) -> RunResult:
        """Play the cells, `jobs` at a time; those of a recording are surveyed, if they were not. What is done goes to
        `gathering`, for who wants to see it before the end. With `elsewhere` others play. The
        cells with the numbers `skip` are there already: they are not played. Only cells that are sent live can be.

        Without `jobs` it is one at a time, or one for each processor where processes of our own can play them with
        adapters of our own. When `enough` of them have failed no other is begun.

        Raises:
            UsageError: an adapter cannot be connected, a key is missing, a cassette must not be overwritten.
        """
        started, began = time.perf_counter(), now()
        if self._recorder is not None and self._trials.survey is None:
            cells = to_record(cells, self.surveyed(cells))
        self._room = room(len(cells))
        gathering = self.gathering(cells) if gathering is None else gathering
        patience = Patience(enough)

        def done(number: int, judged: Judged) -> None:
            with self._lock:
                gathering.add(number, judged)
                patience.take(judged.result)
                if progress:
                    progress(judged.result)

        try:
            self._play_all(cells, jobs, done, patience, elsewhere, skip)
        finally:
            self._trials.survey = None
        result = gathering.result(self.mode)
        if len(result.cells) < len(cells):  # what was not played says nothing of what is expected there
            result = replace(result, unplayed=len(cells) - len(result.cells), stale=(), unmatched=())
        seconds = round(time.perf_counter() - started, 3)
        return replace(result, timing={"seconds": seconds}, played_at=began)

    def gathering(self, cells: Sequence[Cell]) -> Gathering:
        """What takes the cells of this run as they are done."""
        return Gathering(len(cells), _targets(cells), self._expected, self._scope)

    def play_cell(self, cell: Cell) -> Judged:
        """Play and judge a cell by what was really sent and received; what leaves the run of it, but for the evidence,
        names no secret. The run has to be open: it is a context manager.

        Raises:
            UsageError: an adapter cannot be connected, a key is missing.
        """
        return self._told(self._trials.judged(cell))

    def _told(self, judged: Judged) -> Judged:
        """What leaves the run of a cell."""
        result, redactor = judged.result, self._stages.redactor()
        told = replace(
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
            told = replace(told, conversation=conversation(judged.evidence, redactor, self._room))
        seen = judged.observations and {
            fact: frozenset(map(redactor.text, values)) for fact, values in judged.observations.items()
        }
        return Judged(told, seen, judged.evidence)

    def collect(self, judged: Sequence[Judged]) -> RunResult:
        """The run of these cells."""
        targets = dict.fromkeys(each.result.target for each in judged)
        gathering = Gathering(len(judged), targets, self._expected, self._scope)
        for number, each in enumerate(judged):
            gathering.add(number, each)
        return gathering.result(self.mode)

    def look(self, cell: Cell) -> tuple[CellResult, Evidence | None]:
        """Play one cell, and give back what it was judged by: nothing, where it was not played.

        Raises:
            UsageError: as playing cells does.
        """
        with self:
            judged, redactor = self.play_cell(cell), self._stages.redactor()
        evidence = judged.evidence
        return judged.result, evidence and Evidence(redactor.result(evidence.transcript))

    def quietly(self, some: Sequence[Cell], cells: int) -> Sequence[Judged | None]:
        """Some of a run of so many `cells`, as they are kept; nothing, from one on that raises when it is played."""
        self._room = room(cells)
        done: list[Judged | None] = []
        with suppress(Exception):  # it is raised where somebody hears of it
            done.extend(map(self._without_evidence, some))
        return [*done, *[None] * (len(some) - len(done))]

    def _play_all(  # noqa: PLR0913, PLR0917 - as in `__call__`
        self,
        cells: Sequence[Cell],
        jobs: int | None,
        done: Done,
        patience: Patience,
        elsewhere: Elsewhere | None,
        skip: Container[int],
    ) -> None:
        processes = 1 if elsewhere is not None else self._forks(cells, jobs)
        if processes > 1:
            elsewhere = partial(forked, self, processes)
        if elsewhere is not None:
            with closing(elsewhere(cells)) as playing:
                for number, judged in playing:
                    done(number, self._again(cells[number]) if judged is None else judged)
                    if patience.over:
                        break
            return
        with self:
            lines = self._lines((each for each in enumerate(cells) if each[0] not in skip), jobs or 1)
            shared = [(Shared(iter(each), until=lambda: patience.over), number) for each, number in lines]
            if sum(number for _, number in shared) == 1:
                self._play_some(shared[0][0], done)
            else:
                self._at_a_time(shared, cells, done)

    def _again(self, cell: Cell) -> Judged:
        """A cell that raised elsewhere: what it raises, it raises here."""
        with self:
            return self._without_evidence(cell)

    def _forks(self, cells: Sequence[Cell], jobs: int | None) -> int:
        """By how many forks the cells are worth to be played; 1 where they cannot be, since more comes of them than
        their results: something is recorded, or somebody waits for a provider.

        An adapter that is not ours gets a process in each fork: more than one only where that is asked for, since it
        may not bear to be there twice.
        """
        if self._recorder is not None or self._stages.mode not in ("replay", "reference") or not can_fork():
            return 1
        is_foreign = any(isinstance(cell.target.adapter, Foreign) for cell in cells)
        if is_foreign and jobs is None:
            return 1
        return min(jobs or processors(), len(cells) // (WORTH_IMPORTING if is_foreign else WORTH))

    def _without_evidence(self, cell: Cell) -> Judged:
        """Play a cell, and let go of its evidence: that of all cells would be more than memory holds."""
        return replace(self.play_cell(cell), evidence=None)

    def _play_some(self, left: Iterable[tuple[int, Cell]], done: Done) -> None:
        for number, cell in left:
            done(number, self._without_evidence(cell))

    def _lines(self, cells: Iterable[tuple[int, Cell]], jobs: int) -> list[tuple[Iterable[tuple[int, Cell]], int]]:
        """The cells in the lines in which they wait, and how many of each are played at once: `jobs` of all, or as many
        of each target as it is to have."""
        at_once = self._pace.tempo.at_once
        if not at_once:
            return [(cells, jobs)]
        by_target: dict[str, list[tuple[int, Cell]]] = {}
        for number, cell in cells:
            by_target.setdefault(cell.target.name, []).append((number, cell))
        return [(each, at_once.get(target, at_once.get(None, 1))) for target, each in by_target.items()] or [((), 1)]

    def _at_a_time(
        self, lines: Sequence[tuple[Shared[tuple[int, Cell]], int]], cells: Sequence[Cell], done: Done
    ) -> None:
        with ThreadPoolExecutor(sum(number for _, number in lines), thread_name_prefix="harness-cell") as pool:
            try:
                playing = [pool.submit(self._play_some, left, done) for left, number in lines for _ in range(number)]
                for thread in as_completed(playing):
                    thread.result()
            except BaseException:
                for left, _ in lines:
                    left.end()
                self._trials.end()
                self._pace.end()
                for adapter in {cell.target.adapter for cell in cells}:
                    if isinstance(adapter, Foreign):  # else the cells under way would hold up the end
                        adapter.workers.halt()
                raise


def _targets(cells: Sequence[Cell]) -> Iterable[str]:
    return dict.fromkeys(cell.target.name for cell in cells)
