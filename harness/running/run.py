"""Runs cells: each is played on its stage and judged, and what was judged is collected."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Container, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Self

from harness import catalog
from harness.apis.profile import Profile
from harness.contract.errors import CassetteError, CassetteMissing, UsageError
from harness.host.clock import now
from harness.host.crash import located, traceback_of
from harness.results import (
    CellResult,
    EmbeddingTranscript,
    Mode,
    RunResult,
    Spool,
    Transcript,
    Verdict,
)
from harness.rules.conversation import conversation, room
from harness.rules.evidence import Evidence
from harness.rules.retelling import is_strange
from harness.rules.rule import Rule
from harness.rules.scope import EVERYTHING, Scope
from harness.running.cells import not_applicable
from harness.running.differences import observe
from harness.running.driving.driven import Drive, driven
from harness.running.expected_failures import ExpectedFailure
from harness.running.forks import WORTH, forked, possible, processors
from harness.running.gathering import Gathering
from harness.running.judging import Judge, Judged, unreadable
from harness.running.pace import Pace
from harness.running.patience import Patience
from harness.running.play import BROKEN, EmbeddingPlaying, Playing
from harness.running.purse import Purse
from harness.running.recorder import Budget, Recorder, Withheld, is_complete, recording, served, surveyed, to_record
from harness.running.retelling import retellings
from harness.running.sharing import Shared
from harness.running.stages import Cell, Stage, Stages
from harness.running.workers.pool import Foreign, halt, played
from harness.running.workers.worker import Broken
from harness.tape.recording import Recording
from harness.tape.survey import Survey

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
        self._judge = Judge(rules, expected, strict, scope)
        self._scope = scope
        self._expected = expected
        self._recorder = recorder
        self._recuts = recuts
        self._conversations = conversations
        self._room = room(1)
        self._budget = Budget(recorder.max_requests if recorder else None)
        self._pace = pace or Pace()
        self._purse = purse
        self._survey: Survey | None = None
        self._notes: list[str] = []
        self._recorded: list[Cell] = []
        self._whole: tuple[Cell, Evidence] | None = None  # the last whole cell: the next one is often its stream
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._stages.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stages.__exit__(*exception)

    @property
    def mode(self) -> Mode:
        """What kind of run it is."""
        return "record" if self._recorder else self._stages.mode

    @property
    def recorded(self) -> Sequence[Cell]:
        """The cells whose cassettes are written."""
        return self._recorded

    @property
    def notes(self) -> Sequence[str]:
        """What came of what earlier recordings have left, and what this one leaves; in sentences."""
        return self._notes

    def surveyed(self, cells: Sequence[Cell]) -> Survey:
        """What lies in the places of the cells that are to be recorded.

        Raises:
            UsageError: a cell cannot be recorded: a cassette must not be overwritten, another process records it.
        """
        if self._recorder is None:
            return Survey()
        self._survey = surveyed(cells, self._stages, self._recorder)
        return self._survey

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

        Without `jobs` it is one at a time, or one for each processor where processes of our own can play them. When
        `enough` of them have failed no other is begun.

        Raises:
            UsageError: an adapter cannot be connected, a key is missing, a cassette must not be overwritten.
        """
        started, began = time.perf_counter(), now()
        if self._survey is None:
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
            self._survey = None
        result = gathering.result(self.mode)
        if len(result.cells) < len(cells):  # what was not played says nothing of what is expected there
            result = replace(result, unplayed=len(cells) - len(result.cells), stale=(), unmatched=())
        seconds = round(time.perf_counter() - started, 3)
        return replace(result, timing={"seconds": seconds}, played_at=began)

    def gathering(self, cells: Sequence[Cell]) -> Gathering:
        """What takes the cells of this run as they are done."""
        return Gathering(Spool(len(cells)), _targets(cells), self._expected, self._scope)

    def play_cell(self, cell: Cell) -> Judged:
        """Play and judge a cell by what was really sent and received; what leaves the run of it, but for the evidence,
        names no secret. The run has to be open: it is a context manager.

        Raises:
            UsageError: an adapter cannot be connected, a key is missing.
        """
        started = time.perf_counter()
        judged, redactor = self._played(cell), self._stages.redactor()
        result = judged.result
        told = replace(
            result,
            provenance=redactor.result(result.provenance),
            findings=redactor.result(result.findings),
            reason=redactor.result(result.reason),
            spending=redactor.result(result.spending),
            printed=redactor.result(result.printed),
            traceback=redactor.result(result.traceback),
            seconds=round(time.perf_counter() - started, 4),
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
        gathering = Gathering(Spool(len(judged)), targets, self._expected, self._scope)
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

    def quietly(self, cell: Cell, cells: int) -> Judged | None:
        """A cell of a run of so many `cells`, as it is kept; nothing, if to play it raises."""
        self._room = room(cells)
        try:
            return self._without_evidence(cell)
        except Exception:  # noqa: BLE001 - it is raised where somebody hears of it
            return None

    def _play_all(  # noqa: PLR0913, PLR0917 - as in `__call__`
        self,
        cells: Sequence[Cell],
        jobs: int | None,
        done: Done,
        patience: Patience,
        elsewhere: Elsewhere | None,
        skip: Container[int],
    ) -> None:
        processes = min(jobs or processors(), len(cells) // WORTH)
        if elsewhere is None and processes > 1 and possible() and self._is_forkable(cells):
            elsewhere = partial(forked, self._without_evidence, processes=processes, around=self)
        if elsewhere is not None:
            with closing(elsewhere(cells)) as playing:
                for number, judged in playing:
                    done(number, self._again(cells[number]) if judged is None else judged)
                    if patience.over:
                        break
            return
        with self:
            lines = self._lines([each for each in enumerate(cells) if each[0] not in skip], jobs or 1)
            shared = [(Shared(iter(each), until=lambda: patience.over), number) for each, number in lines]
            if sum(number for _, number in shared) == 1:
                self._play_some(shared[0][0], done)
            else:
                self._at_a_time(shared, cells, done)

    def _again(self, cell: Cell) -> Judged:
        """A cell that raised elsewhere: what it raises, it raises here."""
        with self:
            return self._without_evidence(cell)

    def _is_forkable(self, cells: Sequence[Cell]) -> bool:
        """Whether all that comes of the cells is in their results: nothing is recorded, nobody waits for a provider,
        and no process of an adapter that is not ours is shared."""
        offline = self._recorder is None and self._stages.mode in ("replay", "reference")
        return offline and not any(isinstance(cell.target.adapter, Foreign) for cell in cells)

    def _without_evidence(self, cell: Cell) -> Judged:
        """A cell as it is kept: the evidence of all of them would be more than memory holds."""
        return replace(self.play_cell(cell), evidence=None)

    def _play_some(self, left: Iterable[tuple[int, Cell]], done: Done) -> None:
        for number, cell in left:
            done(number, self._without_evidence(cell))

    def _lines(self, cells: list[tuple[int, Cell]], jobs: int) -> list[tuple[list[tuple[int, Cell]], int]]:
        """The cells in the lines in which they wait, and how many of each are played at once: `jobs` of all, or as many
        of each target as it is to have."""
        at_once = self._pace.tempo.at_once
        if not (at_once and cells):
            return [(cells, jobs)]
        by_target: dict[str, list[tuple[int, Cell]]] = {}
        for number, cell in cells:
            by_target.setdefault(cell.target.name, []).append((number, cell))
        return [(each, at_once.get(target, at_once.get(None, 1))) for target, each in by_target.items()]

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
                self._budget.end()  # cells under way send nothing more; what they were answered is in their journals
                self._pace.end()
                halt(cell.target.adapter for cell in cells)  # else the cells under way would hold up the end
                raise

    def _played(self, cell: Cell) -> Judged:
        target = cell.target
        result = CellResult(
            cell.scenario.id,
            target.name,
            target.adapter.name,
            target.api,
            cell.variant,
            Verdict.PASS,
            covers=tuple(subject.value for subject in cell.scenario.covers),
        )
        reason = not_applicable(cell, self._stages.mode)
        if reason is not None:
            return Judged(replace(result, verdict=Verdict.NOT_APPLICABLE, reason=reason))
        try:
            if target.adapter.drive is not None:
                return self._driven(cell, result)
            stage, transcript = self._play(cell)
            evidence = Evidence(transcript)
            if cell.variant == "stream":
                made = retellings(cell, evidence, self._stages, self._recuts, self._beside(cell))
                evidence = evidence.retold(tuple(made))
            else:
                self._whole = cell, evidence
            told = self._judge.judged(result, stage, evidence, self._stages.redactor())
            return Judged(told, observe(evidence), evidence)
        except (CassetteMissing, Withheld) as error:
            return Judged(replace(result, verdict=Verdict.MISSING, reason=str(error)))
        except CassetteError as error:
            if self._recorder:
                raise
            return Judged(replace(result, verdict=Verdict.FAIL, findings=(unreadable(error),)))
        except UsageError:
            raise
        except Broken as broken:
            told = replace(result, printed=broken.printed or None, traceback=broken.traceback)
            return Judged(replace(told, verdict=Verdict.ERROR, reason=broken.reason))
        except BROKEN as error:  # the adapter's `connect` or `close`, a rule: one cell, not the run
            told = replace(result, traceback=traceback_of(error))
            reason = f"{type(error).__name__}: {located(error)}"
            return Judged(replace(told, verdict=Verdict.ERROR, reason=reason))

    def _beside(self, cell: Cell) -> Evidence | None:
        """What was played of the same scenario and target, if that was the last whole cell."""
        if self._whole is None:
            return None
        whole, evidence = self._whole
        return evidence if whole.scenario is cell.scenario and whole.target is cell.target else None

    def _driven(self, cell: Cell, result: CellResult) -> Judged:
        """A cell of what owns its loop. It has no differences: what it was asked to send is not known to the word."""
        drive = driven(cell, self._stages)
        if drive.declined is not None:
            reason = f"it declines before anything is sent: {drive.declined}"
            return Judged(replace(result, verdict=Verdict.NOT_APPLICABLE, reason=reason))
        evidence = Evidence(drive.transcript)
        told = self._told(result, drive, evidence)
        return Judged(told if told.verdict is Verdict.FAIL else self._driven_again(cell, result, told), None, evidence)

    def _told(self, result: CellResult, drive: Drive, evidence: Evidence) -> CellResult:
        told = self._judge.judged(result, drive.stage, evidence, self._stages.redactor())
        return replace(told, traceback=drive.traceback)

    def _driven_again(self, cell: Cell, result: CellResult, told: CellResult) -> CellResult:
        """What a streamed cell comes to if its streams are cut elsewhere: what it came to, or what fails it then."""
        recuts = self._recuts if cell.variant == "stream" else 0
        for number in range(recuts):
            drive = driven(cell, self._stages, number)
            if not drive.way:  # nothing was streamed
                return told
            evidence = Evidence(drive.transcript)
            again = self._told(result, drive, evidence)
            if again.verdict is Verdict.FAIL and not is_strange(evidence, drive.way):
                found = [replace(each, message=f"told {drive.way}: {each.message}") for each in again.findings]
                return replace(again, findings=tuple(found), recuts=number + 1)
        return replace(told, recuts=recuts)

    def _play(self, cell: Cell) -> tuple[Stage, Transcript]:
        if self._recorder is None:
            with self._stages.stage(cell) as stage:
                return stage, _transcript(cell, stage, self._on(cell, stage), self.mode)
        tape = recording(cell, self._stages, self._recorder, self._survey or Survey())
        try:
            with tape:
                with self._stages.stage(cell, tape) as stage:
                    transcript = _transcript(cell, stage, self._on(cell, stage, tape), self.mode)
                if is_complete(transcript):
                    tape.complete(served(transcript))
                    self._recorded.append(cell)
                return stage, transcript
        finally:
            with self._lock:
                self._notes += tape.notes

    def _on(self, cell: Cell, stage: Stage, tape: Recording | None = None) -> Playing:
        begun = returned = 0
        account = self._purse.account(cell, stage.tap.exchanges) if self._purse else None

        def give_back() -> None:
            nonlocal returned
            due = min(tape.taken, begun) - returned if tape else 0
            returned += due
            self._budget.give_back(due)

        def begin(chat: int) -> None:
            nonlocal begun
            give_back()
            if account:
                account.open(chat)
            self._budget.spend()
            begun += 1
            stage.tap.chat = chat

        try:
            return played(cell.scenario, cell.target, stage.endpoint, begin, cell.variant)
        finally:
            give_back()
            if account:
                account.settle()


def _targets(cells: Sequence[Cell]) -> Iterable[str]:
    return dict.fromkeys(cell.target.name for cell in cells)


def _profile(cell: Cell, stage: Stage) -> Profile:
    """What holds for the cell: by the facts of the day on which it was recorded, if it was recorded on some day."""
    recorded = stage.provenance.recorded_at if stage.provenance else None
    if cell.target.edition.day or not recorded:
        return cell.target.profile
    edition = cell.target.edition.on(dt.date.fromisoformat(recorded[:10]))
    return catalog.api(cell.target.api).profile_for(cell.target.model, edition)


def _transcript(cell: Cell, stage: Stage, playing: Playing, mode: Mode) -> Transcript:
    made = partial(Transcript)
    if isinstance(playing, EmbeddingPlaying):
        made = partial(EmbeddingTranscript, embedded=playing.embedded)
    return made(
        api=cell.target.api,
        model=cell.target.model,
        profile=_profile(cell, stage),
        exchanges=tuple(stage.tap.exchanges),
        mode=mode,
        adapter=cell.target.adapter.name,
        variant=cell.variant,
        scenario=cell.scenario,
        chats=playing.chats,
        executions=playing.executions,
        scripted=stage.scripted,
        unplayed=stage.player.unplayed if stage.player else 0,
        stale=stage.stale,
        too_old=stage.too_old,
        recorded_by=stage.recorded_by,
        capabilities=cell.target.adapter.capabilities,
        handled=playing.handled,
        printed=playing.printed,
    )
