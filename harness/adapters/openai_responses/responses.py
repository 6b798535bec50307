"""Responses and streams of the API → canonical responses and events."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.adapters._common import as_list, string
from harness.adapters._openai.client import DONE, arguments_in, error_in, payloads
from harness.adapters._openai.wire import is_legal, read_usage, split_fields, synthesise_id
from harness.adapters.openai_responses import API, MAX_ID_CHARACTERS, RECEIVED
from harness.model.errors import MalformedResponse
from harness.model.messages import (
    SYNTHESISED_ID,
    ArgumentsDelta,
    ChatResponse,
    Finish,
    Message,
    Opaque,
    Refusal,
    Role,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from harness.model.messages import JSON, Part, StreamEvent

_STATUSES = {
    "failed": StopReason.ERROR,
    "cancelled": StopReason.ERROR,
    "in_progress": StopReason.PAUSE,
    "queued": StopReason.PAUSE,
}
_REJECTED_REASONING_FIELDS = frozenset({"status"})
"""Fields of a reasoning item that the API rejects in requests (openai-responses-reasoning-status-refused)."""

_ACCEPTED_CALL_FIELDS = frozenset({"id", "call_id", "status", "namespace", "caller", "async"})
"""Fields of a call that the API accepts in addition to name and arguments (SDK type response_function_tool_call_param).
It rejects others, such as fields of compatible servers.
"""

_UNFINISHED = ("in_progress", "incomplete")
_INCOMPLETE = {
    "max_output_tokens": StopReason.MAX_TOKENS,
    "max_messages": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "steered": StopReason.PAUSE,
}


def read_response(body: JSON, status: int, history: Sequence[Message]) -> ChatResponse:
    """Return the response to a request with this history.

    Raises:
        MalformedResponse: the body is not a response.
        ProviderError: the response failed.
    """
    match body:
        case {"status": "failed", "error": {**error}}:
            raise error_in(error)
        case {"output": list(output), **rest}:
            pass
        case {"error": dict(error)} | {"error": str(error)} if error:
            raise error_in(error)
        case _:
            raise MalformedResponse("there is no list of output items", status)
    parts = tuple(_parts(output, history))
    stop_reason, raw = _stop_reason(rest, parts)
    return ChatResponse(
        Message(Role.ASSISTANT, parts),
        stop_reason,
        read_usage(rest.get("usage"), "input_tokens", "output_tokens"),
        string(rest.get("model")),
        raw,
        id=string(rest.get("id")),
    )


def _parts(output: list[JSON], history: Sequence[Message]) -> list[Part]:
    taken = [call.id for turn in history for call in turn.tool_calls]
    parts: list[Part] = []
    for item in output:
        match item:
            case {"type": "message", "content": [_, *_] as content, **fields}:
                parts.extend(_content(part, fields) for part in content)
            case {"type": "reasoning"}:
                parts.append(
                    Thinking(reasoning_of(item), _item_metadata(item, item.keys() - _REJECTED_REASONING_FIELDS))
                )
            case {"type": "function_call"}:
                call = call_of(item, taken)
                if call:
                    taken.append(call.id)
                parts.append(call or Opaque(API, item))
            case _:
                parts.append(Opaque(API, item))
    return parts


def _item_metadata(fields: dict[str, JSON], taken: AbstractSet[str]) -> dict[str, JSON]:
    """Return the metadata of an item. The fields in `taken` are sent back in later requests; others are only kept."""
    back, shown = split_fields(fields, taken)
    return {name: held for name, held in ((API, back), (RECEIVED, shown)) if held}


def _content(part: JSON, message: dict[str, JSON]) -> Part:
    """Convert a part of a message item. `message` has the item's other fields, which are sent back with the part."""
    message = {key: value for key, value in message.items() if key != "role"}
    match part:
        case {"type": "output_text", "text": str(text), **fields}:
            return Text(text, {API: {**fields, "message": message}})
        case {"type": "refusal", "refusal": str(text), **fields}:
            return Refusal(text, {API: {**fields, "message": message}})
        case _:
            return Opaque(API, {"type": "message", "role": "assistant", **message, "content": [part]})


def reasoning_of(item: dict[str, JSON]) -> str:
    """Return the visible reasoning: the summary, or the full text if a server sends it."""
    for key in ("summary", "content"):
        texts = [string(part.get("text")) for part in as_list(item.get(key)) if isinstance(part, dict)]
        if any(texts):
            return "\n\n".join(text for text in texts if text)
    return ""


def call_of(item: dict[str, JSON], taken: Sequence[str]) -> ToolCall | None:
    """Convert a call; return `None` if it is truncated or its arguments are not a JSON object.

    `taken` contains the ids of all earlier calls.
    """
    match item:
        case {"name": str(name), "arguments": str(text), **fields} if fields.get("status") not in _UNFINISHED:
            arguments = arguments_in(text or "{}")
        case _:
            return None
    if arguments is None:
        return None
    del fields["type"]
    call_id = fields.pop("call_id", None)
    if not isinstance(call_id, str) or not call_id:
        marked: dict[str, JSON] = {"harness": {SYNTHESISED_ID: True}}
        made = synthesise_id(len(taken), taken)
        return ToolCall(made, name, arguments, _item_metadata(fields, _ACCEPTED_CALL_FIELDS) | marked)
    if not is_legal(call_id, MAX_ID_CHARACTERS):  # from a server with longer ids
        fields["call_id"] = call_id
    return ToolCall(call_id, name, arguments, _item_metadata(fields, _ACCEPTED_CALL_FIELDS))


def _stop_reason(body: dict[str, JSON], parts: Sequence[Part]) -> tuple[StopReason, str | None]:
    """Return the stop reason and the API's own term, from status and items (openai-responses-stop-reasons)."""
    status = string(body.get("status"))
    match status, body.get("incomplete_details"):
        case "completed", _:
            return _completed_stop_reason(parts), status
        case "incomplete", {"reason": str(reason)}:
            return _INCOMPLETE.get(reason, StopReason.UNKNOWN), reason
        case _:
            return _STATUSES.get(status or "", StopReason.UNKNOWN), status


def _completed_stop_reason(parts: Sequence[Part]) -> StopReason:
    kinds = [part.raw.get("type") for part in parts if isinstance(part, Opaque) and isinstance(part.raw, dict)]
    if "function_call" in kinds:
        return StopReason.MALFORMED_CALL
    if "custom_tool_call" in kinds or any(isinstance(part, ToolCall) for part in parts):
        return StopReason.TOOL_USE
    return StopReason.REFUSAL if any(isinstance(part, Refusal) for part in parts) else StopReason.END_TURN


# --- streams ---


_ENDS = ("response.completed", "response.incomplete")
_REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")


def read_stream(chunks: Iterable[bytes], status: int, history: Sequence[Message]) -> Iterator[StreamEvent]:
    """Yield the events of a streamed response as it arrives. `history` is the conversation that the request sent.

    Raises:
        MalformedResponse: an event is not a JSON object, or the stream is truncated.
        ProviderError: the stream has an error, or the response failed.
    """
    answer = _ResponseBuilder(history)
    for name, payload in payloads(chunks, status):
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
