"""Time per conversation, as a ratio to the bare SDK's, of all contenders in one run."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.apis.registry import Target
from tests.benchmarks.contenders import Contender, Field, Round, ready
from tests.benchmarks.conversations import Conversation
from tests.benchmarks.recordings import record


@dataclass(frozen=True, slots=True)
class Speed:
    """How long a contender took for a conversation of one target, in milliseconds, in each round.

    `ratios` are those to the floor of the same round.
    """

    target: str
    contender: str
    milliseconds: list[float]
    ratios: list[float]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def least(self) -> float:
        return min(self.milliseconds)


def measure(
    target: Target, contenders: Sequence[Contender], chosen: Sequence[Conversation], rounds: int, folder: Path
) -> list[Speed]:
    """One target. The contenders take turns, so that whatever slows the machine slows them alike; a first round
    warms them up and does not count."""
    field = Field(target, chosen, record(folder / "cassettes", chosen, [target]), folder)
    with ExitStack() as stack:
        plays = {each.name: stack.enter_context(ready(each, field)) for each in contenders}
        for play in plays.values():
            play()
        seconds = [{name: _one(play) for name, play in plays.items()} for _ in range(rounds)]
    floor = contenders[0].name
    return [
        Speed(
            target.name,
            name,
            [each[name] / len(chosen) * 1000 for each in seconds],
            [each[name] / each[floor] for each in seconds],
        )
        for name in plays
    ]


def _one(play: Round) -> float:
    gc.collect()  # what one contender leaves behind is not the next one's to clear away
    return play()
