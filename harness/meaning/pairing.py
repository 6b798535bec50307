"""Which result of a request answers which of its calls."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.apis.view import CallView, RequestView, ResultView

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


def paired(view: RequestView) -> Pairing:
    """Pair the results of a request with its calls: by id where the wire has ids, else by name in order."""
    calls: list[CallView] = []
    results: list[list[ResultView]] = []
    orphans: list[ResultView] = []
    open_: defaultdict[_Key, deque[int]] = defaultdict(deque)
    latest: dict[_Key, int] = {}
    for turn in view.turns:
        for part in turn.parts:
            if isinstance(part, CallView):
                for key in (("id", part.id), ("name", part.name)):
                    open_[key].append(len(calls))
                    latest[key] = len(calls)
                calls.append(part)
                results.append([])
            elif isinstance(part, ResultView):
                key = ("name", part.name) if part.call_id is None else ("id", part.call_id)
                while open_[key] and results[open_[key][0]]:
                    open_[key].popleft()
                again = latest.get(key) if part.call_id is not None else None
                position = open_[key][0] if open_[key] else again
                (orphans if position is None else results[position]).append(part)
    places = {id(call): place for place, call in enumerate(calls)}
    return Pairing(tuple(calls), tuple(map(tuple, results)), tuple(orphans), places)
