"""Which result answers which call, and which recorded call is which issued one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.apis.jsonvalue import equal
from harness.apis.view import CallView, ResultView
from harness.auditing.redrive.turns import Slice


def paired(calls: Sequence[CallView], results: Sequence[ResultView]) -> list[int | None]:
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

    The surest signs first: its id, its item's id, its name and arguments, its name, its arguments.
    """
    left = list(range(len(calls)))
    found: list[int | None] = [None] * len(carried)
    for is_same in _SIGNS if len(carried) == len(calls) else (_same_with_state, *_SIGNS):
        for at, call in enumerate(carried):
            place = next((each for each in left if is_same(call, calls[each])), None) if found[at] is None else None
            if place is not None:
                found[at] = place
                left.remove(place)
    return found


def origins(place: Slice, calls: Sequence[CallView]) -> list[int | None]:
    """For each result of the slice the position of the issued call that it answers, `None` for one that answers a call
    of the client's own, or none.

    The calls that the slice carries tell it; of a call that it does not carry the issued id does, or the name. What is
    left then, under ids that nobody knows, answers what is left, in order.
    """
    carried = issued(place.calls, calls)
    pairing = paired(place.calls, place.results)
    found = [None if at is None else carried[at] for at in pairing]
    left = [at for at in range(len(calls)) if at not in found]
    loose = [number for number, at in enumerate(pairing) if at is None]
    for fits in (_names, _may_answer):
        for number in loose:
            origin = next((at for at in left if fits(place.results[number], calls[at])), None)
            if origin is not None and found[number] is None:
                found[number] = origin
                left.remove(origin)
    return found


def _may_answer(result: ResultView, call: CallView) -> bool:
    return result.name in (None, call.name)


def _names(result: ResultView, call: CallView) -> bool:
    if result.call_id is None:
        return result.name == call.name
    return result.call_id in (call.id, call.item_id)


def _same_with_state(carried: CallView, call: CallView) -> bool:
    """Of calls without ids that ask the same, and of which some were left out, the signature tells which are there."""
    ids = carried.id in (None, call.id) or call.id is None
    said = carried.name == call.name and equal(carried.arguments, call.arguments)
    return ids and said and equal(carried.opaque, call.opaque)


_SIGNS: tuple[Callable[[CallView, CallView], bool], ...] = (
    lambda carried, call: call.id is not None and carried.id == call.id,
    lambda carried, call: call.item_id is not None and carried.id == call.item_id,
    lambda carried, call: carried.name == call.name and equal(carried.arguments, call.arguments),
    lambda carried, call: carried.name == call.name,
    lambda carried, call: bool(call.arguments) and equal(carried.arguments, call.arguments),
)
