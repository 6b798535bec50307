"""Which result of a request answers which of its calls."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.apis.view import CallView, RequestView, ResultView, TurnView

_Key: TypeAlias = tuple[str, str | None]
"""What a result names its call by, and that name."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Calls with their results, as a request has them.

    `results` holds the results of each call (more than one: a duplicate), `orphans` those that answer no call before
    them. `call.id` may repeat over a conversation: a result answers the first open call of its id.
    """

    calls: tuple[CallView, ...]
    results: tuple[tuple[ResultView, ...], ...]
    orphans: tuple[ResultView, ...]
    _places: Mapping[int, int] = field(compare=False, repr=False)

    def of(self, call: CallView) -> tuple[ResultView, ...]:
        """The results of one call."""
        return self.results[self._places[id(call)]]


class Ledger:
    """Pairs results with their calls while turns come: by id where the wire has ids, else by name in order."""

    def __init__(self) -> None:
        self._calls: list[CallView] = []
        self._results: list[tuple[ResultView, ...]] = []
        self._orphans: list[ResultView] = []
        self._open: defaultdict[_Key, deque[int]] = defaultdict(deque)
        self._latest: dict[_Key, int] = {}
        self._places: dict[int, int] = {}

    def add(self, turns: Iterable[TurnView]) -> None:
        """Go on with these turns."""
        for turn in turns:
            for part in turn.parts:
                if isinstance(part, CallView):
                    self._call(part)
                elif isinstance(part, ResultView):
                    self._result(part)

    def pairing(self) -> Pairing:
        """What has come so far."""
        return Pairing(tuple(self._calls), tuple(self._results), tuple(self._orphans), self._places)

    def _call(self, call: CallView) -> None:
        place = self._places[id(call)] = len(self._calls)
        for key in (("id", call.id), ("name", call.name)):
            self._open[key].append(place)
            self._latest[key] = place
        self._calls.append(call)
        self._results.append(())

    def _result(self, result: ResultView) -> None:
        key = ("name", result.name) if result.call_id is None else ("id", result.call_id)
        waiting = self._open[key]
        while waiting and self._results[waiting[0]]:
            waiting.popleft()
        again = self._latest.get(key) if result.call_id is not None else None
        place = waiting[0] if waiting else again
        if place is None:
            self._orphans.append(result)
        else:
            self._results[place] = (*self._results[place], result)


def paired(view: RequestView) -> Pairing:
    """The results of one request with its calls."""
    ledger = Ledger()
    ledger.add(view.turns)
    return ledger.pairing()
