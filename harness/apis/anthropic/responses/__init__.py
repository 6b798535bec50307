"""Response bodies and event streams → neutral views."""

from __future__ import annotations

import json
from dataclasses import replace

from harness.apis.anthropic.failures import read_error
from harness.apis.anthropic.requests import content_parts
from harness.apis.anthropic.streams import fold
from harness.apis.eventstream import is_event_stream
from harness.apis.failure import error_view
from harness.apis.jsonvalue import body_of, loads
from harness.apis.view import CallView, ErrorView, OpaqueView, PartView, ResponseView, WireError
from harness.contract.http import HttpResponse
from harness.contract.model import JSON, StopReason, Usage

_STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
}
_ENDED = (StopReason.TOOL_USE, StopReason.END_TURN, StopReason.STOP_SEQUENCE)


def read(response: HttpResponse) -> ResponseView:
    """The neutral view of a response, an event stream folded (anthropic-response-blocks, anthropic-stream-order,
    anthropic-stream-arguments, anthropic-stream-signature, anthropic-broken-arguments, anthropic-stream-usage).

    Raises:
        WireError: a body of HTTP 200 that is neither a message nor an error. A refusal with a body of any other shape
            (a proxy's page) is an error with that body as its message.
    """
    if response.status >= 400:
        return _refusal(response)
    if is_event_stream(response.headers.get("content-type", ""), response.body):
        folded = fold(response.body)
        error = read_error(folded.error, response)
        return _message(folded.message, streamed=True, complete=folded.complete, error=error)
    body = body_of(response)
    error = read_error(body, response)
    return _message({} if error else body, error=error, body=body)


def _refusal(response: HttpResponse) -> ResponseView:
    text = response.body.decode("utf-8", errors="replace")
    try:
        body = loads(response.body)
    except WireError:
        body = None
    error = read_error(body, response) or error_view(response, text)
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
    stop_reason = _stop_reason(raw, parts, error)
    if stop_reason is StopReason.MAX_TOKENS and parts and isinstance(parts[-1], CallView):
        parts = (*parts[:-1], _cut_short(parts[-1]))
    if raw == "refusal" and isinstance(details, dict):
        parts = (*parts, OpaqueView("refusal", details, "/stop_details"))
    return ResponseView(
        api="anthropic",
        parts=parts,
        stop_reason=stop_reason,
        raw_stop_reason=raw if isinstance(raw, str) else None,
        usage=_usage(usage if isinstance(usage, dict) else {}),
        model=model if isinstance(model, str) else None,
        body=message if body is None else body,
        streamed=streamed,
        complete=complete,
        error=error,
    )


def _stop_reason(raw: JSON, parts: tuple[PartView, ...], error: ErrorView | None) -> StopReason:
    """The API has no word for a call that is none (anthropic-broken-arguments): it stops as if all were well."""
    if error:
        return StopReason.ERROR
    reason = _STOP_REASONS.get(raw, StopReason.UNKNOWN) if isinstance(raw, str) else StopReason.UNKNOWN
    if reason in _ENDED and any(isinstance(part, CallView) and not isinstance(part.arguments, dict) for part in parts):
        return StopReason.MALFORMED_CALL
    return reason


def _cut_short(call: CallView) -> CallView:
    """The last call of an answer that reached its bound. Nobody can tell whether it was whole: the API closes the JSON
    of one that it cuts (anthropics/anthropic-sdk-python#794), or leaves it open (anthropic-broken-arguments)."""
    text = json.dumps(call.arguments, ensure_ascii=False) if call.malformed is None else call.malformed
    return replace(call, arguments=None, malformed=text)


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
