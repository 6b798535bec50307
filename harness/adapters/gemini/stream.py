"""Chunks of a stream → stream events. Its end is decoded from the whole body, as an answer that is not streamed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import cast

from harness.adapters._common import compact, loads, without_mark
from harness.adapters.gemini import decode
from harness.adapters.gemini.decode import in_stream
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

_LINE_END = re.compile(rb"\r\n|\n|\r")


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
                yield ArgumentsDelta(index, compact(part.arguments))
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
    """Return whether a part is only a piece of text or of thought."""
    if not isinstance(part, dict) or not isinstance(part.get("text"), str) or not part.keys() <= {"text", "thought"}:
        return None
    return "thought" if part.get("thought") else "text"


# --- chunks ---


def chunks(body: Iterable[bytes]) -> Iterator[dict[str, JSON]]:
    """The chunks of a body: of each event as soon as it is complete, or of one JSON text, as errors come.

    Read past the SDK, which loses unknown fields, and whose reader of streams takes comments, `data:` without a space
    and a cut event for JSON (gemini-sdk-drops-fields, `test_spelling_and_cuts_make_no_difference`).

    Raises:
        MalformedResponse: a chunk is no JSON object, or the body ends inside one.
    """
    pieces = (piece for piece in without_mark(body) if piece)
    begun = b""
    while not begun.strip() and (piece := next(pieces, None)) is not None:
        begun += piece
    if begun.lstrip().startswith((b"[", b"{")):
        whole = loads(b"".join((begun, *pieces)))
        said = whole if isinstance(whole, list) else [whole]
    else:
        said = map(loads, _events(chain((begun,), pieces)))
    for chunk in said:
        if not isinstance(chunk, dict):
            raise MalformedResponse("a chunk of the stream is no object")
        yield chunk


def _events(body: Iterable[bytes]) -> Iterator[bytes]:
    """The data of the events."""
    data: list[bytes] = []
    for line in _lines(body):
        key, _, value = line.partition(b":")
        if key == b"data":
            data.append(value.removeprefix(b" "))
        if not line and data:
            yield b"\n".join(data)
            data = []
    if data:
        raise MalformedResponse("the stream was cut inside an event")


def _lines(body: Iterable[bytes]) -> Iterator[bytes]:
    """The lines without their ends: LF, CR or CRLF, and nothing else."""
    line, after_cr = bytearray(), False
    for piece in body:
        # a CR has ended the line already, so that an event does not wait for the byte behind it
        *ends, rest = _LINE_END.split(piece[1:] if after_cr and piece.startswith(b"\n") else piece)
        after_cr = piece.endswith(b"\r")
        for end in ends:
            yield bytes(line + end)
            line.clear()
        line += rest
    if line and not line.startswith(b":"):
        raise MalformedResponse("the stream was cut inside an event")
