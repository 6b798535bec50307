"""Streamed chunks as OpenAI Chat has them, as events of the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from harness.bridge.answers import INDICES, is_whole, made_up, response
from harness.bridge.memory import Memory, plain
from harness.contract.errors import MalformedResponse
from harness.contract.model import (
    JSON,
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
)

Whole = Callable[[list[Any]], object]
"""A library's own way to make an answer of its chunks."""
Read = Callable[[Any], object]
"""What a chunk or an answer of a library says, as `completion` has it."""


def events(
    chunks: Iterable[object],
    request: ChatRequest,
    memory: Memory | None = None,
    *,
    whole: Whole | None = None,
    read: Read | None = None,
) -> Iterator[StreamEvent]:
    """Yield the events of a stream, with its `Finish`.

    `whole` puts the chunks together, where the library can do that; `read` puts a chunk, and what they come to, into
    OpenAI's form: what they come to is then what `memory` keeps. A stream that the library ends without saying why the
    model stopped ends in a response, as it does for the library's users: if the wire was cut, a rule reports that.

    Raises:
        MalformedResponse: there was no chunk at all, so there is no response to translate.
    """
    made, taken = Chunks(request), list[object]()
    for chunk in chunks:
        taken.append(chunk)
        yield from made.add(read(chunk) if read else chunk)
    answer = whole(taken) if whole else made.completion
    own = answer if read and whole else None
    yield from made.end(response(read(answer) if read and whole else answer, request, memory, own=own))


class Chunks:
    """A stream in the making, for who takes the chunks from an asynchronous library.

    A call begins where there is an index that was not there before, or another id at the same one: some servers give
    every call the index 0, some give none. It ends only with the stream, since only then it is known to be whole.
    """

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._calls: list[dict[str, Any]] = []
        self._indices: list[JSON] = []
        self._open: dict[object, int] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": ""}
        self._body: dict[str, Any] = {"choices": []}
        self._reason: str | None = None
        self._begun = False

    def add(self, chunk: object) -> Iterator[StreamEvent]:
        """The events of one more chunk."""
        self._begun = True
        said = plain(chunk)
        for name in ("model", "usage"):
            self._body[name] = said.get(name) or self._body.get(name)
        for choice in map(plain, said.get("choices") or []):
            self._reason = choice.get("finish_reason") or self._reason
            delta = plain(choice.get("delta") or choice.get("message"))
            for name, kind in (("reasoning_content", ThinkingDelta), ("content", TextDelta), ("refusal", None)):
                if text := delta.get(name):
                    self._message[name] = self._message.get(name, "") + text
                    yield from [kind(text)] if kind else []
            for piece in map(plain, delta.get("tool_calls") or []):
                yield from self._piece(piece)

    @property
    def completion(self) -> dict[str, Any]:
        """The chunks put together, as a completion.

        Raises:
            MalformedResponse: there was no chunk, so the library has said nothing that could be translated.
        """
        if not self._begun:
            raise MalformedResponse("the library handed on a stream without a single chunk")
        message = {**self._message, **({"tool_calls": self._calls} if self._calls else {})}
        return {**self._body, "choices": [{"message": message, "finish_reason": self._reason}]}

    def check(self) -> None:
        """Do nothing: a stream that ends without a finish reason is handed on as it ended. Kept for older wrappers."""

    def end(self, answer: ChatResponse) -> Iterator[StreamEvent]:
        """The events behind the last chunk; `answer` is what the stream came to."""
        runnable = {call.id for call in answer.tool_calls}
        for index, call in enumerate(self._calls):
            if self._id(index) in runnable and is_whole(call["function"]["arguments"]):
                yield ToolCallEnd(index)
        numbered = [index for index in self._indices if index is not None]
        if len(set(map(str, numbered))) < len(numbered):
            answer = replace(answer, reported={**answer.reported, INDICES: self._indices})
        yield Finish(answer)

    def _piece(self, piece: Mapping[str, Any]) -> Iterator[StreamEvent]:
        function = plain(piece.get("function"))
        key, call_id, text = piece.get("index"), piece.get("id"), function.get("arguments") or ""
        at = self._open.get(key)
        if at is None or (call_id and self._calls[at]["id"] not in (None, call_id)):
            at = self._open[key] = len(self._calls)
            begun: dict[str, Any] = {"name": function.get("name") or "", "arguments": ""}
            self._calls.append({"id": call_id or None, "type": "function", "function": begun})
            self._indices.append(key)
            yield ToolCallStart(at, self._id(at), begun["name"])
        if text:
            self._calls[at]["function"]["arguments"] += text
            yield ArgumentsDelta(at, text)

    def _id(self, at: int) -> str:
        """What a call is called. One that the stream gives no id gets the one that `response` makes up for it."""
        return self._calls[at]["id"] or made_up(at, self._request)
