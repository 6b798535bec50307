"""Responses and streams of the API → canonical responses and events.

They are read from raw JSON, since the SDK's types drop unknown fields
(`test_parts_become_parts_and_go_back_as_they_came`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, cast

from harness.adapters._common import as_list, as_object, compact, count, loads, retry_after, string, without_mark
from harness.model.errors import MalformedResponse, ProviderError, provider_error
from harness.model.messages import (
    JSON,
    SYNTHESISED_ID,
    ArgumentsDelta,
    ChatResponse,
    File,
    Finish,
    Image,
    Message,
    Opaque,
    Part,
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

if TYPE_CHECKING:
    from harness.model.messages import ChatRequest

_STOP_REASONS = {
    "STOP": StopReason.END_TURN,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "CONTINUATION": StopReason.PAUSE,
    **dict.fromkeys(("OTHER", "IMAGE_OTHER", "NO_IMAGE"), StopReason.ERROR),
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR"),
            *("ESCALATION", "PUP_LIMITED_DISABLED", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
        ),
        StopReason.REFUSAL,
    ),
    **dict.fromkeys(
        (
            "MALFORMED_FUNCTION_CALL",
            "UNEXPECTED_TOOL_CALL",
            "TOO_MANY_TOOL_CALLS",
            "MISSING_THOUGHT_SIGNATURE",
            "MALFORMED_RESPONSE",
        ),
        StopReason.MALFORMED_CALL,
    ),
}

_DATA_FIELDS = frozenset(
    {
        *("text", "functionCall", "functionResponse", "inlineData", "fileData"),
        *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
    }
)
"""A part has exactly one of these fields (gemini-contents)."""


def read_response(body: JSON, request: ChatRequest) -> ChatResponse:
    """Convert a GenerateContentResponse to a canonical response.

    Raises:
        MalformedResponse: the body is not a response.
    """
    if not isinstance(body, dict):
        raise MalformedResponse("the body is not an object")
    candidates = body.get("candidates")
    candidate = candidates[0] if isinstance(candidates, list) and candidates else None
    parts, raw_reason = (), None
    if isinstance(candidate, dict):
        parts, raw_reason = _parts(candidate, request), candidate.get("finishReason")
    blocked = block_reason(body)
    if raw_reason is None and blocked is not None:
        raw_reason, reason = blocked, StopReason.REFUSAL
    elif isinstance(candidate, dict):
        reason = _stop_reason(raw_reason, parts)
    else:
        raise MalformedResponse("there is neither a candidate nor a reason why the prompt was blocked")
    return ChatResponse(
        message=Message(Role.ASSISTANT, parts),
        stop_reason=reason,
        usage=_usage(body.get("usageMetadata")),
        model=string(body.get("modelVersion")),
        raw_stop_reason=string(raw_reason),
    )


def block_reason(body: dict[str, JSON]) -> JSON:
    """Return the reason why the prompt or a response was blocked, if any (gemini-no-candidates)."""
    return as_object(body.get("promptFeedback")).get("blockReason")


def _stop_reason(raw: JSON, parts: tuple[Part, ...]) -> StopReason:
    """Return the stop reason. `STOP` means the end of the turn or, with calls, tool use (gemini-calls-whole)."""
    if not isinstance(raw, str):
        return StopReason.UNKNOWN
    if raw == "STOP" and any(_is_broken_call(each) for each in parts):
        return StopReason.MALFORMED_CALL
    if raw == "STOP" and any(isinstance(each, ToolCall) for each in parts):
        return StopReason.TOOL_USE
    return _STOP_REASONS.get(raw, StopReason.REFUSAL if raw.startswith("IMAGE_") else StopReason.UNKNOWN)


def _is_broken_call(part: Part) -> bool:
    return isinstance(part, Opaque) and isinstance(part.raw, dict) and "functionCall" in part.raw


def _parts(candidate: dict[str, JSON], request: ChatRequest) -> tuple[Part, ...]:
    raw_parts = as_object(candidate.get("content")).get("parts")
    ids = FreshIds(request)
    return tuple(read_part(raw, ids) for raw in raw_parts) if isinstance(raw_parts, list) else ()


def read_part(raw: JSON, ids: FreshIds) -> Part:
    """Convert a part of the API to a canonical part. A call without an id gets the next of `ids`."""
    if isinstance(raw, dict) and len(raw.keys() & _DATA_FIELDS) == 1:
        match raw:
            case {"text": str(text), "thought": True}:
                return Thinking(text, _metadata(_rest(raw, "text")))
            case {"text": str(text)}:
                return Text(text, _metadata(_rest(raw, "text")))
            case {"functionCall": dict(call)}:
                return _call(raw, call, ids)
            case {"inlineData": {"mimeType": str(media_type), "data": str(data), **more}}:
                return _inline(raw, media_type, data, more)
            case {"fileData": {"mimeType": str(media_type), "fileUri": str(uri), **more}}:
                kind = Image if media_type.startswith("image/") else File
                return kind(media_type, uri=uri, provider_metadata=_metadata(_rest(raw, "fileData", more)))
            case _:
                pass
    return Opaque("gemini", raw)


def _call(raw: dict[str, JSON], call: dict[str, JSON], ids: FreshIds) -> Part:
    name, arguments, call_id = call.get("name"), call.get("args"), call.get("id")
    if arguments is None:
        arguments = {}
    in_pieces = "partialArgs" in call or "willContinue" in call
    if in_pieces or not isinstance(name, str) or not isinstance(arguments, dict):
        return Opaque("gemini", raw)
    more = {key: value for key, value in call.items() if key not in ("name", "args", "id")}
    metadata = _metadata(_rest(raw, "functionCall", more))
    if isinstance(call_id, str) and call_id:
        return ToolCall(call_id, name, arguments, metadata)
    return ToolCall(ids.next(), name, arguments, {**metadata, "harness": {SYNTHESISED_ID: True}})


def _inline(raw: dict[str, JSON], media_type: str, data: str, more: dict[str, JSON]) -> Part:
    try:
        decoded = base64.b64decode(data, validate=True)
    except ValueError:
        return Opaque("gemini", raw)
    if base64.b64encode(decoded).decode() != data:  # sending it back would change its spelling
        return Opaque("gemini", raw)
    kind = Image if media_type.startswith("image/") else File
    return kind(media_type, data=decoded, provider_metadata=_metadata(_rest(raw, "inlineData", more)))


def _rest(raw: dict[str, JSON], data_field: str, more: dict[str, JSON] | None = None) -> dict[str, JSON]:
    """Return the fields of a part that have no canonical equivalent. `more` holds such fields of the object in
    `data_field`.
    """
    rest = {key: value for key, value in raw.items() if key != data_field}
    return {**rest, data_field: more} if more else rest


def _metadata(fields: dict[str, JSON]) -> dict[str, JSON]:
    return {"gemini": fields} if fields else {}


class FreshIds:
    """Generates ids for calls without one. They are derived from the length of the history and unique in it."""

    def __init__(self, request: ChatRequest) -> None:
        self._turn = len(request.messages)
        self._taken = {call.id for message in request.messages for call in message.tool_calls}
        self._made = 0

    def next(self) -> str:
        """Return an id that is used neither in the history nor by an earlier call of this response."""
        made = f"call_{self._turn}_{self._made}"
        self._made += 1
        while made in self._taken:  # a shortened history can reach the same length twice
            made += "_"
        return made


def _usage(usage: JSON) -> Usage:
    """Return the usage. The API counts candidates and thoughts separately (gemini-usage)."""
    if not isinstance(usage, dict):
        return Usage()
    thoughts = count(usage, "thoughtsTokenCount")
    return Usage(
        input_tokens=_sum(count(usage, "promptTokenCount"), count(usage, "toolUsePromptTokenCount")),
        output_tokens=_sum(count(usage, "candidatesTokenCount"), thoughts),
        cache_read_tokens=count(usage, "cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


# --- errors ---


def error_in_stream(error: JSON) -> ProviderError:
    """Convert the `error` object of a chunk to an exception. Its code is used as the status, because a stream has HTTP
    200 even if it fails.
    """
    details = as_object(error)
    code = details.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return build_error(status, details, compact(error)[:500], {})


def build_error(status: int, details: Mapping[str, Any], text: str, headers: Mapping[str, str]) -> ProviderError:
    """Return the error that `details` describes. `text` is the message if `details` has none."""
    message, code = details.get("message"), details.get("status")
    return provider_error(
        status,
        message if isinstance(message, str) else text,
        code=string(code),
        retry_after=_retry_after(headers, details),
    )


def _retry_after(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    """Return the seconds to wait, from the header `retry-after` or from a RetryInfo in the body ("34.5s")."""
    if "retry-after" in headers:
        return retry_after(headers)
    for entry in as_list(details.get("details")):
        delay = as_object(entry).get("retryDelay")
        if isinstance(delay, str) and re.fullmatch(r"\d+(\.\d+)?s", delay):
            return float(delay[:-1])
    return None


# --- streams ---


_LINE_END = re.compile(rb"\r\n|\n|\r")


def read_stream(body: Iterable[bytes], request: ChatRequest) -> Iterator[StreamEvent]:
    """Yield the events of a streamed body as it arrives (gemini-calls-whole, gemini-chunks).

    Raises:
        MalformedResponse: the body ends without a finish reason, or violates the stream grammar.
        ProviderError: a chunk has an `error`.
    """
    return read_chunks(chunks(body), request)


def read_chunks(chunks: Iterable[dict[str, JSON]], request: ChatRequest) -> Iterator[StreamEvent]:
    """Convert the parsed chunks of a stream. See `read_stream`."""
    response = _CandidateBuilder(request)
    for chunk in chunks:
        yield from response.take(chunk)
    yield response.finish()


class _CandidateBuilder:
    """A GenerateContentResponse under construction, built from the chunks of a stream. Only the first candidate is
    read."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._ids = FreshIds(request)
        self._calls = 0
        self._fields: dict[str, JSON] = {}
        self._candidate: dict[str, JSON] = {}
        self._parts: list[JSON] = []

    def take(self, chunk: dict[str, JSON]) -> Iterator[StreamEvent]:
        """Apply a chunk. Parts accumulate; other fields keep their last value."""
        if chunk.get("error") is not None:
            raise error_in_stream(chunk["error"])
        self._fields |= {name: value for name, value in chunk.items() if name != "candidates" and value is not None}
        candidate = _candidate(chunk)
        self._candidate |= {name: value for name, value in candidate.items() if value is not None}
        for raw in as_list(as_object(candidate.get("content")).get("parts")):
            self._parts.append(raw)
            yield from self._events(read_part(raw, self._ids))

    def finish(self) -> Finish:
        """Return the final event, with the whole response."""
        if self._candidate.get("finishReason") is None and block_reason(self._fields) is None:
            raise MalformedResponse("the stream was cut before its finishReason")
        body = dict(self._fields)
        if self._candidate:
            fields = as_object(self._candidate.get("content"))
            whole: JSON = {**fields, "parts": [*_with_joined_texts(self._parts)]}
            body["candidates"] = [{**self._candidate, "content": whole}]
        return Finish(read_response(body, self._request))

    def _events(self, part: Part) -> Iterator[StreamEvent]:
        match part:
            case Text(text) if text:
                yield TextDelta(text)
            case Thinking(text) if text:
                yield ThinkingDelta(text)
            case ToolCall():  # calls arrive whole (gemini-calls-whole)
                index, self._calls = self._calls, self._calls + 1
                yield ToolCallStart(index, part.id, part.name)
                yield ArgumentsDelta(index, compact(part.arguments))
                yield ToolCallEnd(index)
            case _:
                pass


def _candidate(chunk: dict[str, JSON]) -> dict[str, JSON]:
    for candidate in as_list(chunk.get("candidates")):
        if isinstance(candidate, dict) and candidate.get("index") in (0, None):
            return candidate
    return {}


def _with_joined_texts(parts: list[JSON]) -> Iterator[JSON]:
    """Yield the parts, with the pieces of each text joined.

    A piece with another field, such as a signature, stays a separate part, even if its text is empty (gemini-chunks).
    """
    spoken = (part for part in parts if _piece_kind(part) is None or cast("dict[str, JSON]", part)["text"])
    for kind, group in groupby(spoken, _piece_kind):
        if kind is None:
            yield from group
        else:
            pieces = cast("list[dict[str, str]]", list(group))
            yield {**pieces[0], "text": "".join(piece["text"] for piece in pieces)}


def _piece_kind(part: JSON) -> str | None:
    """Return "text" or "thought" for a piece that has only text, and `None` for any other part."""
    if not isinstance(part, dict) or not isinstance(part.get("text"), str) or not part.keys() <= {"text", "thought"}:
        return None
    return "thought" if part.get("thought") else "text"


# --- chunks ---


def chunks(body: Iterable[bytes]) -> Iterator[dict[str, JSON]]:
    """Yield the chunks of a body, which is an event stream or plain JSON. Errors are sent as plain JSON.

    The SDK's stream reader is not used, because it loses unknown fields. It also tries to parse comments, `data:`
    without a space and a truncated event as JSON (gemini-sdk-drops-fields,
    `test_spelling_and_cuts_make_no_difference`).

    Raises:
        MalformedResponse: a chunk is not a JSON object, or the body ends inside a chunk.
    """
    pieces = (piece for piece in without_mark(body) if piece)
    begun = b""
    while not begun.strip() and (piece := next(pieces, None)) is not None:
        begun += piece
    if begun.lstrip().startswith((b"[", b"{")):
        whole = loads(b"".join((begun, *pieces)))
        values = whole if isinstance(whole, list) else [whole]
    else:
        values = map(loads, _events(chain((begun,), pieces)))
    for chunk in values:
        if not isinstance(chunk, dict):
            raise MalformedResponse("a chunk of the stream is not an object")
        yield chunk


def _events(body: Iterable[bytes]) -> Iterator[bytes]:
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
    """Yield the lines without their line ends, which are LF, CR or CRLF."""
    line, after_cr = bytearray(), False
    for piece in body:
        # a CR ends the line immediately, so that an event does not wait for the next byte
        *ends, rest = _LINE_END.split(piece[1:] if after_cr and piece.startswith(b"\n") else piece)
        after_cr = piece.endswith(b"\r")
        for end in ends:
            yield bytes(line + end)
            line.clear()
        line += rest
    if line and not line.startswith(b":"):
        raise MalformedResponse("the stream was cut inside an event")
