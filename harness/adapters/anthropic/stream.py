"""Event stream → stream events. Its end is decoded from the whole message, as an answer that is not streamed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from anthropic._streaming import ServerSentEvent, SSEDecoder

from harness.adapters._common import compact, loads, without_mark
from harness.adapters.anthropic import decode
from harness.adapters.anthropic.decode import in_stream
from harness.contract.errors import MalformedResponse
from harness.contract.model import (
    JSON,
    ArgumentsDelta,
    Finish,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
)


def answer(body: Iterable[bytes]) -> Iterator[StreamEvent]:
    """What a body says, while it arrives (anthropic-stream-order, anthropic-stream-arguments,
    anthropic-stream-signature, anthropic-broken-arguments, anthropic-stream-usage).

    The SDK's decoder reads the events; its `Stream` drops those without a name and takes a cut stream for whole
    (`test_events_without_data_and_without_names_make_no_difference`, anthropic-stream-cut-unnoticed).

    A call ends once the next block shows that it is whole, else behind the last event: the API closes the JSON of a
    call that it cuts short, and says only in the end that it did (`max_tokens`).

    Raises:
        MalformedResponse: the body ends before `message_stop`, or breaks the grammar.
        ProviderError: an `error` event.
    """
    message = _Message()
    try:
        for event in SSEDecoder().iter_bytes(without_mark(body)):
            yield from message.take(event)
    except UnicodeDecodeError as error:
        raise MalformedResponse(f"an event is not UTF-8: {error.reason}") from None
    yield from message.finish()


def _no_fragments() -> list[str]:
    return []


@dataclass(slots=True)
class _Block:
    """A content block under construction. `call` is its number among the calls, if it is one."""

    data: dict[str, JSON]
    call: int | None
    fragments: list[str] = field(default_factory=_no_fragments)
    stopped: bool = False
    ended: bool = False

    def start(self) -> Iterator[StreamEvent]:
        """The event of the block's start; one may bring text already."""
        part = decode.part(self.data)
        if isinstance(part, ToolCall) and self.call is not None:
            yield ToolCallStart(self.call, part.id, part.name)
        yield from self._said("text", self.data)
        yield from self._said("thinking", self.data)

    def extend(self, delta: dict[str, JSON]) -> Iterator[StreamEvent]:
        """Apply one delta. What a delta of another day says grows like the others where it is text or a list."""
        match delta.get("type"):
            case "input_json_delta":
                fragment = _text(delta, "partial_json")
                self.fragments.append(fragment)
                if self.call is not None and fragment:
                    yield ArgumentsDelta(self.call, fragment)
            case "signature_delta":
                self.data["signature"] = delta.get("signature")  # replaces (anthropic-stream-signature)
            case "citations_delta":
                self._grow("citations", [delta.get("citation")])
            case "text_delta":
                self._grow("text", _text(delta, "text"))
                yield from self._said("text", delta)
            case "thinking_delta":
                self._grow("thinking", _text(delta, "thinking"))
                yield from self._said("thinking", delta)
            case _:
                for key, value in delta.items():
                    if key != "type":
                        self._grow(key, value)

    def whole(self) -> dict[str, JSON]:
        """The block as an answer that is not streamed has it. Without a fragment its input stays `{}`
        (anthropic-stream-arguments)."""
        text = "".join(self.fragments)
        if not text:
            return self.data
        try:
            return {**self.data, "input": loads(text)}
        except MalformedResponse:
            return {**self.data, "input": text}

    def end(self) -> Iterator[StreamEvent]:
        """The end of a call that is whole, once. Arguments that came without fragments stand before it."""
        if self.call is None or self.ended or not isinstance(decode.part(self.whole()), ToolCall):
            return
        self.ended = True
        arguments = self.data["input"]
        if arguments and not any(self.fragments):
            yield ArgumentsDelta(self.call, compact(arguments))
        yield ToolCallEnd(self.call)

    def _said(self, kind: str, source: dict[str, JSON]) -> Iterator[StreamEvent]:
        text = source.get(kind)
        if self.data.get("type") == kind and isinstance(text, str) and text:
            yield TextDelta(text) if kind == "text" else ThinkingDelta(text)

    def _grow(self, key: str, value: JSON) -> None:
        before = self.data.get(key)
        if isinstance(before, str) and isinstance(value, str):
            self.data[key] = before + value
        elif isinstance(before, list) and isinstance(value, list):
            self.data[key] = [*before, *value]
        else:
            self.data[key] = value


class _Message:
    """A message under construction."""

    def __init__(self) -> None:
        self._fields: dict[str, JSON] | None = None
        self._usage: dict[str, JSON] = {}
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._complete = False

    def take(self, event: ServerSentEvent) -> Iterator[StreamEvent]:
        """Apply one event. Events of another day say nothing."""
        if not event.data or event.data.strip() == "[DONE]":  # Chat's sentinel, which the SDK skips for want of a name
            return
        data = loads(event.data)
        if not isinstance(data, dict):
            raise MalformedResponse("an event is no object")
        if data.get("type") == "error" or event.event == "error" or isinstance(data.get("error"), dict):
            raise in_stream(data)
        match data.get("type"):
            case "message_start":
                self._begin(_member(data, "message"))
            case "content_block_start":
                yield from self._start_block(data)
            case "content_block_delta":
                yield from self._open_block(data).extend(_member(data, "delta"))
            case "content_block_stop":
                self._open_block(data).stopped = True
            case "message_delta":
                self._settle(data)
            case "message_stop":
                self._complete = True
            case _:
                pass

    def finish(self) -> Iterator[StreamEvent]:
        """The ends that were held back, and the answer."""
        if self._fields is None or not self._complete:
            raise MalformedResponse("the stream was cut before message_stop")
        content: list[JSON] = [block.whole() for block in self._blocks.values()]
        response = decode.message({**self._fields, "content": content, "usage": self._usage})
        for block, part in zip(self._blocks.values(), response.message.parts, strict=True):
            if isinstance(part, ToolCall):
                yield from block.end()
        yield Finish(response)

    def _begin(self, fields: dict[str, JSON]) -> None:
        if self._fields is not None:
            raise MalformedResponse("a second message_start")
        self._fields = fields
        self._count(fields.get("usage"))

    def _start_block(self, event: dict[str, JSON]) -> Iterator[StreamEvent]:
        index, data = event.get("index"), _member(event, "content_block")
        if not isinstance(index, int) or index <= max(self._blocks, default=-1):
            raise MalformedResponse("a content block starts out of its order")
        for block in self._blocks.values():
            if block.stopped:
                yield from block.end()
        is_call = isinstance(decode.part(data), ToolCall)
        self._blocks[index] = block = _Block(data, self._calls if is_call else None)
        self._calls += is_call
        yield from block.start()

    def _open_block(self, event: dict[str, JSON]) -> _Block:
        index = event.get("index")
        block = self._blocks.get(index) if isinstance(index, int) else None
        if block is None or block.stopped:
            raise MalformedResponse(f"{event['type']} for a content block that is not open")
        return block

    def _settle(self, event: dict[str, JSON]) -> None:
        if self._fields is None:
            raise MalformedResponse("message_delta before message_start")
        self._fields |= _member(event, "delta")
        self._count(event.get("usage"))

    def _count(self, usage: JSON) -> None:
        """Cumulative numbers: later ones replace, those that are not there stay (anthropic-stream-usage)."""
        if isinstance(usage, dict):
            self._usage |= {name: count for name, count in usage.items() if count is not None}


def _member(event: dict[str, JSON], key: str) -> dict[str, JSON]:
    value = event.get(key)
    if not isinstance(value, dict):
        raise MalformedResponse(f"{event['type']} without an object `{key}`")
    return value


def _text(delta: dict[str, JSON], key: str) -> str:
    value = delta.get(key)
    if not isinstance(value, str):
        raise MalformedResponse(f"{delta['type']} without a text `{key}`")
    return value
