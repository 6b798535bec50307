"""Conversion of the `claude` command's results to neutral views, and construction of the reference server's results.
JSON pointers are relative to the result.
"""

from __future__ import annotations

import json

from harness.apis.jsonvalue import as_object, count, loads, string
from harness.apis.limits import Violation
from harness.apis.profiles import Profile
from harness.apis.server import number, random_text
from harness.apis.view import ErrorView, ModelStep, OpaqueView, PartView, RequestView, ResponseView, TextView, WireError
from harness.model.http import Completed, HttpResponse, from_response, to_response
from harness.model.messages import JSON, StopReason, Usage

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
    """Return the neutral view of a command's result.

    Raises:
        WireError: the response is not the result of a command, or a successful result contains no model response.
    """
    if response.status >= 400:
        return _view({}, ErrorView(response.status, response.body.decode("utf-8", "replace")))
    try:
        completed = from_response(response)
    except ValueError as error:
        raise WireError(str(error)) from None
    result = _result(completed)
    if result is None:
        printed = completed.stderr.strip() or completed.stdout.strip()
        return _view({}, ErrorView(response.status, printed))
    stop = result.get("stop_reason")
    if result.get("subtype") != "success" or result.get("is_error") not in (False, None):
        if stop == "refusal":
            return _view(result, parts=(OpaqueView("refusal", result.get("result"), "/result"),))
        return _view(result, _error(result, response.status))
    if completed.status != 0:
        return _view(result, ErrorView(response.status, f"status {completed.status}"))
    text = result.get("result")
    if result.get("num_turns") == 0 or not isinstance(text, str):
        raise WireError("no answer of a model", "/result")
    return _view(result, parts=(TextView(text, "/result"),) if text else ())


def _result(completed: Completed) -> dict[str, JSON] | None:
    """Return the result object, or `None` if the command failed without one. Raises `WireError` if a successful command
    has none.
    """
    try:
        value = loads(completed.stdout)
    except WireError:
        value = None
    if isinstance(value, dict) and value.get("type") == "result":
        return value
    if completed.status == 0:
        raise WireError("no result on stdout")
    return None


def _error(result: dict[str, JSON], http_status: int) -> ErrorView:
    """Return the error of a result, with the provider's status if the result has one."""
    status, text, subtype, errors = (result.get(key) for key in ("api_error_status", "result", "subtype", "errors"))
    meant = status if isinstance(status, int) and 400 <= status < 600 else None
    listed = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
    message = text if isinstance(text, str) and text else listed
    return ErrorView(
        http_status, message, subtype if isinstance(subtype, str) and subtype != "success" else None, meant
    )


def _view(result: dict[str, JSON], error: ErrorView | None = None, parts: tuple[PartView, ...] = ()) -> ResponseView:
    raw = string(result.get("stop_reason"))
    models = result.get("modelUsage")
    return ResponseView(
        api="claude-cli",
        parts=parts,
        stop_reason=StopReason.ERROR if error else _STOP_REASONS.get(raw or "", StopReason.UNKNOWN),
        raw_stop_reason=raw,
        usage=_usage(result.get("usage")),
        model=next(iter(models)) if isinstance(models, dict) and len(models) == 1 else None,
        body=result,
        error=error,
    )


def _usage(usage: JSON) -> Usage:
    """Return the usage. As in the Messages API, `input_tokens` excludes cached tokens."""
    fresh, written, read_, output = (
        count(as_object(usage).get(key))
        for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    )
    total = None if fresh is None else fresh + (written or 0) + (read_ or 0)
    return Usage(total, output, read_, written)


_HEX = "0123456789abcdef"

_WORDS = {StopReason.PAUSE: "pause_turn"}
"""Stop reasons whose wire name differs from the canonical one."""


def build(step: ModelStep, seed: str, model: str, _profile: Profile) -> dict[str, JSON]:
    """Return the result of a command run. Ids, usage and cost are derived from `seed`.

    A truncated response is replaced by an error without a status. Results never contain calls or thinking. The objects
    of `raw` are merged into the result.
    """
    stop = step.stop or (StopReason.REFUSAL if step.refusal is not None else StopReason.END_TURN)
    result = _build_result(seed, model, step.text or "", _WORDS.get(stop, stop.value))
    if stop is StopReason.REFUSAL:
        result |= {"is_error": True, "result": f"API Error: {step.refusal or 'the model declines to answer.'}"}
    elif stop is StopReason.MAX_TOKENS:
        message = "API Error: the answer exceeded the output token maximum."
        result |= {"is_error": True, "result": message, "stop_reason": "stop_sequence"}
    for fields in step.raw:
        result |= as_object(fields)
    return _process_output(result)


def build_stream(step: ModelStep, seed: str, model: str, profile: Profile, request: RequestView) -> HttpResponse:
    """Return the result of `build` as a single body. The command does not stream: it prints its result at the end."""
    return stream_of(build(step, seed, model, profile), seed, profile, request)


def stream_of(body: dict[str, JSON], _seed: str, _profile: Profile, _request: RequestView) -> HttpResponse:
    """Return a result as a single response."""
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(body, ensure_ascii=False).encode())


def refuse(violation: Violation) -> HttpResponse:
    """Return the response of a rejected command: a message on stderr, exit status 1 and no result."""
    return to_response(Completed(1, "", f"{violation.message}\n"))


def fail(status: int, _retry_after: float | None, seed: str) -> HttpResponse:
    """Return the result of a command whose provider failed. A result cannot carry a retry delay."""
    result = _build_result(seed, None, f"API Error: {status} the provider failed.", "stop_sequence")
    result |= {"is_error": True, "api_error_status": status}
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(_process_output(result)).encode())


def stream_error(status: int, seed: str, _request: RequestView) -> bytes:
    """Return the same body as `fail`. The command does not stream, so an error cannot follow partial output."""
    return fail(status, None, seed).body


def _process_output(result: dict[str, JSON]) -> dict[str, JSON]:
    stdout = json.dumps(result, ensure_ascii=False, separators=(",", ":")) + "\n"
    return {"status": int(result["is_error"] is True), "stdout": stdout, "stderr": ""}


def _build_result(seed: str, model: str | None, text: str, stop: str) -> dict[str, JSON]:
    """Return a result. Without a `model`, all token counts and the cost are zero."""
    is_answered = model is not None
    cached = number(seed, "cached", 0, 2)
    fresh, output, written, read = (
        count if is_answered else 0
        for count in (
            number(seed, "input", 40, 900),
            number(seed, "output", 10, 120),
            number(seed, "written", 1024, 4096) if cached == 1 else 0,
            number(seed, "read", 1024, 4096) if cached == 2 else 0,
        )
    )
    cost = round((5 * fresh + 25 * output + 6.25 * written + 0.5 * read) / 1e6, 8)
    used: dict[str, JSON] = {
        "inputTokens": fresh,
        "outputTokens": output,
        "cacheReadInputTokens": read,
        "cacheCreationInputTokens": written,
        "webSearchRequests": 0,
        "costUSD": cost,
    }
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "api_error_status": None,
        "duration_ms": number(seed, "duration", 900, 9000),
        "duration_api_ms": number(seed, "duration of the API", 500, 800) if is_answered else 0,
        "num_turns": 1,
        "result": text,
        "stop_reason": stop,
        "session_id": _uuid(seed, "session"),
        "total_cost_usd": cost,
        "usage": {
            "input_tokens": fresh,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "output_tokens": output,
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": "standard",
        },
        "modelUsage": {model: used} if model is not None else {},
        "permission_denials": [],
        "terminal_reason": "completed",
        "uuid": _uuid(seed, "result"),
    }


def _uuid(seed: str, label: str) -> str:
    text = random_text(seed, label, 30, _HEX)
    return f"{text[:8]}-{text[8:12]}-4{text[12:15]}-8{text[15:18]}-{text[18:]}"
