"""The facts of an assistant turn and its results, in a form in which two requests can be compared.

A fact is what one part says. The neutral view has read alike already what means the same: absent and null, the
documented defaults, a string and one text part, base64 in either alphabet.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.model import JSON
from harness.redrive.pairing import answered
from harness.redrive.turns import Slice
from harness.wire.view import CallView, JsonView, MediaView, OpaqueView, PartView, ResultView, SystemView, TextView

_REASONING = frozenset(
    {"thinking", "redacted_thinking", "reasoning", "reasoning_content", "reasoning_details", "thought"}
)
"""The APIs' words for parts that hold what the model thought."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What one part says.

    `fields` have to be equal; `labels` name the part or steer the cache, and may differ. `id` is that of a call,
    `item_id` that of the item that carries it; `answers` is the place of a result's call among the calls.
    """

    role: str
    kind: str
    fields: Mapping[str, JSON]
    pointer: str
    labels: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    id: str | None = None
    item_id: str | None = None
    answers: int | None = None

    @property
    def shown(self) -> JSON:
        """The fact as a report shows it."""
        return {"role": self.role, "kind": self.kind, **({"id": self.id} if self.id else {}), **self.fields}


def facts(place: Slice) -> tuple[Fact, ...]:
    """The facts of a slice, in their order."""
    pairing = iter(answered(place.calls, place.results))
    said = [_fact(entry.part, "assistant", None) for entry in place.spoken]
    after = [
        _fact(entry.part, entry.role, next(pairing) if isinstance(entry.part, ResultView) else None)
        for entry in place.answers
    ]
    return (*said, *after)


def _fact(part: PartView | SystemView | JsonView, role: str, answers: int | None) -> Fact:
    match part:
        case CallView():
            arguments = part.arguments if part.malformed is None else {"malformed": part.malformed}
            fields: dict[str, JSON] = {"name": part.name, "arguments": arguments, "state": part.opaque}
            return Fact(role, "call", fields, part.pointer, id=part.id, item_id=part.item_id)
        case ResultView():
            content: list[JSON] = [_fact(each, role, None).shown for each in part.payload]
            fields = {"name": part.name, "content": content, "error": part.error_mark}
            return Fact(role, "result", fields, part.pointer, id=part.call_id, answers=answers)
        case TextView():
            return Fact(role, "text", {"text": part.text, "state": part.opaque}, part.pointer)
        case SystemView():
            return Fact(role, "text", {"text": part.text}, part.pointer)
        case JsonView():
            return Fact(role, "json", {"value": part.value}, part.pointer)
        case MediaView():
            data = None if part.data is None else base64.b64encode(part.data).decode()
            return Fact(role, "media", {"type": part.media_type, "data": data, "uri": part.uri}, part.pointer)
        case OpaqueView():
            return _opaque(part, role)


def _opaque(part: OpaqueView, role: str) -> Fact:
    kind = "reasoning" if part.kind in _REASONING else "other"
    raw, labels = part.raw, dict[str, JSON]()
    if isinstance(raw, dict):
        names = {"cache_control"} | ({"id", "status"} if part.kind == "reasoning" else set[str]())
        labels = {key: value for key, value in raw.items() if key in names}
        raw = {key: value for key, value in raw.items() if key not in names and value not in (None, "", [], {})}
    return Fact(role, kind, {"type": part.kind, "raw": raw}, part.pointer, labels)
