"""Events of a streamed response → canonical events."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.adapters._common import as_list, string
from harness.adapters._openai.answers import DONE, error_in
from harness.adapters.openai_responses.responses import call_of, read_response, reasoning_of
from harness.model.errors import MalformedResponse
from harness.model.messages import (
    ArgumentsDelta,
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.model.messages import JSON, Message, StreamEvent

_ENDS = ("response.completed", "response.incomplete")
_REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")


def read_events(
    sent: Iterable[tuple[str | None, dict[str, JSON]]], status: int, history: Sequence[Message]
) -> Iterator[StreamEvent]:
    """Yield the canonical events of a streamed response as it arrives. `sent` has the name and the data of each event
    of the API. `history` is the conversation that the request sent.

    Raises:
        MalformedResponse: the stream is truncated.
        ProviderError: the stream has an error, or the response failed.
    """
    answer = _ResponseBuilder(history)
    for name, payload in sent:
        if name == DONE:  # compatible servers send it as in Chat Completions
            continue
        kind = _kind(name, payload)
        response = payload.get("response")
        if kind in _ENDS and isinstance(response, dict):
            yield from answer.complete(response, status)
            return
        yield from answer.take(kind, payload)
    raise MalformedResponse("the stream is cut: the response was not completed", status)


def _kind(name: str | None, payload: dict[str, JSON]) -> str:
    """Return the type of an event. Raises `ProviderError` if it is an error (openai-responses-stream-error)."""
    kind = string(payload.get("type")) or name
    match kind, payload:
        case "response.failed", {"response": {**response}}:
            raise error_in(response.get("error") or "the response failed")
        case ("error", _) | (None, {"error": _}):
            raise error_in(payload.get("error") or payload)
        case _:
            return kind or ""


@dataclass(slots=True)
class _OutputItem:
    """An output item under construction.

    `number` is the index of the call in the yielded events, set when the call starts. `shown` is the text or the
    arguments yielded so far. `place` is the index of the reasoning part that was extended last.
    """

    index: int | None
    wire: dict[str, JSON]
    done: bool = False
    number: int | None = None
    shown: str = ""
    place: int | None = None

    @property
    def id(self) -> str | None:
        """The id of the item. It differs from the id of a call."""
        return string(self.wire.get("id"))

    def rest(self, whole: JSON) -> str:
        """Return the part of `whole`, the complete text or arguments, that has not been yielded yet. Return an empty
        string if `whole` does not begin with the yielded part.
        """
        return whole[len(self.shown) :] if isinstance(whole, str) and whole.startswith(self.shown) else ""


class _ResponseBuilder:
    def __init__(self, history: Sequence[Message]) -> None:
        self._history = history
        self._taken = [call.id for turn in history for call in turn.tool_calls]
        self._items: list[_OutputItem] = []
        self._started = 0

    def take(self, kind: str, payload: dict[str, JSON]) -> Iterator[StreamEvent]:
        """Apply an event. Unknown event types can be ignored, because the last event of an item contains the complete
        item.
        """
        match kind, payload:
            case "response.output_item.added", {"item": {**wire}}:
                yield from self._open(_OutputItem(_number(payload, "output_index"), wire))
            case "response.output_item.done", {"item": {**wire}}:
                yield from self._close(self._item(payload, string(wire.get("id"))), wire)
            case "response.output_text.delta", {"delta": str(delta)} if delta:
                self._item(payload, string(payload.get("item_id"))).shown += delta
                yield TextDelta(delta)
            case _, {"delta": str(delta)} if delta and kind in _REASONING:
                yield _thinking_delta(self._item(payload, string(payload.get("item_id"))), payload, delta)
            case "response.function_call_arguments.delta", {"delta": str(delta)} if delta:
                item = self._item(payload, string(payload.get("item_id")))
                if item.number is not None:
                    item.shown += delta
                    yield ArgumentsDelta(item.number, delta)
            case _:
                pass

    def complete(self, response: dict[str, JSON], status: int) -> Iterator[StreamEvent]:
        """Yield the remaining events when the last event of the stream arrives.

        The response in the last event repeats the items, unless its output is empty. Items that have already ended stay
        unchanged (openai-responses-stream-order, openai-responses-reasoning-back). All others are completed from that
        response.
        """
        repeated = [wire for wire in as_list(response.get("output")) if isinstance(wire, dict)]
        for position, wire in enumerate(repeated):
            item = self._streamed_item(position, wire)
            if not item.done:
                yield from self._close(item, wire)
        if not repeated and not all(item.done for item in self._items):
            raise MalformedResponse("the stream is cut: an item has no end", status)
        done = sorted(
            (item for item in self._items if item.done),
            key=lambda item: sys.maxsize if item.index is None else item.index,
        )
        body: dict[str, JSON] = {**response, "output": [item.wire for item in done]}
        yield Finish(read_response(body, status, self._history))

    def _item(self, payload: dict[str, JSON], item_id: str | None) -> _OutputItem:
        """Return the open item that an event belongs to, found by its `output_index` or its id. Several items may be
        open. An item that was not announced is created.
        """
        index = _number(payload, "output_index")
        near = [item for item in self._items if not item.done and (index is None or item.index == index)]
        same = [item for item in near if item_id and item.id == item_id]
        if same or (near and index is not None):
            return (same or near)[-1]
        item = _OutputItem(index, {})  # some servers do not announce items
        self._items.append(item)
        return item

    def _streamed_item(self, position: int, wire: dict[str, JSON]) -> _OutputItem:
        """Return the streamed item that an item of the final response repeats, or a new one."""
        kind, item_id = wire.get("type"), string(wire.get("id"))
        same = [item for item in self._items if item_id and item.id == item_id]
        near = [item for item in self._items if item.index == position and item.wire.get("type", kind) == kind]
        if same or near:
            return (same or near)[-1]
        item = _OutputItem(position, {})
        self._items.append(item)
        return item

    def _open(self, item: _OutputItem) -> Iterator[StreamEvent]:
        self._items.append(item)
        match item.wire:
            case {"type": "function_call", "call_id": str(call_id), "name": str(name)} if call_id and name:
                yield self._start(item, call_id, name)
            case _:  # the last event decides about a call without an id
                pass

    def _close(self, item: _OutputItem, wire: dict[str, JSON]) -> Iterator[StreamEvent]:
        item.wire, item.done = wire, True
        match wire.get("type"):
            case "function_call":
                yield from self._end(item)
            case "message":
                if rest := item.rest(_message_text(wire)):
                    yield TextDelta(rest)
            case "reasoning":
                if rest := item.rest(reasoning_of(wire)):
                    yield ThinkingDelta(rest)
            case _:
                pass

    def _start(self, item: _OutputItem, call_id: str, name: str) -> ToolCallStart:
        item.number = self._started
        self._started += 1
        return ToolCallStart(item.number, call_id, name)

    def _end(self, item: _OutputItem) -> Iterator[StreamEvent]:
        call = call_of(item.wire, self._taken)
        if call is not None:
            self._taken.append(call.id)
            if item.number is None:
                yield self._start(item, call.id, call.name)
        if item.number is not None and (rest := item.rest(item.wire.get("arguments"))):
            yield ArgumentsDelta(item.number, rest)
        if item.number is not None and call is not None:
            yield ToolCallEnd(item.number)


def _thinking_delta(item: _OutputItem, payload: dict[str, JSON], delta: str) -> ThinkingDelta:
    """Return a piece of reasoning. If it starts another part, a blank line is added before it, as in the whole text."""
    place = _number(payload, "summary_index" if "summary_index" in payload else "content_index")
    text = f"\n\n{delta}" if item.shown and place != item.place else delta
    item.place = place
    item.shown += text
    return ThinkingDelta(text)


def _message_text(message: dict[str, JSON]) -> str:
    texts = (
        part.get("text")
        for part in as_list(message.get("content"))
        if isinstance(part, dict) and part.get("type") == "output_text"
    )
    return "".join(text for text in texts if isinstance(text, str))


def _number(payload: dict[str, JSON], key: str) -> int | None:
    value = payload.get(key)
    return value if isinstance(value, int) else None
