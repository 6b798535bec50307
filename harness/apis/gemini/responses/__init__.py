"""Responses: whole bodies, streams and errors → neutral view."""

from __future__ import annotations

from http import HTTPStatus

from harness.apis.eventstream import is_event_stream
from harness.apis.failure import error_view
from harness.apis.gemini.failures import read_error
from harness.apis.gemini.requests.parts import part_views
from harness.apis.gemini.requests.proto import ProtoMessage
from harness.apis.gemini.streams import array_chunks, event_chunks, fold
from harness.apis.jsonvalue import body_of, is_json, loads
from harness.apis.view import CallView, PartView, ResponseView, WireError
from harness.contract.http import HttpResponse
from harness.contract.model import JSON, StopReason, Usage

_STOP_REASONS = {
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
"""gemini-stop-reasons; `IMAGE_…` is a refusal too, and `STOP` with calls is a tool use."""

_FINISH_REASONS = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "MODEL_ARMOR",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_OTHER",
    "UNEXPECTED_TOOL_CALL",
    "NO_IMAGE",
)
"""Vertex's reasons by their numbers, which it sends where the URL asks for `enum-encoding=int`
(google.cloud.aiplatform.v1.Candidate.FinishReason)."""

_BLOCK_REASONS = ("BLOCKED_REASON_UNSPECIFIED", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "MODEL_ARMOR")
"""Vertex's reasons for a blocked prompt, by their numbers."""

_FIELDS = frozenset({"candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId", "error"})


def read(response: HttpResponse) -> ResponseView:
    """The neutral view of a response: one JSON object, server-sent events, or a JSON array of chunks.

    The parts are those of the first candidate. The body of a refusal that is no JSON (a proxy's page) becomes the
    message of the error.

    Raises:
        WireError: the body is not one of this API.
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
    if raw.startswith("IMAGE_"):
        return StopReason.REFUSAL, raw
    return _STOP_REASONS.get(raw, StopReason.UNKNOWN), raw


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
