"""Differences between two decoded answers, in words.

Only what the caller receives is compared. Adjacent fragments of a text count as one text. Generated ids may differ, but
calls that share an id in one answer must share an id in the other. A token count or a model name that only one answer
has is not a difference. In parts without a type, only the values that the API issued are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from difflib import SequenceMatcher
from typing import TypeAlias

from harness.apis.jsonvalue import canonical, equal, join, loads, walk
from harness.apis.view import WireError
from harness.model.messages import (
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
from harness.rules.streaming import calls_from_events

ORDER = "the order of the events"
MODEL = "the model"


@dataclass(frozen=True, slots=True)
class ResponseDifference:
    """A difference between two answers. It holds the value in each answer, or `None` where the value is absent.

    `place` is worded as the object of a sentence. The kind is `convention` if no information is lost, as with provider
    fields or the order of fragments.
    """

    place: str
    one: JSON
    other: JSON
    kind: Kind = Kind.LOSS


@dataclass(frozen=True, slots=True)
class IssuedValues:
    """The call ids that an API issued, and the values in its opaque parts."""

    ids: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()


def scalars(value: JSON) -> Iterator[str]:
    """Yield the scalars in a JSON value as texts, including those in strings that contain JSON."""
    for each in walk(value):
        if isinstance(each, str):
            yield each
            inner = _parse_json(each) if each.lstrip()[:1] in ("{", "[") else each
            yield from () if isinstance(inner, str) else scalars(inner)
        elif isinstance(each, bool | int | float):
            yield canonical(each)


IdNaming: TypeAlias = Callable[[str], str]


def id_naming(issued: frozenset[str]) -> IdNaming:
    """Return a function that keeps issued ids and replaces other ids by numbers."""
    made: dict[str, str] = {}
    return lambda call_id: call_id if call_id in issued else made.setdefault(call_id, f"made up ({len(made) + 1})")


def response_differences(
    one: ChatResponse, other: ChatResponse, issued: IssuedValues, *, calls_apart: bool = False
) -> Iterator[ResponseDifference]:
    """Yield the differences between two responses. With `calls_apart`, the order between calls and texts is ignored."""
    if calls_apart:
        one, other = _calls_last(one), _calls_last(other)
    left, right = (_pieces(response.message.parts, id_naming(issued.ids)) for response in (one, other))
    parted = [*_sequence_differences(left, right, issued)]
    yield from parted
    yield from _difference_at("the stop reason", one.stop_reason.value, other.stop_reason.value)
    for field in fields(Usage):
        counts: tuple[int | None, int | None] = (getattr(one.usage, field.name), getattr(other.usage, field.name))
        yield from _difference_at(f"the count {field.name}", *counts, _CONVENTION if None in counts else Kind.LOSS)
    yield from _difference_at(MODEL, one.model, other.model, Kind.LOSS if one.model and other.model else _CONVENTION)
    yield from _difference_at("the API's own stop reason", one.raw_stop_reason, other.raw_stop_reason, _CONVENTION)
    if not parted:  # an absent part contains no values
        yield from _difference_at(
            "the provider metadata of the message", _provider_fields(one), _provider_fields(other), _CONVENTION
        )


def _calls_last(response: ChatResponse) -> ChatResponse:
    parts = sorted(response.message.parts, key=lambda part: isinstance(part, ToolCall))
    return replace(response, message=replace(response.message, parts=tuple(parts)))


_CONVENTION = Kind.CONVENTION


def event_differences(
    one: Iterable[StreamEvent], other: Iterable[StreamEvent], issued: IssuedValues
) -> Iterator[ResponseDifference]:
    """Yield the differences between the events of two streams. The chunking of text and arguments is ignored."""
    left, right = tuple(one), tuple(other)
    found = [*_content_differences(left, right, issued)]
    yield from found
    if not found:
        before: list[JSON] = [*_order(left)]
        after: list[JSON] = [*_order(right)]
        yield from _difference_at(ORDER, before, after, _CONVENTION)


def _content_differences(
    left: tuple[StreamEvent, ...], right: tuple[StreamEvent, ...], issued: IssuedValues
) -> Iterator[ResponseDifference]:
    for what, kind in (("text", TextDelta), ("thinking", ThinkingDelta)):
        yield from _difference_at(f"the {what} of the events", _joined_text(left, kind), _joined_text(right, kind))
    before, after = (_call_pieces(events, id_naming(issued.ids)) for events in (left, right))
    yield from _sequence_differences(before, after, issued, " of the events")
    yield from _difference_at("whether the events finish", _finish(left), _finish(right))


def _joined_text(events: Iterable[StreamEvent], kind: type[TextDelta | ThinkingDelta]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def _finish(events: Iterable[StreamEvent]) -> bool:
    return any(isinstance(event, Finish) for event in events)


def _call_pieces(events: tuple[StreamEvent, ...], name: IdNaming) -> list[_AnswerPiece]:
    pieces: list[_AnswerPiece] = []
    for call in calls_from_events(events):
        start: dict[str, JSON] = {"id": name(call.start.id), "name": call.start.name} if call.start else {}
        pieces.append(
            _AnswerPiece("call", {**start, "arguments": _parse_json(call.text), "ended": call.ended}, call.name)
        )
    return pieces


def _order(events: Iterable[StreamEvent]) -> Iterator[str]:
    before = ""
    for event in events:
        kind = type(event).__name__
        here = f"{kind} {getattr(event, 'index', '')}".strip()
        if here != before and getattr(event, "text", kind):  # ignore empty pieces
            yield here
            before = here


@dataclass(frozen=True, slots=True)
class _AnswerPiece:
    """A part of an answer, or several adjacent texts. `kind` is the noun that messages use for it, and `about` is the
    tool name of a call.
    """

    kind: str
    value: JSON
    about: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind} {canonical(self.value)}"


def _sequence_differences(
    one: Sequence[_AnswerPiece], other: Sequence[_AnswerPiece], issued: IssuedValues, of: str = ""
) -> Iterator[ResponseDifference]:
    before, after = ([each.key for each in pieces] for pieces in (one, other))
    if before == after:
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for same, begin, end, start, stop in matcher.get_opcodes():
        if same == "equal":
            continue
        gone, came = [*one[begin:end]], [*other[start:stop]]
        while gone and came and gone[0].kind == came[0].kind:
            left, right = gone.pop(0), came.pop(0)
            yield from _piece_differences(_piece_name(left, one, of), left, right, issued)
        yield from (ResponseDifference(_piece_name(each, one, of), each.value, None) for each in gone)
        yield from (ResponseDifference(_piece_name(each, other, of), None, each.value) for each in came)


def _piece_differences(
    name: str, left: _AnswerPiece, right: _AnswerPiece, issued: IssuedValues
) -> Iterator[ResponseDifference]:
    one, other = left.value, right.value
    if left.kind == _UNTYPED_PART:
        yield ResponseDifference(
            name, one, other, _CONVENTION if _same_issued_values(one, other, issued) else Kind.LOSS
        )
    elif left.kind != "call" or not (isinstance(one, dict) and isinstance(other, dict)):
        yield ResponseDifference(name, one, other)
    else:
        yield from _call_differences(name, one, other)


def _call_differences(name: str, one: dict[str, JSON], other: dict[str, JSON]) -> Iterator[ResponseDifference]:
    for key in one | other:
        if key != "arguments":
            yield from _difference_at(f"{_FIELD_NAMES[key]} of {name}", one.get(key), other.get(key))
            continue
        for pointer, before, after in _value_differences(one.get(key), other.get(key), ""):
            place = f"the arguments of {name}" + (f" at {pointer}" if pointer else "")
            yield ResponseDifference(place, before, after)


_UNTYPED_PART = "part of an unknown type"


def _same_issued_values(one: JSON, other: JSON, issued: IssuedValues) -> bool:
    """Return whether two parts contain the same API-issued values, and at least one such value."""
    held, again = (issued.values.intersection(scalars(value)) for value in (one, other))
    return bool(held) and held == again


_FIELD_NAMES = {"id": "the id", "name": "the name", "ended": "the end"}


def _piece_name(piece: _AnswerPiece, among: Sequence[_AnswerPiece], of: str) -> str:
    alike = [each for each in among if each.kind == piece.kind]
    number = f" {next(i for i, each in enumerate(alike, 1) if each is piece)}" if len(alike) > 1 else ""
    return f"the {piece.kind}{number}{of}" + (f" ({piece.about})" if piece.about else "")


def _difference_at(place: str, one: JSON, other: JSON, kind: Kind = Kind.LOSS) -> Iterator[ResponseDifference]:
    if not equal(one, other):
        yield ResponseDifference(place, one, other, kind)


def _value_differences(one: JSON, other: JSON, pointer: str) -> Iterator[tuple[str, JSON, JSON]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one | other:
            yield from _value_differences(one.get(key), other.get(key), join(pointer, key))
    elif not equal(one, other):
        yield pointer, one, other


def _pieces(parts: Sequence[Part], name: IdNaming) -> list[_AnswerPiece]:
    """Return the parts, with adjacent texts joined and empty texts removed."""
    pieces: list[_AnswerPiece] = []
    for part in parts:
        piece = _piece(part, name)
        if not isinstance(part, Text | Thinking | Refusal):
            pieces.append(piece)
        elif not part.text:
            continue
        elif pieces and pieces[-1].kind == piece.kind:
            pieces[-1] = _AnswerPiece(piece.kind, f"{pieces[-1].value}{part.text}")
        else:
            pieces.append(piece)
    return pieces


def _piece(part: Part, name: IdNaming) -> _AnswerPiece:
    match part:
        case Text(text):
            return _AnswerPiece("text", text)
        case Thinking(text):
            return _AnswerPiece("thinking", text)
        case Refusal(text):
            return _AnswerPiece("refusal", text)
        case ToolCall():
            return _AnswerPiece(
                "call", {"id": name(part.id), "name": part.name, "arguments": {**part.arguments}}, part.name
            )
        case Image() | File():
            data = None if part.data is None else part.data.hex()
            return _AnswerPiece("medium", {"media_type": part.media_type, "data": data, "uri": part.uri})
        case Opaque():
            return _AnswerPiece(_UNTYPED_PART, part.raw)
        case ToolResult():
            return _AnswerPiece("result", part.text)


def _provider_fields(response: ChatResponse) -> list[JSON]:
    """Return the provider fields of the parts, in order. It does not matter which piece of a text has the signature
    (gemini-chunks)."""
    parts = (part for part in response.message.parts if not isinstance(part, Opaque))
    return [{**part.provider_metadata} for part in parts if part.provider_metadata]


def _parse_json(text: str) -> JSON:
    try:
        return loads(text or "{}")
    except WireError:
        return text
