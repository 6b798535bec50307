"""Stream of a response → canonical events and the whole body (openai-chat-call-deltas, openai-chat-stream-usage)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters._common import as_list, as_object, loads
from harness.adapters._openai.answers import DONE, error_in
from harness.adapters._openai.client import payloads
from harness.adapters.openai_chat.responses import REASONING, identify, read_response
from harness.model.errors import MalformedResponse
from harness.model.messages import (
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

    from harness.model.messages import JSON, Message, StreamEvent


def read_stream(chunks: Iterable[bytes], status: int, history: Sequence[Message]) -> Iterator[StreamEvent]:
    """Yield the events of a streamed response as it arrives. `history` is the conversation before it.

    A stream is complete if it has a finish reason or `[DONE]`. Some compatible servers leave out `[DONE]`.

    Raises:
        MalformedResponse: An event is not a chunk, or the stream is truncated.
        ProviderError: The stream contains an error.
    """
    answer = _CompletionBuilder(history)
    for name, chunk in payloads(chunks, status):
        if name == DONE:
            break
        if name == "error" or chunk.get("object") == "error":
            raise error_in(chunk.get("error", chunk))
        try:
            yield from answer.take(chunk)
        except RecursionError:
            raise MalformedResponse("an event of the stream is nested too deeply", status) from None
    else:
        if answer.finish_reason is None:
            raise MalformedResponse("the stream is cut: there is neither [DONE] nor a finish reason", status)
    yield from answer.finish(status)


class _CompletionBuilder:
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
        """Apply a chunk. Only the first choice is read."""
        if chunk.get("error"):
            raise error_in(chunk["error"])
        self._model = chunk.get("model") or self._model
        usage = chunk.get("usage")
        if isinstance(usage, dict):  # later counts replace earlier ones
            self._usage |= {key: value for key, value in usage.items() if value is not None}
        for choice in as_list(chunk.get("choices")):
            if isinstance(choice, dict) and not choice.get("index"):
                yield from self._take_choice(choice)

    def finish(self, status: int) -> Iterator[StreamEvent]:
        """Yield the remaining events, after the last chunk."""
        yield from self._start(finished=True)
        response = read_response(self._body(), status, self._history)
        if self._calls:  # the last parts of the message, one for each call
            for call, part in zip(self._calls, response.message.parts[-len(self._calls) :], strict=True):
                if isinstance(part, ToolCall) and call.number is not None:
                    yield ToolCallEnd(call.number)
        yield Finish(response)

    def _take_choice(self, choice: dict[str, JSON]) -> Iterator[StreamEvent]:
        if choice.get("error"):  # OpenRouter: the host of the model has failed
            raise error_in(choice["error"])
        if isinstance(finish_reason := choice.get("finish_reason"), str):
            self.finish_reason = finish_reason
        message = self._message = self._message or {"role": "assistant"}
        match choice.get("delta"):
            case {**delta}:
                pieces = delta.pop("tool_calls", None)
            case _:
                return
        for key, value in delta.items():
            message[key] = with_piece(key, message.get(key), value)
        yield from _text_events(delta)
        for piece in as_list(pieces):
            if isinstance(piece, dict):
                yield from self._take_piece(piece)

    def _take_piece(self, piece: dict[str, JSON]) -> Iterator[StreamEvent]:
        call = call_of_piece(self._calls, piece)
        if call is None:
            call = StreamedCall(piece.get("index"))
            self._calls.append(call)
        call.add(piece)
        if call.number is None:
            yield from self._start(finished=False)
        else:
            yield from _argument_events(call, call.number)

    def _start(self, *, finished: bool) -> Iterator[StreamEvent]:
        """Yield the start and the arguments so far of each new call whose id and name are known.

        Calls start in order, because a synthesised id depends on the calls before it. So a call without an id or name
        also delays later ones. `finished` is set if no more pieces follow.
        """
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
                yield from _argument_events(call, call.number)

    def _body(self) -> dict[str, JSON]:
        choices: list[JSON] = []
        if self._message is not None:
            calls: list[JSON] = [call.wire for call in self._calls]
            choices.append({"finish_reason": self.finish_reason, "message": {**self._message, "tool_calls": calls}})
        return {"model": self._model, "usage": self._usage, "choices": choices}


def _text_events(delta: dict[str, JSON]) -> Iterator[StreamEvent]:
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


def _argument_events(call: StreamedCall, number: int) -> Iterator[StreamEvent]:
    if arguments := call.unseen():
        yield ArgumentsDelta(number, arguments)


# --- pieces of a call or a field ---


_WHOLE = frozenset({"role", "type", "id", "name", "format", "channel", "signature"})
"""String fields that never arrive in pieces: a repeated value replaces the previous one."""


class StreamedCall:
    """A call under construction. `wire` is the call as in a complete message.

    `number` is its index in the events, once it has started. Its id and name do not change after that.
    """

    def __init__(self, index: JSON) -> None:
        self.index = index
        self.number: int | None = None
        self.wire: dict[str, JSON] = {}
        self._shown = 0

    @property
    def id(self) -> str:
        """The id from the server, or an empty string."""
        return _text(self.wire.get("id"))

    @property
    def name(self) -> str:
        """The function's name, or an empty string."""
        return _text(_function(self.wire).get("name"))

    @property
    def arguments(self) -> str:
        """The text of the arguments so far."""
        return _text(_function(self.wire).get("arguments"))

    @property
    def is_known(self) -> bool:
        """True if the name is known, and the id or the first arguments have arrived. Servers send an id before the
        arguments or not at all.
        """
        return bool(self.name and (self.id or self.arguments))

    def add(self, piece: dict[str, JSON]) -> None:
        """Add the next piece."""
        fixed = {"id", "name"} if self.number is not None else {"id"} if self.id else set[str]()
        fields = {key: value for key, value in piece.items() if key not in {"index", *fixed}}
        if isinstance(piece.get("function"), dict):
            function = _function(piece).items()
            fields["function"] = {key: value for key, value in function if key not in fixed and value is not None}
        self.wire = {**self.wire, **{key: with_piece(key, self.wire.get(key), value) for key, value in fields.items()}}

    def unseen(self) -> str:
        """Return the arguments that arrived since this method was last called."""
        unseen = self.arguments[self._shown :]
        self._shown += len(unseen)
        return unseen

    def is_complete_before(self, piece: dict[str, JSON]) -> bool:
        """Return whether a piece starts another call. Used when ids do not decide.

        A piece with another function name starts another call. So does a piece that repeats the name and has arguments,
        if the arguments of this call are already complete.
        """
        name = _text(_function(piece).get("name"))
        if not name or not self.name:
            return False
        return name != self.name or (bool(_function(piece).get("arguments")) and _is_json(self.arguments))


def call_of_piece(calls: Sequence[StreamedCall], piece: dict[str, JSON]) -> StreamedCall | None:
    """Return the call that a piece belongs to, or `None` if it starts a new call.

    Pieces have the index of their call (openai-chat-call-deltas). Some servers send no index, or the same index for
    every call. Then the id decides or, without ids, the name. A piece without a name continues a call even if it has a
    new id, because some servers make an id for each piece (openai-chat-id-per-delta).
    """
    index, call_id = piece.get("index"), _text(piece.get("id"))
    near = [call for call in calls if index is None or call.index == index]
    if not near:
        return None
    if call_id and near[-1].id:
        known = next((call for call in reversed(near) if call.id == call_id), None)
        return known if known or _text(_function(piece).get("name")) or "custom" in piece else near[-1]
    return None if near[-1].is_complete_before(piece) else near[-1]


def with_piece(key: str, old: JSON, new: JSON) -> JSON:
    """Return the value of a field with its next piece appended."""
    match old, new:
        case _, None:
            return old
        case str(), str():
            return (new or old) if key in _WHOLE else old + new
        case dict(), dict():
            return old | {name: with_piece(name, old.get(name), value) for name, value in new.items()}
        case list(), list():
            return _with_details(old, new) if key == "reasoning_details" else [*old, *new]
        case str(), list() if key == "content":  # Mistral sends texts and lists of parts in turn
            return [*_text_part(old), *new]
        case list(), str() if key == "content":
            return [*old, *_text_part(new)]
        case ((str() | list()), _):  # another type, so the piece is ignored
            return old
        case _:
            return new


_PIECEWISE = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Type of an entry in `reasoning_details` → the field that arrives in pieces. Other entries arrive whole."""


def _with_details(old: list[JSON], new: list[JSON]) -> list[JSON]:
    """Return OpenRouter's `reasoning_details` with the next pieces added.

    A piece belongs to the last entry with its index, if the types match. The index alone is not sufficient: a stream
    may use the same index for a summary and encrypted data (OpenRouterTeam/ai-sdk-provider#519).
    """
    joined = list(old)
    for piece in new:
        index = as_object(piece).get("index")
        places = [place for place, one in enumerate(joined) if isinstance(one, dict) and one.get("index") == index]
        entry = joined[places[-1]] if places and index is not None else None
        if isinstance(entry, dict) and isinstance(piece, dict) and _is_continuation(entry, piece):
            joined[places[-1]] = _extend_entry(entry, piece)
        else:
            joined.append(piece)
    return joined


def _is_continuation(entry: dict[str, JSON], piece: dict[str, JSON]) -> bool:
    """Return whether the piece continues the entry: same type and id, and no text after a signature."""
    kind = entry.get("type")
    if kind != piece.get("type") or not isinstance(kind, str) or kind not in _PIECEWISE:
        return False
    same = not entry.get("id") or not piece.get("id") or entry["id"] == piece["id"]
    return same and not (entry.get("signature") and piece.get(_PIECEWISE[kind]))


def _extend_entry(entry: dict[str, JSON], piece: dict[str, JSON]) -> dict[str, JSON]:
    """Append the text of a piece to an entry, and replace its other fields."""
    growing = _PIECEWISE[_text(entry.get("type"))]
    fields = {key: value for key, value in piece.items() if value not in (None, "") or key not in entry}
    text = _text(entry.get(growing)) + _text(piece.get(growing))
    return entry | fields | ({growing: text} if text else {})


def _text_part(text: str) -> list[JSON]:
    return [{"type": "text", "text": text}] if text else []


def _function(call: dict[str, JSON]) -> dict[str, JSON]:
    return as_object(call.get("function"))


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _is_json(text: str) -> bool:
    try:
        loads(text)
    except MalformedResponse:
        return False
    return True
