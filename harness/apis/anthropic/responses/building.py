"""The provider's answers, for the reference server."""

from __future__ import annotations

from itertools import islice

from harness.apis import seeded
from harness.apis.anthropic.streams.building import spell
from harness.apis.profile import Profile
from harness.apis.view import ModelStep, RequestView
from harness.contract.http import HttpResponse
from harness.contract.model import JSON, StopReason

_WORDS = {
    StopReason.END_TURN: "end_turn",
    StopReason.TOOL_USE: "tool_use",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.STOP_SEQUENCE: "stop_sequence",
    StopReason.REFUSAL: "refusal",
    StopReason.PAUSE: "pause_turn",
}


_LEAST_CACHED = 1024
"""Tokens. Documented as the least of any model; some want more."""


def build(step: ModelStep, seed: str, model: str, profile: Profile) -> dict[str, JSON]:
    """The body of a response that says what `step` says. Ids, usage and signatures are functions of `seed`.

    A stop reason that this API has no word for goes out under its canonical name, as an unknown word would come.
    A call that is cut short has the parameters that were whole before: the API holds each one back until it is, and
    closes the JSON (anthropics/anthropic-sdk-python#794), so that what is there parses and is not what was meant.
    """
    stop = step.stop or _derived(step)
    refused = stop is StopReason.REFUSAL
    return {
        "model": model,
        "id": f"msg_01{seeded.token(seed, 'message', 22)}",
        "type": "message",
        "role": "assistant",
        "content": _content(step, seed),
        "stop_reason": _WORDS.get(stop, stop.value),
        "stop_sequence": "\n\nHuman:" if stop is StopReason.STOP_SEQUENCE else None,
        "stop_details": {"type": "refusal", "category": None, "explanation": step.refusal} if refused else None,
        "usage": _usage(step, seed, profile),
    }


def build_stream(step: ModelStep, seed: str, model: str, profile: Profile, _request: RequestView) -> HttpResponse:
    """The same answer as an event stream. The API streams in one way, whatever the request says."""
    return _stream(spell(build(step, seed, model, profile), seed, step.provocations))


def stream_of(body: dict[str, JSON], seed: str, _profile: Profile, _request: RequestView) -> HttpResponse:
    """A whole message as an event stream."""
    return _stream(spell(body, seed))


def _stream(body: bytes) -> HttpResponse:
    return HttpResponse(200, {"content-type": "text/event-stream; charset=utf-8"}, body)


def _derived(step: ModelStep) -> StopReason:
    if step.truncated:
        return StopReason.MAX_TOKENS
    if step.refusal is not None:
        return StopReason.REFUSAL
    return StopReason.TOOL_USE if step.calls else StopReason.END_TURN


def _content(step: ModelStep, seed: str) -> list[JSON]:
    content: list[JSON] = []
    if step.thinking is not None:
        signature = seeded.signature(seed, "thinking")
        content.append({"type": "thinking", "thinking": step.thinking, "signature": signature})
    content.extend(step.raw)
    if step.text:  # the API has no empty text block (anthropic-no-empty-text)
        content.append({"type": "text", "text": step.text})
    for index, (name, arguments) in enumerate(step.calls):
        cut_short = step.truncated and index == len(step.calls) - 1
        content.append(
            {
                "type": "tool_use",
                "id": f"toolu_01{seeded.token(seed, f'call {index}', 22)}",
                "name": name,
                "input": dict(islice(arguments.items(), len(arguments) // 2)) if cut_short else arguments,
                "caller": {"type": "direct"},
            }
        )
    return content


def _usage(step: ModelStep, seed: str, profile: Profile) -> dict[str, JSON]:
    """Counts that an adapter has to sum right: what the cache took or gave is not part of `input_tokens`.

    Only what is marked is cached, and only if it is long enough: written once, read when it comes again. None of the
    170 recorded answers counts any of it without a mark.
    """
    marked = step.prefix.marked if step.prefix.marked >= _LEAST_CACHED else 0
    written = 0 if step.prefix.again else marked
    thought = seeded.number(seed, "thought", 20, 200) if step.thinking is not None else 0
    usage: dict[str, JSON] = {
        "input_tokens": seeded.number(seed, "input", 40, 900),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": marked - written,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": thought + seeded.number(seed, "output", 10, 120),
        "service_tier": "standard",
        "inference_geo": "global",
    }
    if profile.thinking == "adaptive":  # the older models do not break their output down
        usage["output_tokens_details"] = {"thinking_tokens": thought}
    return usage
