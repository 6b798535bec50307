"""What the reference server's model answers → response bodies."""

from __future__ import annotations

import json

from harness.apis.openai_responses.responses.dialects import dialect_of
from harness.apis.profile import Profile
from harness.apis.seeded import number, signature, token
from harness.apis.view import ModelStep
from harness.contract.model import JSON, StopReason

_HEX = "0123456789abcdef"
_STATUS = {
    StopReason.MAX_TOKENS: "incomplete",
    StopReason.REFUSAL: "incomplete",
    StopReason.PAUSE: "in_progress",
    StopReason.ERROR: "failed",
}
_REASONS = {StopReason.MAX_TOKENS: "max_output_tokens", StopReason.REFUSAL: "content_filter"}
_EPOCH = 1_780_000_000  # June 2026, in Unix seconds: creation times lie in the year after it
_YEAR = 365 * 24 * 3600


def build(step: ModelStep, seed: str, model: str, profile: Profile) -> dict[str, JSON]:
    """The body of a response.

    A refusal in words is a completed response, a refusal without words is one that the content filter cut off. A step
    that stops at `max_tokens` has its text cut short, or if it is `truncated` the arguments of its last call: the item
    is then `incomplete` or still `in_progress` (both are seen: vercel/ai#20405).
    """
    bound = StopReason.MAX_TOKENS if step.truncated else None
    stop = None if step.refusal is not None else step.stop or bound
    status = _STATUS.get(stop, "completed") if stop else "completed"
    created = _EPOCH + number(seed, "created", 0, _YEAR)
    output = _output(step, seed, profile)
    last = output[-1] if output else None
    if isinstance(last, dict) and last.get("type") == "message" and stop is StopReason.MAX_TOKENS:
        last["status"] = "incomplete"
    if isinstance(last, dict) and last.get("type") == "function_call" and step.truncated:
        arguments = str(last["arguments"])
        last["arguments"] = arguments[: number(seed, "cut", 1, len(arguments) - 1)]
        last["status"] = ("incomplete", "in_progress")[number(seed, "cut status", 0, 1)]
    return {
        "id": f"resp_{_hex(seed, 'response')}",
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "completed_at": created + number(seed, "duration", 1, 20) if status == "completed" else None,
        "error": {"code": "server_error", "message": "The model could not finish."} if status == "failed" else None,
        "incomplete_details": {"reason": _REASONS[stop]} if stop and stop in _REASONS else None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": "medium" if profile.thinking == "effort" else None, "summary": None},
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _usage(step, seed, profile),
    }


def _output(step: ModelStep, seed: str, profile: Profile) -> list[JSON]:
    reasons = profile.thinking == "effort"
    unique_ids = dialect_of(profile).unique_ids
    output: list[JSON] = []
    if step.thinking is not None:
        output.append(_reasoning(step.thinking, seed, encrypted=reasons))
    output.extend(step.raw)
    if step.text is not None or step.refusal is not None:
        message = _message(step, seed)
        if reasons:  # a phase comes with reasoning models, and has to go back
            message["phase"] = "commentary" if step.calls else "final_answer"
        output.append(message)
    output.extend(
        {
            "type": "function_call",
            "id": f"fc_{_hex(seed, f'item {index}')}",
            "call_id": f"call_{token(seed, f'call {index}', 24) if unique_ids else index}",
            "name": name,
            "arguments": json.dumps(arguments, ensure_ascii=False, separators=(",", ":")),
            "status": "completed",
        }
        for index, (name, arguments) in enumerate(step.calls)
    )
    return output


def _reasoning(thinking: str, seed: str, *, encrypted: bool) -> dict[str, JSON]:
    item: dict[str, JSON] = {
        "type": "reasoning",
        "id": f"rs_{_hex(seed, 'reasoning')}",
        "summary": [{"type": "summary_text", "text": thinking}] if thinking else [],
    }
    if encrypted:
        item["encrypted_content"] = signature(seed, "reasoning", 240)
    return item


def _message(step: ModelStep, seed: str) -> dict[str, JSON]:
    content: list[JSON] = []
    if step.text is not None:
        content.append({"type": "output_text", "text": step.text, "annotations": [], "logprobs": []})
    if step.refusal is not None:
        content.append({"type": "refusal", "refusal": step.refusal})
    return {
        "type": "message",
        "id": f"msg_{_hex(seed, 'message')}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def _usage(step: ModelStep, seed: str, profile: Profile) -> dict[str, JSON]:
    """Gross counts; cache and reasoning are parts of them. What came out of the cache is of a prompt that repeats 1,024
    tokens or more, in steps of 128, as recorded counts have it (1,408 of 1,542, 1,536 of 1,586, 2,048 of 2,087). None
    of OpenAI's own counts what goes in."""
    cached = step.prefix.repeated // 128 * 128 if step.prefix.repeated >= 1024 else 0
    reasoning = 64 * number(seed, "reasoning", 1, 6) if step.thinking is not None else 0
    if step.thinking is None and profile.thinking == "effort":
        reasoning = 64 * number(seed, "silent reasoning", 0, 2)
    received = cached + number(seed, "input", 20, 400)
    sent = reasoning + number(seed, "output", 5, 200)
    return {
        "input_tokens": received,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": sent,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": received + sent,
    }


def _hex(seed: str, label: str) -> str:
    return token(seed, label, 50, _HEX)
