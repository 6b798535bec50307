"""Responses of the reference server: results and failures of the command."""

from __future__ import annotations

import json

from harness.apis.limits import Violation
from harness.apis.server import number, token
from harness.apis.targets import Profile
from harness.apis.view import ModelStep, RequestView
from harness.contract.http import HttpResponse
from harness.contract.model import JSON, StopReason
from harness.contract.process import Completed, to_response

_HEX = "0123456789abcdef"

_WORDS = {StopReason.PAUSE: "pause_turn"}
"""Stop reasons with another name than the canonical one."""


def build(step: ModelStep, seed: str, model: str, _profile: Profile) -> dict[str, JSON]:
    """Return the result of a run. Ids, usage and cost are functions of `seed`.

    A truncated answer is dropped and reported as an error without a status. Calls and thinking never appear in a
    result. The objects of `raw` are merged into it.
    """
    stop = step.stop or (StopReason.REFUSAL if step.refusal is not None else StopReason.END_TURN)
    result = _result(seed, model, step.text or "", _WORDS.get(stop, stop.value))
    if stop is StopReason.REFUSAL:
        result |= {"is_error": True, "result": f"API Error: {step.refusal or 'the model declines to answer.'}"}
    elif stop is StopReason.MAX_TOKENS:
        message = "API Error: the answer exceeded the output token maximum."
        result |= {"is_error": True, "result": message, "stop_reason": "stop_sequence"}
    for fields in step.raw:
        result |= fields if isinstance(fields, dict) else {}
    return _left_behind(result)


def build_stream(step: ModelStep, seed: str, model: str, profile: Profile, request: RequestView) -> HttpResponse:
    """Return the same response whole: a result comes at the end of a run."""
    return stream_of(build(step, seed, model, profile), seed, profile, request)


def stream_of(body: dict[str, JSON], _seed: str, _profile: Profile, _request: RequestView) -> HttpResponse:
    """Return the result of a run in one piece."""
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(body, ensure_ascii=False).encode())


def refuse(violation: Violation) -> HttpResponse:
    """Return the refusal of a command: a line on stderr, status 1, no result."""
    return to_response(Completed(1, "", f"{violation.message}\n"))


def fail(status: int, _retry_after: float | None, seed: str) -> HttpResponse:
    """Return the result of a run whose provider failed. It has no wait time."""
    result = _result(seed, None, f"API Error: {status} the provider failed.", "stop_sequence")
    result |= {"is_error": True, "api_error_status": status}
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(_left_behind(result)).encode())


def stream_error(status: int, seed: str, _request: RequestView) -> bytes:
    """Return the failure; nothing can precede it."""
    return fail(status, None, seed).body


def _left_behind(result: dict[str, JSON]) -> dict[str, JSON]:
    stdout = json.dumps(result, ensure_ascii=False, separators=(",", ":")) + "\n"
    return {"status": int(result["is_error"] is True), "stdout": stdout, "stderr": ""}


def _result(seed: str, model: str | None, text: str, stop: str) -> dict[str, JSON]:
    """Return a result. Without a `model` nothing was used."""
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
    text = token(seed, label, 30, _HEX)
    return f"{text[:8]}-{text[8:12]}-4{text[12:15]}-8{text[15:18]}-{text[18:]}"
