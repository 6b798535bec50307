"""Response, whole or streamed → neutral view."""

from __future__ import annotations

from dataclasses import replace

from harness.apis.eventstream import is_event_stream
from harness.apis.failure import error_view
from harness.apis.jsonvalue import body_of, loads, resolve
from harness.apis.openai_chat.failures import read_error
from harness.apis.openai_chat.requests.parts import assistant_views
from harness.apis.openai_chat.responses.taken_back import marked
from harness.apis.openai_chat.streams import fold
from harness.apis.view import CallView, ErrorView, OpaqueView, PartView, ResponseView, WireError
from harness.contract.http import HttpResponse
from harness.contract.model import JSON, StopReason, Usage

_STOPS = {
    "stop": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}
"""openai-chat-stop-reasons. A word that is not here is unknown."""


def read(response: HttpResponse) -> ResponseView:
    """The neutral view of a response, its first choice read, a stream folded.

    An error is read wherever it stands: in the status, in a body with status 200, or in the middle of a stream.

    Raises:
        WireError: the body is no answer of this API and no error.
    """
    if is_event_stream(response.headers.get("content-type", ""), response.body):
        body, complete = fold(response.body)
        return _view(body, read_error(body, _choice(body), response), streamed=True, complete=complete)
    try:
        body = body_of(response) if response.status < 400 else loads(response.body)
    except WireError:
        if response.status < 400:
            raise
        text = response.body.decode("utf-8", errors="replace")
        return _view({}, error_view(response, text), streamed=False, complete=True)
    whole = body if isinstance(body, dict) else {}
    error = read_error(whole, _choice(whole), response)
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
    parts = marked(parts, model if isinstance(model, str) else "")
    if word == "length":
        parts = _cut_short(parts, body)
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


def _cut_short(parts: tuple[PartView, ...], body: dict[str, JSON]) -> tuple[PartView, ...]:
    """The parts of an answer that reached its bound. Arguments that end early are no JSON; if none had come yet, the
    last call looks like one without arguments (openai-chat-no-arguments), and is none."""
    last = next((part for part in reversed(parts) if isinstance(part, CallView)), None)
    if last is None or last.arguments != {} or resolve(body, last.arguments_pointer) == "{}":
        return parts
    return tuple(replace(part, arguments=None, malformed="") if part is last else part for part in parts)


def _is_malformed(part: PartView) -> bool:
    """Whether a part is a call of a function whose arguments are no object. A custom tool takes any text."""
    if not isinstance(part, CallView) or "/custom" in part.arguments_pointer:
        return False
    return not isinstance(part.arguments, dict)


def _stop_reason(raw: str | None, parts: tuple[PartView, ...]) -> StopReason:
    """A forced call ends with `stop` all the same, and a refusal in the message does too. The API has no
    word for a call whose arguments are none (openai-chat-message-answer)."""
    if raw in ("stop", "tool_calls", "function_call") and any(map(_is_malformed, parts)):
        return StopReason.MALFORMED_CALL
    if raw == "stop" and any(isinstance(part, CallView) for part in parts):
        return StopReason.TOOL_USE
    if raw == "stop" and any(isinstance(part, OpaqueView) and part.kind == "refusal" for part in parts):
        return StopReason.REFUSAL
    return _STOPS.get(raw or "", StopReason.UNKNOWN)


def _usage(usage: JSON) -> Usage:
    """openai-chat-usage: prompt tokens include what was cached, completion tokens include reasoning."""
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
