"""Runs cells: each is played on its stage, judged by the rules, observed for the differences."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from threading import Lock

from harness import catalog
from harness.apis.jsonvalue import loads
from harness.apis.targets import Target
from harness.apis.view import WireError
from harness.contract import distribution
from harness.contract.errors import CassetteError, CassetteMissing, CassetteTaken, UsageError
from harness.contract.protocols import Capability
from harness.host.crash import located, traceback_of
from harness.host.shortened import shortened
from harness.results import (
    Blame,
    CellResult,
    Embedded,
    EmbeddingTranscript,
    Finding,
    Kind,
    Mode,
    RunResult,
    Severity,
    ToolExecution,
    Transcript,
    Verdict,
)
from harness.rules.declining import declined
from harness.rules.declining import reason as why_declined
from harness.rules.evidence import Evidence
from harness.rules.rule import Rule
from harness.running.causes import linked
from harness.running.costs import price_version, spending
from harness.running.differences import Observations, observe, tables
from harness.running.excerpt import piece
from harness.running.expected_failures import ExpectedFailure, accepted, stale, unmatched
from harness.running.play import BROKEN, EmbeddingPlaying, Playing
from harness.running.retelling import retellings
from harness.running.stages import Cell, Stage, Stages
from harness.running.workers.pool import Halted, halt, played
from harness.running.workers.worker import OUTPUT_LENGTH, Broken
from harness.scenarios.load import digest, sent_digest
from harness.scenarios.schema import Scenario, Variant
from harness.tape.cassette import Metadata
from harness.tape.library import Library
from harness.tape.recording import Recording
from harness.tape.redact import Redactor
from harness.tape.survey import Place, Survey, survey

Progress = Callable[[CellResult], None]
"""Told of every cell that is done. May be called from several threads, one at a time."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Writes what a run plays into `library`. `max_requests` is the most that is sent, and paid for; `missing` leaves
    out the cells that have a fresh cassette."""

    library: Library
    force: bool = False
    max_requests: int | None = None
    missing: bool = False


@dataclass(frozen=True, slots=True)
class _Judged:
    result: CellResult
    observations: Observations | None = None
    evidence: Evidence | None = None


VARIANTS: tuple[Variant, ...] = ("whole", "stream")


def cells(
    scenarios: Sequence[Scenario], targets: Sequence[Target], variants: Sequence[Variant] = VARIANTS
) -> list[Cell]:
    """Every scenario with every target in every variant that makes sense, in the order of scenarios."""
    return [
        Cell(scenario, target, variant)
        for scenario in scenarios
        for target in targets
        for variant in _playable(scenario, target, variants)
    ]


def to_record(cells: Sequence[Cell], found: Survey) -> list[Cell]:
    """The cells without those that have a fresh cassette."""
    return [cell for cell in cells if _place(cell) not in found.fresh]


def without_held(cells: Sequence[Cell], found: Survey) -> list[Cell]:
    """The cells without those whose cassettes must not be overwritten."""
    return [cell for cell in cells if _place(cell) not in found.held]


def _place(cell: Cell) -> Place:
    return cell.target.cassettes, cell.scenario.id, cell.variant


def _playable(scenario: Scenario, target: Target, variants: Sequence[Variant]) -> list[Variant]:
    """An adapter that cannot stream is played whole, unless there is nothing but streams to play: then it is told that
    this is not applicable."""
    wanted: list[Variant] = [each for each in variants if scenario.variants is None or each in scenario.variants]
    if "whole" in wanted and Capability.STREAMING not in target.adapter.capabilities:
        return ["whole"]
    return wanted


def _packages() -> Iterator[str]:
    """What a result depends on: ourselves, the SDKs of the shipped adapters, and the HTTP client that they share."""
    needed = (catalog.adapter(shipped.adapter).requires for shipped in catalog.shipped_targets())
    sdks = (each.name for each in needed if each is not None and each.extra is not None)
    yield from dict.fromkeys((distribution.NAME, *sdks, "httpx2"))


def versions() -> dict[str, str]:
    """The versions of the packages that a result depends on, of those that are installed."""
    found = {package: _version(package) for package in _packages()}
    return {package: number for package, number in found.items() if number is not None}


@cache
def _version(package: str) -> str | None:
    """Looked up once: it takes milliseconds, and every recording states it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


class Run:
    """One run over some cells: how they are staged, judged, and what failures are known.

    Every streamed answer is told to the adapter again as a whole one, and `recuts` times cut elsewhere. What breaks a
    convention is noted, and fails its cell only in a `strict` run: adapters of ours are held to them, others need not
    know them.
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
    ) -> None:
        self._stages = stages
        self._rules = rules
        self._expected = expected
        self._recorder = recorder
        self._recuts = recuts
        self._strict = strict
        self._sent = 0
        self._ended = False
        self._survey: Survey | None = None
        self._notes: list[str] = []
        self._recorded: list[Cell] = []
        self._lock = Lock()

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
        mode = self._stages.mode
        wanted = [_metadata(cell, self._stages) for cell in cells if not_applicable(cell, mode) is None]
        recorder = self._recorder
        self._survey = survey(recorder.library, wanted, force=recorder.force, missing=recorder.missing)
        return self._survey

    def __call__(self, cells: Sequence[Cell], *, jobs: int = 1, progress: Progress | None = None) -> RunResult:
        """Play the cells, `jobs` at a time; those of a recording are surveyed, if they were not.

        Raises:
            UsageError: an adapter cannot be connected, a key is missing, a cassette must not be overwritten.
        """
        started = time.perf_counter()
        if self._survey is None:
            cells = to_record(cells, self.surveyed(cells))
        self._ended = False
        try:
            with self._stages:
                judged = list(self._judged(cells, jobs, progress))
        finally:
            self._survey = None
        results = tuple(item.result for item in judged)
        observed: dict[str, list[Observations]] = {cell.target.name: [] for cell in cells}
        for item in judged:
            if item.observations is not None:
                observed[item.result.target].append(item.observations)
        played = [cell for cell in results if _is_judged(cell)]
        return RunResult(
            self.mode,
            results,
            tables(observed),
            stale(self._expected, played),
            versions() | price_version(),
            {"seconds": round(time.perf_counter() - started, 3)},
            unmatched=unmatched(self._expected, results),
        )

    def look(self, cell: Cell) -> tuple[CellResult, Evidence | None]:
        """Play one cell, and give back what it was judged by: nothing, where it was not played.

        Raises:
            UsageError: as playing cells does.
        """
        with self._stages:
            judged = self._cell(cell)
            redactor = self._stages.redactor()
        evidence = judged.evidence
        return judged.result, evidence and Evidence(redactor.result(evidence.transcript))

    def _judged(self, cells: Sequence[Cell], jobs: int, progress: Progress | None) -> Iterable[_Judged]:
        def one(cell: Cell) -> _Judged:
            judged = replace(self._cell(cell), evidence=None)  # of all cells it would be more than memory holds
            if progress:
                with self._lock:
                    progress(judged.result)
            return judged

        if jobs == 1:
            yield from map(one, cells)
            return
        with ThreadPoolExecutor(jobs, thread_name_prefix="harness-cell") as pool:
            try:
                yield from pool.map(one, cells)
            except BaseException:
                self._ended = True  # cells under way send nothing more; what they were answered is in their journals
                halt(cell.target.adapter for cell in cells)  # else the cells under way would hold up the end
                raise

    def _cell(self, cell: Cell) -> _Judged:
        """Play and judge a cell by what was really sent and received; what leaves the run of it names no secret."""
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
        )
        seen = judged.observations and {
            fact: frozenset(map(redactor.text, values)) for fact, values in judged.observations.items()
        }
        return _Judged(told, seen, judged.evidence)

    def _played(self, cell: Cell) -> _Judged:
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
            return _Judged(replace(result, verdict=Verdict.NOT_APPLICABLE, reason=reason))
        try:
            stage, transcript = self._play(cell)
            evidence = Evidence(transcript)
            if cell.variant == "stream":
                evidence = evidence.retold(tuple(retellings(cell, evidence, self._stages, self._recuts)))
            return _Judged(self._verdict(result, stage, evidence), observe(evidence), evidence)
        except (CassetteMissing, _Withheld) as error:
            return _Judged(replace(result, verdict=Verdict.MISSING, reason=str(error)))
        except CassetteError as error:
            if self._recorder:
                raise
            return _Judged(replace(result, verdict=Verdict.FAIL, findings=(_unreadable(error),)))
        except UsageError:
            raise
        except Broken as broken:
            told = replace(result, printed=broken.printed or None, traceback=broken.traceback)
            return _Judged(replace(told, verdict=Verdict.ERROR, reason=broken.reason))
        except BROKEN as error:  # the adapter's `connect` or `close`, a rule: one cell, not the run
            told = replace(result, traceback=traceback_of(error))
            reason = f"{type(error).__name__}: {located(error)}"
            return _Judged(replace(told, verdict=Verdict.ERROR, reason=reason))

    def _play(self, cell: Cell) -> tuple[Stage, Transcript]:
        if self._recorder is None:
            with self._stages.stage(cell) as stage:
                return stage, _transcript(cell, stage, self._on(cell, stage), self.mode)
        recording = self._recording(cell, self._recorder)
        try:
            with recording:
                with self._stages.stage(cell, recording) as stage:
                    transcript = _transcript(cell, stage, self._on(cell, stage, recording), self.mode)
                if _is_complete(transcript):
                    recording.complete(_served(transcript))
                    self._recorded.append(cell)
                return stage, transcript
        finally:
            with self._lock:
                self._notes += recording.notes

    def _recording(self, cell: Cell, recorder: Recorder) -> Recording:
        held = self._survey.held.get(_place(cell)) if self._survey else None
        if held is not None:
            raise _Withheld(held)
        redactor = self._stages.redactor()
        try:
            return Recording(recorder.library, _metadata(cell, self._stages), redactor, force=recorder.force)
        except CassetteTaken as error:  # since the survey
            raise _Withheld(f"not recorded: {error}") from None

    def _on(self, cell: Cell, stage: Stage, recording: Recording | None = None) -> Playing:
        begun = returned = 0

        def give_back() -> None:
            nonlocal returned
            due = min(recording.taken, begun) - returned if recording else 0
            returned += due
            with self._lock:
                self._sent -= due

        def begin(chat: int) -> None:
            nonlocal begun
            give_back()
            self._spend()
            begun += 1
            stage.tap.chat = chat

        try:
            return played(cell.scenario, cell.target, stage.endpoint, begin, cell.variant)
        finally:
            give_back()

    def _spend(self) -> None:
        """Count a chat, which is one request, against what the recording may send; an answer that was taken up is given
        back. Raises `_Withheld`, and `Halted` if the run has ended."""
        limit = self._recorder.max_requests if self._recorder else None
        with self._lock:
            if self._ended:
                raise Halted
            if self._sent == limit:
                raise _Withheld(f"not recorded: {limit} requests were sent, --max-requests allows no more")
            self._sent += 1

    def _verdict(self, result: CellResult, stage: Stage, evidence: Evidence) -> CellResult:
        transcript = evidence.transcript
        findings = tuple(self._weighed(finding) for rule in self._rules for finding in rule.findings(evidence))
        if not any(finding.severity is Severity.ERROR for finding in findings):
            # else the tool was asked something that nobody had meant to ask
            findings += tuple(_unanswered(execution) for execution in transcript.executions if execution.unanswered)
        redactor = self._stages.redactor()
        findings = tuple(
            _pictured(evidence, finding, redactor) for finding in accepted(self._expected, result, linked(findings))
        )
        crashed = next((each for each in (*transcript.chats, *_embedded(transcript)) if each.crashed), None)
        printed = "".join(part.printed for part in (transcript, *transcript.retellings))
        recuts = sum(retelling.variant == "stream" for retelling in transcript.retellings)
        result = replace(
            result,
            provenance=stage.provenance if _is_answered(stage, transcript) else None,
            findings=findings,
            exchanges=len(transcript.exchanges),
            recuts=recuts,
            spending=spending(evidence, stage.provenance),
            printed=shortened(printed, OUTPUT_LENGTH) or None,
            traceback=crashed.traceback if crashed else None,
        )
        if self._recorder and not _is_complete(transcript):
            result = replace(result, reason="not recorded: a chat failed, and what was there before stays")
        verdict = _worst(findings)
        if verdict is Verdict.EXPECTED_FAILURE:
            reasons = {finding.accepted for finding in findings if finding.accepted is not None}
            return replace(result, verdict=verdict, reason="; ".join(sorted(reasons)))
        if crashed is not None and (
            verdict is Verdict.FAIL or not findings
        ):  # else all that is wrong is what it raised
            return replace(result, verdict=Verdict.ERROR, reason=f"{crashed.error}: {crashed.error_text}")
        said_no = declined(evidence)
        if said_no is not None and verdict is not Verdict.FAIL:
            why = why_declined(evidence, said_no)
            return replace(result, verdict=Verdict.NOT_APPLICABLE, provenance=None, reason=why)
        return replace(result, verdict=verdict)

    def _weighed(self, finding: Finding) -> Finding:
        """A finding with the severity that its kind has in this run."""
        if finding.kind is not Kind.CONVENTION:
            return finding
        return replace(finding, severity=Severity.ERROR if self._strict else Severity.NOTE)


def _pictured(evidence: Evidence, finding: Finding, redactor: Redactor) -> Finding:
    """The finding with the piece of the body that it points at, which is cut to the width of a page: half a key is not
    found afterwards."""
    if finding.exchange is None or not finding.pointer:
        return finding
    reading = evidence.readings[finding.exchange]
    try:
        if not finding.of_response:
            return replace(finding, piece=piece(redactor.value(loads(reading.exchange.request.body)), finding.pointer))
        body = reading.response.body if reading.response else None
    except WireError:  # a body that is none is shown by the rule that says so
        return finding
    return replace(finding, piece=piece(redactor.value(body), finding.pointer))


def _worst(findings: Sequence[Finding]) -> Verdict:
    if any(finding.fails for finding in findings):
        return Verdict.FAIL
    severities = {finding.severity for finding in findings}
    verdicts = {Severity.ERROR: Verdict.EXPECTED_FAILURE, Severity.WARNING: Verdict.WARN, Severity.NOTE: Verdict.NOTE}
    return next((verdict for severity, verdict in verdicts.items() if severity in severities), Verdict.PASS)


def not_applicable(cell: Cell, mode: Mode) -> str | None:
    """Why a cell is not played at all, or `None`; `mode` is how it would be answered."""
    scenario, target = cell.scenario, cell.target
    required = set(scenario.requires)
    if cell.variant == "stream":
        required.add(Capability.STREAMING)
    by_adapter = sorted(required - target.adapter.capabilities)
    if by_adapter:
        return f"the adapter {target.adapter.name!r} does not have: {', '.join(by_adapter)}"
    by_profile = sorted(required & target.profile.lacks)
    if by_profile:
        return f"{target.model} (profile {target.profile.name}) does not have: {', '.join(by_profile)}"
    if scenario.profiles is not None and target.profile.name not in scenario.profiles:
        return f"it holds only for the profiles {', '.join(scenario.profiles)}"
    foreign = sorted(each for each in scenario.provocations if each not in catalog.api(target.api).provocations)
    if foreign:
        return f"the API {target.api} has nothing that could do it: {', '.join(foreign)}"
    if scenario.scripted and mode == "live":
        return "scripted: no model does this when asked, so it is never sent to a provider"
    return None


class _Withheld(Exception):  # not an error: nothing may be sent for this cell, or nothing more
    pass


def _is_judged(cell: CellResult) -> bool:
    if cell.verdict is Verdict.ERROR:
        return bool(cell.findings)  # else it broke before a rule saw anything
    return cell.verdict not in (Verdict.NOT_APPLICABLE, Verdict.MISSING)


def _is_complete(transcript: Transcript) -> bool:
    """Whether each chat has its answer, be it the failure that the scenario asks for."""
    scenario = transcript.scenario
    fails = scenario is not None and bool(scenario.faults)
    if any(each.vectors is None and not each.refuses for each in _embedded(transcript)):
        return False
    return all(chat.response is not None or (fails and not chat.crashed) for chat in transcript.chats)


def _is_answered(stage: Stage, transcript: Transcript) -> bool:
    """Whether any answers came from where the stage gets them: those of a provider may all have stayed out."""
    live = stage.player is None and stage.provenance.origin != "reference"
    return not live or any(each.response is not None for each in transcript.exchanges)


def _transcript(cell: Cell, stage: Stage, playing: Playing, mode: Mode) -> Transcript:
    made = partial(Transcript)
    if isinstance(playing, EmbeddingPlaying):
        made = partial(EmbeddingTranscript, embedded=playing.embedded)
    return made(
        api=cell.target.api,
        model=cell.target.model,
        profile=cell.target.profile,
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
        recorded_by=stage.recorded_by,
        capabilities=cell.target.adapter.capabilities,
        handled=playing.handled,
        printed=playing.printed,
    )


def _embedded(transcript: Transcript) -> tuple[Embedded, ...]:
    return transcript.embedded if isinstance(transcript, EmbeddingTranscript) else ()


def _metadata(cell: Cell, stages: Stages) -> Metadata:
    live = stages.mode == "live"
    provenance = stages.provenance(cell.target)
    return Metadata(
        origin=provenance.origin,
        scenario=cell.scenario.id,
        target=cell.target.cassettes,
        api=cell.target.api,
        adapter=cell.target.adapter.name,
        variant=cell.variant,
        model_requested=cell.target.model,
        scenario_digest=digest(cell.scenario),
        sent_digest=sent_digest(cell.scenario),
        recorded_at=datetime.now(UTC).isoformat(timespec="seconds") if live else None,
        versions=versions(),
        recorded_from=provenance.recorded_from,
    )


def _served(transcript: Transcript) -> str | None:
    models = [chat.response.model for chat in transcript.chats if chat.response is not None]
    return models[-1] if models else None


def _unreadable(error: CassetteError) -> Finding:
    return Finding(
        "cassette-unreadable", Kind.LOSS, Severity.ERROR, Blame.CASSETTE, str(error), source="harness.tape.cassette"
    )


def _unanswered(execution: ToolExecution) -> Finding:
    return Finding(
        "tool-unanswered",
        Kind.LOSS,
        Severity.ERROR,
        Blame.SCENARIO,
        str(execution.result.content),
        source="harness.scenarios.schema",
    )
