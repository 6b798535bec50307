"""The conversation of a request as one sequence of entries, and the place in it where calls are answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.apis.view import CallView, OpaqueView, PartView, RequestView, ResponseView, ResultView, SystemView

Role: TypeAlias = Literal["user", "assistant", "system"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of the conversation with who says it. System text within the conversation is an entry too."""

    role: Role
    part: PartView | SystemView


@dataclass(frozen=True, slots=True)
class Slice:
    """An assistant turn that calls tools, and the results behind it, up to the last one.

    `spoken` is what the assistant says, `answers` what follows it.
    """

    spoken: tuple[Entry, ...]
    answers: tuple[Entry, ...]

    @property
    def calls(self) -> tuple[CallView, ...]:
        """The calls of the turn."""
        return tuple(entry.part for entry in self.spoken if isinstance(entry.part, CallView))

    @property
    def results(self) -> tuple[ResultView, ...]:
        """The results behind it."""
        return tuple(entry.part for entry in self.answers if isinstance(entry.part, ResultView))


def entries(view: RequestView) -> tuple[Entry, ...]:
    """All parts in their order, system text where it stands."""
    found: list[Entry] = []
    for number in range(len(view.turns) + 1):
        found += [Entry("system", text) for text in view.system if text.before_turn == number]
        if number < len(view.turns):
            turn = view.turns[number]
            found += [Entry(turn.role, part) for part in turn.parts]
    return tuple(found)


def answered_turns(view: RequestView, response: ResponseView | None = None) -> tuple[Slice, ...]:
    """The turns that have results behind them, in their order.

    Results without an assistant turn before them, whose calls the server has kept, are a slice in which nobody speaks.
    `response`: what a turn came from. Its items count to the assistant whatever role they have in a request (Responses:
    the output of a tool that the server ran).
    """
    whole = entries(view)
    said = {_item_id(part) for part in response.parts} - {""} if response else set[str]()
    spoken = [entry.role == "assistant" or _item_id(entry.part) in said for entry in whole]
    found: list[Slice] = []
    start = 0
    while start < len(whole):
        middle = next((at for at in range(start, len(whole)) if not spoken[at]), len(whole))
        stop = next((at for at in range(middle, len(whole)) if spoken[at]), len(whole))
        results = [at for at in range(middle, stop) if isinstance(whole[at].part, ResultView)]
        if results:
            first = middle if middle > start else results[0]  # nobody speaks: what the user says before is no answer
            found.append(Slice(whole[start:middle], whole[first : results[-1] + 1]))
        start = stop
    return tuple(found)


def _item_id(part: PartView | SystemView) -> str:
    match part:
        case OpaqueView(raw={"id": str(item_id)}):
            return item_id
        case _:
            return ""
