"""Trials: cells, each put on its stage, played through its adapter, and judged by what was really sent and received."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace
from functools import partial
from threading import Lock

from harness import catalog
from harness.apis.targets import Profile
from harness.contract.errors import CassetteError, CassetteMissing, CassetteTaken, UsageError
from harness.host.exceptions import class_of, located, traceback_of
from harness.results import CellResult, EmbeddingTranscript, Mode, Transcript, Verdict
from harness.rules.evidence import Evidence
from harness.rules.retelling import is_strange
from harness.running.backends import Stage, Stages
from harness.running.budget import Purse
from harness.running.cells import Cell, not_applicable
from harness.running.differences import observe
from harness.running.loops import Driven, driven
from harness.running.recorder import Budget, Recorder, Withheld, is_complete, recording, served
from harness.running.replay_variants import retellings
from harness.running.served_session import Way, cut, shaped
from harness.running.tool_loop import BROKEN, EmbeddingPlaying, Playing, play
from harness.running.verdicts import Judge, Judged, unreadable
from harness.stdio.process import Broken
from harness.tape.recording import Recording
from harness.tape.survey import Survey


class Trials:
    """Plays and judges the cells of a run, from several threads if it must be.

    Every streamed answer is told to the adapter again as a whole one, unless the whole cell before had it, and `recuts`
    times cut elsewhere. With a `recorder` they are recorded: `survey` is what lies in the places of their cassettes,
    `recorded` has the cells whose cassettes are written, and `notes` says what came of what earlier recordings have
    left. What is sent is paid from `purse`.
    """

    def __init__(
        self, stages: Stages, judge: Judge, recorder: Recorder | None, recuts: int, purse: Purse | None
    ) -> None:
        self.survey: Survey | None = None
        self.notes: list[str] = []
        self.recorded: list[Cell] = []
        self._stages = stages
        self._judge = judge
        self._recorder = recorder
        self._recuts = recuts
        self._purse = purse
        self._budget = Budget(recorder.max_requests if recorder else None)
        self._whole: tuple[Cell, Evidence] | None = None  # the last whole cell: the next one is often its stream
        self._lock = Lock()

    @property
    def mode(self) -> Mode:
        """What kind of run it is."""
        return "record" if self._recorder else self._stages.mode

    def end(self) -> None:
        """Cells under way send nothing more; what they were answered is in their journals."""
        self._budget.end()

    def judged(self, cell: Cell) -> Judged:
        """Play a cell and judge it.

        Raises:
            UsageError: an adapter cannot be connected, a key is missing.
        """
        started = time.perf_counter()
        judged = self._judged(cell)
        return replace(judged, seconds=time.perf_counter() - started)

    def _judged(self, cell: Cell) -> Judged:
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
        except BROKEN as error:  # the adapter's `connect` or `close`: one cell, not the run
            return Judged(_broken(result, error))

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
        told = self._told_driven(result, drive, evidence)
        return Judged(told if told.verdict is Verdict.FAIL else self._driven_again(cell, result, told), None, evidence)

    def _told_driven(self, result: CellResult, drive: Driven, evidence: Evidence) -> CellResult:
        told = self._judge.judged(result, drive.stage, evidence, self._stages.redactor())
        return replace(told, traceback=drive.traceback)

    def _driven_again(self, cell: Cell, result: CellResult, told: CellResult) -> CellResult:
        """What a streamed cell comes to if its streams are sent in other ways: as before, or what fails it then."""
        ways = self._ways(cell) if cell.variant == "stream" else []
        for number, way in enumerate(ways):
            drive = driven(cell, self._stages, way)
            if not drive.way:  # nothing was streamed
                return told
            evidence = Evidence(drive.transcript)
            again = self._told_driven(result, drive, evidence)
            if again.verdict is Verdict.FAIL and not is_strange(evidence, drive.way):
                found = [replace(each, message=f"told {drive.way}: {each.message}") for each in again.findings]
                return replace(again, findings=tuple(found), recuts=number + 1)
        return replace(told, recuts=len(ways))

    def _ways(self, cell: Cell) -> list[Way]:
        """The other ways to send a cell's streams: the cuts that were asked for, and the documented shapes of calls."""
        cuts = [*map(cut, range(self._recuts))]
        if not (cuts and any(step.calls for turn in cell.scenario.turns for step in turn.model)):
            return cuts
        shapes = catalog.api(cell.target.api).stream_shapes
        return [*cuts, *(shaped(name, shape) for name, shape in shapes.items() if not shape.departs)]

    def _play(self, cell: Cell) -> tuple[Stage, Transcript]:
        if self._recorder is None:
            with self._stages.stage(cell) as stage:
                return stage, _transcript(cell, stage, self._on(cell, stage), self.mode)
        tape = recording(cell, self._stages, self._recorder, self.survey or Survey())
        try:
            with tape:
                with self._stages.stage(cell, tape) as stage:
                    transcript = _transcript(cell, stage, self._on(cell, stage, tape), self.mode)
                if is_complete(transcript):
                    _complete(tape, transcript)
                    self.recorded.append(cell)
                return stage, transcript
        finally:
            with self._lock:
                self.notes += tape.notes

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
            return play(cell.scenario, cell.target, stage.endpoint, begin, cell.variant)
        finally:
            give_back()
            if account:
                account.settle()


def _broken(result: CellResult, error: BaseException) -> CellResult:
    """A cell in which something raised that was not to."""
    reason = f"{class_of(error)}: {located(error)}"
    return replace(result, verdict=Verdict.ERROR, reason=reason, traceback=traceback_of(error))


def _profile(cell: Cell, stage: Stage) -> Profile:
    """What holds for the cell: by the facts of the day on which it was recorded, if it was recorded on some day."""
    recorded = stage.provenance.recorded_at if stage.provenance else None
    if cell.target.edition.day or not recorded:
        return cell.target.profile
    edition = cell.target.edition.on(dt.date.fromisoformat(recorded[:10]))
    return catalog.api(cell.target.api).profile_for(cell.target.model, edition)


def _complete(tape: Recording, transcript: Transcript) -> None:
    """Write a cassette. Raises `Withheld`: what looks like a secret would be in it; the journal keeps the answers."""
    try:
        tape.complete(served(transcript))
    except CassetteTaken as error:
        raise Withheld(f"not recorded: {error}") from None


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
