"""Calls as the events of a stream tell them, whatever the order in which the events come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.contract.model import ArgumentsDelta, StreamEvent, ToolCallEnd, ToolCallStart


@dataclass(slots=True)
class Announced:
    """One call. `start` is `None` of pieces that no start came for."""

    start: ToolCallStart | None = None
    pieces: list[str] = field(default_factory=list[str])
    ended: bool = False

    @property
    def text(self) -> str:
        """The arguments, as far as they came."""
        return "".join(self.pieces)

    @property
    def name(self) -> str:
        """The name of the tool, as far as it came."""
        return self.start.name if self.start else "a call that nothing announced"


def announced(events: Iterable[StreamEvent]) -> list[Announced]:
    """The calls of a stream, in the order in which the first of each came.

    An event belongs to the call that had its number last. So a number may be used again, a start may come late or
    twice, and pieces may come behind an end: whoever reads the pieces by their number still gets all of them. Whether
    that is the order of our events is another question (`stream-life-cycle`).
    """
    found: list[Announced] = []
    latest: dict[int, Announced] = {}

    def belonging(index: int) -> Announced:
        if index not in latest:
            latest[index] = Announced()
            found.append(latest[index])
        return latest[index]

    for event in events:
        match event:
            case ToolCallStart(index):
                known = latest.get(index)
                if known is not None and known.start is None:
                    known.start = event
                elif known is None or known.ended or known.start != event:
                    latest[index] = Announced(event)
                    found.append(latest[index])
            case ArgumentsDelta(index, text):
                belonging(index).pieces.append(text)
            case ToolCallEnd(index):
                belonging(index).ended = True
            case _:
                pass
    return found
