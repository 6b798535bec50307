"""One cell of a loop: it is given the scenario's conversation, and asks the reference server in a session of its own.

The loop runs in a worker, and so does whatever it starts; its tools ask here, so that it is known which ran, even if
the loop then dies.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlsplit

from harness import catalog
from harness.contract.model import ToolCall
from harness.kit.thread import failure
from harness.results import DrivenTranscript, Mode, ServedTranscript
from harness.running.serving.conversation import Conversation, Terms
from harness.running.serving.order import Places
from harness.running.serving.reception import Reception
from harness.running.serving.ways import Way, Ways
from harness.running.stages import Cell, Stage, Stages
from harness.running.stages.routes import NO_KEY
from harness.running.workers.messages import Driven, ToolAnswered
from harness.running.workers.pool import Foreign, job_of
from harness.running.workers.worker import Broken
from harness.scenarios.tools import ToolFailure, Unanswered, UnknownTool, answer, called_before

_SESSION = "loop"


@dataclass(frozen=True, slots=True)
class Drive:
    """What came of driving a loop. `declined`: it said no before it had asked anything, in these words. `way`: how its
    streams were told instead of as they come, in words."""

    stage: Stage
    transcript: DrivenTranscript
    traceback: str | None = None
    declined: str | None = None
    way: str = ""


class Desk:
    """Answers the tools that a loop runs, as the scenario has them answer, and notes them. Several may ask at once."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._places = Places(conversation.scenario)

    def __call__(self, call: ToolCall) -> ToolAnswered:
        """Run a tool. What it fails with is its result, marked as an error. A call that is run again is the same call,
        and has the same result."""
        scenario = self._conversation.scenario
        answers = self._conversation.note_run(call)
        place = self._places.of(call, answers - 1)
        try:
            result = answer(scenario, call, called_before(scenario, answers - 1))
        except (ToolFailure, UnknownTool, Unanswered) as raised:
            result = failure(call, raised)
        return ToolAnswered(result, place)


def driven(cell: Cell, stages: Stages, way: Way | None = None) -> Drive:
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
        desk, is_stopped = Desk(conversation), False
        try:
            outcome = adapter.workers.drive(adapter.spec, job_of(cell, adapter, base, NO_KEY), desk)
        except Broken as broken:
            outcome, is_stopped = Driven(broken.reason, broken.traceback, printed=broken.printed), True
    others = [each for each in reception.conversations() if each is not conversation and each.asked]
    told = [
        *(f"{each.asked} of the API {each.wire.name}" for each in others),
        *(line.replace(urlsplit(reception.origin).path + f"/{cell.scenario.id}/{_SESSION}", "") for line in lost),
    ]
    served = conversation.transcript(ended=True)
    transcript = _transcript(cell, served, outcome, tuple(told), stages.mode, is_stopped=is_stopped)
    nothing_sent = not conversation.asked and not told
    declined = outcome.declined if nothing_sent else None
    return Drive(
        conversation.stage,
        transcript,
        outcome.traceback,
        declined,
        "; ".join(dict.fromkeys(conversation.ways.values())),
    )


def _transcript(  # noqa: PLR0913 - all that is known of it
    cell: Cell, served: ServedTranscript, outcome: Driven, elsewhere: tuple[str, ...], mode: Mode, *, is_stopped: bool
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
        is_stopped=is_stopped,
        elsewhere=elsewhere,
    )
