"""A streamed answer → canonical events, and the whole response that they add up to (openai-responses-stream-order)."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.adapters._common import string
from harness.adapters._openai.client import DONE, payloads, reported
from harness.adapters.openai_responses.decode import call_of, reasoning_of, response_of
from harness.contract.errors import MalformedResponse
from harness.contract.model import ArgumentsDelta, Finish, TextDelta, ThinkingDelta, ToolCallEnd, ToolCallStart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.contract.model import JSON, Message, StreamEvent

_ENDS = ("response.completed", "response.incomplete")
_REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")


def stream_events(chunks: Iterable[bytes], status: int, history: Sequence[Message]) -> Iterator[StreamEvent]:
    """The answer to a request with this history, while it arrives.

    Raises:
        MalformedResponse: an event is none of this API, or the stream is cut.
        ProviderError: the stream carries an error, or the response failed.
    """
    answer = _Answer(history)
    for name, payload in payloads(chunks, status):
        if name == DONE:  # compatible servers end with Chat's sentinel
            continue
        kind = _kind(name, payload)
        response = payload.get("response")
        if kind in _ENDS and isinstance(response, dict):
            yield from answer.complete(response, status)
            return
        yield from answer.take(kind, payload)
    raise MalformedResponse("the stream is cut: the response was not completed", status)


def _kind(name: str | None, payload: dict[str, JSON]) -> str:
    """The type of an event. Raises `ProviderError` if it is an error (openai-responses-stream-error)."""
    kind = string(payload.get("type")) or name
    match kind, payload:
        case "response.failed", {"response": {**response}}:
            raise reported(response.get("error") or "the response failed")
        case ("error", _) | (None, {"error": _}):
            raise reported(payload.get("error") or payload)
        case _:
            return kind or ""


@dataclass(slots=True)
class _Item:
    """An item of the output as it grows.

    `number` is the index of a call among the events, once it has been announced. `shown` is what has been handed on of
    its arguments or text, and `place` the part of a reasoning that the last of it came from.
    """

    index: int | None
    wire: dict[str, JSON]
    done: bool = False
    number: int | None = None
    shown: str = ""
    place: int | None = None

    @property
    def id(self) -> str | None:
        """The id of the item, which is not that of a call."""
        return string(self.wire.get("id"))

    def rest(self, whole: JSON) -> str:
        """Return the rest of the complete arguments or text that was not passed on yet."""
        return whole[len(self.shown) :] if isinstance(whole, str) and whole.startswith(self.shown) else ""


class _Answer:
    """The answer as far as it has come."""

    def __init__(self, history: Sequence[Message]) -> None:
        self._history = history
        self._taken = [call.id for turn in history for call in turn.tool_calls]
        self._items: list[_Item] = []
        self._started = 0

    def take(self, kind: str, payload: dict[str, JSON]) -> Iterator[StreamEvent]:
        """Return the chunks of an event in the stream. Other events add nothing: the last of an item is whole."""
        match kind, payload:
            case "response.output_item.added", {"item": {**wire}}:
                yield from self._open(_Item(_number(payload, "output_index"), wire))
            case "response.output_item.done", {"item": {**wire}}:
                yield from self._close(self._item(payload, string(wire.get("id"))), wire)
            case "response.output_text.delta", {"delta": str(delta)} if delta:
                self._item(payload, string(payload.get("item_id"))).shown += delta
                yield TextDelta(delta)
            case _, {"delta": str(delta)} if delta and kind in _REASONING:
                yield _thought(self._item(payload, string(payload.get("item_id"))), payload, delta)
            case "response.function_call_arguments.delta", {"delta": str(delta)} if delta:
                item = self._item(payload, string(payload.get("item_id")))
                if item.number is not None:
                    item.shown += delta
                    yield ArgumentsDelta(item.number, delta)
            case _:
                pass

    def complete(self, response: dict[str, JSON], status: int) -> Iterator[StreamEvent]:
        """Return the chunks of the end of the stream.

        Its response repeats the items, but for streams that end with an empty output. What an item
        itself came to is authoritative (openai-responses-stream-order, openai-responses-reasoning-back); the response
        tells of those that had no last event.
        """
        output = response.get("output")
        repeated = [wire for wire in output if isinstance(wire, dict)] if isinstance(output, list) else []
        for position, wire in enumerate(repeated):
            item = self._repeated(position, wire)
            if not item.done:
                yield from self._close(item, wire)
        if not repeated and not all(item.done for item in self._items):
            raise MalformedResponse("the stream is cut: an item has no end", status)
        done = sorted((item for item in self._items if item.done), key=_place)
        body: dict[str, JSON] = {**response, "output": [item.wire for item in done]}
        yield Finish(response_of(body, status, self._history))

    def _item(self, payload: dict[str, JSON], item_id: str | None) -> _Item:
        """The open item that an event speaks of: by its `output_index`, since several may be open, else by its id."""
        index = _number(payload, "output_index")
        near = [item for item in self._items if not item.done and (index is None or item.index == index)]
        same = [item for item in near if item_id and item.id == item_id]
        if same or (near and index is not None):
            return (same or near)[-1]
        item = _Item(index, {})  # a server that does not announce its items
        self._items.append(item)
        return item

    def _repeated(self, position: int, wire: dict[str, JSON]) -> _Item:
        """The item that the end of the stream repeats, or a new one if nothing has been heard of it."""
        kind, item_id = wire.get("type"), string(wire.get("id"))
        same = [item for item in self._items if item_id and item.id == item_id]
        near = [item for item in self._items if item.index == position and item.wire.get("type", kind) == kind]
        if same or near:
            return (same or near)[-1]
        item = _Item(position, {})
        self._items.append(item)
        return item

    def _open(self, item: _Item) -> Iterator[StreamEvent]:
        self._items.append(item)
        match item.wire:
            case {"type": "function_call", "call_id": str(call_id), "name": str(name)} if call_id and name:
                yield self._start(item, call_id, name)
            case _:  # of a call without an id, the last event tells whether it is one
                pass

    def _close(self, item: _Item, wire: dict[str, JSON]) -> Iterator[StreamEvent]:
        item.wire, item.done = wire, True
        match wire.get("type"):
            case "function_call":
                yield from self._end(item)
            case "message":
                if rest := item.rest(_text(wire)):
                    yield TextDelta(rest)
            case "reasoning":
                if rest := item.rest(reasoning_of(wire)):
                    yield ThinkingDelta(rest)
            case _:
                pass

    def _start(self, item: _Item, call_id: str, name: str) -> ToolCallStart:
        item.number = self._started
        self._started += 1
        return ToolCallStart(item.number, call_id, name)

    def _end(self, item: _Item) -> Iterator[StreamEvent]:
        call = call_of(item.wire, self._taken)
        if call is not None:
            self._taken.append(call.id)
            if item.number is None:
                yield self._start(item, call.id, call.name)
        if item.number is not None and (rest := item.rest(item.wire.get("arguments"))):
            yield ArgumentsDelta(item.number, rest)
        if item.number is not None and call is not None:
            yield ToolCallEnd(item.number)


def _thought(item: _Item, payload: dict[str, JSON], delta: str) -> ThinkingDelta:
    """A piece of reasoning, behind a blank line where it begins another part, as in the whole text."""
    place = _number(payload, "summary_index" if "summary_index" in payload else "content_index")
    text = f"\n\n{delta}" if item.shown and place != item.place else delta
    item.place = place
    item.shown += text
    return ThinkingDelta(text)


def _text(message: dict[str, JSON]) -> str:
    content = message.get("content")
    texts = (
        part.get("text")
        for part in (content if isinstance(content, list) else ())
        if isinstance(part, dict) and part.get("type") == "output_text"
    )
    return "".join(text for text in texts if isinstance(text, str))


def _place(item: _Item) -> int:
    return sys.maxsize if item.index is None else item.index


def _number(payload: dict[str, JSON], key: str) -> int | None:
    value = payload.get(key)
    return value if isinstance(value, int) else None
