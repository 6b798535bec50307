"""Comparison of the request that an adapter sent with the recorded one.

A recorded response i is paired with the recorded request j that sends its calls back (`harness.audit.redrive_pairs`).
The comparison covers the assistant turn made from response i, the results after it, system text and tools. In the turn
and its results, it covers calls, ids, names, arguments, text, opaque state, content and error marks of results, order
and place. The client's edits of response i are undone first and counted separately (`harness.audit.client_edits`).

Allowed differences, counted by class:

- `id-invented`, `id-renamed`: the recorded call and its result have an id that response i did not issue. Response i had
  issued no id (`id-invented`) or another one (`id-renamed`).
- `id-of-item`: the call has the id of its item (an `fc_` id in Responses).
- `reasoning-dropped`, `text-dropped`: the client left out all reasoning of one kind, or all text. If it left out one
  part of several, or text with state, that is a loss.
- `reasoning-repeated`: the client sent the same reasoning again under the other name that compatible servers use
  (`reasoning`, `reasoning_content`).
- `state-reissued`: the encrypted content of a reasoning item comes from another event of the stream. Responses encrypts
  the item anew for the last event.
- `id-scrubbed`: the recording redacts the id of a call.
- `stand-in`: the adapter sends Gemini's replacement with a call that has no signature, because the client left out the
  earlier call that had it (gemini-thought-signature).
- `labels`: ids and status of reasoning items, and cache marks.
- `default`: one side states the documented default and the other leaves it out, such as the schema of a tool without
  arguments.

Differences that the neutral view does not show are not compared: absent and null, a string and one text part, base64
alphabets. The ids of message and call items of Responses are not compared either: they refer to items that the server
may have stored.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from harness.apis.conversion import CanonicalReader
from harness.apis.jsonvalue import without_nulls
from harness.apis.view import (
    CallView,
    JsonView,
    MediaView,
    OpaqueView,
    PartView,
    ResultView,
    SystemView,
    TextView,
    is_redacted_id,
)
from harness.audit.redrive_pairs import TurnSlice, match_results
from harness.equivalence.result_meaning import core_text
from harness.equivalence.view_differences import DiffPolicy, Path, diff
from harness.model.messages import JSON, Tool

_REASONING = frozenset(
    {
        *("thinking", "redacted_thinking", "reasoning", "reasoning_content"),
        *("reasoning_details", "reasoning_text", "thinking_blocks", "thought"),
    }
)
"""Names of reasoning parts in all APIs."""

REASONING_NAMES = frozenset({"reasoning", "reasoning_content"})
"""Names that compatible servers use for the same reasoning field."""

_CACHE_MARK = "cache_control"


@dataclass(frozen=True, slots=True)
class TurnItem:
    """A part of a turn, in the form in which it is compared.

    - `fields`: values that must be equal.
    - `labels`: values that identify the part or control the cache. They may differ.
    - `name`: name of a call or a tool, or the name of another part on the wire.
    - `id`: id of a call, or of the call that a result answers.
    - `item_id`: id of the item that contains a call.
    - `answers`: index of a result's call.
    - `returns`: the API is known to accept the part in a later request.
    """

    role: str
    kind: str
    fields: Mapping[str, JSON]
    pointer: str
    name: str = ""
    labels: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    id: str | None = None
    item_id: str | None = None
    answers: int | None = None
    returns: bool = True

    @property
    def shown(self) -> JSON:
        """The item as JSON for reports."""
        fields = {key: value for key, value in self.fields.items() if value is not None}
        known = {"kind": self.kind, "name": self.name, "id": self.id}
        return {**{key: value for key, value in known.items() if value}, **fields}


def turn_items(place: TurnSlice) -> tuple[TurnItem, ...]:
    """Return the items of an assistant turn and its results, in order."""
    return (*assistant_items(entry.part for entry in place.spoken), *following_items(place))


def assistant_items(parts: Iterable[PartView | SystemView]) -> tuple[TurnItem, ...]:
    """Return the items for the assistant's parts of a response or a request. Empty texts are left out."""
    return tuple(item for item in (_item(part, "assistant") for part in parts) if _has_content(item))


def following_items(place: TurnSlice) -> tuple[TurnItem, ...]:
    """Return the items after an assistant turn."""
    pairing = iter(match_results(place.calls, place.results))
    after = [
        _item(entry.part, entry.role, next(pairing) if isinstance(entry.part, ResultView) else None)
        for entry in place.answers
    ]
    return tuple(filter(_has_content, after))


def _has_content(item: TurnItem) -> bool:
    return item.kind != "text" or any(item.fields.values())


def system_items(reader: CanonicalReader) -> tuple[TurnItem, ...]:
    """Return the system text before the conversation."""
    return tuple(_item(text, "system") for text in reader.view.system if not text.before_turn and text.text)


def tool_items(reader: CanonicalReader) -> tuple[TurnItem, ...]:
    """Return the functions, in order."""
    return tuple(
        _tool(tool, reader.api, view.pointer) for view, tool in zip(reader.functions, reader.tools(), strict=True)
    )


def hosted_items(reader: CanonicalReader) -> tuple[TurnItem, ...]:
    """Return the tools that the provider runs, in order."""
    return tuple(
        _opaque(OpaqueView(view.kind, reader.raw(view), view.pointer), "system", "hosted-tool")
        for view in reader.hosted
    )


def _tool(tool: Tool, api: str, pointer: str) -> TurnItem:
    own = tool.provider_metadata.get(api)
    more = {key: value for key, value in own.items() if value is not None} if isinstance(own, dict) else {}
    labels = {_CACHE_MARK: more.pop(_CACHE_MARK)} if _CACHE_MARK in more else {}
    fields: dict[str, JSON] = {"description": tool.description, "parameters": tool.parameters}
    return TurnItem("system", "tool", {**fields, **more}, pointer, tool.name, labels)


def _item(part: PartView | SystemView | JsonView, role: str, answers: int | None = None) -> TurnItem:
    match part:
        case CallView():
            arguments: JSON = part.arguments if part.malformed is None else {"malformed": part.malformed}
            fields: dict[str, JSON] = {"arguments": arguments, "state": part.opaque}
            return TurnItem(role, "call", fields, part.pointer, part.name, id=part.id, item_id=part.item_id)
        case ResultView():
            says_nothing = core_text(part) == ""  # an absent response, null and an empty text are the same
            content: list[JSON] = [] if says_nothing else [_item(each, role).shown for each in part.payload]
            fields = {"name": part.name, "content": content, "error": part.error_mark}
            return TurnItem(role, "result", fields, part.pointer, id=part.call_id, answers=answers)
        case TextView():
            return TurnItem(role, "text", {"text": part.text, "state": part.opaque}, part.pointer)
        case SystemView():
            return TurnItem(role, "system", {"text": part.text}, part.pointer)
        case JsonView():
            return TurnItem(role, "json", {"value": part.value}, part.pointer)
        case MediaView():
            data = None if part.data is None else base64.b64encode(part.data).decode()
            return TurnItem(role, "media", {"type": part.media_type, "data": data, "uri": part.uri}, part.pointer)
        case OpaqueView():
            return _opaque(part, role, "reasoning" if part.kind in _REASONING else "part")


def _opaque(part: OpaqueView, role: str, kind: str) -> TurnItem:
    if not isinstance(part.raw, dict):
        return TurnItem(role, kind, {"value": part.raw}, part.pointer, part.kind, returns=part.returns)
    named = {"id", "status"} if part.kind == "reasoning" else set[str]()
    labels = {key: value for key, value in part.raw.items() if key == _CACHE_MARK or key in named}
    fields = {key: without_nulls(value) for key, value in part.raw.items() if key not in labels and not _blank(value)}
    return TurnItem(role, kind, fields, part.pointer, part.kind, labels, returns=part.returns)


def _blank(value: JSON) -> bool:
    return value is None or value in ("", [], {})


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A difference between the adapter's request and the recorded one. `pointer` points into the recorded request: to
    the differing part or, for an addition, to a recorded part next to it. `kind` names the difference, for example
    `call-id`, `result-content`, `reasoning-missing` (recorded, not produced) or `part-added` (produced, not recorded).
    """

    pointer: str
    recorded: JSON
    produced: JSON
    kind: str


class TurnComparison:
    """Differences between the recorded and the produced request that follows a response.

    `allowances` counts the differences that are permitted, by kind. `edits` counts the recorded client's own changes.
    `issued` holds the call ids of the response. `reissued` holds encrypted contents that occur only in earlier events
    of the response's stream.
    """

    def __init__(self, issued: frozenset[str], reissued: frozenset[str] = frozenset()) -> None:
        self.disagreements: list[Disagreement] = []
        self.allowances: Counter[str] = Counter()
        self.edits: Counter[str] = Counter()
        self._issued = issued
        self._reissued = reissued

    @staticmethod
    def failure(pointer: str, reason: str) -> TurnComparison:
        """Return the comparison for an adapter that sent no request."""
        found = TurnComparison(frozenset())
        found.disagreements.append(Disagreement(pointer, None, reason, "adapter-failed"))
        return found

    def turn(self, recorded: Sequence[TurnItem], produced: Sequence[TurnItem]) -> None:
        """Compare an assistant turn and its results."""
        self.sequence(self._without_repeated(recorded, produced), self._without_dropped(recorded, produced))

    def sequence(self, recorded: Sequence[TurnItem], produced: Sequence[TurnItem]) -> None:
        """Compare items in their order."""
        matcher = SequenceMatcher(None, list(map(_key, recorded)), list(map(_key, produced)), autojunk=False)
        for word, start, stop, other_start, other_stop in matcher.get_opcodes():
            if word == "equal":
                for one, other in zip(recorded[start:stop], produced[other_start:other_stop], strict=True):
                    self._item(one, other)
                continue
            for item in recorded[start:stop]:
                self._disagree(item.pointer, item.shown, None, f"{item.kind}-missing")
            place = recorded[min(start, len(recorded) - 1)].pointer if recorded else ""
            for item in produced[other_start:other_stop]:
                self._disagree(place, None, item.shown, f"{item.kind}-added")

    def _without_repeated(self, recorded: Sequence[TurnItem], produced: Sequence[TurnItem]) -> list[TurnItem]:
        """Remove recorded reasoning that repeats other reasoning under the alternative name."""
        own = {item.name for item in produced} & REASONING_NAMES
        repeated = [item.fields for item in recorded if item.name in own]
        kept = [item for item in recorded if item.name not in REASONING_NAMES - own or item.fields not in repeated]
        self.allowances["reasoning-repeated"] += len(recorded) - len(kept)
        return kept

    def _without_dropped(self, recorded: Sequence[TurnItem], produced: Sequence[TurnItem]) -> list[TurnItem]:
        """Remove produced reasoning and text if the recording has none of that kind."""
        there = {(item.kind, item.name) for item in recorded if item.role == "assistant"}
        kept: list[TurnItem] = []
        for item in produced:
            droppable = item.role == "assistant" and (
                item.kind == "reasoning" or (item.kind == "text" and item.fields.get("state") is None)
            )
            if droppable and (item.kind, item.name) not in there:
                self.allowances[f"{item.kind}-dropped"] += 1
            else:
                kept.append(item)
        return kept

    def _item(self, recorded: TurnItem, produced: TurnItem) -> None:
        if recorded.answers != produced.answers:  # the results belong to two calls
            self._disagree(recorded.pointer, recorded.answers, produced.answers, "result-order")
            return
        for found in diff(recorded.fields, produced.fields, DiffPolicy(depth=1, allows=self._is_allowed)):
            name = str(found.path[0]).replace("_", "-")
            self._disagree(recorded.pointer, found.one, found.other, f"{recorded.kind}-{name}")
        if recorded.labels != produced.labels:
            self.allowances["labels"] += 1
        if recorded.kind == "call" and recorded.id != produced.id:
            self._compare_names(recorded, produced)
        if recorded.kind == "result" and recorded.id is None and produced.id is not None:
            self._disagree(recorded.pointer, None, produced.id, "result-id")

    def _is_allowed(self, path: Path, recorded: JSON, produced: JSON) -> bool:
        name = path[0]
        if recorded is produced is None:
            return True
        if name == "parameters" and _has_no_parameters(recorded) and _has_no_parameters(produced):
            self.allowances["default"] += 1
            return True
        if name == "state" and recorded is None and produced in _STAND_INS:
            self.allowances["stand-in"] += 1
            return True
        if name == "encrypted_content" and isinstance(recorded, str) and recorded in self._reissued:
            self.allowances["state-reissued"] += 1
            return True
        return False

    def _compare_names(self, recorded: TurnItem, produced: TurnItem) -> None:
        if recorded.id is not None and is_redacted_id(recorded.id):
            self.allowances["id-scrubbed"] += 1
        elif recorded.id is None or recorded.id in self._issued:
            self._disagree(recorded.pointer, recorded.id, produced.id, "call-id")
        elif recorded.id == produced.item_id:
            self.allowances["id-of-item"] += 1
        else:
            self.allowances["id-renamed" if produced.id in self._issued else "id-invented"] += 1

    def _disagree(self, pointer: str, recorded: JSON, produced: JSON, kind: str) -> None:
        self.disagreements.append(Disagreement(pointer, recorded, produced, kind))


_STAND_IN = b"skip_thought_signature_validator"
_STAND_INS = (_STAND_IN.decode(), base64.b64encode(_STAND_IN).decode())


def _key(item: TurnItem) -> tuple[str, str, str]:
    return item.role, item.kind, item.name


def _has_no_parameters(schema: JSON) -> bool:
    """Return whether a schema is absent or has no properties. `{"type": "object"}` alone allows any properties."""
    return isinstance(schema, dict) and (
        not schema or (schema.get("properties") == {} and not schema.get("additionalProperties"))
    )
