"""What a loop was given, and what it has asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.apis.view import RequestView, TextView
from harness.results import DrivenTranscript
from harness.rules.evidence import Evidence, Heard
from harness.scenarios.canonical import settings_of
from harness.scenarios.schema import Scenario, Settings, ToolSpec


@dataclass(frozen=True, slots=True)
class Given:
    """What a loop was given, and what it has asked: each request of the conversation, with the turn that it is in."""

    evidence: Evidence
    transcript: DrivenTranscript
    scenario: Scenario
    heard: tuple[tuple[Heard, int], ...]

    @property
    def tools(self) -> list[ToolSpec]:
        """Those that it was given. What it has itself it words and runs as it likes."""
        return [tool for tool in self.scenario.tools if tool.answered_by == "scenario"]

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


def given_of(evidence: Evidence) -> Given | None:
    """What the loop of a transcript was given; `None`: no loop was played."""
    transcript = evidence.transcript
    if not isinstance(transcript, DrivenTranscript) or transcript.scenario is None:
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
