"""Retellings: a streamed answer is the same as the whole one, however the network cuts it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from harness.apis.api import Api
from harness.apis.traits import Framing
from harness.apis.view import OpaqueView, ResponseView
from harness.contract.model import JSON, ChatResponse, Refusal
from harness.results import Chat, Kind, ReplayVariant
from harness.rules.evidence import Evidence
from harness.rules.failures import A_DATE_AGO, CUT_ERRORS, same_wait
from harness.rules.outline import MODEL, ORDER, Contrast, Issued, of_events, of_responses, scalars
from harness.rules.reading import Reading
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject
from harness.tape.rechunk import BYTE_ORDER_MARK, COMMENTS


def _issued(evidence: Evidence) -> Issued:
    """What the API has issued: what else stands for a call, or in a part, is the adapter's own, and may be random."""
    views = [reading.response for reading in evidence.readings if reading.response is not None]
    raws = [part.raw for view in views for part in view.parts if isinstance(part, OpaqueView)]
    ids = frozenset(call.id for view in views for call in view.calls if call.id)
    return Issued(ids, frozenset(value for raw in raws for value in scalars(raw)))


def _responses(evidence: Evidence, one: ChatResponse, other: ChatResponse) -> Iterator[Contrast]:
    """In what two responses differ. To hand on the model that was asked for, where another one has answered, is an
    adapter's own affair (response-model)."""
    asked = evidence.transcript.model
    for each in of_responses(one, other, _issued(evidence), calls_apart=evidence.api.traits.calls_apart):
        if each.place == MODEL and asked in (each.one, each.other) and not _answered(evidence, asked):
            yield replace(each, kind=Kind.CONVENTION)
        else:
            yield each


def _answered(evidence: Evidence, model: str) -> bool:
    return any(reading.response is not None and reading.response.model == model for reading in evidence.readings)


def _as_whole(evidence: Evidence, chat: Chat, whole: Chat) -> list[Contrast]:
    """In what a streamed answer differs from the whole one."""
    if chat.response is None or whole.response is None:
        return [Contrast("whether it fails", _error(whole), None)]
    return [*_responses(evidence, whole.response, chat.response)]


def is_same(evidence: Evidence, whole: Sequence[Chat]) -> bool:
    """Whether the streamed answers of a cell have come to what these whole ones have."""
    chats = evidence.transcript.chats
    return len(chats) == len(whole) and not any(
        chat.response is not None and _as_whole(evidence, chat, other) for chat, other in zip(chats, whole, strict=True)
    )


def _equals_whole(evidence: Evidence) -> Iterator[Flaw]:
    answered = list(takewhile(lambda chat: chat.response is not None, evidence.transcript.chats))
    for retelling in evidence.transcript.retellings:
        if retelling.variant != "whole":
            continue
        for index, (chat, whole) in enumerate(zip(answered, retelling.chats, strict=False)):
            found = _as_whole(evidence, chat, whole)
            mistaken = [each for each in found if _is_read_by_the_stream_alone(evidence, index, whole, each.place)]
            yield from _different(evidence, index, retelling.way, [each for each in found if each not in mistaken])
            way = f"{retelling.way}, which is not read as the wire says"
            for flaw in _different(evidence, index, way, mistaken):
                yield replace(flaw, actual=flaw.expected, expected=flaw.actual)


def _is_read_by_the_stream_alone(evidence: Evidence, index: int, whole: Chat, place: str) -> bool:
    """Check that a stream came to what the wire says at a place, and the body that was made of it did not."""
    chat, reading = evidence.transcript.chats[index], evidence.answer(index)
    if chat.response is None or reading is None or reading.answer is None:
        return False
    said = _at_place(place, chat.response, reading.answer)
    return said is not None and said[0] == said[1] and _told_at(place, whole, reading.answer) != said[1]


def _told_at(place: str, chat: Chat, wire: ResponseView) -> object:
    told = _at_place(place, chat.response, wire) if chat.response is not None else None
    return None if told is None else told[0]


def _at_place(place: str, response: ChatResponse, wire: ResponseView) -> tuple[object, object] | None:
    """The values of a response and of the wire at a place; nothing where the wire has no such place."""
    refusals = "".join(part.text for part in response.message.parts if isinstance(part, Refusal))
    whole = [call for call in wire.calls if call.malformed is None]
    has_ids = all(call.id for call in whole)
    calls = [(call.id if has_ids else None, call.name, dict(call.arguments)) for call in response.tool_calls]
    issued = [(call.id if has_ids else None, call.name, call.arguments) for call in whole]
    match place.split():
        case ["the", "text", *_]:
            return response.text, wire.text
        case ["the", "refusal", *_]:
            return refusals, wire.refusal
        case ["the", "stop", "reason"]:
            return response.stop_reason, wire.stop_reason
        case ["the", "count", name]:
            return getattr(response.usage, name), getattr(wire.usage, name)
        case ["the", "model"]:
            return response.model, wire.model
        case ["whether", "it", "fails"]:
            return (response.text, refusals, calls), (wire.text, wire.refusal, issued)
        case _ if "call" in place.split():
            return calls, issued
        case _:
            return None


def _recut(evidence: Evidence) -> Iterator[Flaw]:
    """The first way that makes a difference; of others there may be many, and they say no more. One that an official
    SDK cannot read either counts only where there is no other."""
    recuts = [retelling for retelling in evidence.transcript.retellings if retelling.variant == "stream"]
    ways = sorted(recuts, key=lambda each: _is_disputed(evidence, each))
    found = [(each, index, told) for each in ways for index, told in _first_difference(evidence, each)]
    if found:
        first, index, told = found[0]
        count = f", as {len(found)} of {len(recuts)} ways do" if len(recuts) > 1 else ""
        kind = Kind.CONVENTION if _is_disputed(evidence, first) else None
        yield from _different(evidence, index, f"in another way ({first.way}){count}", told, kind)


def _is_disputed(evidence: Evidence, retelling: ReplayVariant) -> bool:
    """A way that an official SDK cannot read either, or one that departs from what the API documents."""
    shape = evidence.api.stream_shapes.get(retelling.shape)
    return is_strange(evidence, retelling.way) or (shape is not None and shape.departs)


_FRAMINGS: Mapping[Framing, str] = {"byte-order-mark": BYTE_ORDER_MARK, "comments": COMMENTS}
"""By what a way is recognised to have them."""


def is_strange(evidence: Evidence, way: str) -> bool:
    """A way of telling a stream that an official SDK of the API cannot read either."""
    return is_unread(evidence.api, way)


def is_unread(api: Api, way: str) -> bool:
    """Whether a way of telling a stream has a framing that the official SDK of an API cannot read."""
    return any(_FRAMINGS[framing] in way for framing in api.traits.unread_framings)


def _first_difference(evidence: Evidence, retelling: ReplayVariant) -> Iterator[tuple[int, list[Contrast]]]:
    """The first chat that a retelling makes another of, and in what they differ."""
    issued = _issued(evidence)
    for index, (chat, other) in enumerate(zip(evidence.transcript.chats, retelling.chats, strict=False)):
        exchanges = evidence.exchanges(index)
        broken = bool(exchanges) and _is_broken(exchanges[-1])
        found = [*_as_failed(chat, other, broken=broken)]
        if not found and not broken:
            differences = of_events(chat.events, other.events, issued)
            found += [each for each in differences if not retelling.shape or each.place != ORDER]
        if chat.response is not None and other.response is not None:
            found += _responses(evidence, chat.response, other.response)
        if found:
            yield index, found
            return


def _as_failed(chat: Chat, recut: Chat, *, broken: bool) -> Iterator[Contrast]:
    """In what the errors of two chats differ. Of a connection that breaks either error can be seen first."""
    if not (broken and {chat.error, recut.error} <= CUT_ERRORS):
        if chat.error != recut.error:
            yield Contrast("the error", _error(chat), _error(recut))
            return
        if chat.status != recut.status:
            yield Contrast("the status of the error", chat.status, recut.status)
    if not same_wait(chat.retry_after, recut.retry_after, seconds=A_DATE_AGO):
        yield Contrast("the time to wait", chat.retry_after, recut.retry_after)


def _error(chat: Chat) -> str | None:
    """The error of a chat by name and text."""
    return f"{chat.error}: {chat.error_text}" if chat.error and chat.error_text else chat.error


def _is_broken(reading: Reading) -> bool:
    response = reading.exchange.response
    return response is not None and response.delivery.ending != "complete"


def _different(
    evidence: Evidence, index: int, way: str, found: Sequence[Contrast], kind: Kind | None = None
) -> Iterator[Flaw]:
    """All in which a chat comes out differently, what is lost apart from what is a custom of ours."""
    exchanges = evidence.exchanges(index)
    for each in Kind:
        told = [contrast for contrast in found if contrast.kind is each]
        if told:
            yield Flaw(
                f"chat {index} comes out differently when its stream is told {way}. It differs in "
                f"{_and(_first_places(told))}",
                exchanges[-1].index if exchanges else None,
                "" if exchanges else None,
                _by_place([(contrast.place, contrast.other) for contrast in told]),
                _by_place([(contrast.place, contrast.one) for contrast in told]),
                kind=kind or each,
                case=_NAMES.sub("", told[0].place),
            )


def _first_places(contrasts: Sequence[Contrast]) -> list[str]:
    places = [contrast.place for contrast in contrasts]
    return places if len(places) <= 4 else [*places[:3], f"{len(places) - 3} more places"]


_NAMES = re.compile(r" \([^()]*\)| at /\S+| \d+")
"""What of a place is of one call: its name, a place in its arguments, its number."""


def _and(places: Sequence[str]) -> str:
    *others, last = places
    return f"{', '.join(others)} and {last}" if others else last


def _by_place(values: Sequence[tuple[str, JSON]]) -> JSON:
    """The only value, or each by its place."""
    return values[0][1] if len(values) == 1 else dict(values)


RULES = (
    Rule(
        "stream-equals-whole",
        Subject.STREAMING,
        "A streamed answer is the answer that the same body gives whole.",
        "harness.contract.model: Finish",
        _equals_whole,
        kind=Kind.LOSS,
        because="one of the two tellings of an answer is wrong; what is kept beside it is a convention",
        remedy="collect every text, call, count and the stop reason of a stream, as they are in the whole answer",
    ),
    Rule(
        "stream-recut",
        Subject.STREAMING,
        "Where the network cuts a stream makes no difference.",
        "harness.results: Retelling",
        _recut,
        kind=Kind.LOSS,
        because="what the caller gets depends on the network; a spelling that official SDKs break on is a convention",
        remedy="collect bytes until an event is complete: a piece may end anywhere, also inside a character",
    ),
)
