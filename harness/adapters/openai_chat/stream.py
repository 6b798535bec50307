"""A streamed answer → canonical events, and the whole body that its chunks add up to (openai-chat-call-deltas,
openai-chat-stream-usage)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters._common import loads
from harness.adapters._openai.client import DONE, payloads, reported
from harness.adapters.openai_chat.decode import REASONING, identify, response_of
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

    from harness.contract.model import JSON, Message, StreamEvent


def stream_events(chunks: Iterable[bytes], status: int, history: Sequence[Message]) -> Iterator[StreamEvent]:
    """The answer to a request with this history, while it arrives.

    A stream has come to its end with `[DONE]`, which some compatible servers leave out, or with a finish reason.

    Raises:
        MalformedResponse: an event is no chunk, or the stream is cut.
        ProviderError: the stream carries an error.
    """
    answer = _Answer(history)
    for name, chunk in payloads(chunks, status):
        if name == DONE:
            break
        if name == "error" or chunk.get("object") == "error":
            raise reported(chunk.get("error", chunk))
        try:
            yield from answer.take(chunk)
        except RecursionError:
            raise MalformedResponse("an event of the stream is nested too deeply", status) from None
    else:
        if answer.finish_reason is None:
            raise MalformedResponse("the stream is cut: there is neither [DONE] nor a finish reason", status)
    yield from answer.finish(status)


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
        """Return the pieces of a chunk. Only the first choice belongs to the answer."""
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
        """Return the pieces of the end of the stream."""
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


# --- pieces of a call or a field ---


_WHOLE = frozenset({"role", "type", "id", "name", "format", "channel", "signature"})
"""Strings that never come in pieces, so that one which comes again is the same and is not appended."""


class StreamedCall:
    """A call as it grows. `wire` is the call as a whole message would have it, `number` is its index among the events
    once it has been announced; from then on its id and name are fixed."""

    def __init__(self, index: JSON) -> None:
        self.index = index
        self.number: int | None = None
        self.wire: dict[str, JSON] = {}
        self._shown = 0

    @property
    def id(self) -> str:
        """The id that the server issued; empty while there is none."""
        return _text(self.wire.get("id"))

    @property
    def name(self) -> str:
        """The function's name; empty while there is none."""
        return _text(_function(self.wire).get("name"))

    @property
    def arguments(self) -> str:
        """The text of the arguments, as far as it has come."""
        return _text(_function(self.wire).get("arguments"))

    @property
    def is_known(self) -> bool:
        """The call can be announced. A server that gives an id does so before the arguments."""
        return bool(self.name and (self.id or self.arguments))

    def add(self, piece: dict[str, JSON]) -> None:
        """Take the next piece."""
        fixed = {"id", "name"} if self.number is not None else {"id"} if self.id else set[str]()
        fields = {key: value for key, value in piece.items() if key not in {"index", *fixed}}
        if isinstance(piece.get("function"), dict):
            function = _function(piece).items()
            fields["function"] = {key: value for key, value in function if key not in fixed and value is not None}
        self.wire = {**self.wire, **{key: grown(key, self.wire.get(key), value) for key, value in fields.items()}}

    def unseen(self) -> str:
        """Return the arguments that arrived since the last call."""
        unseen = self.arguments[self._shown :]
        self._shown += len(unseen)
        return unseen

    def is_behind(self, piece: dict[str, JSON]) -> bool:
        """A piece without an id that tells begins another call: it names another function, or it names this one again
        and brings arguments although those of this call are whole."""
        name = _text(_function(piece).get("name"))
        if not name or not self.name:
            return False
        return name != self.name or (bool(_function(piece).get("arguments")) and _is_json(self.arguments))


def owner(calls: Sequence[StreamedCall], piece: dict[str, JSON]) -> StreamedCall | None:
    """The call that a piece belongs to, or `None` if it begins one.

    Pieces of a call carry its index (openai-chat-call-deltas). Where a server sends no index, or the same for every
    call, the id tells calls apart; where it sends no ids, the name does. A piece without a name continues a call even
    under a new id: some servers make an id for each piece (openai-chat-id-per-delta).
    """
    index, call_id = piece.get("index"), _text(piece.get("id"))
    near = [call for call in calls if index is None or call.index == index]
    if not near:
        return None
    if call_id and near[-1].id:
        known = next((call for call in reversed(near) if call.id == call_id), None)
        return known if known or _text(_function(piece).get("name")) or "custom" in piece else near[-1]
    return None if near[-1].is_behind(piece) else near[-1]


def grown(key: str, old: JSON, new: JSON) -> JSON:
    """The value of a field and the next piece of it."""
    match old, new:
        case _, None:
            return old
        case str(), str():
            return (new or old) if key in _WHOLE else old + new
        case dict(), dict():
            return old | {name: grown(name, old.get(name), value) for name, value in new.items()}
        case list(), list():
            return _with_details(old, new) if key == "reasoning_details" else [*old, *new]
        case str(), list() if key == "content":  # Mistral: a text may be followed by parts, and parts by a text
            return [*_text_part(old), *new]
        case list(), str() if key == "content":
            return [*old, *_text_part(new)]
        case ((str() | list()), _):  # a value of another kind is no piece of it
            return old
        case _:
            return new


_PIECEWISE = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Type of an entry of `reasoning_details` → its field that comes in pieces. Any other entry comes whole."""


def _with_details(old: list[JSON], new: list[JSON]) -> list[JSON]:
    """OpenRouter's `reasoning_details` and the next pieces of them.

    A piece belongs to the last entry of its index, as long as that is of its type. The index alone does not tell: a
    stream may have the same for all (OpenRouterTeam/ai-sdk-provider#519), a summary and what is encrypted among them.
    """
    joined = list(old)
    for piece in new:
        index = piece.get("index") if isinstance(piece, dict) else None
        places = [place for place, one in enumerate(joined) if isinstance(one, dict) and one.get("index") == index]
        entry = joined[places[-1]] if places and index is not None else None
        if isinstance(entry, dict) and isinstance(piece, dict) and _goes_on(entry, piece):
            joined[places[-1]] = _continued(entry, piece)
        else:
            joined.append(piece)
    return joined


def _goes_on(entry: dict[str, JSON], piece: dict[str, JSON]) -> bool:
    """Of the same type and id; and a signature ends an entry, so that text behind it begins another."""
    kind = entry.get("type")
    if kind != piece.get("type") or not isinstance(kind, str) or kind not in _PIECEWISE:
        return False
    same = not entry.get("id") or not piece.get("id") or entry["id"] == piece["id"]
    return same and not (entry.get("signature") and piece.get(_PIECEWISE[kind]))


def _continued(entry: dict[str, JSON], piece: dict[str, JSON]) -> dict[str, JSON]:
    """Its text grows; what else a piece says comes whole."""
    growing = _PIECEWISE[_text(entry.get("type"))]
    said = {key: value for key, value in piece.items() if value not in (None, "") or key not in entry}
    text = _text(entry.get(growing)) + _text(piece.get(growing))
    return entry | said | ({growing: text} if text else {})


def _text_part(text: str) -> list[JSON]:
    return [{"type": "text", "text": text}] if text else []


def _function(call: dict[str, JSON]) -> dict[str, JSON]:
    function = call.get("function")
    return function if isinstance(function, dict) else {}


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _is_json(text: str) -> bool:
    try:
        loads(text)
    except MalformedResponse:
        return False
    return True
