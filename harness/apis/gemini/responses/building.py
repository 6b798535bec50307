"""What the reference server says as this API: answers, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.apis import seeded
from harness.apis.gemini.streams import building as chunks
from harness.apis.profile import Profile
from harness.apis.view import ModelStep, Prefix, RequestView
from harness.contract.http import HttpResponse
from harness.contract.model import JSON, StopReason

_LOWER_ALPHANUMERIC = "0123456789abcdefghijklmnopqrstuvwxyz"

_FINISH_REASONS = {
    StopReason.END_TURN: "STOP",
    StopReason.TOOL_USE: "STOP",
    StopReason.STOP_SEQUENCE: "STOP",
    StopReason.MAX_TOKENS: "MAX_TOKENS",
    StopReason.REFUSAL: "SAFETY",
    StopReason.PAUSE: "CONTINUATION",
    StopReason.MALFORMED_CALL: "MALFORMED_FUNCTION_CALL",
    StopReason.ERROR: "OTHER",
    StopReason.UNKNOWN: "FINISH_REASON_UNSPECIFIED",
}


_LEAST_CACHED = 300
"""Tokens, a little below the shortest recorded prompt of which some was cached."""


def build(step: ModelStep, seed: str, model: str, profile: Profile) -> dict[str, JSON]:
    """The body of an answer. Ids, usage and signatures are functions of `seed`.

    The signature sits on the first call, or on the text if there is none. A refusal is a candidate that
    says why in `finishMessage`, as recorded ones do; the API has no field for the model's own words.
    Calls come whole (gemini-calls-whole) or not at all: of one that is cut short nothing comes, and of a malformed one
    only the beginning of the model's own notation in `finishMessage` (gemini-no-candidates;
    langchain-ai/langchain-google#725).
    """
    bound = StopReason.MAX_TOKENS if step.truncated else StopReason.END_TURN
    stop = step.stop or (StopReason.REFUSAL if step.refusal is not None else bound)
    candidate: dict[str, JSON] = {}
    whole = replace(step, calls=step.calls[:-1]) if step.truncated else step
    if parts := [*_parts(whole, seed, profile)]:
        candidate["content"] = {"parts": parts, "role": "model"}
    elif step.text is not None:
        candidate["content"] = {"role": "model"}
    candidate["finishReason"] = _FINISH_REASONS[stop]
    candidate["index"] = 0
    if step.refusal is not None:
        candidate["finishMessage"] = step.refusal
    elif stop is StopReason.MALFORMED_CALL:
        candidate["finishMessage"] = "Malformed function call: print(default_api."
    elif step.calls and candidate["finishReason"] == "STOP":
        candidate["finishMessage"] = "Model generated function call(s)."
    if stop is StopReason.PAUSE:
        candidate["continuationToken"] = seeded.signature(seed, "continuation")
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(seed, step.prefix, reasoned=_signed(step, profile)),
        "modelVersion": model,
        "responseId": seeded.token(seed, "response", 23),
    }


def build_stream(step: ModelStep, seed: str, model: str, profile: Profile, request: RequestView) -> HttpResponse:
    """The same answer as a stream: events, or an array where the request does not ask for events."""
    return stream_of(build(step, seed, model, profile), seed, profile, request)


def stream_of(body: dict[str, JSON], seed: str, _profile: Profile, request: RequestView) -> HttpResponse:
    """A whole body as a stream, in the form that the request asks for."""
    if request.stream_format == "json-array":
        return HttpResponse(200, {"content-type": "application/json; charset=UTF-8"}, chunks.array(body, seed))
    return HttpResponse(200, {"content-type": "text/event-stream"}, chunks.events(body, seed))


def _signed(step: ModelStep, profile: Profile) -> bool:
    match profile.thought_signatures:
        case "required":
            return True
        case "optional":
            return step.thinking is not None
        case "none":
            return False


def _parts(step: ModelStep, seed: str, profile: Profile) -> Iterator[JSON]:
    signature: dict[str, JSON] = {}
    if _signed(step, profile):
        signature["thoughtSignature"] = seeded.signature(seed, "thought")
    if step.thinking is not None:
        yield {"text": step.thinking, "thought": True}
    yield from step.raw
    if step.text:  # an empty part is recorded in streams alone
        yield {"text": step.text} if step.calls else {"text": step.text, **signature}
    for index, (name, arguments) in enumerate(step.calls):
        call: dict[str, JSON] = {"name": name, "args": {**arguments}}
        if profile.call_ids is True:
            call["id"] = seeded.token(seed, f"call {index}", 8, _LOWER_ALPHANUMERIC)
        part: dict[str, JSON] = {"functionCall": call}
        yield part | (signature if index == 0 else {})


def _usage(seed: str, prefix: Prefix, *, reasoned: bool) -> dict[str, JSON]:
    """What came out of the cache is part of the prompt, and is not there at all otherwise. Recorded are two thirds of
    prompts of 328 tokens or more that came a second time (594 of 859, 230 of 345, 220 of 328)."""
    cached = prefix.repeated * 2 // 3 if prefix.repeated >= _LEAST_CACHED else 0
    prompt = (prefix.repeated if cached else 0) + seeded.number(seed, "prompt", 20, 400)
    candidates = seeded.number(seed, "candidates", 5, 120)
    thoughts = seeded.number(seed, "thoughts", 20, 300) if reasoned else 0
    usage: dict[str, JSON] = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": candidates,
        "totalTokenCount": prompt + candidates + thoughts,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}],
    }
    if thoughts:
        usage["thoughtsTokenCount"] = thoughts
    if cached:
        usage["cachedContentTokenCount"] = cached
        usage["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": cached}]
    return usage
