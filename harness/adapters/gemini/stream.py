"""Chunks of a stream → stream events. Its end is decoded from the whole body, as an answer that is not streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import cast

from harness.adapters.gemini import decode
from harness.adapters.gemini.chunks import chunks
from harness.adapters.gemini.failures import in_stream
from harness.contract.errors import MalformedResponse
from harness.contract.model import (
    JSON,
    ArgumentsDelta,
    ChatRequest,
    Finish,
    Part,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
)


def answer(body: Iterable[bytes], request: ChatRequest) -> Iterator[StreamEvent]:
    """What a body says, while it arrives (gemini-calls-whole, gemini-chunks); `request` is what it answers.

    Raises:
        MalformedResponse: the body ends without a reason why the model stopped, or breaks the grammar.
        ProviderError: an `error` among the chunks.
    """
    response = _Response(request)
    for chunk in chunks(body):
        yield from response.take(chunk)
    yield response.finish()


class _Response:
    """A GenerateContentResponse under construction: of its first candidate, the only one that is asked for."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._ids = decode.FreshIds(request)
        self._calls = 0
        self._fields: dict[str, JSON] = {}
        self._candidate: dict[str, JSON] = {}
        self._parts: list[JSON] = []

    def take(self, chunk: dict[str, JSON]) -> Iterator[StreamEvent]:
        """Apply one chunk. Of all fields but the parts the last counts."""
        if chunk.get("error") is not None:
            raise in_stream(chunk["error"])
        self._fields |= {name: value for name, value in chunk.items() if name != "candidates" and value is not None}
        candidate = _candidate(chunk)
        self._candidate |= {name: value for name, value in candidate.items() if value is not None}
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for raw in parts if isinstance(parts, list) else ():
            self._parts.append(raw)
            yield from self._events(decode.part(raw, self._ids))

    def finish(self) -> Finish:
        """The answer."""
        if self._candidate.get("finishReason") is None and decode.block_reason(self._fields) is None:
            raise MalformedResponse("the stream was cut before its finishReason")
        body = dict(self._fields)
        if self._candidate:
            content = self._candidate.get("content")
            whole: JSON = {**(content if isinstance(content, dict) else {}), "parts": [*_joined(self._parts)]}
            body["candidates"] = [{**self._candidate, "content": whole}]
        return Finish(decode.answer(body, self._request))

    def _events(self, part: Part) -> Iterator[StreamEvent]:
        match part:
            case Text(text) if text:
                yield TextDelta(text)
            case Thinking(text) if text:
                yield ThinkingDelta(text)
            case ToolCall():  # calls come whole (gemini-calls-whole)
                index, self._calls = self._calls, self._calls + 1
                yield ToolCallStart(index, part.id, part.name)
                yield ArgumentsDelta(index, json.dumps(part.arguments, ensure_ascii=False, separators=(",", ":")))
                yield ToolCallEnd(index)
            case _:
                pass


def _candidate(chunk: dict[str, JSON]) -> dict[str, JSON]:
    candidates = chunk.get("candidates")
    for candidate in candidates if isinstance(candidates, list) else ():
        if isinstance(candidate, dict) and candidate.get("index") in (0, None):
            return candidate
    return {}


def _joined(parts: list[JSON]) -> Iterator[JSON]:
    """The parts with the pieces of a text put together again.

    A piece with anything beside its text, a signature say, is a part of its own, even if its text is empty
    (gemini-chunks).
    """
    spoken = (part for part in parts if _kind(part) is None or cast("dict[str, JSON]", part)["text"])
    for kind, group in groupby(spoken, _kind):
        if kind is None:
            yield from group
        else:
            pieces = cast("list[dict[str, str]]", list(group))
            yield {**pieces[0], "text": "".join(piece["text"] for piece in pieces)}


def _kind(part: JSON) -> str | None:
    """Whether a part is a mere piece of text or of thought."""
    if not isinstance(part, dict) or not isinstance(part.get("text"), str) or not part.keys() <= {"text", "thought"}:
        return None
    return "thought" if part.get("thought") else "text"
