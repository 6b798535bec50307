"""What the reference server answers with: a model step as a body, a violation as a refusal."""

from __future__ import annotations

import json

from harness.http import HttpResponse
from harness.model import JSON, StopReason
from harness.profiles import Profile
from harness.wire.openai_chat.chat import param
from harness.wire.openai_chat.dialects import call_as, dialect_of
from harness.wire.seeded import number, token
from harness.wire.view import ModelStep, Violation

_FINISH_REASONS = {
    StopReason.END_TURN: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.MAX_TOKENS: "length",
    StopReason.REFUSAL: "content_filter",
}

_HEX = "0123456789abcdef"


def build(step: ModelStep, seed: str, model: str, profile: Profile) -> dict[str, JSON]:
    """The body of a response that says what `step` says.

    The API shows nothing of the model's thinking; it counts as reasoning tokens. An answer has no list of parts:
    an entry of `step.raw` is a tool call of a type of its own if it has a `type`, else fields of the message.
    """
    calls: list[JSON] = [raw for raw in step.raw if isinstance(raw, dict) and "type" in raw]
    calls += [_call(name, arguments, seed, index) for index, (name, arguments) in enumerate(step.calls)]
    dialect = dialect_of(profile)
    message: dict[str, JSON] = {"role": "assistant", "content": step.text, "refusal": step.refusal, "annotations": []}
    for raw in step.raw:
        if isinstance(raw, dict) and "type" not in raw:
            message |= raw
    if calls:
        message["tool_calls"] = [call_as(dialect, call) for call in calls]
    return {
        "id": f"chatcmpl-{token(seed, 'response', 29)}",
        "object": "chat.completion",
        "created": number(seed, "created", 1_782_000_000, 1_795_000_000),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": _finish_reason(step, has_calls=bool(calls)),
            }
        ],
        "usage": _usage(step, seed, reasons=profile.reasons_by_default or step.thinking is not None),
        "service_tier": "default",
        "system_fingerprint": f"fp_{token(seed, 'fingerprint', 10, _HEX)}",
    }


def refuse(violation: Violation) -> HttpResponse:
    """The refusal of a request, in OpenAI's shape."""
    error: JSON = {
        "message": violation.message,
        "type": "invalid_request_error",
        "param": param(violation.pointer) or None,
        "code": violation.code,
    }
    request_id = token(f"{violation.rule}{violation.pointer}{violation.message}", "request", 32, _HEX)
    return HttpResponse(
        violation.status,
        {"content-type": "application/json", "x-request-id": f"req_{request_id}"},
        json.dumps({"error": error}).encode(),
    )


def _call(name: str, arguments: dict[str, JSON], seed: str, index: int) -> JSON:
    return {
        "id": f"call_{token(seed, f'call {index}', 24)}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))},
    }


def _finish_reason(step: ModelStep, *, has_calls: bool) -> str:
    """The API's word; for a stop reason that it has none for, the canonical one, which nobody will know."""
    if step.refusal is not None and step.stop in (None, StopReason.REFUSAL):
        return "stop"  # the words stand in the message, and it ends like any other
    stop = step.stop or (StopReason.TOOL_USE if has_calls else StopReason.END_TURN)
    return _FINISH_REASONS.get(stop, stop.value)


def _usage(step: ModelStep, seed: str, *, reasons: bool) -> JSON:
    prompt = number(seed, "prompt", 1200, 3000)
    cached = 1024 * number(seed, "cached", 0, 1)
    reasoning = 64 * number(seed, "reasoning", 1, 9) if reasons else 0
    said = len(step.text or "") + len(step.refusal or "") + sum(len(name) + 20 for name, _ in step.calls)
    completion = reasoning + max(1, said // 4)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {
            "cached_tokens": cached,
            "cache_write_tokens": 0 if cached else 1024 * number(seed, "written", 0, 1),
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
