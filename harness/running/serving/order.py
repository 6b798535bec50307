"""The order in which the tools of one answer finish: parallel calls finish in reverse order, each time.

Tools of a scenario answer at once. A loop that pairs results with calls by the order in which its tools finish would be
right or wrong by chance. Here the first call of an answer finishes after the later ones, if they run at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Condition, Lock
from time import sleep

from harness.apis.jsonvalue import equal
from harness.contract.model import ToolCall
from harness.scenarios.schema import Scenario

MAX_TOOL_RUNS = 1000
"""How many tools are run in one conversation. One without end is answered so fast that it hardly uses its time."""

_ARRIVAL_SECONDS = 0.15
"""How long a call waits for the next one to be run. A loop that runs its tools one after the other waits once."""

_FINISH_SECONDS = 1.0
"""How long a call waits for later ones that run: a bound, for those that never return."""

_HANDOVER_SECONDS = 0.05
"""How long a call stays behind later ones that have finished, so that the loop has their results first."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a call in an answer of the script: `index`, of `count` calls."""

    answer: int
    index: int
    count: int


class Places:
    """Finds the place of each call that is run. Each place is given out once."""

    def __init__(self, scenario: Scenario) -> None:
        self._steps = [step.whole_calls for turn in scenario.turns for step in turn.model]
        self._left: dict[int, list[int]] = {}
        self._lock = Lock()

    def of(self, call: ToolCall, answer: int) -> Place | None:
        """Return the place of a call in an answer of the script, or `None` if the answer has no such call left."""
        if not 0 <= answer < len(self._steps):
            return None
        calls = self._steps[answer]
        with self._lock:
            left = self._left.setdefault(answer, list(range(len(calls))))
            named = [index for index in left if calls[index][0] == call.name]
            exact = (index for index in named if equal(calls[index][1], call.arguments))
            index = next(exact, next(iter(named), None))
            if index is None:
                return None
            left.remove(index)
        return Place(answer, index, len(calls))


class ReverseOrder:
    """Delays the calls of one conversation so that those that run at the same time finish in reverse order."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._answer = -1
        self._running: set[int] = set()
        self._begun: set[int] = set()
        self._one_by_one = False

    def wait(self, place: Place | None) -> None:
        """Return when the call may finish: after the later calls of its answer that run at the same time."""
        if place is None or place.count == 1:
            return
        with self._changed:
            if place.answer != self._answer:
                self._answer, self._running, self._begun = place.answer, set(), set()
            self._running.add(place.index)
            self._begun.add(place.index)
            self._changed.notify_all()
            later = range(place.index + 1, place.count)
            behind = bool(later) and not self._one_by_one and self._is_behind(place, later)
        if behind:
            sleep(_HANDOVER_SECONDS)
        with self._changed:
            self._running.discard(place.index)
            self._changed.notify_all()

    def _is_behind(self, place: Place, later: range) -> bool:
        """Wait for the later calls that run at the same time. Return whether there are any."""
        self._changed.wait_for(lambda: place.index + 1 in self._begun or self._is_over(place), _ARRIVAL_SECONDS)
        if self._is_over(place):
            return False
        if self._running == {place.index} == self._begun:
            self._one_by_one = True
            return False
        self._changed.wait_for(
            lambda: self._is_over(place) or self._running.isdisjoint(later), _FINISH_SECONDS * place.count
        )
        return not self._begun.isdisjoint(later)

    def _is_over(self, place: Place) -> bool:
        return place.answer != self._answer
