"""Conversion of responses to neutral views, and the rules that servers must follow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from harness.apis.eventstream import events, events_of, is_event_stream
from harness.apis.gemini.proto import ProtoMessage, repeated_values
from harness.apis.gemini.requests import part_views
from harness.apis.jsonvalue import as_list, as_object, body_of, is_json, loads, objects
from harness.apis.response_checks import EventGrammar, EventOrder, ReceivedEvent, ResponseChecks, sent_events
from harness.apis.response_rules import ResponseViolation
from harness.apis.server import error_view
from harness.apis.view import CallView, ErrorView, PartView, RequestView, ResponseView, WireError
from harness.model.http import HttpResponse
from harness.model.messages import JSON, StopReason, Usage

_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|\['(?P<quoted>[^']*)'\]")
_VALUES = ("stringValue", "numberValue", "boolValue")


def whole_calls(parts: Iterable[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """Return the parts, with the pieces of each streamed call joined into one part that has the arguments in `args`."""
    whole: list[dict[str, JSON]] = []
    growing: _GrowingCall | None = None
    for part in parts:
        call = part.get("functionCall")
        if not isinstance(call, dict) or not (growing or "willContinue" in call or "partialArgs" in call):
            whole.append(part)
            continue
        if growing is None or call.get("name"):
            growing = _GrowingCall(part)
            whole.append(growing.part)
        growing.grow(call)
        if not call.get("willContinue"):
            growing = None
    return whole


class _GrowingCall:
    def __init__(self, part: dict[str, JSON]) -> None:
        call: Any = part["functionCall"]
        self._call = {name: value for name, value in call.items() if name not in ("partialArgs", "willContinue")}
        self._call["args"] = self._call.get("args") or {}
        self._unfinished: set[str] = set()
        self.part: dict[str, JSON] = {**part, "functionCall": self._call}

    def grow(self, call: dict[str, JSON]) -> None:
        for piece in as_list(call.get("partialArgs")):
            if isinstance(piece, dict):
                self._set(piece)

    def _set(self, piece: dict[str, JSON]) -> None:
        path = str(piece.get("jsonPath"))
        value = next((piece[name] for name in _VALUES if name in piece), None)
        self._call["args"] = _set_at(self._call["args"], _steps(path), value, continues=path in self._unfinished)
        if piece.get("willContinue"):
            self._unfinished.add(path)
        else:
            self._unfinished.discard(path)


def _steps(path: str) -> list[str | int]:
    return [
        int(step["index"]) if step["index"] else step["name"] or step["quoted"] or "" for step in _STEP.finditer(path)
    ]


def _set_at(place: JSON, steps: list[str | int], value: JSON, *, continues: bool) -> JSON:
    """Return `place` with the value set at the path `steps`. If `continues`, a string is appended to the existing
    one."""
    if not steps:
        return place + value if continues and isinstance(place, str) and isinstance(value, str) else value
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        items = [*place] if isinstance(place, list) else []
        if step >= len(items):  # elements arrive in order; a large index must not create a large list
            step = len(items)
            items.append(None)
        items[step] = _set_at(items[step], rest, value, continues=continues)
        return items
    members = {**place} if isinstance(place, dict) else {}
    members[step] = _set_at(members.get(step), rest, value, continues=continues)
    return members


_SEPARATORS = re.compile(r"[ \t\r\n,]*")
_BARE = re.compile(rb"(?:\A|[\r\n])([\[{].*)", re.DOTALL)


def event_chunks(body: bytes) -> list[dict[str, JSON]]:
    """Return the chunks of an event stream. Raises `WireError`."""
    bare = [*_bare_error(body)]
    sent = events(body) if bare else events_of(body)
    return [*(_chunk(loads(event.data)) for event in sent), *bare]


def _bare_error(body: bytes) -> Iterator[dict[str, JSON]]:
    """Yield an error sent as plain JSON after the events (google-genai: `_RawJsonLineBuffer`)."""
    bare = _BARE.search(body)
    try:
        value = loads(bare[1]) if bare else None
    except WireError:  # lines without a field are ignored in an event stream
        return
    if value is not None:
        yield _chunk(value)


def array_chunks(body: bytes) -> tuple[list[dict[str, JSON]], bool]:
    """Return the chunks of a JSON array, and whether the array is closed. A truncated chunk is dropped.

    Raises:
        WireError: a chunk is not an object.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        text = body[: error.start].decode()
    decoder = json.JSONDecoder()
    chunks: list[dict[str, JSON]] = []
    position = _next(text, text.index("[") + 1)
    while position < len(text) and text[position] != "]":
        try:
            _, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        chunks.append(_chunk(loads(text[position:end])))
        position = _next(text, end)
    return chunks, text[position : position + 1] == "]"


def _next(text: str, position: int) -> int:
    separators = _SEPARATORS.match(text, position)
    return separators.end() if separators else position


def _chunk(value: JSON) -> dict[str, JSON]:
    """Return a chunk, which must be an object. An error may also be a list that contains one object."""
    match value:
        case dict() as chunk:
            return chunk
        case [dict() as chunk]:
            return chunk
        case _:
            raise WireError("a chunk of a stream is not an object")


def fold(chunks: Iterable[dict[str, JSON]]) -> dict[str, JSON]:
    """Fold chunks into the body of a non-streamed response: parts in order, and the last value of every other field.

    Adjacent texts without a signature are joined. A stream may send a text's signature in a separate part with empty
    text; the signature is then added to the text. Other signed parts stay unchanged (gemini-thought-signature).
    """
    body: dict[str, JSON] = {}
    candidates: dict[int, dict[str, JSON]] = {}
    parts: dict[int, list[dict[str, JSON]]] = {}
    for chunk in chunks:
        body |= {name: value for name, value in chunk.items() if name != "candidates"}
        for _, candidate in objects(chunk.get("candidates")):
            index = candidate.get("index")
            index = index if isinstance(index, int) else 0
            content = candidate.get("content")
            content = as_object(content)
            known = candidates.setdefault(index, {})
            known |= {name: value for name, value in candidate.items() if name != "content"}
            if content:
                known["content"] = {**as_object(known.get("content")), **content, "parts": []}
            parts.setdefault(index, []).extend(part for _, part in objects(content.get("parts")))
    for index, candidate in candidates.items():
        content = candidate.get("content")
        if isinstance(content, dict):
            content["parts"] = [*_join_parts(parts[index])]
    if candidates:
        body["candidates"] = [candidate for _, candidate in sorted(candidates.items())]
    return body


def _join_parts(parts: list[dict[str, JSON]]) -> Iterator[JSON]:
    growing: dict[str, JSON] | None = None
    for part in whole_calls(parts):
        text = part.get("text")
        if growing is not None and _ends(growing, part):
            growing["thoughtSignature"] = part.get("thoughtSignature", part.get("thought_signature"))
            growing = None
        elif not isinstance(text, str) or not part.keys() <= {"text", "thought"}:
            growing = None
            yield part
        elif growing is not None and bool(growing.get("thought")) == bool(part.get("thought")):
            growing["text"] = f"{growing['text']}{text}"
        elif text:
            growing = dict(part)
            yield growing


def _ends(text: dict[str, JSON], part: dict[str, JSON]) -> bool:
    """Return whether a part contains only the signature of the preceding text."""
    signed = {*part} - {"text", "thought"} in ({"thoughtSignature"}, {"thought_signature"})
    return signed and part.get("text") == "" and bool(text.get("thought")) == bool(part.get("thought"))


STOP_REASONS = {
    "STOP": StopReason.END_TURN,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "SAFETY": StopReason.REFUSAL,
    "RECITATION": StopReason.REFUSAL,
    "BLOCKLIST": StopReason.REFUSAL,
    "PROHIBITED_CONTENT": StopReason.REFUSAL,
    "SPII": StopReason.REFUSAL,
    "LANGUAGE": StopReason.REFUSAL,
    "MODEL_ARMOR": StopReason.REFUSAL,
    "ESCALATION": StopReason.REFUSAL,
    "CONTINUATION": StopReason.PAUSE,
    "MALFORMED_FUNCTION_CALL": StopReason.MALFORMED_CALL,
    "UNEXPECTED_TOOL_CALL": StopReason.MALFORMED_CALL,
    "TOO_MANY_TOOL_CALLS": StopReason.MALFORMED_CALL,
    "MISSING_THOUGHT_SIGNATURE": StopReason.MALFORMED_CALL,
    "MALFORMED_RESPONSE": StopReason.MALFORMED_CALL,
    "OTHER": StopReason.ERROR,
    "PUP_LIMITED_DISABLED": StopReason.REFUSAL,
    "IMAGE_SAFETY": StopReason.REFUSAL,
    "IMAGE_PROHIBITED_CONTENT": StopReason.REFUSAL,
    "IMAGE_RECITATION": StopReason.REFUSAL,
    "IMAGE_OTHER": StopReason.ERROR,
    "NO_IMAGE": StopReason.ERROR,
}
"""Finish reasons → stop reasons (gemini-stop-reasons). `_stop` handles two cases without this table: `STOP` with calls
means tool use, and an unknown reason that begins with `IMAGE_` is a refusal.
"""

_FINISH_REASONS = (
    *("FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "BLOCKLIST"),
    *("PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "MODEL_ARMOR", "IMAGE_SAFETY"),
    *("IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER", "UNEXPECTED_TOOL_CALL", "NO_IMAGE"),
)
"""Vertex's finish reasons, indexed by number. It sends numbers if the URL has `enum-encoding=int`
(google.cloud.aiplatform.v1.Candidate.FinishReason)."""

_BLOCK_REASONS = ("BLOCKED_REASON_UNSPECIFIED", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "MODEL_ARMOR")
"""Vertex's reasons for blocking a prompt, indexed by number."""

_FIELDS = frozenset({"candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId", "error"})


def read(response: HttpResponse) -> ResponseView:
    """Return the neutral view of a response: a JSON object, server-sent events, or a JSON array of chunks.

    The parts are those of the first candidate. If an error response is not JSON, its body becomes the error message.

    Raises:
        WireError: a successful response has a body that does not belong to this API.
    """
    content_type = response.headers.get("content-type", "")
    try:
        if is_event_stream(content_type, response.body):
            return _view(fold(event_chunks(response.body)), response, streamed=True)
        if response.body.lstrip()[:1] == b"[" and is_json(content_type):
            chunks, closed = array_chunks(response.body)
            return _view(fold(chunks), response, streamed=True, closed=closed)
        body = body_of(response) if response.status < HTTPStatus.BAD_REQUEST else loads(response.body)
        return _view(body, response, streamed=False)
    except WireError:
        if response.status < HTTPStatus.BAD_REQUEST:
            raise
        text = response.body.decode("utf-8", errors="replace")
        failure = error_view(response, text)
        return ResponseView("gemini", (), StopReason.ERROR, None, Usage(), None, text, error=failure)


def _view(body: JSON, response: HttpResponse, *, streamed: bool, closed: bool = True) -> ResponseView:
    message = ProtoMessage.of(body)
    if not _FIELDS & {*message.names} and not (streamed and not message.names):
        raise WireError("the body is not a GenerateContentResponse")
    error = message.message("error")
    candidate = next(iter(message.messages("candidates")), None)
    content = candidate and candidate.message("content")
    parts = part_views(content) if content else ()
    failure = read_error(error, response)
    stop_reason, raw = _stop(message, candidate, parts)
    return ResponseView(
        api="gemini",
        parts=parts,
        stop_reason=StopReason.ERROR if failure else stop_reason,
        raw_stop_reason=raw,
        usage=_usage(message.message("usageMetadata")),
        model=message.text("modelVersion"),
        body=body,
        streamed=streamed,
        complete=not streamed or (closed and raw is not None),
        error=failure,
    )


def _stop(
    message: ProtoMessage, candidate: ProtoMessage | None, parts: tuple[PartView, ...]
) -> tuple[StopReason, str | None]:
    raw = candidate.enum("finishReason", _FINISH_REASONS) if candidate else None
    if raw is None:
        feedback = message.message("promptFeedback")
        blocked = feedback.enum("blockReason", _BLOCK_REASONS) if feedback else None
        return (StopReason.REFUSAL if blocked else StopReason.UNKNOWN), blocked
    calls = [part for part in parts if isinstance(part, CallView)]
    if raw == "STOP" and calls:
        malformed = any(not isinstance(call.arguments, dict) for call in calls)
        return StopReason.MALFORMED_CALL if malformed else StopReason.TOOL_USE, raw
    other = StopReason.REFUSAL if raw.startswith("IMAGE_") else StopReason.UNKNOWN
    return STOP_REASONS.get(raw, other), raw


def _usage(usage: ProtoMessage | None) -> Usage:
    if usage is None:
        return Usage()
    return Usage(
        input_tokens=_sum(usage, "promptTokenCount", "toolUsePromptTokenCount"),
        output_tokens=_sum(usage, "candidatesTokenCount", "thoughtsTokenCount"),
        cache_read_tokens=_sum(usage, "cachedContentTokenCount"),
        reasoning_tokens=_sum(usage, "thoughtsTokenCount"),
    )


def _sum(usage: ProtoMessage, *names: str) -> int | None:
    counts = [count for name in names if isinstance(count := usage.get(name), int)]
    return sum(counts) if counts else None


class _ChunkOrder(EventOrder):
    grammar = EventGrammar(
        stable=("responseId",), finish="/candidates/0/finishReason", content=("/candidates/0/content/parts",)
    )

    def check(self, event: ReceivedEvent) -> Iterator[ResponseViolation]:
        self.ended = self.ended or bool(self.stop or (event.data or {}).get("promptFeedback"))
        yield from ()


def _events(response: HttpResponse, request: RequestView) -> list[ReceivedEvent]:
    """Return the chunks of an event stream or of a JSON array, even if the array is not closed."""
    if request.stream_format == "events":
        return sent_events(response)
    try:
        chunks, _ = array_chunks(response.body)
    except (ValueError, WireError):  # not an array, or an array with an invalid chunk
        return []
    return [ReceivedEvent(at, None, "", chunk) for at, chunk in enumerate(chunks)]


check_response = ResponseChecks(
    file=Path(__file__).with_suffix(".yaml"),
    read=read,
    order=_ChunkOrder,
    arguments=("functionCall", "args"),
    usage="/usageMetadata",
    total="totalTokenCount",
    parts=("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount"),
    error_code=True,
    events=_events,
)


STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""Maps HTTP statuses to google.rpc's canonical codes."""


_STATUSES = {name: status for status, name in STATUS_NAMES.items()}


_DURATION = re.compile(r"(\d+(?:\.\d+)?)s", re.ASCII)


def read_error(error: ProtoMessage | None, response: HttpResponse) -> ErrorView | None:
    """Return the error of a response. The error's code is an HTTP status, even in an HTTP 200 response."""
    if error is None:
        return error_view(response, "") if response.status >= 400 else None
    code, name = error.get("code"), error.text("status")
    named = code if isinstance(code, int) and 400 <= code < 600 else _STATUSES.get(name or "")
    return error_view(response, error.text("message") or "", name, stands_for=named, wait=_wait(error))


def _wait(error: ProtoMessage) -> float | None:
    """Return the delay of a RetryInfo in seconds. It is a protobuf duration such as `1.5s`."""
    details = (detail for detail, _ in repeated_values(error.get("details"), ""))
    delays = (detail.get("retryDelay") for detail in details if isinstance(detail, dict))
    found = (_DURATION.fullmatch(delay) for delay in delays if isinstance(delay, str))
    return next((float(seconds[1]) for seconds in found if seconds), None)
