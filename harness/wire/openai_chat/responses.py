"""Response, whole or streamed → neutral view."""

from __future__ import annotations

from harness.http import HttpResponse
from harness.model import JSON, StopReason, Usage
from harness.wire.eventstream import is_event_stream
from harness.wire.jsonvalue import loads
from harness.wire.openai_chat.parts import assistant_views, is_blank
from harness.wire.openai_chat.streams import fold
from harness.wire.view import CallView, ErrorView, OpaqueView, PartView, ResponseView, WireError

_STOPS = {
    "stop": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}
"""Table 1.3 of wire-facts. A word that is not here is unknown."""


def read(response: HttpResponse) -> ResponseView:
    """The neutral view of a response, its first choice read, a stream folded.

    An error is read wherever it stands: in the status, in a body with status 200, or in the middle of a stream.

    Raises:
        WireError: the body is no answer of this API and no error.
    """
    if is_event_stream(response.headers.get("content-type", ""), response.body):
        body, complete = fold(response.body)
        return _view(body, _error(body, response.status), streamed=True, complete=complete)
    try:
        body = loads(response.body)
    except WireError:
        if response.status < 400:
            raise
        text = response.body.decode("utf-8", errors="replace")
        return _view({}, ErrorView(response.status, text), streamed=False, complete=True)
    whole = body if isinstance(body, dict) else {}
    error = _error(whole, response.status)
    if error is None and not isinstance(whole.get("choices"), list):
        raise WireError("a body without choices", "/choices")
    return _view(whole, error, streamed=False, complete=True)


def _view(body: dict[str, JSON], error: ErrorView | None, *, streamed: bool, complete: bool) -> ResponseView:
    choice = _choice(body)
    message = choice.get("message")
    parts: tuple[PartView, ...] = ()
    if isinstance(message, dict):
        parts = tuple(assistant_views(message, "/choices/0/message"))
    word, model = choice.get("finish_reason"), body.get("model")
    raw = word if isinstance(word, str) else None
    return ResponseView(
        api="openai-chat",
        parts=parts,
        stop_reason=StopReason.ERROR if error else _stop_reason(raw, parts),
        raw_stop_reason=raw,
        usage=_usage(body.get("usage")),
        model=model if isinstance(model, str) else None,
        body=body,
        streamed=streamed,
        complete=complete,
        error=error,
    )


def _choice(body: dict[str, JSON]) -> dict[str, JSON]:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _stop_reason(raw: str | None, parts: tuple[PartView, ...]) -> StopReason:
    """Table 1.3: a forced call ends with `stop` all the same, and a refusal in the message does too."""
    if raw == "stop" and any(isinstance(part, CallView) for part in parts):
        return StopReason.TOOL_USE
    if raw == "stop" and any(isinstance(part, OpaqueView) and part.kind == "refusal" for part in parts):
        return StopReason.REFUSAL
    return _STOPS.get(raw or "", StopReason.UNKNOWN)


def _usage(usage: JSON) -> Usage:
    """Table 1.4: prompt tokens include what was cached, completion tokens include reasoning."""
    if not isinstance(usage, dict):
        return Usage()
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return Usage(
        input_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        cache_read_tokens=_count(prompt, "cached_tokens"),
        cache_write_tokens=_count(prompt, "cache_write_tokens"),
        reasoning_tokens=_count(completion, "reasoning_tokens"),
    )


def _count(counts: JSON, key: str) -> int | None:
    value = counts.get(key) if isinstance(counts, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _error(body: dict[str, JSON], status: int) -> ErrorView | None:
    """The error of a body, in OpenAI's shape or in those of compatible servers."""
    error = body.get("error")
    if is_blank(error):  # OpenRouter puts a failure of the model's host into the choice
        error = _choice(body).get("error")
    if not is_blank(error):
        return _error_view(error if isinstance(error, dict) else {"message": error}, status)
    if status >= 400 or body.get("object") == "error":  # Mistral and its kin have no envelope
        return _error_view(body, status)
    return None


def _error_view(error: dict[str, JSON], status: int) -> ErrorView:
    message = error.get("message", error.get("detail"))
    code = next((error[key] for key in ("code", "type") if not is_blank(error.get(key))), None)
    return ErrorView(
        status,
        message if isinstance(message, str) else str(message or error),
        str(code) if isinstance(code, str | int) else None,
    )
