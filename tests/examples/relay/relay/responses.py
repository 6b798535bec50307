"""Responses → neutral views, and a model step as a response."""

from __future__ import annotations

import json

from harness.apis.eventstream import is_event_stream
from harness.apis.jsonvalue import body_of, loads
from harness.apis.profiles import Profile
from harness.apis.server import number, random_text
from harness.apis.view import CallView, ModelStep, RequestView, ResponseView, WireError
from harness.model.http import HttpResponse
from harness.model.messages import JSON, StopReason, Usage
from relay.failures import read_error
from relay.requests import members, parts, text_of
from relay.streams import fold, stream_of

_ENDED = {
    "done": StopReason.END_TURN,
    "calls": StopReason.TOOL_USE,
    "limit": StopReason.MAX_TOKENS,
    "stop": StopReason.STOP_SEQUENCE,
    "declined": StopReason.REFUSAL,
}
_WORDS = {stop: word for word, stop in _ENDED.items()}


def read(response: HttpResponse) -> ResponseView:
    """The neutral view, a stream folded. Raises `WireError`."""
    streamed = response.status < 400 and is_event_stream(response.headers.get("content-type", ""), response.body)
    body = fold(response.body) if streamed else _body(response)
    error = read_error(body, response)
    whole = {} if error else members(body, "")
    complete = not streamed or "ended" in whole
    if error is None and not (streamed or isinstance(whole.get("parts"), list)):
        raise WireError("an answer has parts", "/parts")
    said = parts(members(body, ""), "") if streamed or not error else ()
    malformed = any(isinstance(part, CallView) and part.malformed is not None for part in said)
    ended, used = text_of(whole, "ended"), whole.get("used")
    stop = _ENDED.get(ended, StopReason.UNKNOWN)
    if malformed and stop is StopReason.TOOL_USE:
        stop = StopReason.MALFORMED_CALL
    return ResponseView(
        api="relay",
        parts=said,
        stop_reason=StopReason.ERROR if error else stop,
        raw_stop_reason=ended or None,
        usage=Usage(_count(used, "in"), _count(used, "out")),
        model=text_of(whole, "model") or None,
        body=body,
        streamed=streamed,
        complete=complete,
        error=error,
    )


def build(step: ModelStep, seed: str, model: str, _profile: Profile) -> dict[str, JSON]:
    """The answer that says what `step` says."""
    texts = [json.dumps(arguments, ensure_ascii=False) for _, arguments in step.calls]
    if texts and step.truncated:
        texts[-1] = texts[-1][: number(seed, "cut", 1, len(texts[-1]) - 1)]
    said: list[JSON] = [*step.raw]
    if step.text is not None:
        said.append({"text": step.text})
    if step.refusal is not None:
        said.append({"declined": step.refusal})
    for index, ((name, _), text) in enumerate(zip(step.calls, texts, strict=True)):
        said.append({"call": {"id": f"c-{random_text(seed, f'call {index}', 12)}", "tool": name, "arguments": text}})
    by_itself = StopReason.TOOL_USE if step.calls else StopReason.END_TURN
    declined = StopReason.REFUSAL if step.refusal is not None else by_itself
    stop = step.stop or (StopReason.MAX_TOKENS if step.truncated else declined)
    used: dict[str, JSON] = {"in": number(seed, "in", 20, 400), "out": number(seed, "out", 5, 120)}
    return {"model": model, "parts": said, "ended": _WORDS.get(stop, stop.value), "used": used}


def build_stream(step: ModelStep, seed: str, model: str, profile: Profile, request: RequestView) -> HttpResponse:
    """The same answer as a stream."""
    return stream_of(build(step, seed, model, profile), seed, profile, request)


def _body(response: HttpResponse) -> JSON:
    if response.status < 400:
        return body_of(response)
    try:
        return loads(response.body)
    except WireError:  # a proxy's page
        return None


def _count(used: JSON, key: str) -> int | None:
    value = used.get(key) if isinstance(used, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
