"""The Messages API of the reference server: complete messages and event streams, errors, headers, keys, models, token
counts and threads.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import cast
from urllib.parse import urlsplit

from harness.apis.anthropic.responses import ERROR_TYPES, STOP_REASONS
from harness.apis.api import StreamShape
from harness.apis.eventstream import sent_objects, serialize_event, serialize_typed_events
from harness.apis.jsonvalue import as_list, as_object
from harness.apis.limits import Violation
from harness.apis.registry import Profile
from harness.apis.server import (
    ServerEndpoints,
    StateNotFound,
    StoredAnswers,
    estimate_tokens,
    event_stream,
    fragments,
    json_response,
    message,
    number,
    random_text,
    request_fields,
    signature,
    stop_word,
    wait_headers,
)
from harness.apis.view import (
    CacheDiagnosis,
    ModelStep,
    ProviderReport,
    Provocation,
    RequestView,
    ResponseView,
)
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, StopReason

_WORDS = {StopReason.PAUSE: "pause_turn"}
_SENT_WORDS = {word: stop for word, stop in STOP_REASONS.items() if word != "compaction"}  # beta, and on request only
"""Stop reasons whose wire name differs from the canonical one."""

_MIN_CACHED_TOKENS = 1024
"""Minimum number of tokens that can be cached. This is the lowest documented minimum; some models need more."""


def build(step: ModelStep, seed: str, model: str, profile: Profile) -> dict[str, JSON]:
    """Return the body of a response. Ids, usage and signatures are derived from `seed`.

    A stop reason that this API does not have is sent under its canonical name, like an unknown value. A truncated call
    contains only its first complete parameters: the API sends a parameter once it is complete, and closes the JSON
    (anthropics/anthropic-sdk-python#794).
    """
    stop = StopReason.MAX_TOKENS if step.truncated else step.stop or _stop_reason_of(step)
    refused = stop is StopReason.REFUSAL
    reported: dict[str, JSON] = {"input_transformations": [*map(_transformation, step.reports)]} if step.reports else {}
    return {
        "model": model,
        "id": f"msg_01{random_text(seed, 'message', 22)}",
        "type": "message",
        "role": "assistant",
        "content": _content(step, seed),
        "stop_reason": stop_word(step, _WORDS.get(stop, stop.value), _SENT_WORDS, seed),
        "stop_sequence": "\n\nHuman:" if stop is StopReason.STOP_SEQUENCE else None,
        "stop_details": {"type": "refusal", "category": None, "explanation": step.refusal} if refused else None,
        "usage": _usage(step, seed, profile),
        **reported,
        **({"diagnostics": _diagnostics(step.diagnosed)} if step.diagnosed else {}),
    }


_SECTIONS = {"tools": "tools_changed", "system": "system_changed"}


def _diagnostics(found: CacheDiagnosis) -> JSON:
    """Return the `diagnostics` of a response, which explain a prompt cache miss (anthropic-cache-diagnostics)."""
    if not found.is_named or (found.is_known and found.changed is None):
        return None
    if not found.is_known:
        return {"cache_miss_reason": {"type": "previous_message_not_found"}}
    reason = _SECTIONS.get(found.changed or "", "messages_changed")
    return {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": found.tokens}}


def _transformation(report: ProviderReport) -> JSON:
    """Return the `input_transformations` entry for a provider report (anthropic-input-transformations)."""
    kind = "thinking_dropped" if report.effect == "dropped" else "thinking_mismatch_allowed"
    return {"type": kind, "path": (report.part or "").strip("/").replace("/", "."), "reason": report.reason}


def build_stream(step: ModelStep, seed: str, model: str, profile: Profile, _request: RequestView) -> HttpResponse:
    """Return the response of `build` as an event stream. This API has only one stream format.

    Only in streams can arguments break off in an answer that stops for its calls (anthropic-broken-arguments).
    """
    body = build(step, seed, model, profile)
    if step.truncated and step.stop is StopReason.TOOL_USE:
        *before, call = as_list(body["content"])
        text = json.dumps(step.calls[-1][1], ensure_ascii=False)
        broken = as_object(call) | {"input": text[: number(seed, "cut", 1, len(text) - 1)]}
        body |= {"content": [*before, broken], "stop_reason": "tool_use"}
    return event_stream(stream_of_message(body, seed, step.provocations))


def stream_of(body: dict[str, JSON], seed: str, _profile: Profile, _request: RequestView) -> HttpResponse:
    """Convert a complete message to an event stream."""
    return event_stream(stream_of_message(body, seed))


def _stop_reason_of(step: ModelStep) -> StopReason:
    if step.refusal is not None:
        return StopReason.REFUSAL
    return StopReason.TOOL_USE if step.calls else StopReason.END_TURN


def _content(step: ModelStep, seed: str) -> list[JSON]:
    content: list[JSON] = []
    for at, thought in enumerate(step.thoughts):
        if at:
            content.append({"type": "redacted_thinking", "data": signature(seed, "redacted")})
        state = signature(seed, f"thinking{at or ''}")
        content.append({"type": "thinking", "thinking": thought, "signature": state})
    content.extend(step.raw)
    # the API never returns an empty text block (anthropic-no-empty-text)
    content.extend({"type": "text", "text": text} for text in step.texts if text)
    for index, (name, arguments) in enumerate(step.calls):
        cut_short = step.truncated and index == len(step.calls) - 1
        content.append(
            {
                "type": "tool_use",
                "id": f"toolu_01{random_text(seed, f'call {index}', 22)}",
                "name": name,
                "input": dict(islice(arguments.items(), len(arguments) // 2)) if cut_short else arguments,
                "caller": {"type": "direct"},
                **step.call_fields,
            }
        )
    return content


def _usage(step: ModelStep, seed: str, profile: Profile) -> dict[str, JSON]:
    """Return the token counts. `input_tokens` excludes cached tokens, so adapters have to add them.

    Tokens are cached only up to the last cache mark, and only if there are enough of them. The part up to a mark that
    an earlier request also contains is read from the cache; the rest is written to it. None of the 170 recorded
    responses has cached tokens without a mark.
    """
    marked = step.prefix.marked if step.prefix.marked >= _MIN_CACHED_TOKENS else 0
    written = marked - (step.prefix.marked_again if step.prefix.marked_again >= _MIN_CACHED_TOKENS else 0)
    thought = number(seed, "thought", 20, 200) if step.thinking is not None else 0
    usage: dict[str, JSON] = {
        "input_tokens": number(seed, "input", 40, 900),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": marked - written,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": thought + number(seed, "output", 10, 120),
        "service_tier": "standard",
        "inference_geo": "global",
    }
    if profile.thinking == "adaptive":  # older models do not report reasoning tokens separately
        usage["output_tokens_details"] = {"thinking_tokens": thought}
    return usage


_AT_THE_END = ("stop_reason", "stop_sequence", "stop_details")
_CUMULATIVE_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_KNOWN_AT_START = frozenset({*_CUMULATIVE_COUNTS, "cache_creation", "service_tier", "inference_geo"})

_PING: dict[str, JSON] = {"type": "ping"}
_PINGED = frozenset({"content_block_start", "content_block_delta", "content_block_stop"})
"""Types of events that are followed by pings in recorded streams. No recorded stream starts with a ping."""

_UNKNOWN: dict[str, JSON] = {"type": "of_another_day"}
"""Event of an unknown type. The documentation announces that new types may appear and that clients must ignore them. No
recording has one."""


def stream_of_message(message: dict[str, JSON], seed: str, provocations: Collection[Provocation] = ()) -> bytes:
    """Convert a complete message to an event stream (anthropic-stream-order). Chunk boundaries and pings are derived
    from `seed`.

    Except for the `provocations`, the stream looks like recorded traffic.
    """
    events = _with_pings(_events(message, seed), seed)
    if Provocation.UNKNOWN_EVENTS in provocations:
        events = _with_unknown_events(events)
    return b"".join(_serialize_event(event, seed, at) for at, event in enumerate(events))


def _serialize_event(event: dict[str, JSON], seed: str, at: int) -> bytes:
    """Serialize an event. Like the provider, pad its object with up to 15 spaces."""
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    padding = " " * number(seed, f"padding {at}", 0, 15)
    return f"event: {event['type']}\ndata: {text[:-1]}{padding}}}\n\n".encode(errors="backslashreplace")


def _with_pings(events: Iterable[dict[str, JSON]], seed: str) -> Iterator[dict[str, JSON]]:
    """Insert pings, most often after the start of the first block."""
    pinged = number(seed, "ping", 0, 2) == 0
    for at, event in enumerate(events):
        yield event
        first_block = event["type"] == "content_block_start" and not pinged
        if first_block or (event["type"] in _PINGED and number(seed, f"ping {at}", 0, 11) == 0):
            pinged = True
            yield _PING


def _with_unknown_events(events: Iterable[dict[str, JSON]]) -> Iterator[dict[str, JSON]]:
    """Insert unknown events inside a block and before the end, because clients may handle the two places
    differently."""
    begun = False
    for event in events:
        if event["type"] == "message_delta":
            yield _UNKNOWN
        yield event
        if event["type"] == "content_block_start" and not begun:
            begun = True
            yield _UNKNOWN


def _events(message: dict[str, JSON], seed: str) -> Iterator[dict[str, JSON]]:
    usage, content = message.get("usage"), message.get("content")
    counts = as_object(usage)
    known = {key: value for key, value in counts.items() if key in _KNOWN_AT_START}
    begun: dict[str, JSON] = {"output_tokens": number(seed, "begun", 1, 8)} if "output_tokens" in known else {}
    nothing_yet: dict[str, JSON] = {key: None for key in _AT_THE_END if key in message}
    yield {"type": "message_start", "message": {**message, **nothing_yet, "content": [], "usage": known | begun}}
    for index, block in enumerate(as_list(content)):
        if isinstance(block, dict):
            yield from _block(index, block, seed)
    # All 37 recorded streams repeat the input token counts at the end.
    ended = {key: value for key, value in counts.items() if key in _CUMULATIVE_COUNTS or key not in known}
    yield {
        "type": "message_delta",
        "delta": {key: message[key] for key in _AT_THE_END if key in message},
        "usage": ended,
    }
    yield {"type": "message_stop"}


def _block(index: int, block: dict[str, JSON], seed: str) -> Iterator[dict[str, JSON]]:
    begun, deltas = _split_block(block, seed, f"block {index}")
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _split_block(block: dict[str, JSON], seed: str, label: str) -> tuple[dict[str, JSON], Iterator[dict[str, JSON]]]:
    """Split a block into its start and its deltas. Results of server tools and unknown blocks are sent complete in the
    start."""
    match block:
        case {"type": "text", "text": str(), "citations": list()}:
            return block | {"text": "", "citations": []}, _text(block, seed, label)
        case {"type": "text", "text": str()}:
            return block | {"text": ""}, _text(block, seed, label)
        case {"type": "thinking", "thinking": str(), "signature": str()}:
            return block | {"thinking": "", "signature": ""}, _thinking(block, seed, label)
        case {"type": str(kind), "input": value} if kind.endswith("tool_use"):
            return block | {"input": {}}, _input(value, seed, label)
        case {"type": "compaction"}:  # one delta with the whole summary
            return {"type": "compaction", "content": None}, iter([block | {"type": "compaction_delta"}])
        case _:
            return block, iter(())


def _text(block: dict[str, JSON], seed: str, label: str) -> Iterator[dict[str, JSON]]:
    for citation in as_list(block.get("citations")):
        yield {"type": "citations_delta", "citation": citation}
    for fragment in fragments(str(block["text"]), seed, label):
        yield {"type": "text_delta", "text": fragment}


def _thinking(block: dict[str, JSON], seed: str, label: str) -> Iterator[dict[str, JSON]]:
    for fragment in fragments(str(block["thinking"]), seed, label):
        yield {"type": "thinking_delta", "thinking": fragment}
    yield {"type": "signature_delta", "signature": block["signature"]}


def _input(value: JSON, seed: str, label: str) -> Iterator[dict[str, JSON]]:
    """Yield the input as fragments of JSON text, with or without escapes.

    The first fragment is empty. A call without arguments has only that fragment, or none (anthropic-stream-arguments).
    Input that is not JSON is sent as text.
    """
    if value == {}:
        pieces = [""] * number(seed, f"{label} empty", 0, 1)
    else:
        escaped = number(seed, f"{label} escaped", 0, 2) == 0
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=escaped)
        pieces = ["", *fragments(text, seed, label)]
    for fragment in pieces:
        yield {"type": "input_json_delta", "partial_json": fragment}


Fields = dict[str, JSON]


def _is_argument_delta(event: Fields) -> bool:
    delta = event.get("delta")
    return isinstance(delta, dict) and delta.get("type") == "input_json_delta"


def _in_one_delta(stream: bytes, _seed: str) -> bytes:
    """Join all arguments of a call into one delta, and omit the empty delta before it."""
    events: list[Fields] = []
    for event in sent_objects(stream):
        last = events[-1] if events else {}
        if _is_argument_delta(event) and _is_argument_delta(last) and event.get("index") == last.get("index"):
            events[-1] = {**last, "delta": _join(last["delta"], event["delta"])}
        else:
            events.append(event)
    return serialize_typed_events(events)


def _join(one: JSON, other: JSON) -> JSON:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one
    return {**one, "partial_json": f"{one.get('partial_json') or ''}{other.get('partial_json') or ''}"}


def _output_tokens_alone(stream: bytes, _seed: str) -> bytes:
    """Reduce the final usage to the output tokens, and to counts that differ from those in `message_start`."""
    events = sent_objects(stream)
    first = next((event["message"] for event in events if event.get("type") == "message_start"), None)
    begun = as_object(first).get("usage")
    for at, event in enumerate(events):
        usage = event.get("usage")
        if event.get("type") == "message_delta" and isinstance(usage, dict) and isinstance(begun, dict):
            kept = {key: value for key, value in usage.items() if key == "output_tokens" or begun.get(key) != value}
            events[at] = {**event, "usage": kept}
    return serialize_typed_events(events)


SHAPES: Mapping[str, StreamShape] = {
    "arguments-in-one-delta": StreamShape(_in_one_delta),  # 13 of 22 calls recorded from the API itself
    "output-tokens-alone": StreamShape(
        _output_tokens_alone
    ),  # anthropic-usage: observed with compatible servers and older versions
}


def refuse(violation: Violation) -> HttpResponse:
    """Return the provider's rejection of a request."""
    kind = violation.code or _type(violation.status)
    return _response(violation.status, kind, violation.message, f"{violation.rule} {violation.pointer}")


def fail(status: int, retry_after: float | None, seed: str) -> HttpResponse:
    """Return the provider's error response for a status. `retry_after` is sent as a header, in seconds."""
    return _response(status, _type(status), message(status), seed, retry_after)


def stream_error(status: int, seed: str, _request: RequestView) -> bytes:
    """Return the `error` event of a stream (anthropic-stream-order). Unlisted statuses use the error type of 400 or
    500."""
    return serialize_event(_body(_type(status), message(status), _request_id(seed)), "error")


def _type(status: int) -> str:
    return ERROR_TYPES.get(status, ERROR_TYPES[500] if status >= 500 else ERROR_TYPES[400])


def _body(kind: str, message: str, request_id: str) -> dict[str, JSON]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


def _request_id(seed: str) -> str:
    return f"req_011{random_text(seed, 'request', 21)}"


def _response(status: int, kind: str, message: str, seed: str, retry_after: float | None = None) -> HttpResponse:
    request_id = _request_id(seed)
    headers = {"content-type": "application/json", "request-id": request_id, **wait_headers(retry_after)}
    return HttpResponse(status, headers, json.dumps(_body(kind, message, request_id)).encode())


_LIMITS = {"requests": 4000, "tokens": 2_400_000, "input-tokens": 2_000_000, "output-tokens": 400_000}
_RESET = "2026-06-01T00:00:00Z"
_THREAD_FIELDS = ("system", "tools")
"""Fields that a thread stores and its continuation omits (`CREATE_ONLY_FIELDS` of the SDK's
`lib/threads/_thread_state.py`)."""


def headers(seed: str, _model: str) -> Mapping[str, str]:
    """Return the headers that every response has."""
    limits = {f"anthropic-ratelimit-{kind}-limit": str(limit) for kind, limit in _LIMITS.items()}
    left = {f"anthropic-ratelimit-{kind}-remaining": str(limit - 1000) for kind, limit in _LIMITS.items()}
    resets = {f"anthropic-ratelimit-{kind}-reset": _RESET for kind in _LIMITS}
    ids = {
        "request-id": f"req_011{random_text(seed, 'request', 21)}",
        "anthropic-organization-id": "00000000-0000-4000-8000-000000000000",
    }
    return {**ids, **limits, **left, **resets}


def has_key(request: HttpRequest) -> bool:
    """Return whether a request has an API key or a login token."""
    return bool(request.headers.get("x-api-key") or request.headers.get("authorization"))


def respond(request: HttpRequest, models: Sequence[str]) -> HttpResponse | None:
    """Respond to a request for the model list, a single model, or a token count."""
    path = urlsplit(request.url).path
    if request.method == "POST" and path.endswith("/v1/messages/count_tokens"):
        return json_response({"input_tokens": estimate_tokens(request.body)})
    if request.method != "GET" or "/v1/models" not in path or "anthropic-version" not in request.headers:
        return None
    named = path.rpartition("/v1/models")[2].strip("/")
    if not named:
        listed: list[JSON] = [_model(name) for name in models]
        ends: dict[str, JSON] = {"first_id": models[0] if models else None, "last_id": models[-1] if models else None}
        return json_response({"data": listed, "has_more": False, **ends})
    if named in models:
        return json_response(_model(named))
    return _error(404, "not_found_error", f"model: {named}")


def restore(request: HttpRequest, kept: StoredAnswers) -> HttpRequest:
    """Replace a request that continues a thread with an equivalent request that has the whole conversation. Raises
    `StateNotFound`.
    """
    body = request_fields(request)
    thread = body.pop("thread", None)
    if not isinstance(thread, dict):
        return request
    if thread.get("type") == "continue":
        named = thread.get("previous_message_id")
        held = kept.get(str(named))
        if not isinstance(held, dict):
            raise StateNotFound(
                f"no thread has the answer {named!r}",
                _error(404, "not_found_error", f"thread state not found: {named}", "thread_not_found"),
            )
        old, new = held["messages"], body.get("messages")
        both = [*as_list(old), *as_list(new)]
        body = {**{key: held[key] for key in _THREAD_FIELDS if key in held}, **body, "messages": both}
    return replace(request, body=json.dumps(body, ensure_ascii=False).encode())


def store(request: HttpRequest, answer: ResponseView) -> tuple[str, JSON] | None:
    """Return the conversation to store, with the id of its last response. It becomes a thread once a later request
    continues it."""
    body, answered = request_fields(request), answer.body
    messages = body.get("messages")
    if not isinstance(answered, dict) or not isinstance(messages, list):
        return None
    turn: dict[str, JSON] = {"role": "assistant", "content": answered.get("content")}
    return str(answered.get("id")), {
        **{key: body[key] for key in _THREAD_FIELDS if key in body},
        "messages": [*messages, turn],
    }


def _model(name: str) -> dict[str, JSON]:
    return {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}


def _error(status: int, kind: str, message: str, code: str | None = None) -> HttpResponse:
    error: dict[str, JSON] = {"type": kind, "message": message}
    if code is not None:
        error["details"] = cast("JSON", {"error_code": code})
    return json_response({"type": "error", "error": error}, status)


SERVER_ENDPOINTS = ServerEndpoints(
    compared="/diagnostics/previous_message_id",
    variables=("ANTHROPIC_BASE_URL",),
    headers=headers,
    has_key=has_key,
    respond=respond,
    restore=restore,
    store=store,
)
