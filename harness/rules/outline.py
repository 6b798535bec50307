"""What two tellings of an answer are compared by, and all in which they differ, in words.

Compared is what the caller is told. Pieces of a text that stand together are one text; an id that no API issued is
whatever the adapter makes up, and may be another one each time: of such ids only which calls share one counts. A count
or a model that only one of the tellings has is not a wrong one. A part without a type may be kept in a form of the
adapter's own, with ids and times of its own: of it counts which values of the API's part it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from difflib import SequenceMatcher
from typing import TypeAlias

from harness.apis.jsonvalue import canonical, equal, every, join, loads
from harness.apis.view import WireError
from harness.contract.model import (
    JSON,
    ChatResponse,
    File,
    Finish,
    Image,
    Opaque,
    Part,
    Refusal,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    Usage,
)
from harness.results import Kind
from harness.rules.announced import announced

ORDER = "the order of the events"
MODEL = "the model"
"""The place of a contrast between the models that have answered."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """One thing in which two tellings differ, and what each has there (`None` also where it has nothing).

    `place` names it as the object of a sentence. What nobody loses anything by is a `convention`: words and fields that
    are kept beside the answer, and in which order the pieces came.
    """

    place: str
    one: JSON
    other: JSON
    kind: Kind = Kind.LOSS


@dataclass(frozen=True, slots=True)
class Issued:
    """What an API has issued in a playing: the ids of its calls, and the values in its parts without a type here."""

    ids: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()


def scalars(value: JSON) -> Iterator[str]:
    """The strings, numbers and truth values in a JSON value, each as a text. A string that holds JSON is that too."""
    for each in every(value):
        if isinstance(each, str):
            yield each
            inner = _value(each) if each.lstrip()[:1] in ("{", "[") else each
            yield from () if isinstance(inner, str) else scalars(inner)
        elif isinstance(each, bool | int | float):
            yield canonical(each)


Naming: TypeAlias = Callable[[str], str]
"""What an id is compared as."""


def naming(issued: frozenset[str]) -> Naming:
    """Ids that an API issued are themselves; others are counted, so that the same one is the same again."""
    made: dict[str, str] = {}
    return lambda call_id: call_id if call_id in issued else made.setdefault(call_id, f"made up ({len(made) + 1})")


def of_responses(
    one: ChatResponse, other: ChatResponse, issued: Issued, *, calls_apart: bool = False
) -> Iterator[Contrast]:
    """In what two responses differ. With `calls_apart` it does not count where calls stand among the texts: an API that
    has a field for either says nothing of it."""
    if calls_apart:
        one, other = _calls_last(one), _calls_last(other)
    left, right = (_pieces(response.message.parts, naming(issued.ids)) for response in (one, other))
    parted = [*_of_pieces(left, right, issued)]
    yield from parted
    yield from _at("the stop reason", one.stop_reason.value, other.stop_reason.value)
    for field in fields(Usage):
        counts: tuple[int | None, int | None] = (getattr(one.usage, field.name), getattr(other.usage, field.name))
        yield from _at(f"the count {field.name}", *counts, _OURS if None in counts else Kind.LOSS)
    yield from _at(MODEL, one.model, other.model, Kind.LOSS if one.model and other.model else _OURS)
    yield from _at("the API's own word for the stop reason", one.raw_stop_reason, other.raw_stop_reason, _OURS)
    if not parted:  # a part that is not there keeps nothing
        yield from _at("what is kept for the API beside the parts", _state(one), _state(other), _OURS)


def _calls_last(response: ChatResponse) -> ChatResponse:
    parts = sorted(response.message.parts, key=lambda part: isinstance(part, ToolCall))
    return replace(response, message=replace(response.message, parts=tuple(parts)))


_OURS = Kind.CONVENTION
"""Of what is kept beside an answer, what has to go back to the API is found missing where it does not."""


def of_events(one: Iterable[StreamEvent], other: Iterable[StreamEvent], issued: Issued) -> Iterator[Contrast]:
    """In what the events of two streams differ. How text and arguments are divided into pieces counts for nothing."""
    left, right = tuple(one), tuple(other)
    found = [*_of_told(left, right, issued)]
    yield from found
    if not found:
        before: list[JSON] = [*_order(left)]
        behind: list[JSON] = [*_order(right)]
        yield from _at(ORDER, before, behind, _OURS)


def _of_told(left: tuple[StreamEvent, ...], right: tuple[StreamEvent, ...], issued: Issued) -> Iterator[Contrast]:
    for what, kind in (("text", TextDelta), ("thinking", ThinkingDelta)):
        yield from _at(f"the {what} of the events", _said(left, kind), _said(right, kind))
    before, behind = (_told_calls(events, naming(issued.ids)) for events in (left, right))
    yield from _of_pieces(before, behind, issued, " of the events")
    yield from _at("whether the events finish", _finish(left), _finish(right))


def _said(events: Iterable[StreamEvent], kind: type[TextDelta | ThinkingDelta]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def _finish(events: Iterable[StreamEvent]) -> bool:
    return any(isinstance(event, Finish) for event in events)


def _told_calls(events: tuple[StreamEvent, ...], name: Naming) -> list[_Piece]:
    pieces: list[_Piece] = []
    for call in announced(events):
        start: dict[str, JSON] = {"id": name(call.start.id), "name": call.start.name} if call.start else {}
        pieces.append(_Piece("call", {**start, "arguments": _value(call.text), "ended": call.ended}, call.name))
    return pieces


def _order(events: Iterable[StreamEvent]) -> Iterator[str]:
    before = ""
    for event in events:
        kind = type(event).__name__
        here = f"{kind} {getattr(event, 'index', '')}".strip()
        if here != before and getattr(event, "text", kind):  # an empty piece is none
            yield here
            before = here


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of an answer, or a text that several parts make: its kind as a noun, its value, and what it is about."""

    kind: str
    value: JSON
    about: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind} {canonical(self.value)}"


def _of_pieces(one: Sequence[_Piece], other: Sequence[_Piece], issued: Issued, of: str = "") -> Iterator[Contrast]:
    before, behind = ([each.key for each in pieces] for pieces in (one, other))
    if before == behind:
        return
    matcher = SequenceMatcher(None, before, behind, autojunk=False)
    for same, begin, end, start, stop in matcher.get_opcodes():
        if same == "equal":
            continue
        gone, came = [*one[begin:end]], [*other[start:stop]]
        while gone and came and gone[0].kind == came[0].kind:
            left, right = gone.pop(0), came.pop(0)
            yield from _of_piece(_named(left, one, of), left, right, issued)
        yield from (Contrast(_named(each, one, of), each.value, None) for each in gone)
        yield from (Contrast(_named(each, other, of), None, each.value) for each in came)


def _of_piece(name: str, left: _Piece, right: _Piece, issued: Issued) -> Iterator[Contrast]:
    one, other = left.value, right.value
    if left.kind == _UNTYPED:
        yield Contrast(name, one, other, _OURS if _hold_the_same(one, other, issued) else Kind.LOSS)
    elif left.kind != "call" or not (isinstance(one, dict) and isinstance(other, dict)):
        yield Contrast(name, one, other)
    else:
        yield from _of_call(name, one, other)


def _of_call(name: str, one: dict[str, JSON], other: dict[str, JSON]) -> Iterator[Contrast]:
    for key in one | other:
        if key != "arguments":
            yield from _at(f"{_CALLED[key]} of {name}", one.get(key), other.get(key))
            continue
        for pointer, before, behind in _partings(one.get(key), other.get(key), ""):
            place = f"the arguments of {name}" + (f" at {pointer}" if pointer else "")
            yield Contrast(place, before, behind)


_UNTYPED = "part without a type of its own"


def _hold_the_same(one: JSON, other: JSON, issued: Issued) -> bool:
    """Two tellings of a part hold the same of what the API has issued, and the rest is the adapter's own."""
    held, again = (issued.values.intersection(scalars(value)) for value in (one, other))
    return bool(held) and held == again


_CALLED = {"id": "the id", "name": "the name", "ended": "the end"}


def _named(piece: _Piece, among: Sequence[_Piece], of: str) -> str:
    alike = [each for each in among if each.kind == piece.kind]
    number = f" {next(i for i, each in enumerate(alike, 1) if each is piece)}" if len(alike) > 1 else ""
    return f"the {piece.kind}{number}{of}" + (f" ({piece.about})" if piece.about else "")


def _at(place: str, one: JSON, other: JSON, kind: Kind = Kind.LOSS) -> Iterator[Contrast]:
    if not equal(one, other):
        yield Contrast(place, one, other, kind)


def _partings(one: JSON, other: JSON, pointer: str) -> Iterator[tuple[str, JSON, JSON]]:
    """Where two values part, by pointer."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one | other:
            yield from _partings(one.get(key), other.get(key), join(pointer, key))
    elif not equal(one, other):
        yield pointer, one, other


def _pieces(parts: Sequence[Part], name: Naming) -> list[_Piece]:
    """The parts, of which texts that stand together are one, and empty texts none."""
    pieces: list[_Piece] = []
    for part in parts:
        piece = _piece(part, name)
        if not isinstance(part, Text | Thinking | Refusal):
            pieces.append(piece)
        elif not part.text:
            continue
        elif pieces and pieces[-1].kind == piece.kind:
            pieces[-1] = _Piece(piece.kind, f"{pieces[-1].value}{part.text}")
        else:
            pieces.append(piece)
    return pieces


def _piece(part: Part, name: Naming) -> _Piece:
    match part:
        case Text(text):
            return _Piece("text", text)
        case Thinking(text):
            return _Piece("thinking", text)
        case Refusal(text):
            return _Piece("refusal", text)
        case ToolCall():
            return _Piece("call", {"id": name(part.id), "name": part.name, "arguments": {**part.arguments}}, part.name)
        case Image() | File():
            data = None if part.data is None else part.data.hex()
            return _Piece("medium", {"media_type": part.media_type, "data": data, "uri": part.uri})
        case Opaque():
            return _Piece(_UNTYPED, part.raw)
        case ToolResult():
            return _Piece("result", part.text)


def _state(response: ChatResponse) -> list[JSON]:
    """The wire fields that the parts keep, in their order. On which of the pieces of a text its signature sits is no
    part of its meaning: Gemini's comes on an empty one behind a streamed text (gemini-chunks)."""
    parts = (part for part in response.message.parts if not isinstance(part, Opaque))
    return [{**part.provider_metadata} for part in parts if part.provider_metadata]


def _value(text: str) -> JSON:
    try:
        return loads(text or "{}")
    except WireError:
        return text
