"""One cell of a loop: it is given the scenario's conversation, and asks the reference server in a session of its own.

The loop runs in a worker, and so does whatever it starts; its tools ask here, so that it is known which ran, even if
the loop then dies.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, cast
from urllib.parse import urlsplit

from harness import catalog
from harness.contract.errors import Unsupported, UsageError
from harness.contract.loops import Drive
from harness.contract.model import ToolCall, ToolResult
from harness.contract.protocols import Endpoint
from harness.host.exceptions import origin, said, traceback_of
from harness.kit.thread import failure
from harness.results import DrivenTranscript, Mode, ServedTranscript
from harness.running.backends import NO_KEY, Stage, Stages
from harness.running.cells import Cell, given
from harness.running.serve_router import Reception
from harness.running.served_session import Conversation, Places, ReverseOrder, Terms, Way, Ways
from harness.scenarios.canonical import MissingResult, ToolFailure, UnknownTool, answer, called_before
from harness.stdio.process import Broken, BrokenCommand
from harness.stdio.workers import Foreign

_SESSION = "loop"


@dataclass(frozen=True, slots=True)
class Driven:
    """What came of driving a loop. `declined`: it said no before it had asked anything, in these words. `way`: how its
    streams were told instead of as they come, in words."""

    stage: Stage
    transcript: DrivenTranscript
    traceback: str | None = None
    declined: str | None = None
    way: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a loop: in good order, or by a `failure`, in words; or it has `declined` the conversation."""

    failure: str | None = None
    traceback: str | None = None
    declined: str | None = None
    printed: str = ""
    is_stopped: bool = False


class Desk:
    """Answers the tools that a loop runs, as the scenario has them answer, and notes them. Several may ask at once, and
    parallel calls finish in reverse order."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._places = Places(conversation.scenario)
        self._order = ReverseOrder()

    def __call__(self, call: ToolCall) -> ToolResult:
        """Run a tool. What it fails with is its result, marked as an error. A call that is run again is the same call,
        and has the same result."""
        scenario = self._conversation.scenario
        answers = self._conversation.note_run(call)
        place = self._places.of(call, answers - 1)
        try:
            result = answer(scenario, call, called_before(scenario, answers - 1))
        except (ToolFailure, UnknownTool, MissingResult) as raised:
            result = failure(call, raised)
        self._order.wait(place)
        return result


def driven(cell: Cell, stages: Stages, way: Way | None = None) -> Driven:
    """Have the loop of a cell play its scenario; with `way` each stream is sent in that way.

    Raises:
        UsageError: the loop cannot be used.
        Halted: the run has ended meanwhile.
    """
    target, adapter = cell.target, cell.target.adapter
    if not isinstance(adapter, Foreign):
        raise TypeError(f"{adapter.name}: a loop that no worker has loaded")
    wire = catalog.api(target.api)
    lost: list[str] = []
    ways: Ways | None = None if way is None else lambda _wire: [way]
    terms = Terms(edition=target.edition, models=(target.model,), ways=ways)
    reception = Reception([cell.scenario], {}, terms, lost.append)
    with stages.endpoint(target, reception) as endpoint:
        reception.origin = endpoint.base_url.removesuffix(wire.base_path)
        conversation = reception.conversation(cell.scenario, _SESSION, wire)
        base = f"{reception.origin}/{cell.scenario.id}/{_SESSION}{wire.base_url_ending}"
        outcome = _outcome(cell, adapter, Endpoint(base, NO_KEY), Desk(conversation))
    others = [each for each in reception.conversations() if each is not conversation and each.asked]
    told = [
        *(f"{each.asked} of the API {each.wire.name}" for each in others),
        *(line.replace(urlsplit(reception.origin).path + f"/{cell.scenario.id}/{_SESSION}", "") for line in lost),
    ]
    served = conversation.transcript(ended=True)
    transcript = _transcript(cell, served, outcome, tuple(told), stages.mode)
    nothing_sent = not conversation.asked and not told
    declined = outcome.declined if nothing_sent else None
    return Driven(
        conversation.stage,
        transcript,
        outcome.traceback,
        declined,
        "; ".join(dict.fromkeys(conversation.ways.values())),
    )


def _outcome(cell: Cell, adapter: Foreign, endpoint: Endpoint, desk: Desk) -> Outcome:
    outcome = Outcome()
    try:
        with adapter.workers.lease(adapter) as lease:
            drive = cast("Drive", lease.adapter.drive)
            try:
                drive(endpoint, cell.target.model, given(cell.scenario, cell.variant, desk))
            except Unsupported as declined:
                outcome = Outcome(declined=said(declined))
            except BrokenCommand as broken:
                outcome = Outcome(said(broken))
            except UsageError:
                raise
            except Exception as error:  # noqa: BLE001 - what a loop raises ends its cell, not the run
                came = origin(error)
                who = came.raiser if came.raiser.startswith("the library ") else "it"
                words = (
                    said(error) if came.error == BrokenCommand.__name__ else f"{who} raises {came.error}: {came.text}"
                )
                outcome = Outcome(words + came.line, traceback_of(error))
    except Broken as broken:
        return Outcome(broken.reason, broken.traceback, printed=broken.printed, is_stopped=True)
    return replace(outcome, printed=lease.printed)


def _transcript(
    cell: Cell, served: ServedTranscript, outcome: Outcome, elsewhere: tuple[str, ...], mode: Mode
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
