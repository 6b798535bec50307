"""Runs one cell: opens its environment, runs its scenario through the adapter and passes the result to the judge.

An adapter that owns its tool loop receives the scenario's conversation and sends its requests to a session of the
reference server. The loop runs in a worker process. Its tools run in this process, so that tool runs are known even if
the worker crashes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from threading import Lock
from typing import Any, cast
from urllib.parse import urlsplit

from harness.apis import registry
from harness.apis.profiles import Profile
from harness.cassettes.cell_recording import CellRecording
from harness.cassettes.preflight import Preflight
from harness.kit.thread import failure
from harness.model.errors import CassetteError, CassetteMissing, RecordingRefused, Unsupported, UsageError
from harness.model.messages import ChatResponse, ToolCall, ToolResult
from harness.model.protocols import Drive, Endpoint
from harness.platform.exceptions import class_name, exception_text, origin, text_with_line, traceback_text
from harness.results import (
    CellResult,
    DrivenTranscript,
    EmbeddingTranscript,
    Kind,
    Lacking,
    Mode,
    ServedTranscript,
    Transcript,
    Verdict,
)
from harness.rules.evidence import Evidence
from harness.rules.expected_outcomes import when_declined
from harness.rules.replays import is_unreadable_variant
from harness.runner.backends import NO_KEY, Backend, CellEnvironment
from harness.runner.cells import (
    Cell,
    HandedHistory,
    NoHistory,
    NotApplicableReason,
    conversation_for,
    not_applicable,
    not_applicable_reason,
    with_final_calls,
)
from harness.runner.costs import Budget
from harness.runner.differences import observe
from harness.runner.hand_over import HandOverCell, handed_history, no_history, with_hand_over
from harness.runner.recorder import CellNotRecorded, Recorder, RequestLimit, is_complete, open_recording, served_model
from harness.runner.replay_variants import replay_variants
from harness.runner.serve_router import ServeRouter
from harness.runner.served_session import (
    CallPositions,
    ReverseOrder,
    ServedSession,
    SessionOptions,
    StreamRewrite,
    StreamRewrites,
    cut_rewrite,
    shape_rewrite,
)
from harness.runner.tool_loop import ADAPTER_EXCEPTIONS, EmbeddingRun, ScenarioRun, run_scenario
from harness.runner.verdicts import CellJudge, JudgedCell, unreadable_cassette
from harness.scenarios.canonical import MissingResult, ToolFailure, UnknownTool, answer, called_before
from harness.scenarios.schema import Variant
from harness.stdio.adapter_process import AdapterBroke, BrokenCommand
from harness.stdio.workers import ForeignAdapter


class CellRunner:
    """Runs and judges the cells of a run. Thread-safe.

    Each streamed cell is repeated with each of the variants `recuts` of `harness.cassettes.rechunk`. It is also
    repeated with whole responses, unless the run of its whole variant received equivalent ones. With a `recorder`,
    cells are recorded. `survey` is the state of their cassettes before the run, `recorded` lists the cells whose
    cassettes were written, and `notes` has messages about interrupted recordings. `budget` limits the cost.
    """

    def __init__(
        self,
        backend: Backend,
        judge: CellJudge,
        recorder: Recorder | None,
        recuts: Sequence[int],
        budget: Budget | None,
    ) -> None:
        self.survey: Preflight | None = None
        self.notes: list[str] = []
        self.recorded: list[Cell] = []
        self._backend = backend
        self._judge = judge
        self._recorder = recorder
        self._recuts = recuts
        self._budget = budget
        self._request_limit = RequestLimit(recorder.max_requests if recorder else None)
        self._whole: tuple[Cell, Evidence] | None = (
            None  # the last whole cell; the next cell is often its streamed variant
        )
        self._histories: dict[tuple[str, str, Variant], HandedHistory | NoHistory] = {}
        self._lock = Lock()

    @property
    def mode(self) -> Mode:
        """The mode of the run."""
        return "record" if self._recorder else self._backend.mode

    def end(self) -> None:
        """Stop sending requests. The responses received so far are in the cells' journals."""
        self._request_limit.end()

    def run_cell(self, cell: Cell) -> JudgedCell:
        """Run a cell and judge it.

        Raises:
            UsageError: The adapter cannot be connected, or a key is missing.
        """
        return self._run_hand_over(cell) if isinstance(cell, HandOverCell) else self._run_cell(cell)

    def _run_cell(self, cell: Cell) -> JudgedCell:
        result = cell.result()
        absence = not_applicable_reason(cell, self._backend.mode)
        if absence is not None:
            return JudgedCell(absence.result(result))
        try:
            if cell.target.adapter.drive is not None:
                return self._run_loop_cell(cell, result)
            environment, transcript = self._run_in_environment(cell)
            evidence = Evidence(transcript)
            if cell.variant == "stream":
                made = replay_variants(cell, evidence, self._backend, self._recuts, self._whole_variant_of(cell))
                evidence = evidence.with_replay_variants(tuple(made))
            else:
                self._whole = cell, evidence
            judged = self._judge.decide_verdict(result, environment, evidence, self._backend.redactor())
            return JudgedCell(judged, observe(evidence), evidence)
        except (CassetteMissing, CellNotRecorded) as error:
            return JudgedCell(replace(result, verdict=Verdict.MISSING, reason=str(error)))
        except CassetteError as error:
            if self._recorder:
                raise
            return JudgedCell(replace(result, verdict=Verdict.FAIL, findings=(unreadable_cassette(error),)))
        except UsageError:
            raise
        except AdapterBroke as broken:
            judged = replace(result, printed=broken.printed or None, traceback=broken.traceback)
            return JudgedCell(replace(judged, verdict=Verdict.ERROR, reason=broken.reason))
        except ADAPTER_EXCEPTIONS as error:  # the adapter's `connect` or `close`: one cell, not the run
            return JudgedCell(_error_result(result, error))

    def _run_hand_over(self, cell: HandOverCell) -> JudgedCell:
        """Run the first target of a hand-over, and continue its conversation with the second target. If the first
        target already ran this conversation, its history is reused.
        """
        key = cell.case.name, cell.source.name, cell.variant
        if key not in self._histories:
            self._histories[key] = self._history(cell)
        history = self._histories[key]
        if isinstance(history, NoHistory):
            return JudgedCell(replace(cell.result(history.verdict), reason=history.reason))
        judged = self._run_cell(cell.continuation(history))
        if judged.evidence is None:
            return judged
        result = with_hand_over(cell, judged.result, judged.evidence, history)
        return replace(judged, result=result, earlier=history.last)

    def _history(self, cell: HandOverCell) -> HandedHistory | NoHistory:
        first = cell.first
        reason = not_applicable(first, self._backend.mode)
        if reason is None and first.target.adapter.drive is not None:
            reason = "it runs its own tool loop, so its history is unknown"
        if reason is not None:
            return no_history(cell, reason)
        try:
            with self._backend.open_cell(first) as environment:
                run = run_scenario(first.scenario, first.target, environment.endpoint, lambda _chat: None)
        except AdapterBroke as broken:
            return no_history(cell, broken.reason, Verdict.ERROR)
        return handed_history(cell, run, next(reversed(environment.log.exchanges), None))

    def _whole_variant_of(self, cell: Cell) -> Evidence | None:
        if self._whole is None:
            return None
        whole, evidence = self._whole
        return evidence if whole.scenario is cell.scenario and whole.target is cell.target else None

    def _run_loop_cell(self, cell: Cell, result: CellResult) -> JudgedCell:
        """Run a cell through a tool loop. The result has no observed differences, because the exact requests are
        unknown.
        """
        drive = run_loop(cell, self._backend)
        evidence = Evidence(drive.transcript)
        judged = self._judge_loop(result, drive, evidence)
        if limits := _exceeded_limits(judged):
            judged, evidence = self._run_beyond_limits(cell, result, limits, evidence) or (judged, evidence)
        if drive.declined is not None and judged.verdict is not Verdict.FAIL:
            reason = f"it declines {when_declined(drive.transcript.played)} is sent: {drive.declined}"
            return JudgedCell(NotApplicableReason(reason, Lacking.ADAPTER).result(result))
        return JudgedCell(
            judged if judged.verdict is Verdict.FAIL else self._repeat_loop(cell, result, judged), None, evidence
        )

    def _run_beyond_limits(
        self, cell: Cell, result: CellResult, limits: frozenset[str], first: Evidence
    ) -> tuple[CellResult, Evidence] | None:
        """Run a loop again with a server that does not enforce the limits that it exceeds. A refused request hides the
        defects of the later ones. Return `None` if the loop gets no further than in its first run.
        """
        drive = run_loop(cell, self._backend, tolerated=limits)
        evidence = Evidence(drive.transcript)
        judged = self._judge_loop(result, drive, evidence)
        is_further = len(evidence.client_requests) > len(first.client_requests)
        return (judged, evidence) if is_further and limits <= _exceeded_limits(judged) else None

    def _judge_loop(self, result: CellResult, drive: LoopRun, evidence: Evidence) -> CellResult:
        judged = self._judge.decide_verdict(result, drive.environment, evidence, self._backend.redactor())
        return replace(judged, traceback=drive.traceback)

    def _repeat_loop(self, cell: Cell, result: CellResult, unchanged: CellResult) -> CellResult:
        """Repeat a streamed cell with its streams in other chunks. Return the first failing result, else
        `unchanged`."""
        ways = self._rewrites_for(cell) if cell.variant == "stream" else []
        for number, way in enumerate(ways):
            drive = run_loop(cell, self._backend, way)
            if not drive.way:  # nothing was streamed
                return unchanged
            evidence = Evidence(drive.transcript)
            again = self._judge_loop(result, drive, evidence)
            if again.verdict is Verdict.FAIL and not is_unreadable_variant(evidence, drive.way):
                found = [
                    replace(each, message=f"streams rewritten ({drive.way}): {each.message}") for each in again.findings
                ]
                return replace(again, findings=tuple(found), recuts=number + 1)
        return replace(unchanged, recuts=len(ways))

    def _rewrites_for(self, cell: Cell) -> list[StreamRewrite]:
        cuts = [*map(cut_rewrite, self._recuts)]
        if not (cuts and any(step.calls for turn in cell.scenario.turns for step in turn.model)):
            return cuts
        shapes = registry.api(cell.target.api).stream_shapes
        return [*cuts, *(shape_rewrite(name, shape) for name, shape in shapes.items() if not shape.departs)]

    def _run_in_environment(self, cell: Cell) -> tuple[CellEnvironment, Transcript]:
        if self._recorder is None:
            with self._backend.open_cell(cell) as environment:
                return environment, _transcript(
                    cell, environment, self._run_within_limits(cell, environment), self.mode
                )
        tape = open_recording(cell, self._backend, self._recorder, self.survey or Preflight())
        try:
            with tape:
                with self._backend.open_cell(cell, tape) as environment:
                    transcript = _transcript(
                        cell, environment, self._run_within_limits(cell, environment, tape), self.mode
                    )
                if is_complete(transcript):
                    _write_cassette(tape, transcript)
                    self.recorded.append(cell)
                return environment, transcript
        finally:
            with self._lock:
                self.notes += tape.notes

    def _run_within_limits(
        self, cell: Cell, environment: CellEnvironment, tape: CellRecording | None = None
    ) -> ScenarioRun:
        begun = returned = 0
        account = self._budget.account(cell, environment.log.exchanges) if self._budget else None

        def give_back() -> None:
            nonlocal returned
            due = min(tape.taken, begun) - returned if tape else 0
            returned += due
            self._request_limit.give_back(due)

        def begin(chat: int) -> None:
            nonlocal begun
            give_back()
            if account:
                account.open(chat)
            self._request_limit.spend()
            begun += 1
            environment.log.chat = chat

        try:
            return run_scenario(cell.scenario, cell.target, environment.endpoint, begin, cell.variant, cell.handed)
        finally:
            give_back()
            if account:
                account.settle()


def _error_result(result: CellResult, error: BaseException) -> CellResult:
    reason = f"{class_name(error)}: {text_with_line(error)}"
    return replace(result, verdict=Verdict.ERROR, reason=reason, traceback=traceback_text(error))


def _profile_for(cell: Cell, environment: CellEnvironment) -> Profile:
    """Return the profile as of the recording's date. If the target sets a date, or there is no recording date, return
    the target's profile.
    """
    recorded = environment.provenance.recorded_at if environment.provenance else None
    if cell.target.fact_selection.day or not recorded:
        return cell.target.profile
    fact_selection = cell.target.fact_selection.on(dt.date.fromisoformat(recorded[:10]))
    return registry.api(cell.target.api).profile_for(cell.target.model, fact_selection)


def _write_cassette(tape: CellRecording, transcript: Transcript) -> None:
    try:
        tape.complete(served_model(transcript))
    except RecordingRefused as error:
        raise CellNotRecorded(f"not recorded: {error}") from None


def _transcript(cell: Cell, environment: CellEnvironment, outcome: ScenarioRun, mode: Mode) -> Transcript:
    made = partial(Transcript)
    if isinstance(outcome, EmbeddingRun):
        made = partial(EmbeddingTranscript, embedded=outcome.embedded)
    return made(
        api=cell.target.api,
        model=cell.target.model,
        profile=_profile_for(cell, environment),
        exchanges=tuple(environment.log.exchanges),
        mode=mode,
        adapter=cell.target.adapter.name,
        variant=cell.variant,
        scenario=cell.scenario,
        chats=outcome.chats,
        executions=outcome.executions,
        scripted=environment.scripted,
        unplayed=environment.player.unplayed if environment.player else 0,
        stale=environment.stale,
        too_old=environment.too_old,
        recorded_by=environment.recorded_by,
        capabilities=cell.target.adapter.capabilities,
        handled=outcome.handled,
        printed=outcome.printed,
    )


_SESSION = "loop"


@dataclass(frozen=True, slots=True)
class LoopRun:
    """Result of running a loop.

    `declined` is the loop's reason if it declined before sending anything, or after the final answer of a turn. `way`
    describes how its streams were rewritten.
    """

    environment: CellEnvironment
    transcript: DrivenTranscript
    traceback: str | None = None
    declined: str | None = None
    way: str = ""


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """The outcome of a loop: it ended normally with `answers`, failed with `failure`, or declined the conversation for
    the reason `declined`.

    `is_stopped` is set if the loop broke its worker process or exceeded the time limit, and `is_late` only if it
    exceeded the time limit.
    """

    failure: str | None = None
    traceback: str | None = None
    declined: str | None = None
    printed: str = ""
    is_stopped: bool = False
    is_late: bool = False
    answers: tuple[ChatResponse | None, ...] = ()


class ScriptedTools:
    """Runs the scenario's tools for a loop and records the calls. Parallel calls finish in reverse order.

    `has_failed` is set if a tool has failed.
    """

    def __init__(self, conversation: ServedSession) -> None:
        self.has_failed = False
        self._conversation = conversation
        self._places = CallPositions(conversation.scenario)
        self._order = ReverseOrder()

    def __call__(self, call: ToolCall) -> ToolResult:
        """Run a tool.

        An exception of the tool is returned as a result marked as an error. Repeating a call returns the same result.
        """
        scenario = self._conversation.scenario
        answers = self._conversation.note_run(call)
        place = self._places.of(call, answers - 1)
        try:
            result = answer(scenario, call, called_before(scenario, answers - 1))
        except (ToolFailure, UnknownTool, MissingResult) as raised:
            result = failure(call, raised)
        self.has_failed |= result.is_error
        self._order.wait(place)
        return result


def _exceeded_limits(result: CellResult) -> frozenset[str]:
    """Return the rules of the limits that requests exceed, so that a provider refuses them."""
    return frozenset(each.rule for each in result.findings if each.kind is Kind.LIMIT and each.severity == "error")


def run_loop(
    cell: Cell, backend: Backend, way: StreamRewrite | None = None, tolerated: frozenset[str] = frozenset()
) -> LoopRun:
    """Run the scenario of a cell through its loop. With `way`, each stream is rewritten. The rules `tolerated` are not
    enforced: their violations are reported, but the request is not refused.

    Raises:
        UsageError: The loop cannot be used.
        RunCancelled: The run was cancelled.
    """
    target, adapter = cell.target, cell.target.adapter
    if not isinstance(adapter, ForeignAdapter):
        raise TypeError(f"{adapter.name}: a loop that no worker has loaded")
    if adapter.final_call is not None:
        cell = replace(cell, scenario=with_final_calls(cell.scenario, adapter.final_call))
    wire = registry.api(target.api)
    lost: list[str] = []
    ways: StreamRewrites | None = None if way is None else lambda _wire: [way]
    terms = SessionOptions(fact_selection=target.fact_selection, models=(target.model,), ways=ways, tolerated=tolerated)
    router = ServeRouter([cell.scenario], {}, terms, lost.append)
    with backend.endpoint(target, router) as endpoint:
        router.origin = endpoint.base_url.removesuffix(wire.base_path)
        conversation = router.conversation(cell.scenario, _SESSION, wire)
        base = f"{router.origin}/{cell.scenario.id}/{_SESSION}{wire.base_url_ending}"
        tools = ScriptedTools(conversation)
        outcome = _drive(cell, adapter, Endpoint(base, NO_KEY), tools)
    others = [each for each in router.conversations() if each is not conversation and each.request_count]
    transcripts = [
        *(f"{each.request_count} of the API {each.wire.name}" for each in others),
        *(line.replace(urlsplit(router.origin).path + f"/{cell.scenario.id}/{_SESSION}", "") for line in lost),
    ]
    served = conversation.transcript(ended=True)
    nothing_sent = not conversation.request_count and not transcripts
    declined = outcome.declined if nothing_sent or tools.has_failed or _ends_a_turn(served) else None
    if declined is not None:
        served, outcome = replace(served, ended=False), replace(outcome, declined=None)
    transcript = _loop_transcript(cell, served, outcome, tuple(transcripts), backend.mode)
    return LoopRun(
        conversation.environment,
        transcript,
        outcome.traceback,
        declined,
        "; ".join(dict.fromkeys(conversation.ways.values())),
    )


def _ends_a_turn(served: ServedTranscript) -> bool:
    """Return whether the last response of a session is a complete answer without calls."""
    exchanges = Evidence(served).parsed_exchanges
    answer = exchanges[-1].answer if exchanges else None
    return answer is not None and not answer.calls


def _drive(cell: Cell, adapter: ForeignAdapter, endpoint: Endpoint, tools: ScriptedTools) -> LoopOutcome:
    outcome = LoopOutcome()
    try:
        with adapter.workers.lease(adapter) as lease:
            drive = cast("Drive", lease.adapter.drive)
            try:
                made = drive(endpoint, cell.target.model, conversation_for(cell.scenario, cell.variant, tools))
                outcome = LoopOutcome(answers=cast("tuple[ChatResponse | None, ...]", made))
            except Unsupported as declined:
                outcome = LoopOutcome(declined=exception_text(declined))
            except BrokenCommand as broken:
                outcome = LoopOutcome(exception_text(broken))
            except UsageError:
                raise
            except Exception as error:  # noqa: BLE001 - what a loop raises ends its cell, not the run
                came = origin(error)
                who = came.raiser if came.raiser.startswith("the library ") else "it"
                words = (
                    exception_text(error)
                    if came.error == BrokenCommand.__name__
                    else f"{who} raises {came.error}: {came.text}"
                )
                outcome = LoopOutcome(words + came.line, traceback_text(error))
    except AdapterBroke as broken:
        stopped = LoopOutcome(broken.reason, broken.traceback, printed=broken.printed, is_stopped=True)
        return replace(stopped, is_late=broken.is_late)
    return replace(outcome, printed=lease.printed)


def _loop_transcript(
    cell: Cell, served: ServedTranscript, outcome: LoopOutcome, elsewhere: tuple[str, ...], mode: Mode
) -> DrivenTranscript:
    target = cell.target
    known: dict[str, Any] = {
        **{each.name: getattr(served, each.name) for each in fields(ServedTranscript)},
        "model": target.model,
        "profile": target.profile,
        "mode": mode,
        "adapter": target.adapter.name,
        "variant": cell.variant,
        "capabilities": target.adapter.capabilities,
        "printed": outcome.printed,
    }
    return DrivenTranscript(
        **known,
        failure=outcome.failure or outcome.declined,
        is_stopped=outcome.is_stopped,
        is_late=outcome.is_late,
        elsewhere=elsewhere,
        answers=outcome.answers,
    )
