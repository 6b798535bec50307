"""What two tellings of an answer are compared by: responses and events as JSON values, and where they first differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from harness.model import (
    JSON,
    ArgumentsDelta,
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
    ToolCallEnd,
    ToolCallStart,
    ToolResult,
    Usage,
)
from harness.wire.jsonvalue import equal, loads
from harness.wire.view import WireError


@dataclass(frozen=True, slots=True)
class Contrast:
    """The first place at which two values differ, and what each has there (`None` also where it has nothing)."""

    path: str
    one: JSON
    other: JSON


def contrast(one: JSON, other: JSON, path: str = "") -> Contrast | None:
    """Where two values first differ; `None` if they are equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one and other and one.keys().isdisjoint(other.keys()):  # things of two kinds
            return Contrast(path, one, other)
        inside = ((key, one.get(key), other.get(key)) for key in one | other)
        found = (contrast(left, right, f"{path}.{key}".lstrip(".")) for key, left, right in inside)
        return next((each for each in found if each is not None), None)
    if isinstance(one, list) and isinstance(other, list):
        for at, (left, right) in enumerate(zip(one, other, strict=False)):
            if (found := contrast(left, right, f"{path}[{at}]")) is not None:
                return found
        at = min(len(one), len(other))
        if len(one) == len(other):
            return None
        return Contrast(f"{path}[{at}]", one[at] if at < len(one) else None, other[at] if at < len(other) else None)
    return None if equal(one, other) else Contrast(path, one, other)


def of_response(response: ChatResponse) -> dict[str, JSON]:
    """A response, part by part."""
    parts: list[JSON] = [_part(part) | _state(part) for part in response.message.parts]
    return {"message": parts, **_rest(response)}


def of_response_in_runs(response: ChatResponse) -> dict[str, JSON]:
    """A response in which pieces of a text that stand together count as one, and state is listed apart.

    How a text is divided into parts is no part of its meaning, nor on which of the pieces its signature sits: Gemini's
    comes on an empty one behind a streamed text (GM-P2).
    """
    state: list[JSON] = [_state(part) for part in response.message.parts if _state(part)]
    return {"message": [*_runs(response.message.parts)], "state": state, **_rest(response)}


def _rest(response: ChatResponse) -> dict[str, JSON]:
    counts: dict[str, JSON] = {field.name: getattr(response.usage, field.name) or 0 for field in fields(Usage)}
    return {
        "stop_reason": response.stop_reason.value,
        "raw_stop_reason": response.raw_stop_reason,
        "usage": counts,
        "model": response.model,
    }


def _runs(parts: Sequence[Part]) -> Iterator[JSON]:
    run: dict[str, JSON] = {}
    for part in parts:
        shown = _part(part)
        if not isinstance(part, Text | Thinking | Refusal):
            yield from _ended(run)
            yield shown
            run = {}
        elif not part.text:
            continue
        elif run.keys() == shown.keys():
            run = {key: f"{text}{part.text}" for key, text in run.items()}
        else:
            yield from _ended(run)
            run = shown
    yield from _ended(run)


def _ended(run: dict[str, JSON]) -> Iterator[JSON]:
    if run:
        yield run


def _part(part: Part) -> dict[str, JSON]:
    match part:
        case Text(text):
            return {"text": text}
        case Thinking(text):
            return {"thinking": text}
        case Refusal(text):
            return {"refusal": text}
        case ToolCall():
            return {"call": {"id": part.id, "name": part.name, "arguments": part.arguments}}
        case Image() | File():
            data = None if part.data is None else part.data.hex()
            return {"medium": {"media_type": part.media_type, "data": data, "uri": part.uri}}
        case Opaque():
            return {"opaque": part.raw}
        case ToolResult():
            return {"result": part.text}


def _state(part: Part) -> dict[str, JSON]:
    """The wire fields that a part keeps."""
    return {} if isinstance(part, Opaque) or not part.provider_metadata else {"state": {**part.provider_metadata}}


def of_events(events: Iterable[StreamEvent]) -> list[JSON]:
    """The meaning of events: pieces of one text, or of the arguments of one call, that follow each other are one, and
    empty ones are none. Arguments are compared as the value that they spell, and the response apart."""
    runs: list[tuple[str, str]] = []
    for event in events:
        kind, text = _event(event)
        if kind in _PIECES or kind.startswith(_ARGUMENTS):
            if not text:
                continue
            if runs and runs[-1][0] == kind:
                text = runs.pop()[1] + text
        runs.append((kind, text))
    return [{kind: _value(text) if kind.startswith(_ARGUMENTS) else text} for kind, text in runs]


_PIECES = frozenset({"text", "thinking"})
_ARGUMENTS = "arguments of call "


def _event(event: StreamEvent) -> tuple[str, str]:
    match event:
        case TextDelta(text):
            return "text", text
        case ThinkingDelta(text):
            return "thinking", text
        case ArgumentsDelta(index, text):
            return f"{_ARGUMENTS}{index}", text
        case ToolCallStart(index, call_id, name):
            return f"start of call {index}", f"{call_id} {name}"
        case ToolCallEnd(index):
            return f"end of call {index}", ""
        case Finish():
            return "finish", ""
        case _:  # an adapter may be untyped
            return f"a {type(event).__name__}", ""


def _value(text: str) -> JSON:
    try:
        return loads(text)
    except WireError:
        return text
