"""Streams read strictly: the order of events, and the blocks that they open and close (anthropic-stream-order)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from harness.apis.departure import ARGUMENTS, END, ERROR_STATUS, EVENTS, FIELDS, INDEX, Departure
from harness.apis.jsonvalue import loads
from harness.apis.strictly import DONE, Sent, framing, sent, text_at
from harness.apis.view import WireError
from harness.contract.http import HttpResponse
from harness.contract.model import JSON

_DELTAS = {
    "text_delta": ("text",),
    "citations_delta": ("text",),
    "input_json_delta": ("tool_use", "server_tool_use", "mcp_tool_use"),
    "thinking_delta": ("thinking",),
    "signature_delta": ("thinking",),
}
"""Type of a delta → the types of the blocks that it can be of."""

_GROWING = {"text_delta": "text", "thinking_delta": "thinking"}


def streamed(response: HttpResponse) -> Generator[Departure, None, dict[str, JSON] | None]:
    """Where a stream departs; returns the message that it spells out, `None` if it never began."""
    yield from framing(response)
    message = _Message()
    for event in sent(response):
        if event.text == DONE:
            yield EVENTS.broken("the API has no such event", event=event.index, actual=DONE)
        elif event.data is not None:
            yield from message.take(event, event.data)
    yield from message.unsaid()
    return message.whole


class _Message:
    """A message as its events spell it out."""

    def __init__(self) -> None:
        self._begun: dict[str, Any] | None = None
        self._blocks: list[dict[str, Any]] = []
        self._open: dict[int, tuple[dict[str, Any], list[str]]] = {}
        self._told = self._stopped = self._failed = False
        self._cut: Departure | None = None

    @property
    def whole(self) -> dict[str, JSON] | None:
        """The message, as far as it came; an answer that failed on its way is none."""
        if self._begun is None or self._failed or not self._stopped:
            return None
        return {**self._begun, "content": [*self._blocks]}

    def take(self, event: Sent, data: dict[str, JSON]) -> Iterator[Departure]:
        """One event."""
        kind, at = data.get("type"), event.index
        if event.name != kind:
            said = "the name of an event is not the type of its data: clients that go by names lose it"
            yield EVENTS.broken(said, "/type", event=at, actual=event.name, expected=kind)
        if kind == "error" or "error" in data:
            self._failed = True
            said = "an error comes inside a stream whose status says that all is well"
            yield ERROR_STATUS.broken(said, "/error", event=at, actual=data.get("error"))
        elif kind != "ping":
            yield from self._of_message(kind, data, at)

    def _of_message(self, kind: JSON, data: dict[str, JSON], at: int) -> Iterator[Departure]:
        if self._stopped:
            yield EVENTS.broken("an event comes behind message_stop", "/type", event=at, actual=kind)
        elif kind == "message_start":
            yield from self._start(data, at)
        elif self._begun is None:
            yield EVENTS.broken("an event comes before message_start", "/type", event=at, actual=kind)
        elif kind in ("content_block_start", "content_block_delta", "content_block_stop"):
            yield from self._block(str(kind), data, at)
        elif kind == "message_delta":
            yield from self._tell(data, at)
        elif kind == "message_stop":
            self._stopped = True
            if not self._told:
                yield EVENTS.broken("message_stop comes without a message_delta", "/type", event=at)

    def _start(self, data: dict[str, JSON], at: int) -> Iterator[Departure]:
        message = data.get("message")
        if self._begun is not None:
            yield EVENTS.broken("there are two message_start", "/type", event=at)
        if not isinstance(message, dict):
            yield FIELDS.broken("message_start has no message", "/message", event=at, actual=message)
            message = {}
        self._begun = {**message}
        for name, among in (("id", ()), ("type", ("message",)), ("role", ("assistant",)), ("model", ())):
            yield from text_at(message, name, "/message", event=at, among=among)

    def _block(self, kind: str, data: dict[str, JSON], at: int) -> Iterator[Departure]:
        index = data.get("index")
        if not isinstance(index, int) or isinstance(index, bool):
            yield INDEX.broken("the event has no index", "/index", event=at, actual=index)
        elif kind == "content_block_start":
            yield from self._opened(data, index, at)
        elif index not in self._open:
            said = f"{kind} is for a block that is not open"
            yield INDEX.broken(said, "/index", event=at, actual=index, expected=[*self._open])
        elif kind == "content_block_delta":
            yield from self._grown(data, index, at)
        else:
            yield from self._closed(index, at)

    def _opened(self, data: dict[str, JSON], index: int, at: int) -> Iterator[Departure]:
        block = data.get("content_block")
        if self._told:
            yield EVENTS.broken("a block begins behind message_delta", "/type", event=at)
        if self._open:
            yield EVENTS.broken("a block begins while another is open", "/index", event=at, actual=index)
        if index != len(self._blocks):
            said = "the blocks are not counted from 0, one by one"
            yield INDEX.broken(said, "/index", event=at, actual=index, expected=len(self._blocks))
        if not isinstance(block, dict):
            yield FIELDS.broken("a block is no object", "/content_block", event=at, actual=block)
            block = {}
        if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
            said = "a tool_use begins without an input"
            yield FIELDS.broken(said, "/content_block/input", event=at, actual=block.get("input"))
        made = {**block}
        self._blocks.append(made)
        self._open[index] = (made, [])

    def _grown(self, data: dict[str, JSON], index: int, at: int) -> Iterator[Departure]:
        block, pieces = self._open[index]
        delta = data.get("delta")
        kind = delta.get("type") if isinstance(delta, dict) else None
        if not isinstance(delta, dict) or not isinstance(kind, str):
            yield FIELDS.broken("a delta has no type", "/delta", event=at, actual=delta)
            return
        if kind in _DELTAS and block.get("type") not in _DELTAS[kind]:
            said = f"a {kind} is for a block of type {block.get('type')!r}"
            yield EVENTS.broken(said, "/delta/type", event=at, actual=kind)
        if kind == "input_json_delta":
            piece = delta.get("partial_json")
            if not isinstance(piece, str):
                yield ARGUMENTS.broken("a piece of arguments is no text", "/delta/partial_json", event=at, actual=piece)
            pieces.append(piece if isinstance(piece, str) else "")
        elif kind in _GROWING:
            name = _GROWING[kind]
            block[name] = f"{block.get(name, '')}{delta.get(name, '')}"

    def _closed(self, index: int, at: int) -> Iterator[Departure]:
        block, pieces = self._open.pop(index)
        text = "".join(pieces)
        if not text:
            return
        try:
            block["input"] = loads(text)
        except WireError as damage:
            block["input"] = {}  # which is said here, and not again of the whole
            broken = ARGUMENTS.broken(f"the arguments are {damage.reason}", event=at, actual=text)
            if block is self._blocks[-1]:  # why the answer stopped comes later, and a bound cuts the last block
                self._cut = broken
            else:
                yield broken

    def _tell(self, data: dict[str, JSON], at: int) -> Iterator[Departure]:
        if self._open:
            yield EVENTS.broken("message_delta comes while a block is open", event=at, actual=[*self._open])
        self._told = True
        delta, usage, begun = data.get("delta"), data.get("usage"), self._begun or {}
        begun |= delta if isinstance(delta, dict) else {}
        if isinstance(usage, dict):
            known = begun.get("usage")
            begun["usage"] = {**(known if isinstance(known, dict) else {}), **usage}

    def unsaid(self) -> Iterator[Departure]:
        """What the stream should have said by its end."""
        if self._cut is not None and (self._begun or {}).get("stop_reason") != "max_tokens":
            yield self._cut
        if self._begun is None:
            yield EVENTS.broken("the stream has no message_start")
        elif not self._stopped and not self._failed:
            yield END.broken("the stream has no end: there is no message_stop, so that a cut looks the same")
