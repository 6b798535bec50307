"""The facts of a request that a redrive compares: an assistant turn with its results, system text, tools.

A fact is what one part says. The neutral view has read alike already what means the same: absent and null, the
documented defaults, a string and one text part, base64 in either alphabet. Empty text says nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.apis.jsonvalue import without_nulls
from harness.apis.lift import Lift
from harness.apis.view import CallView, JsonView, MediaView, OpaqueView, PartView, ResultView, SystemView, TextView
from harness.auditing.redrive.origins import paired
from harness.auditing.redrive.turns import Slice
from harness.contract.model import JSON, Tool
from harness.meaning.results import core

_REASONING = frozenset(
    {
        "thinking",
        "redacted_thinking",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "reasoning_text",
        "thinking_blocks",
        "thought",
    }
)
"""The APIs' words for parts that hold what the model thought."""

_CACHE_MARK = "cache_control"


def _no_labels() -> dict[str, JSON]:
    return {}


@dataclass(frozen=True, slots=True)
class Fact:
    """What one part says.

    `fields` have to be equal; `labels` name the part or steer the cache, and may differ. `name` is that of a call or a
    tool, or the wire's word for a part. `id` is that of a call, or of the call that a result answers; `item_id` that of
    the item that carries a call; `answers` the place of a result's call among the calls. `returns`: the API is known to
    take it back.
    """

    role: str
    kind: str
    fields: Mapping[str, JSON]
    pointer: str
    name: str = ""
    labels: Mapping[str, JSON] = field(default_factory=_no_labels)
    id: str | None = None
    item_id: str | None = None
    answers: int | None = None
    returns: bool = True

    @property
    def shown(self) -> JSON:
        """The fact as a report shows it."""
        said = {key: value for key, value in self.fields.items() if value is not None}
        known = {"kind": self.kind, "name": self.name, "id": self.id}
        return {**{key: value for key, value in known.items() if value}, **said}


def turn_facts(place: Slice) -> tuple[Fact, ...]:
    """The facts of an assistant turn and its results, in their order."""
    return (*spoken_facts(entry.part for entry in place.spoken), *following_facts(place))


def spoken_facts(parts: Iterable[PartView | SystemView]) -> tuple[Fact, ...]:
    """The facts of what the assistant says, in an answer or in a request."""
    return tuple(fact for fact in (_fact(part, "assistant") for part in parts) if _says_something(fact))


def following_facts(place: Slice) -> tuple[Fact, ...]:
    """The facts of what follows an assistant turn."""
    pairing = iter(paired(place.calls, place.results))
    after = [
        _fact(entry.part, entry.role, next(pairing) if isinstance(entry.part, ResultView) else None)
        for entry in place.answers
    ]
    return tuple(filter(_says_something, after))


def _says_something(fact: Fact) -> bool:
    return fact.kind != "text" or any(fact.fields.values())


def system_facts(lift: Lift) -> tuple[Fact, ...]:
    """The system text in front of the conversation."""
    return tuple(_fact(text, "system") for text in lift.view.system if not text.before_turn and text.text)


def tool_facts(lift: Lift) -> tuple[Fact, ...]:
    """The functions, in their order."""
    return tuple(_tool(tool, lift.api, view.pointer) for view, tool in zip(lift.functions, lift.tools(), strict=True))


def hosted_facts(lift: Lift) -> tuple[Fact, ...]:
    """The tools that the provider runs or looks into, in their order."""
    return tuple(
        _opaque(OpaqueView(view.kind, lift.raw(view), view.pointer), "system", "hosted-tool") for view in lift.hosted
    )


def _tool(tool: Tool, api: str, pointer: str) -> Fact:
    own = tool.provider_metadata.get(api)
    more = {key: value for key, value in own.items() if value is not None} if isinstance(own, dict) else {}
    labels = {_CACHE_MARK: more.pop(_CACHE_MARK)} if _CACHE_MARK in more else {}
    fields: dict[str, JSON] = {"description": tool.description, "parameters": tool.parameters}
    return Fact("system", "tool", {**fields, **more}, pointer, tool.name, labels)


def _fact(part: PartView | SystemView | JsonView, role: str, answers: int | None = None) -> Fact:
    match part:
        case CallView():
            arguments: JSON = part.arguments if part.malformed is None else {"malformed": part.malformed}
            fields: dict[str, JSON] = {"arguments": arguments, "state": part.opaque}
            return Fact(role, "call", fields, part.pointer, part.name, id=part.id, item_id=part.item_id)
        case ResultView():
            says_nothing = core(part) == ""  # an absent response, null and an empty text are the same
            content: list[JSON] = [] if says_nothing else [_fact(each, role).shown for each in part.payload]
            fields = {"name": part.name, "content": content, "error": part.error_mark}
            return Fact(role, "result", fields, part.pointer, id=part.call_id, answers=answers)
        case TextView():
            return Fact(role, "text", {"text": part.text, "state": part.opaque}, part.pointer)
        case SystemView():
            return Fact(role, "system", {"text": part.text}, part.pointer)
        case JsonView():
            return Fact(role, "json", {"value": part.value}, part.pointer)
        case MediaView():
            data = None if part.data is None else base64.b64encode(part.data).decode()
            return Fact(role, "media", {"type": part.media_type, "data": data, "uri": part.uri}, part.pointer)
        case OpaqueView():
            return _opaque(part, role, "reasoning" if part.kind in _REASONING else "part")


def _opaque(part: OpaqueView, role: str, kind: str) -> Fact:
    if not isinstance(part.raw, dict):
        return Fact(role, kind, {"value": part.raw}, part.pointer, part.kind, returns=part.returns)
    named = {"id", "status"} if part.kind == "reasoning" else set[str]()
    labels = {key: value for key, value in part.raw.items() if key == _CACHE_MARK or key in named}
    said = {key: without_nulls(value) for key, value in part.raw.items() if key not in labels and not _blank(value)}
    return Fact(role, kind, said, part.pointer, part.kind, labels, returns=part.returns)


def _blank(value: JSON) -> bool:
    return value is None or value in ("", [], {})
