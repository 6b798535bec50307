"""Response bodies and event streams → neutral views."""

from __future__ import annotations

from harness.http import HttpResponse
from harness.model import JSON, StopReason, Usage
from harness.wire.anthropic.requests import content_parts
from harness.wire.anthropic.streams import fold
from harness.wire.eventstream import is_event_stream
from harness.wire.jsonvalue import loads
from harness.wire.view import ErrorView, OpaqueView, PartView, ResponseView, WireError

_STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
}


def read(response: HttpResponse) -> ResponseView:
    """The neutral view of a response, an event stream folded (AN-P1 to AN-P7).

    Raises:
        WireError: a body of HTTP 200 that is neither a message nor an error. A refusal with a body of any other shape
            (a proxy's page) is an error with that body as its message.
    """
    if response.status >= 400:
        return _refusal(response)
    if is_event_stream(response.headers.get("content-type", ""), response.body):
        folded = fold(response.body)
        return _message(folded.message, streamed=True, complete=folded.complete, error=_error(folded.error, 200))
    body = loads(response.body)
    error = _error(body, response.status)
    return _message({} if error else body, error=error, body=body)


def _refusal(response: HttpResponse) -> ResponseView:
    text = response.body.decode("utf-8", errors="replace")
    try:
        body = loads(response.body)
    except WireError:
        body = None
    error = _error(body, response.status) or ErrorView(response.status, text)
    return _message({}, error=error, body=body)


def _message(
    message: JSON,
    *,
    streamed: bool = False,
    complete: bool = True,
    error: ErrorView | None = None,
    body: JSON = None,
) -> ResponseView:
    if not isinstance(message, dict):
        raise WireError("not an object")
    if error is None and not isinstance(message.get("content"), list):
        raise WireError("a message has a list of content blocks", "/content")
    raw, model, usage, details = (message.get(key) for key in ("stop_reason", "model", "usage", "stop_details"))
    parts: tuple[PartView, ...] = content_parts(message.get("content"), "/content")
    if raw == "refusal" and isinstance(details, dict):
        parts = (*parts, OpaqueView("refusal", details, "/stop_details"))
    return ResponseView(
        api="anthropic",
        parts=parts,
        stop_reason=_stop_reason(raw, error),
        raw_stop_reason=raw if isinstance(raw, str) else None,
        usage=_usage(usage if isinstance(usage, dict) else {}),
        model=model if isinstance(model, str) else None,
        body=message if body is None else body,
        streamed=streamed,
        complete=complete,
        error=error,
    )


def _stop_reason(raw: JSON, error: ErrorView | None) -> StopReason:
    if error:
        return StopReason.ERROR
    return _STOP_REASONS.get(raw, StopReason.UNKNOWN) if isinstance(raw, str) else StopReason.UNKNOWN


def _usage(usage: dict[str, JSON]) -> Usage:
    fresh, written, read_ = (
        _count(usage.get(key)) for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    )
    details = usage.get("output_tokens_details")
    return Usage(
        input_tokens=None if fresh is None else fresh + (written or 0) + (read_ or 0),
        output_tokens=_count(usage.get("output_tokens")),
        cache_read_tokens=read_,
        cache_write_tokens=written,
        reasoning_tokens=_count(details.get("thinking_tokens")) if isinstance(details, dict) else None,
    )


def _count(value: JSON) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _error(body: JSON, status: int) -> ErrorView | None:
    """The error that a body carries. Bedrock, which speaks the same messages, has only a `message`."""
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, dict):
        code, message = error.get("type"), error.get("message")
        return ErrorView(status, message if isinstance(message, str) else "", code if isinstance(code, str) else None)
    message = body.get("message")
    return ErrorView(status, message) if isinstance(message, str) and status >= 400 else None
