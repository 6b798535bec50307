"""Runs cells of adapters that own their tool loop.

The loop receives the scenario's conversation and sends its requests to a session of the reference server. It runs in a
worker process. Its tools run in this process, so that tool runs are known even if the worker crashes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, cast
from urllib.parse import urlsplit

from harness.apis import registry
from harness.kit.thread import failure
from harness.model.errors import Unsupported, UsageError
from harness.model.loops import Drive
from harness.model.messages import ToolCall, ToolResult
from harness.model.protocols import Endpoint
from harness.platform.exceptions import exception_text, origin, traceback_text
from harness.results import DrivenTranscript, Mode, ServedTranscript
from harness.runner.backends import NO_KEY, Backend, CellEnvironment
from harness.runner.cells import Cell, conversation_for, with_final_calls
from harness.runner.serve_router import ServeRouter
from harness.runner.served_session import (
    CallPositions,
    ReverseOrder,
    ServedSession,
    SessionOptions,
    StreamRewrite,
    StreamRewrites,
)
from harness.scenarios.canonical import MissingResult, ToolFailure, UnknownTool, answer, called_before
from harness.stdio.adapter_process import AdapterBroke, BrokenCommand
from harness.stdio.workers import ForeignAdapter

_SESSION = "loop"


@dataclass(frozen=True, slots=True)
class LoopRun:
    """Result of running a loop.

    `declined` is the loop's reason if it declined before sending anything. `way` describes how its streams were
    rewritten.
    """

    stage: CellEnvironment
    transcript: DrivenTranscript
    traceback: str | None = None
    declined: str | None = None
    way: str = ""


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """The outcome of a loop. It ended normally or with a `failure`, or it `declined` the conversation."""

    failure: str | None = None
    traceback: str | None = None
    declined: str | None = None
    printed: str = ""
    is_stopped: bool = False


class ScriptedTools:
    """Runs the scenario's tools for a loop and records the calls. Parallel calls finish in reverse order."""

    def __init__(self, conversation: ServedSession) -> None:
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
        self._order.wait(place)
        return result


def run_loop(cell: Cell, backend: Backend, way: StreamRewrite | None = None) -> LoopRun:
    """Run the scenario of a cell through its loop. With `way`, each stream is rewritten.

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
    terms = SessionOptions(edition=target.edition, models=(target.model,), ways=ways)
    reception = ServeRouter([cell.scenario], {}, terms, lost.append)
    with backend.endpoint(target, reception) as endpoint:
        reception.origin = endpoint.base_url.removesuffix(wire.base_path)
        conversation = reception.conversation(cell.scenario, _SESSION, wire)
        base = f"{reception.origin}/{cell.scenario.id}/{_SESSION}{wire.base_url_ending}"
        outcome = _drive(cell, adapter, Endpoint(base, NO_KEY), ScriptedTools(conversation))
    others = [each for each in reception.conversations() if each is not conversation and each.asked]
    told = [
        *(f"{each.asked} of the API {each.wire.name}" for each in others),
        *(line.replace(urlsplit(reception.origin).path + f"/{cell.scenario.id}/{_SESSION}", "") for line in lost),
    ]
    served = conversation.transcript(ended=True)
    transcript = _transcript(cell, served, outcome, tuple(told), backend.mode)
    nothing_sent = not conversation.asked and not told
    declined = outcome.declined if nothing_sent else None
    return LoopRun(
        conversation.stage,
        transcript,
        outcome.traceback,
        declined,
        "; ".join(dict.fromkeys(conversation.ways.values())),
    )


def _drive(cell: Cell, adapter: ForeignAdapter, endpoint: Endpoint, desk: ScriptedTools) -> LoopOutcome:
    outcome = LoopOutcome()
    try:
        with adapter.workers.lease(adapter) as lease:
            drive = cast("Drive", lease.adapter.drive)
            try:
                drive(endpoint, cell.target.model, conversation_for(cell.scenario, cell.variant, desk))
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
        return LoopOutcome(broken.reason, broken.traceback, printed=broken.printed, is_stopped=True)
    return replace(outcome, printed=lease.printed)


def _transcript(
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
        elsewhere=elsewhere,
    )
