"""What a loop or a client of `harness serve` was given, and what it has asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.apis.view import CallView, RequestView, ResponseView, TextView
from harness.contract.model import StopReason
from harness.results import DrivenTranscript, ServedTranscript, ToolRun
from harness.rules.evidence import Evidence, Heard
from harness.scenarios.canonical import settings_of
from harness.scenarios.schema import Scenario, Settings, ToolSpec


@dataclass(frozen=True, slots=True)
class CutCall:
    """A call whose arguments were cut off: the script's `answer`, and the exchange that it came with. `is_broken`: the
    connection or the stream broke off; else the answer reached its bound."""

    answer: int
    exchange: int
    view: CallView
    is_broken: bool

    @property
    def when(self) -> str:
        """When it was cut off, in words."""
        return "when its stream broke off" if self.is_broken else "when the answer reached max_tokens"


@dataclass(frozen=True, slots=True)
class Given:
    """What a loop or a client was given, and what it has asked: each request of the conversation, with the turn that it
    is in."""

    evidence: Evidence
    transcript: ServedTranscript
    scenario: Scenario
    heard: tuple[tuple[Heard, int], ...]

    @property
    def tools(self) -> list[ToolSpec]:
        """Those that it was given. What it has itself it words and runs as it likes."""
        return [tool for tool in self.scenario.tools if tool.answered_by == "scenario"]

    @property
    def driven(self) -> DrivenTranscript | None:
        """The transcript, if a loop was given the conversation. A client of `harness serve` has its own."""
        return self.transcript if isinstance(self.transcript, DrivenTranscript) else None

    @property
    def cut_calls(self) -> list[CutCall]:
        """The calls that were cut off, but for those of a stream that was asked for again and then came whole."""
        return [
            CutCall(at, reading.index, call, reading.is_cut)
            for reading in self.evidence.readings
            if (at := reading.exchange.chat) is not None and reading.response is not None
            if (self.evidence.answer(at) is None if reading.is_cut else is_cut(reading.response))
            for call in reading.response.calls
            if call.malformed is not None
        ]

    def cut_call_of(self, run: ToolRun) -> CutCall | None:
        """The cut call that a tool may have run for, if it ran for no other."""
        named = (cut for cut in self.cut_calls if cut.view.name == run.name)
        return next((cut for cut in named if cut.answer < run.answers or cut.is_broken), None)

    @property
    def settings(self) -> Settings:
        """Those of its first turn: what changes them between turns is not played by loops."""
        return settings_of(self.scenario, 0)

    @property
    def first(self) -> Iterator[Heard]:
        """The first request of each turn: what is asked of the model may hold for its first answer only."""
        turns: set[int] = set()
        for heard, turn in self.heard:
            if turn not in turns:
                turns.add(turn)
                yield heard


def is_cut(answer: ResponseView) -> bool:
    """Whether an answer reached its bound in the middle of a call."""
    return answer.stop_reason is StopReason.MAX_TOKENS and any(call.malformed is not None for call in answer.calls)


def ends_cut(evidence: Evidence) -> bool:
    """Whether the last answer that was given reached its bound in the middle of a call. A client may then raise, end or
    ask again."""
    transcript = evidence.transcript
    last = evidence.answer(transcript.played - 1) if isinstance(transcript, ServedTranscript) else None
    return last is not None and last.response is not None and is_cut(last.response)


def given_of(evidence: Evidence) -> Given | None:
    """What the loop or the client of a transcript was given; `None`: the harness ran the conversation itself."""
    transcript = evidence.transcript
    if not isinstance(transcript, ServedTranscript) or transcript.scenario is None:
        return None
    turns = [turn for turn, spec in enumerate(transcript.scenario.turns) for _ in spec.model]
    heard = tuple((each, turns[each.index]) for each in evidence.heard)
    return Given(evidence, transcript, transcript.scenario, heard)


def texts(view: RequestView, role: str) -> list[str]:
    """What a role says in each of its turns: how a text is divided into parts counts for nothing."""
    return [
        "".join(part.text for part in turn.parts if isinstance(part, TextView))
        for turn in view.turns
        if turn.role == role
    ]


def instructions(view: RequestView) -> str:
    """All that stands in the API's places for the system prompt."""
    return "\n".join(system.text for system in view.system)
