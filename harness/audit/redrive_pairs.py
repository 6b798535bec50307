"""Response-request pairs in a recording: response i called tools, and request j sends the calls back with their
results.

A pair is identified by ids: the calls or results of request j have ids that response i issued, either for calls or for
their items (`fc_` ids in Responses). If ids are missing or were created by the client, the calls are compared by name
and arguments, or the results by name. Request j must then continue the conversation of request i.

A follow-up that relies on server state may omit the calls. Its results have the ids, or it names the response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, TypeAlias

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.conversion import CanonicalReader
from harness.apis.jsonvalue import as_object, canonical, equal, loads
from harness.apis.view import (
    CallView,
    OpaqueView,
    PartView,
    RequestView,
    ResponseView,
    ResultView,
    SystemView,
    TextView,
    WireError,
)
from harness.cassettes.cassette import Cassette
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """An exchange whose request was accepted.

    `index` is its position in the cassette. `http`, `body` and `request` are the request as recorded, its JSON and its
    neutral view. `answer` and `response` are the response as recorded and its neutral view.
    """

    index: int
    wire: Api
    http: HttpRequest
    body: JSON
    request: RequestView
    response: ResponseView
    answer: HttpResponse

    @property
    def model(self) -> str:
        """The model that the request names."""
        return self.wire.model_of(self.http) or ""

    @property
    def broken(self) -> bool:
        """True if the response is truncated or its connection was lost. An adapter must raise an exception for it."""
        return not self.response.complete or self.answer.delivery.ending != "complete"


def accepted_exchanges(cassette: Cassette) -> dict[str, list[RecordedExchange]]:
    """Return the accepted and readable exchanges by API, in order."""
    found: dict[str, list[RecordedExchange]] = {}
    for index, interaction in enumerate(cassette.interactions):
        exchange = _read(index, interaction.request, interaction.response)
        if exchange is not None:
            found.setdefault(exchange.wire.name, []).append(exchange)
    return found


def _read(index: int, request: HttpRequest, response: HttpResponse | None) -> RecordedExchange | None:
    wire = next((wire for wire in registry.apis() if wire.recognises(request)), None)
    if wire is None or response is None or not 200 <= response.status < 300:
        return None
    try:
        answer = wire.read(response)
        return (
            None
            if answer.error
            else RecordedExchange(index, wire, request, loads(request.body), wire.view(request), answer, response)
        )
    except WireError:
        return None


def reader_for(wire: Api, body: JSON, view: RequestView) -> CanonicalReader:
    """Return the reader that converts a request into canonical values."""
    assert wire.canonical_reader is not None  # noqa: S101 - pairs of others are not driven
    return wire.canonical_reader(body, view)


EntryRole: TypeAlias = Literal["user", "assistant", "system"]


@dataclass(frozen=True, slots=True)
class TurnEntry:
    """A part of the conversation with its role. System text within the conversation is also an entry."""

    role: EntryRole
    part: PartView | SystemView


@dataclass(frozen=True, slots=True)
class TurnSlice:
    """An assistant turn that calls tools (`spoken`), and the entries after it up to its last result (`answers`)."""

    spoken: tuple[TurnEntry, ...]
    answers: tuple[TurnEntry, ...]

    @property
    def calls(self) -> tuple[CallView, ...]:
        """The calls of the turn."""
        return tuple(entry.part for entry in self.spoken if isinstance(entry.part, CallView))

    @property
    def results(self) -> tuple[ResultView, ...]:
        """The results after the turn."""
        return tuple(entry.part for entry in self.answers if isinstance(entry.part, ResultView))


def entries(view: RequestView) -> tuple[TurnEntry, ...]:
    """Return all parts in order, including system text at its position."""
    found: list[TurnEntry] = []
    for number in range(len(view.turns) + 1):
        found += [TurnEntry("system", text) for text in view.system if text.before_turn == number]
        if number < len(view.turns):
            turn = view.turns[number]
            found += [TurnEntry(turn.role, part) for part in turn.parts]
    return tuple(found)


def answered_turns(view: RequestView, response: ResponseView | None = None) -> tuple[TurnSlice, ...]:
    """Return the turns that are followed by results, in order.

    If the server stores the calls, the results form a slice with an empty `spoken`. Items that came from `response`
    belong to the assistant regardless of their role (Responses: output of a server tool).
    """
    whole = entries(view)
    item_ids = {_item_id(part) for part in response.parts} - {""} if response else set[str]()
    spoken = [entry.role == "assistant" or _item_id(entry.part) in item_ids for entry in whole]
    found: list[TurnSlice] = []
    start = 0
    while start < len(whole):
        middle = next((at for at in range(start, len(whole)) if not spoken[at]), len(whole))
        stop = next((at for at in range(middle, len(whole)) if spoken[at]), len(whole))
        results = [at for at in range(middle, stop) if isinstance(whole[at].part, ResultView)]
        if results:
            first = (
                middle if middle > start else results[0]
            )  # without an assistant turn, earlier user text is no answer
            found.append(TurnSlice(whole[start:middle], whole[first : results[-1] + 1]))
        start = stop
    return tuple(found)


def _item_id(part: PartView | SystemView) -> str:
    match part:
        case OpaqueView(raw={"id": str(item_id)}):
            return item_id
        case _:
            return ""


def match_results(calls: Sequence[CallView], results: Sequence[ResultView]) -> list[int | None]:
    """Return the index of each result's call, or `None`.

    A result with an id answers the first open call with that id. A result without one (Gemini 2) answers the first open
    call with its name, or else the first open call.
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


def match_issued_calls(carried: Sequence[CallView], calls: Sequence[CallView]) -> list[int | None]:
    """Return, for each call in the request, the index of the issued call that it repeats. The index is `None` if the
    client invented the call.

    The most reliable criteria come first: id, item id, name and arguments, name, arguments. If the numbers of calls
    differ, a comparison that includes signatures precedes them.
    """
    left = list(range(len(calls)))
    found: list[int | None] = [None] * len(carried)
    for is_same in _MATCH_CRITERIA if len(carried) == len(calls) else (_same_with_state, *_MATCH_CRITERIA):
        for at, call in enumerate(carried):
            place = next((each for each in left if is_same(call, calls[each])), None) if found[at] is None else None
            if place is not None:
                found[at] = place
                left.remove(place)
    return found


def match_answered_calls(place: TurnSlice, calls: Sequence[CallView]) -> list[int | None]:
    """Return the index of the issued call for each result, or `None`.

    A result is matched through its call in the same slice. If the slice lacks that call, the result is matched by the
    issued id or name. Other results without a call in the slice get the remaining calls in order, unless the names
    differ.
    """
    carried = match_issued_calls(place.calls, calls)
    pairing = match_results(place.calls, place.results)
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
    """Compare calls including their signatures, which distinguish equal calls without ids."""
    ids = carried.id in (None, call.id) or call.id is None
    is_same = carried.name == call.name and equal(carried.arguments, call.arguments)
    return ids and is_same and equal(carried.opaque, call.opaque)


_MATCH_CRITERIA: tuple[Callable[[CallView, CallView], bool], ...] = (
    lambda carried, call: call.id is not None and carried.id == call.id,
    lambda carried, call: call.item_id is not None and carried.id == call.item_id,
    lambda carried, call: carried.name == call.name and equal(carried.arguments, call.arguments),
    lambda carried, call: carried.name == call.name,
    lambda carried, call: bool(call.arguments) and equal(carried.arguments, call.arguments),
)


@dataclass(frozen=True, slots=True)
class RedrivePair:
    """Response `i`, which called tools, and request `j`, which sends the calls back in `slice`."""

    i: RecordedExchange
    j: RecordedExchange
    slice: TurnSlice


class _Confidence(IntEnum):
    """Confidence that request j answers response i."""

    NONE = 0
    CONVERSATION = 1
    IDS = 2


_MatchKey: TypeAlias = tuple[str, str]


class _Unanswered:
    """Responses that called tools and have no pair yet, indexed by what a follow-up may contain."""

    def __init__(self) -> None:
        self._by_sign: dict[_MatchKey, dict[int, RecordedExchange]] = {}

    def add(self, exchange: RecordedExchange) -> None:
        for sign in _signs_of_response(exchange):
            self._by_sign.setdefault(sign, {})[exchange.index] = exchange

    def remove(self, exchange: RecordedExchange) -> None:
        for sign in _signs_of_response(exchange):
            self._by_sign[sign].pop(exchange.index, None)

    def known_by(self, signs: Iterable[_MatchKey]) -> list[RecordedExchange]:
        found: dict[int, RecordedExchange] = {}
        for sign in signs:
            found |= self._by_sign.get(sign, {})
        return list(found.values())


def find_pairs(exchanges: Sequence[RecordedExchange]) -> list[RedrivePair]:
    """Return the pairs among the exchanges of one API.

    A response is paired with the first matching request only, because later requests repeat it. A broken response has
    no pair.
    """
    unanswered = _Unanswered()
    found: list[RedrivePair] = []
    for follow_up in exchanges:
        for number, place in enumerate(reversed(answered_turns(follow_up.request))):
            # only ids identify an earlier turn: its calls may equal those of another one
            signs = _signs_of_follow_up(follow_up, place) if number == 0 else _ids(place)
            least = _Confidence.CONVERSATION if number == 0 else _Confidence.IDS
            ranked = [(_likeness(one, follow_up, place), one.index, one) for one in unanswered.known_by(signs)]
            likeness, _, earlier = max(ranked, key=lambda entry: entry[:2], default=(_Confidence.NONE, 0, None))
            if earlier is not None and likeness >= least:
                unanswered.remove(earlier)
                found.append(
                    RedrivePair(earlier, follow_up, _with_whole_response(place, follow_up.request, earlier.response))
                )
        if not follow_up.broken:
            unanswered.add(follow_up)
    return found


def _signs_of_response(exchange: RecordedExchange) -> Iterator[_MatchKey]:
    for call in exchange.response.calls:
        yield from (("id", each) for each in (call.id, call.item_id) if each)
        yield "call", _call_key(call)
        yield "name", call.name
    if exchange.response.calls:
        yield "response", _field(exchange.response.body, "id")


def _signs_of_follow_up(follow_up: RecordedExchange, place: TurnSlice) -> Iterator[_MatchKey]:
    yield from _ids(place)
    yield from (("call", _call_key(call)) for call in place.calls)
    if not place.calls:
        yield from (("name", result.name) for result in place.results if result.name)
        yield "response", _field(follow_up.body, "previous_response_id")


def _ids(place: TurnSlice) -> Iterator[_MatchKey]:
    yield from (("id", call.id) for call in place.calls if call.id)
    yield from (("id", result.call_id) for result in place.results if result.call_id)


def _call_key(call: CallView) -> str:
    return canonical([call.name, call.arguments])


def _with_whole_response(place: TurnSlice, view: RequestView, response: ResponseView) -> TurnSlice:
    """Return the slice that ends with the same result as `place`, but assigns all parts of the response to the
    assistant.
    """
    slices = answered_turns(view, response)
    end = place.answers[-1].part.pointer
    return next((each for each in slices if each.answers[-1].part.pointer == end), place)


def _likeness(earlier: RecordedExchange, follow_up: RecordedExchange, place: TurnSlice) -> _Confidence:
    """Return how certain it is that one exchange follows the other."""
    if _has_ids(earlier.response.calls, place):
        return _Confidence.IDS
    if follow_up.request.stateful and not place.calls:
        named = _field(follow_up.body, "previous_response_id")
        return _Confidence.IDS if named and named == _field(earlier.response.body, "id") else _Confidence.NONE
    return _Confidence.CONVERSATION if _continues(earlier.request, follow_up.request) else _Confidence.NONE


def _has_ids(issued: Sequence[CallView], place: TurnSlice) -> bool:
    """Return whether a slice contains an id of the response.

    Some servers reuse ids in every turn (`call_0`). A call in the slice must therefore also have the same name.
    """
    names = {each: call.name for call in issued for each in (call.id, call.item_id) if each}
    carried = {call.id for call in place.calls}
    return any(names.get(call.id or "") == call.name for call in place.calls) or any(
        result.call_id in names for result in place.results if result.call_id not in carried
    )


def _continues(earlier: RequestView, later: RequestView) -> bool:
    """Return whether the later request contains all user texts of the earlier one, in order."""
    texts = iter(_texts(later))
    return all(text in texts for text in _texts(earlier))


def _texts(view: RequestView) -> Iterator[str]:
    for turn in view.turns:
        texts = [part for part in turn.parts if isinstance(part, TextView) and turn.role == "user"]
        yield from (canonical([part.text, part.opaque]) for part in texts)


def _field(body: JSON, name: str) -> str:
    value = as_object(body).get(name)
    return value if isinstance(value, str) else ""
