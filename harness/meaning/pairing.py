"""Which result of a request answers which of its calls."""

from __future__ import annotations

from dataclasses import dataclass

from harness.apis.view import CallView, RequestView, ResultView


@dataclass(frozen=True, slots=True)
class Pairing:
    """Calls with their results, as a request has them.

    `results` holds the results of each call (more than one: a duplicate), `orphans` those that answer no call before
    them. `call.id` may repeat over a conversation: a result answers the first open call of its id.
    """

    calls: tuple[CallView, ...]
    results: tuple[tuple[ResultView, ...], ...]
    orphans: tuple[ResultView, ...]

    def of(self, call: CallView) -> tuple[ResultView, ...]:
        """The results of one call."""
        return self.results[next(i for i, c in enumerate(self.calls) if c is call)]


def paired(view: RequestView) -> Pairing:
    """Pair the results of a request with its calls: by id where the wire has ids, else by name in order."""
    calls: list[CallView] = []
    results: list[list[ResultView]] = []
    orphans: list[ResultView] = []
    for turn in view.turns:
        for part in turn.parts:
            if isinstance(part, CallView):
                calls.append(part)
                results.append([])
            elif isinstance(part, ResultView):
                position = _call_of(part, calls, results)
                (orphans if position is None else results[position]).append(part)
    return Pairing(tuple(calls), tuple(map(tuple, results)), tuple(orphans))


def _call_of(result: ResultView, calls: list[CallView], results: list[list[ResultView]]) -> int | None:
    by_id = result.call_id is not None
    same = [
        position
        for position, call in enumerate(calls)
        if (call.id == result.call_id if by_id else call.name == result.name)
    ]
    unanswered = [position for position in same if not results[position]]
    if unanswered:
        return unanswered[0]
    return same[-1] if same and by_id else None
