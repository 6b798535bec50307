"""Conversion of an event stream to the body that the same response has without streaming."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from harness.apis.eventstream import events_of
from harness.apis.jsonvalue import loads
from harness.apis.openai_responses.requests import string
from harness.apis.view import WireError
from harness.model.messages import JSON

TERMINAL = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
FIELDS = {
    "response.function_call_arguments": "arguments",
    "response.mcp_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
}
"""Maps event families to the string of an item that their deltas extend."""

TEXTS = {
    "response.output_text": ("content", "output_text", "text"),
    "response.refusal": ("content", "refusal", "refusal"),
    "response.reasoning_text": ("content", "reasoning_text", "text"),
    "response.reasoning_summary_text": ("summary", "summary_text", "text"),
}
"""Maps event families to the list, part type and string that their deltas extend."""

_PARTS = {"response.content_part": "content", "response.reasoning_summary_part": "summary"}
"""Maps event families to the list that they add a part to."""


@dataclass(slots=True)
class _Item:
    """An item under construction. `index` is its `output_index`. `done` is set once its last event has arrived."""

    index: int
    item: dict[str, JSON]
    done: bool = False


@dataclass(slots=True)
class FoldedResponse:
    """Result of folding a stream. `error` is the payload of its error event. `complete` is set if the stream ended
    properly."""

    response: dict[str, JSON] = field(default_factory=dict[str, JSON])
    items: list[_Item] = field(default_factory=list[_Item])
    error: dict[str, JSON] | None = None
    complete: bool = False

    @property
    def body(self) -> dict[str, JSON]:
        """The complete body.

        The last event repeats the items, but some streams omit them. An item from its own `done` event takes precedence
        (openai-responses-stream-order), because the last event has newly encrypted reasoning state
        (openai-responses-reasoning-back).
        """
        if not self.items:
            return self.response
        repeated = self.response.get("output")
        if not isinstance(repeated, list) or not repeated:
            in_order = sorted(self.items, key=lambda one: one.index)
            return {**self.response, "output": [one.item for one in in_order]}
        done = {identity: one.item for one in self.items if one.done and (identity := string(one.item.get("id")))}
        output = [done.get(string(item.get("id")) or "", item) if isinstance(item, dict) else item for item in repeated]
        return {**self.response, "output": [*output]}


def fold(stream: bytes) -> FoldedResponse:
    """Fold a stream. A stream without events results in an empty response.

    Items are found by `output_index` or `item_id`, since several may be open (openai-responses-stream-order).

    Raises:
        WireError: the body is not an event stream, an event is not a JSON object, or no event belongs to a response.
    """
    folded = FoldedResponse()
    sent = events_of(stream)
    for event in sent:
        if event.data == "[DONE]":  # compatible servers end with the sentinel of Chat Completions
            continue
        payload = loads(event.data)
        if not isinstance(payload, dict):
            raise WireError("an event that is not an object")
        _take(folded, string(payload.get("type")) or "", payload)
    if sent and not folded.response and not folded.items and folded.error is None:
        raise WireError("no event of a response")
    return folded


def _take(folded: FoldedResponse, kind: str, payload: dict[str, JSON]) -> None:
    response, item = payload.get("response"), payload.get("item")
    family, _, step = kind.rpartition(".")
    if kind == "error" or (not kind and "error" in payload):
        inner = payload.get("error")
        folded.error = inner if isinstance(inner, dict) else payload
    elif isinstance(response, dict):
        folded.response = response
        folded.complete = folded.complete or kind in TERMINAL
    elif isinstance(item, dict):
        _open(folded, payload, deepcopy(item), done=step == "done")
    else:
        opened = _find(folded.items, payload)
        if opened is not None:
            _extend(opened.item, family, step, payload)


def _open(folded: FoldedResponse, payload: dict[str, JSON], item: dict[str, JSON], *, done: bool) -> None:
    """Add a new item, or replace an item with its final version."""
    known = _find(folded.items, payload) if done else None
    if known is None or known.done:
        index = payload.get("output_index")
        folded.items.append(_Item(index if isinstance(index, int) else 0, item, done))
    else:
        known.item, known.done = item, done


def _find(items: list[_Item], payload: dict[str, JSON]) -> _Item | None:
    """Return the item of an event. If several items have the event's index, use the id, else the last one."""
    index, item = payload.get("output_index"), payload.get("item")
    identity = item.get("id") if isinstance(item, dict) else payload.get("item_id")
    near = [one for one in reversed(items) if not isinstance(index, int) or one.index == index]
    return next((one for one in near if one.item.get("id") == identity), near[0] if near else None)


def _extend(item: dict[str, JSON], family: str, step: str, payload: dict[str, JSON]) -> None:
    if family in FIELDS:
        _write(item, FIELDS[family], step, payload)
    elif family in _PARTS:
        part = payload.get("part")
        if isinstance(part, dict):
            _place(item, _PARTS[family], payload, deepcopy(part))
    elif family in TEXTS:
        where, kind, key = TEXTS[family]
        part = _place(item, where, payload, None) or _place(item, where, payload, {"type": kind, key: ""})
        if part is not None:
            _write(part, key, step, payload)


def _write(target: dict[str, JSON], key: str, step: str, payload: dict[str, JSON]) -> None:
    if step == "delta":
        target[key] = (string(target.get(key)) or "") + (string(payload.get("delta")) or "")
    elif step == "done" and isinstance(payload.get(key), str):
        target[key] = payload[key]


def _place(
    item: dict[str, JSON], where: str, payload: dict[str, JSON], part: dict[str, JSON] | None
) -> dict[str, JSON] | None:
    """Return the part that an event refers to. If `part` is given, store it at that position first."""
    parts = item.setdefault(where, [])
    index = payload.get("summary_index" if where == "summary" else "content_index")
    if not isinstance(parts, list) or not isinstance(index, int) or index < 0:
        return None
    if part is not None:
        parts[index : index + 1] = [part]
    there = parts[index] if index < len(parts) else None
    return there if isinstance(there, dict) else None
