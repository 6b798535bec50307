"""Finds the pairs of a recording: response i called tools, and request j carries the calls back with their results.

A pair is told by ids: those that response i issued stand in the calls or results of request j, as they are or as the
ids of the carrying items (Responses `fc_…`). Where ids do not tell (the API issued none, or the client sent its own)
calls of the same name and arguments do, or results of that name, in a conversation that goes on from request i. A
follow-up that leans on the server's state need not carry the calls at all: its results have the ids, or it names the
response.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from harness.apis.compare import likeness as without_pointers
from harness.apis.jsonvalue import canonical
from harness.apis.view import CallView, RequestView, ResponseView, TextView
from harness.auditing.redrive.recording import Recorded
from harness.auditing.redrive.turns import Slice, answered_turns
from harness.contract.model import JSON


@dataclass(frozen=True, slots=True)
class Pair:
    """Response `i` called tools, request `j` carries the calls back; `slice` is where in request `j`."""

    i: Recorded
    j: Recorded
    slice: Slice


class _Likeness(IntEnum):
    """How sure it is that request j answers response i."""

    NONE = 0
    CONVERSATION = 1
    IDS = 2


_Sign: TypeAlias = tuple[str, str]


class _Unanswered:
    """The responses that called tools and are in no pair yet, by the signs that a follow-up can know them by."""

    def __init__(self) -> None:
        self._by_sign: dict[_Sign, dict[int, Recorded]] = {}

    def add(self, exchange: Recorded) -> None:
        for sign in _signs_of_response(exchange):
            self._by_sign.setdefault(sign, {})[exchange.index] = exchange

    def remove(self, exchange: Recorded) -> None:
        for sign in _signs_of_response(exchange):
            self._by_sign[sign].pop(exchange.index, None)

    def known_by(self, signs: Iterable[_Sign]) -> list[Recorded]:
        found: dict[int, Recorded] = {}
        for sign in signs:
            found |= self._by_sign.get(sign, {})
        return list(found.values())


def pairs(exchanges: Sequence[Recorded]) -> list[Pair]:
    """The pairs among the exchanges of one API. A response is in one pair at most, that with the first such request:
    later requests of the conversation repeat it. One that broke off is in none."""
    unanswered = _Unanswered()
    found: list[Pair] = []
    for follow_up in exchanges:
        for number, place in enumerate(reversed(answered_turns(follow_up.request))):
            # an earlier turn of the conversation tells by its ids only: its calls may be like those of another one
            signs = _signs_of_follow_up(follow_up, place) if number == 0 else _ids(place)
            least = _Likeness.CONVERSATION if number == 0 else _Likeness.IDS
            ranked = [(_likeness(one, follow_up, place), one.index, one) for one in unanswered.known_by(signs)]
            likeness, _, earlier = max(ranked, key=lambda entry: entry[:2], default=(_Likeness.NONE, 0, None))
            if earlier is not None and likeness >= least:
                unanswered.remove(earlier)
                found.append(Pair(earlier, follow_up, _with_all_said(place, follow_up.request, earlier.response)))
        if not follow_up.broken:
            unanswered.add(follow_up)
    return found


def _signs_of_response(exchange: Recorded) -> Iterator[_Sign]:
    for call in exchange.response.calls:
        yield from (("id", each) for each in (call.id, call.item_id) if each)
        yield "call", _said(call)
        yield "name", call.name
    if exchange.response.calls:
        yield "response", _field(exchange.response.body, "id")


def _signs_of_follow_up(follow_up: Recorded, place: Slice) -> Iterator[_Sign]:
    yield from _ids(place)
    yield from (("call", _said(call)) for call in place.calls)
    if not place.calls:
        yield from (("name", result.name) for result in place.results if result.name)
        yield "response", _field(follow_up.body, "previous_response_id")


def _ids(place: Slice) -> Iterator[_Sign]:
    yield from (("id", call.id) for call in place.calls if call.id)
    yield from (("id", result.call_id) for result in place.results if result.call_id)


def _said(call: CallView) -> str:
    return canonical([call.name, call.arguments])


def _with_all_said(place: Slice, view: RequestView, response: ResponseView) -> Slice:
    """The slice that ends at the same result, all parts of the response counted to the assistant."""
    slices = answered_turns(view, response)
    end = place.answers[-1].part.pointer
    return next((each for each in slices if each.answers[-1].part.pointer == end), place)


def _likeness(earlier: Recorded, follow_up: Recorded, place: Slice) -> _Likeness:
    """Of two that share a sign, how sure it is that one answers the other."""
    if _has_ids(earlier.response.calls, place):
        return _Likeness.IDS
    if follow_up.request.stateful and not place.calls:
        named = _field(follow_up.body, "previous_response_id")
        return _Likeness.IDS if named and named == _field(earlier.response.body, "id") else _Likeness.NONE
    return _Likeness.CONVERSATION if _goes_on(earlier.request, follow_up.request) else _Likeness.NONE


def _has_ids(issued: Sequence[CallView], place: Slice) -> bool:
    """An id of the response is there: on a call of the same name, since some servers number anew in every turn
    (`call_0`), or on a result whose call is not there."""
    names = {each: call.name for call in issued for each in (call.id, call.item_id) if each}
    carried = {call.id for call in place.calls}
    return any(names.get(call.id or "") == call.name for call in place.calls) or any(
        result.call_id in names for result in place.results if result.call_id not in carried
    )


def _goes_on(earlier: RequestView, later: RequestView) -> bool:
    """The later request has all texts of the earlier one, in their order."""
    texts = iter(_texts(later))
    return all(text in texts for text in _texts(earlier))


def _texts(view: RequestView) -> Iterator[object]:
    for turn in view.turns:
        yield from (without_pointers(part) for part in turn.parts if isinstance(part, TextView) and turn.role == "user")


def _field(body: JSON, name: str) -> str:
    value = body.get(name) if isinstance(body, dict) else None
    return value if isinstance(value, str) else ""
