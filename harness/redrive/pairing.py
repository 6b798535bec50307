"""Which result answers which call, and which recorded call is which issued one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.wire.jsonvalue import equal
from harness.wire.view import CallView, ResultView


def answered(calls: Sequence[CallView], results: Sequence[ResultView]) -> list[int | None]:
    """For each result the position of its call, `None` if there is none.

    A result with an id answers the first open call of that id and no other. One without (Gemini 2) answers the first
    open call of its name, or else the first open one.
    """
    open_ = list(range(len(calls)))
    found: list[int | None] = []
    for result in results:
        if result.call_id is not None:
            fitting = [at for at in open_ if calls[at].id == result.call_id]
        else:
            fitting = [at for at in open_ if calls[at].name == result.name] or open_
        place = fitting[0] if fitting else None
        found.append(place)
        if place is not None:
            open_.remove(place)
    return found


def issued(carried: Sequence[CallView], calls: Sequence[CallView]) -> list[int | None]:
    """For each carried call the position of the issued one that it was, `None` for one that the client made.

    The surest signs first: its id, its item's id, its name and arguments, its name.
    """
    left = list(range(len(calls)))
    found: list[int | None] = [None] * len(carried)
    for is_same in _SIGNS:
        for at, call in enumerate(carried):
            place = next((each for each in left if is_same(call, calls[each])), None) if found[at] is None else None
            if place is not None:
                found[at] = place
                left.remove(place)
    return found


_SIGNS: tuple[Callable[[CallView, CallView], bool], ...] = (
    lambda carried, call: call.id is not None and carried.id == call.id,
    lambda carried, call: call.item_id is not None and carried.id == call.item_id,
    lambda carried, call: carried.name == call.name and equal(carried.arguments, call.arguments),
    lambda carried, call: carried.name == call.name,
)
