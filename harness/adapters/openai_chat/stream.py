"""A streamed answer → canonical events, and the whole body that its chunks add up to (openai-chat-call-deltas,
openai-chat-stream-usage)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters._openai.eventstream import events, payload
from harness.adapters._openai.failures import reported
from harness.adapters.openai_chat.pieces import StreamedCall, grown, owner
from harness.adapters.openai_chat.response import identify, response_of
from harness.adapters.openai_chat.taken_back import REASONING
from harness.contract.errors import MalformedResponse
from harness.contract.model import (
    ArgumentsDelta,
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.adapters._openai.eventstream import Event
    from harness.contract.model import JSON, Message, StreamEvent

_DONE = "[DONE]"


def stream_events(chunks: Iterable[bytes], status: int, history: Sequence[Message]) -> Iterator[StreamEvent]:
    """The answer to a request with this history, while it arrives.

    A stream has come to its end with `[DONE]`, which some compatible servers leave out, or with a finish reason.

    Raises:
        MalformedResponse: an event is no chunk, or the stream is cut.
        ProviderError: the stream carries an error.
    """
    answer = _Answer(history)
    for event in events(chunks):
        if event.data.strip() == _DONE:
            break
        try:
            yield from answer.take(_chunk(event, status))
        except RecursionError:
            raise MalformedResponse("an event of the stream is nested too deeply", status) from None
    else:
        if answer.finish_reason is None:
            raise MalformedResponse("the stream is cut: there is neither [DONE] nor a finish reason", status)
    yield from answer.finish(status)


def _chunk(event: Event, status: int) -> dict[str, JSON]:
    chunk = payload(event, status)
    if event.name == "error" or chunk.get("object") == "error":
        raise reported(chunk.get("error", chunk))
    return chunk


class _Answer:
    """The answer as far as it has come."""

    def __init__(self, history: Sequence[Message]) -> None:
        self.finish_reason: str | None = None
        self._history = history
        self._taken = [call.id for turn in history for call in turn.tool_calls]
        self._model: JSON = None
        self._usage: dict[str, JSON] = {}
        self._message: dict[str, JSON] | None = None
        self._calls: list[StreamedCall] = []
        self._identified = 0
        self._started = 0

    def take(self, chunk: dict[str, JSON]) -> Iterator[StreamEvent]:
        """What a chunk brings. Choices beside the first are no part of the answer."""
        if chunk.get("error"):
            raise reported(chunk["error"])
        self._model = chunk.get("model") or self._model
        usage = chunk.get("usage")
        if isinstance(usage, dict):  # counts of a later chunk replace those of an earlier one
            self._usage |= {key: value for key, value in usage.items() if value is not None}
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and not choice.get("index"):
                yield from self._take_choice(choice)

    def finish(self, status: int) -> Iterator[StreamEvent]:
        """What the end of the stream brings."""
        yield from self._start(finished=True)
        response = response_of(self._body(), status, self._history)
        if self._calls:  # the last parts of the message, one for each call
            for call, part in zip(self._calls, response.message.parts[-len(self._calls) :], strict=True):
                if isinstance(part, ToolCall) and call.number is not None:
                    yield ToolCallEnd(call.number)
        yield Finish(response)

    def _take_choice(self, choice: dict[str, JSON]) -> Iterator[StreamEvent]:
        if choice.get("error"):  # OpenRouter: the host of the model has failed
            raise reported(choice["error"])
        if isinstance(finish_reason := choice.get("finish_reason"), str):
            self.finish_reason = finish_reason
        message = self._message = self._message or {"role": "assistant"}
        match choice.get("delta"):
            case {**delta}:
                pieces = delta.pop("tool_calls", None)
            case _:
                return
        for key, value in delta.items():
            message[key] = grown(key, message.get(key), value)
        yield from _said(delta)
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                yield from self._take_piece(piece)

    def _take_piece(self, piece: dict[str, JSON]) -> Iterator[StreamEvent]:
        call = owner(self._calls, piece)
        if call is None:
            call = StreamedCall(piece.get("index"))
            self._calls.append(call)
        call.add(piece)
        if call.number is None:
            yield from self._start(finished=False)
        else:
            yield from _arrived(call, call.number)

    def _start(self, *, finished: bool) -> Iterator[StreamEvent]:
        """Announce the calls that can be, in their order: an id that has to be made follows from those before."""
        for call in self._calls[self._identified :]:
            if not (call.is_known or finished):
                return
            self._identified += 1
            call_id = identify(call.wire, self._taken)
            self._taken.append(call_id)
            if call.name:
                call.number = self._started
                self._started += 1
                yield ToolCallStart(call.number, call_id, call.name)
                yield from _arrived(call, call.number)

    def _body(self) -> dict[str, JSON]:
        choices: list[JSON] = []
        if self._message is not None:
            calls: list[JSON] = [call.wire for call in self._calls]
            choices.append({"finish_reason": self.finish_reason, "message": {**self._message, "tool_calls": calls}})
        return {"model": self._model, "usage": self._usage, "choices": choices}


def _said(delta: dict[str, JSON]) -> Iterator[StreamEvent]:
    for key in REASONING:
        thought = delta.get(key)
        if isinstance(thought, str) and thought:
            yield ThinkingDelta(thought)
            break
    content = delta.get("content")
    for part in content if isinstance(content, list) else ({"type": "text", "text": content},):
        match part:
            case {"type": "text", "text": str(text)} if text:
                yield TextDelta(text)
            case _:
                pass


def _arrived(call: StreamedCall, number: int) -> Iterator[StreamEvent]:
    if arguments := call.unseen():
        yield ArgumentsDelta(number, arguments)
