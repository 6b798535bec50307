"""Responses and streams of the API → canonical responses and events.

Responses are read as JSON. The SDK's typed models are slow, and each part has to keep its unknown fields anyway
(`test_blocks_become_parts_and_go_back_as_they_came`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

from harness.adapters._common import as_object, compact, count, loads, string, without_mark
from harness.model.errors import MalformedResponse, ProviderError, provider_error
from harness.model.messages import (
    JSON,
    ArgumentsDelta,
    ChatResponse,
    Finish,
    Message,
    Opaque,
    Part,
    ProviderMetadata,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

RECEIVED: Final = "anthropic/received"
"""Key in `provider_metadata` for received fields that are never sent back. It is not the name of an API, so no adapter
sends its fields.
"""

_STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "pause_turn": StopReason.PAUSE,
    "compaction": StopReason.PAUSE,
    "refusal": StopReason.REFUSAL,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_use": StopReason.TOOL_USE,
}
"""The API's stop reasons → canonical ones."""

_COMPLETE = frozenset({StopReason.TOOL_USE, StopReason.END_TURN, StopReason.STOP_SEQUENCE})
"""Stop reasons of complete responses. If such a response has a call whose arguments are not an object, the call is
malformed, not truncated.
"""


def read_response(body: JSON) -> ChatResponse:
    """Convert the body of a response to a canonical response.

    Raises:
        MalformedResponse: the body is not a message.
    """
    blocks = as_object(body).get("content")
    if not isinstance(body, dict) or not isinstance(blocks, list):
        raise MalformedResponse("the body is not a message: it has no list `content`")
    raw_reason = body.get("stop_reason")
    reason = _STOP_REASONS.get(raw_reason, StopReason.UNKNOWN) if isinstance(raw_reason, str) else StopReason.UNKNOWN
    parts = tuple(read_part(block) for block in blocks)
    if reason is StopReason.MAX_TOKENS and parts and isinstance(parts[-1], ToolCall):
        # The API closes the JSON of a truncated call: it can be parsed, but is not what the model meant.
        parts = (*parts[:-1], Opaque("anthropic", blocks[-1]))
    elif reason in _COMPLETE and any(_is_call(each) for each in parts):
        reason = StopReason.MALFORMED_CALL
    return ChatResponse(
        message=Message(Role.ASSISTANT, parts),
        stop_reason=reason,
        usage=_usage(body.get("usage")),
        model=string(body.get("model")),
        raw_stop_reason=string(raw_reason),
    )


def _is_call(part: Part) -> bool:
    return isinstance(part, Opaque) and isinstance(part.raw, dict) and part.raw.get("type") == "tool_use"


def read_part(block: JSON) -> Part:
    """Convert a content block to a part. A call whose arguments are not an object becomes `Opaque`."""
    if isinstance(block, dict):
        match block:
            case {"type": "text", "text": str(text), "citations": list(citations)}:
                return Text(text, _with_citations(_rest(block, "text", "citations"), citations))
            case {"type": "text", "text": str(text)}:
                return Text(text, _rest(block, "text"))
            case {"type": "thinking", "thinking": str(text)}:
                return Thinking(text, _rest(block, "thinking") or {"anthropic": {}})
            case {"type": "tool_use", "id": str(call_id), "name": str(name), "input": dict(arguments)}:
                return ToolCall(call_id, name, arguments, _rest(block, "id", "name", "input"))
            case _:
                pass
    return Opaque("anthropic", block)


def _with_citations(rest: ProviderMetadata, citations: list[JSON]) -> ProviderMetadata:
    """Return the metadata with the citations in the form that requests accept.

    Requests do not accept `file_id` (langchain-ai/langchain#32592; SDK type citation_char_location_param and similar).
    """
    taken: list[JSON] = [
        {key: value for key, value in each.items() if key != "file_id"} if isinstance(each, dict) else each
        for each in citations
    ]
    fields = as_object(rest.get("anthropic"))
    shown: dict[str, JSON] = {} if taken == citations else {RECEIVED: {"citations": citations}}
    return {"anthropic": {**fields, "citations": taken}, **shown}


def _rest(block: dict[str, JSON], *taken: str) -> ProviderMetadata:
    """Return the fields of a block that have no canonical equivalent."""
    rest: dict[str, JSON] = {key: value for key, value in block.items() if key != "type" and key not in taken}
    return {"anthropic": rest} if rest else {}


def _usage(usage: JSON) -> Usage:
    """Return the usage. The API's `input_tokens` excludes tokens read from or written to a cache (anthropic-usage)."""
    if not isinstance(usage, dict):
        return Usage()
    fresh, output = count(usage, "input_tokens"), count(usage, "output_tokens")
    read, written = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    details = usage.get("output_tokens_details")
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count(details, "thinking_tokens") if isinstance(details, dict) else None,
    )


_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Error type → HTTP status."""


def error_in_stream(event: dict[str, JSON]) -> ProviderError:
    """Return the error in an event. Its type determines the status, because streams have HTTP 200
    (anthropic-stream-error)."""
    details = error_details(event)
    message, code = details.get("message"), details.get("type")
    return provider_error(
        _STATUSES.get(code, 500) if isinstance(code, str) else 500,
        message if isinstance(message, str) else compact(event)[:500],
        code=string(code),
    )


def error_details(body: object) -> dict[str, Any]:
    """Return the inner object of `{"type": "error", "error": {"type", "message"}}`, or `{}` if there is none."""
    details = cast("dict[str, object]", body).get("error") if isinstance(body, dict) else None
    return cast("dict[str, Any]", details) if isinstance(details, dict) else {}


# --- streams ---


def read_stream(body: Iterable[bytes]) -> Iterator[StreamEvent]:
    """Yield the events of a streamed body as it arrives.

    See anthropic-stream-order, anthropic-stream-arguments, anthropic-stream-signature, anthropic-broken-arguments and
    anthropic-stream-usage.

    The SDK's decoder reads the events. The SDK's `Stream` is not used: it drops events without a name and accepts a
    truncated stream (`test_events_without_data_or_names_make_no_difference`, anthropic-stream-cut-unnoticed).

    A call ends when the next block starts, or with the stream. The API closes the JSON of a truncated call, so only the
    final stop reason `max_tokens` shows the truncation.

    Raises:
        MalformedResponse: the body ends before `message_stop`, or violates the stream grammar.
        ProviderError: the stream has an `error` event.
    """
    return read_events(_events(body))


def _events(body: Iterable[bytes]) -> Iterator[dict[str, JSON]]:
    from anthropic._streaming import SSEDecoder  # noqa: PLC0415 - `read_events` serves clients without the SDK

    try:
        for event in SSEDecoder().iter_bytes(without_mark(body)):
            if not event.data or event.data.strip() == "[DONE]":  # the end mark of OpenAI Chat, which the SDK skips
                continue
            data = loads(event.data)
            if not isinstance(data, dict):
                raise MalformedResponse("an event is not an object")
            yield {**data, "type": "error"} if event.event == "error" else data
    except UnicodeDecodeError as error:
        raise MalformedResponse(f"an event is not UTF-8: {error.reason}") from None


def read_events(events: Iterable[dict[str, JSON]]) -> Iterator[StreamEvent]:
    """Convert the parsed events of a stream. See `read_stream`."""
    message = _MessageBuilder()
    for event in events:
        yield from message.take(event)
    yield from message.finish()


@dataclass(slots=True)
class _OpenBlock:
    """A content block under construction. `call` is its index among the calls, if it is a call."""

    data: dict[str, JSON]
    call: int | None
    fragments: list[str] = field(default_factory=list[str])
    stopped: bool = False
    ended: bool = False

    def start(self) -> Iterator[StreamEvent]:
        """Yield the events for the start of the block, which may already contain text."""
        part = read_part(self.data)
        if isinstance(part, ToolCall) and self.call is not None:
            yield ToolCallStart(self.call, part.id, part.name)
        yield from self._show("text", self.data)
        yield from self._show("thinking", self.data)

    def extend(self, delta: dict[str, JSON]) -> Iterator[StreamEvent]:
        """Apply a delta. In a delta of unknown type, strings and lists are appended to the block's fields, and other
        values replace them.
        """
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
                yield from self._show("text", delta)
            case "thinking_delta":
                self._grow("thinking", _text(delta, "thinking"))
                yield from self._show("thinking", delta)
            case _:
                for key, value in delta.items():
                    if key != "type":
                        self._grow(key, value)

    def whole(self) -> dict[str, JSON]:
        """Return the complete block, as in a non-streamed response. Without fragments, it keeps the input that it
        started with, usually `{}` (anthropic-stream-arguments).
        """
        text = "".join(self.fragments)
        if not text:
            return self.data
        try:
            return {**self.data, "input": loads(text)}
        except MalformedResponse:
            return {**self.data, "input": text}

    def end(self) -> Iterator[StreamEvent]:
        """Yield the end event of a complete call, once. If the block started with its arguments, yield them first."""
        if self.call is None or self.ended or not isinstance(read_part(self.whole()), ToolCall):
            return
        self.ended = True
        arguments = self.data["input"]
        if arguments and not any(self.fragments):
            yield ArgumentsDelta(self.call, compact(arguments))
        yield ToolCallEnd(self.call)

    def _show(self, kind: str, source: dict[str, JSON]) -> Iterator[StreamEvent]:
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


class _MessageBuilder:
    def __init__(self) -> None:
        self._fields: dict[str, JSON] | None = None
        self._usage: dict[str, JSON] = {}
        self._blocks: dict[int, _OpenBlock] = {}
        self._calls = 0
        self._complete = False

    def take(self, data: dict[str, JSON]) -> Iterator[StreamEvent]:
        """Apply an event; unknown types are ignored."""
        if data.get("type") == "error" or isinstance(data.get("error"), dict):
            raise error_in_stream(data)
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
                self._apply_message_delta(data)
            case "message_stop":
                self._complete = True
            case _:
                pass

    def finish(self) -> Iterator[StreamEvent]:
        """Yield the missing end events of calls, then the complete response."""
        if self._fields is None or not self._complete:
            raise MalformedResponse("the stream was cut before message_stop")
        content: list[JSON] = [block.whole() for block in self._blocks.values()]
        response = read_response({**self._fields, "content": content, "usage": self._usage})
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
        is_call = isinstance(read_part(data), ToolCall)
        self._blocks[index] = block = _OpenBlock(data, self._calls if is_call else None)
        self._calls += is_call
        yield from block.start()

    def _open_block(self, event: dict[str, JSON]) -> _OpenBlock:
        index = event.get("index")
        block = self._blocks.get(index) if isinstance(index, int) else None
        if block is None or block.stopped:
            raise MalformedResponse(f"{event['type']} for a content block that is not open")
        return block

    def _apply_message_delta(self, event: dict[str, JSON]) -> None:
        if self._fields is None:
            raise MalformedResponse("message_delta before message_start")
        self._fields |= _member(event, "delta")
        self._count(event.get("usage"))

    def _count(self, usage: JSON) -> None:
        """Update cumulative counts; missing ones keep their value (anthropic-stream-usage)."""
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
