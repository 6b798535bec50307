"""What the reference server answers with: a model step as a body."""

from __future__ import annotations

import json
from dataclasses import replace

from harness.apis.openai_chat.responses.dialects import call_as, dialect_of
from harness.apis.profile import Profile
from harness.apis.seeded import number, token
from harness.apis.view import ModelStep
from harness.contract.model import JSON, StopReason
from harness.scenarios.schema import Provocation

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
    Of a call that is cut short the JSON of the arguments ends where the answer does.
    """
    calls: list[JSON] = [raw for raw in step.raw if isinstance(raw, dict) and "type" in raw]
    texts = [json.dumps(arguments, ensure_ascii=False, separators=(",", ":")) for _, arguments in step.calls]
    if texts and step.truncated:
        texts[-1] = texts[-1][: number(seed, "cut", 1, len(texts[-1]) - 1)]
    named = zip(step.calls, texts, strict=True)
    calls += [_call(name, text, seed, index) for index, ((name, _), text) in enumerate(named)]
    dialect = dialect_of(profile)
    if Provocation.EMPTY_ARGUMENTS in step.provocations:
        dialect = replace(dialect, no_arguments="")
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


def _call(name: str, arguments: str, seed: str, index: int) -> JSON:
    return {
        "id": f"call_{token(seed, f'call {index}', 24)}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _finish_reason(step: ModelStep, *, has_calls: bool) -> str:
    """The API's word; for a stop reason that it has none for, the canonical one, which nobody will know."""
    if step.refusal is not None and step.stop in (None, StopReason.REFUSAL):
        return "stop"  # the words stand in the message, and it ends like any other
    said = StopReason.TOOL_USE if has_calls else StopReason.END_TURN
    stop = step.stop or (StopReason.MAX_TOKENS if step.truncated else said)
    return _FINISH_REASONS.get(stop, stop.value)


def _usage(step: ModelStep, seed: str, *, reasons: bool) -> JSON:
    """What came out of the cache is part of the prompt: of one that repeats 1,024 tokens or more, in steps of 128, as
    recorded counts have it (1,408 of 1,542, 1,536 of 1,586, 2,048 of 2,087). Nothing recorded counts what goes in."""
    cached = step.prefix.repeated // 128 * 128 if step.prefix.repeated >= 1024 else 0
    prompt = cached + number(seed, "prompt", 20, 400)
    reasoning = 64 * number(seed, "reasoning", 1, 9) if reasons else 0
    said = len(step.text or "") + len(step.refusal or "") + sum(len(name) + 20 for name, _ in step.calls)
    completion = reasoning + max(1, said // 4)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {
            "cached_tokens": cached,
            "cache_write_tokens": 0,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
