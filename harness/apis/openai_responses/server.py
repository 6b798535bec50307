"""The Responses API of the reference server: bodies, streams, errors, headers, token counts and stored responses.

Token counts, stored responses and repeated fields follow the types of
https://github.com/openai/openai-python/tree/v3.54.0 (read 2026-11-22). The error for an unknown `previous_response_id`
follows https://github.com/maximhq/bifrost/issues/2441 (2026-03-31). A response is stored unless `store` is false
(openai-responses-stored-item-missing-store-false).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from typing import TypeAlias
from urllib.parse import urlsplit

from harness.apis import registry
from harness.apis.api import StreamShape
from harness.apis.eventstream import sent_objects, serialize_event, serialize_typed_events
from harness.apis.jsonvalue import as_list, string
from harness.apis.openai_common import (
    cached_prompt,
    error_object,
    failure,
    has_key,
    headers,
    refusal,
    type_and_code,
)
from harness.apis.openai_responses.requests import NAME, item_kind
from harness.apis.openai_responses.responses import (
    INCOMPLETE_REASONS,
    OPENAI,
    STRING_FIELDS,
    TERMINAL,
    TEXTS,
    ResponsesDialect,
    dialect_of,
)
from harness.apis.registry import Profile
from harness.apis.server import (
    ServerEndpoints,
    StateNotFound,
    StoredAnswers,
    estimate_tokens,
    event_stream,
    fragments,
    interleave,
    json_response,
    message,
    number,
    random_text,
    request_fields,
    signature,
    stop_word,
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

_HEX = "0123456789abcdef"
_STATUS = {
    StopReason.MAX_TOKENS: "incomplete",
    StopReason.REFUSAL: "incomplete",
    StopReason.PAUSE: "in_progress",
    StopReason.ERROR: "failed",
}
_REASONS = {StopReason.MAX_TOKENS: "max_output_tokens", StopReason.REFUSAL: "content_filter"}
_EPOCH = 1_780_000_000  # June 2026, in Unix seconds: creation times are within the year after it
_YEAR = 365 * 24 * 3600


def build(step: ModelStep, seed: str, model: str, profile: Profile) -> dict[str, JSON]:
    """Return the body of a response.

    A refusal with text is a completed response. A refusal without text is stopped by the content filter. If a step
    stops at `max_tokens`, its message is marked `incomplete`. If the step is `truncated`, the arguments of its last
    call are cut off. The call is then `incomplete` or still `in_progress` (both occur: vercel/ai#20405).
    """
    bound = StopReason.MAX_TOKENS if step.truncated else None
    stop = None if step.refusal is not None else step.stop or bound
    status = _STATUS.get(stop, "completed") if stop else "completed"
    created = _EPOCH + number(seed, "created", 0, _YEAR)
    output = _output(step, seed, profile)
    last = output[-1] if output else None
    reported: dict[str, JSON] = {"input_transformations": [*map(_removal, step.reports)]} if step.reports else {}
    if isinstance(last, dict) and last.get("type") == "message" and stop is StopReason.MAX_TOKENS:
        last["status"] = "incomplete"
    if isinstance(last, dict) and last.get("type") == "function_call" and step.truncated:
        arguments = str(last["arguments"])
        last["arguments"] = arguments[: number(seed, "cut", 1, len(arguments) - 1)]
        last["status"] = ("incomplete", "in_progress")[number(seed, "cut status", 0, 1)]
    word = _REASONS.get(stop) if stop else None
    return {
        "id": f"resp_{_hex(seed, 'response')}",
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "completed_at": created + number(seed, "duration", 1, 20) if status == "completed" else None,
        "error": {"code": "server_error", "message": "The model could not finish."} if status == "failed" else None,
        **reported,
        **(
            {"prompt_cache_diagnostics": _diagnostics(step.diagnosed)}
            if step.diagnosed and step.diagnosed.is_named
            else {}
        ),
        "incomplete_details": {"reason": stop_word(step, word, INCOMPLETE_REASONS, seed)} if word else None,
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


_MISS_REASONS = {
    "tools": "tools_changed",
    "/text/format": "text_format_changed",
    "/reasoning/effort": "reasoning_effort_changed",
}


def _diagnostics(found: CacheDiagnosis) -> JSON:
    """Return the cache diagnostics of a response (openai-responses-cache-diagnostics). A changed system prompt counts
    as changed input.
    """
    if not found.is_known:
        return {"type": "comparison_response_not_found"}
    if found.changed is None:
        return {"type": "cache_hit"}
    reason = _MISS_REASONS.get(found.changed, "input_changed")
    return {"type": "cache_miss", "reason": reason, "cache_missed_tokens": found.tokens}


def _removal(report: ProviderReport) -> JSON:
    """Return the report of a removed reasoning item (openai-responses-input-transformations)."""
    return {"type": "reasoning", "id": report.item_id, "action": "removed", "reason": report.reason}


def _output(step: ModelStep, seed: str, profile: Profile) -> list[JSON]:
    reasons = profile.thinking == "effort"
    is_included = step.included is None or "reasoning.encrypted_content" in step.included
    unique_ids = dialect_of(profile).unique_ids
    output: list[JSON] = []
    for at, thought in enumerate(step.thoughts):
        item = _reasoning(thought, f"{seed}/{at}" if at else seed, encrypted=reasons)
        # without `include`, clients got null (openai-responses-stored-item-missing-store-false)
        output.append(item if is_included or not reasons else item | {"encrypted_content": None})
    output.extend(step.raw)
    if step.text is not None or step.refusal is not None:
        message = _message(step, seed)
        if reasons:  # reasoning models return a phase, which clients must send back
            message["phase"] = "commentary" if step.calls else "final_answer"
        output.append(message)
    output.extend(
        {
            "type": "function_call",
            "id": f"fc_{_hex(seed, f'item {index}')}",
            "call_id": f"call_{random_text(seed, f'call {index}', 24) if unique_ids else index}",
            "name": name,
            "arguments": json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
            if arguments or Provocation.EMPTY_ARGUMENTS not in step.provocations
            else "",
            "status": "completed",
            **step.call_fields,
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
    content: list[JSON] = [
        {"type": "output_text", "text": text, "annotations": [], "logprobs": []} for text in step.texts
    ]
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
    """Return the token counts. They include cached and reasoning tokens."""
    cached = cached_prompt(step.prefix.repeated)
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
    return random_text(seed, label, 50, _HEX)


Fields: TypeAlias = dict[str, JSON]

_UNKNOWN_YET = ("completed_at", "error", "incomplete_details", "usage")
"""Fields of a response that are null until it ends."""

_STRINGS = {"function_call": "response.function_call_arguments", "custom_tool_call": "response.custom_tool_call_input"}
"""Maps types of calls to the event family in which their arguments are streamed."""

_LISTS = {
    "content": ("response.content_part", "content_index"),
    "summary": ("response.reasoning_summary_part", "summary_index"),
}
"""Maps the lists of an item to the event family of their parts, and to the name of the part index."""

_PARTS = {(where, kind): (family, key) for family, (where, kind, key) in TEXTS.items()}


def build_stream(step: ModelStep, seed: str, model: str, profile: Profile, request: RequestView) -> HttpResponse:
    """Return the response of `build` as a stream. A paused response has no final event, because the API defines none
    for it.

    Calls are streamed one after another, as in every recording. With `Provocation.INTERLEAVED_CALLS`, all calls are
    opened first and their events are interleaved. Each event has the index of its item.
    """
    del request  # the stream has all data of the body, whatever the request includes
    body = build(step, seed, model, profile)
    at_once = Provocation.INTERLEAVED_CALLS in step.provocations
    return event_stream(to_stream(body, seed, dialect_of(profile), at_once=at_once))


def stream_of(body: Fields, seed: str, profile: Profile, _request: RequestView) -> HttpResponse:
    """Convert a complete body to a stream."""
    return event_stream(to_stream(body, seed, dialect_of(profile)))


def to_stream(body: Fields, seed: str, dialect: ResponsesDialect = OPENAI, *, at_once: bool = False) -> bytes:
    """Return a stream whose events add up to `body`. With `at_once`, the events of the calls are interleaved."""
    sent: list[bytes] = []
    for index, (kind, fields) in enumerate(_events(body, seed, dialect, at_once=at_once)):
        event: Fields = {"type": kind, **fields}
        if kind.endswith(".delta"):
            event["obfuscation"] = random_text(seed, f"padding {index}", number(seed, f"padding of {index}", 1, 16))
        if dialect.numbered:
            event["sequence_number"] = index
        sent.append(serialize_event(event, kind))
    return b"".join([*sent, b"data: [DONE]\n\n" if dialect.sentinel else b""])


def _events(body: Fields, seed: str, dialect: ResponsesDialect, *, at_once: bool) -> Iterator[tuple[str, Fields]]:
    begun = {**body, **{key: None for key in _UNKNOWN_YET if key in body}, "status": "in_progress", "output": []}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    items = [(index, item) for index, item in enumerate(as_list(body.get("output")))]
    dicts = [(index, item) for index, item in items if isinstance(item, dict)]
    whole = body.get("status") == "completed"  # a truncated response must end in its last item
    for is_call, run in groupby(dicts, lambda entry: item_kind(entry[1]) in _STRINGS):
        lanes = [_item(item, index, f"{seed} {index}") for index, item in run]
        yield from interleave(lanes, seed) if at_once and is_call and whole else chain.from_iterable(lanes)
    end = f"response.{body.get('status')}"
    if end in TERMINAL:
        yield end, {"response": body if dialect.repeats else {**body, "output": []}}


def _item(item: Fields, index: int, seed: str) -> Iterator[tuple[str, Fields]]:
    kind = item_kind(item)
    family = _STRINGS.get(kind, "")
    key = STRING_FIELDS.get(family, "")
    written_out = isinstance(item.get(key), str)
    lists = [where for where in _LISTS if isinstance(item.get(where), list)] if kind in ("message", "reasoning") else []
    begun: Fields = {**item, **{where: [] for where in lists}}
    if "status" in item:
        begun["status"] = "in_progress"
    if written_out:
        begun[key] = ""
    if item.get(
        "encrypted_content"
    ):  # each event has newly encrypted state; the first may be incomplete (openai-responses-reasoning-back)
        begun["encrypted_content"] = signature(seed, "unfinished", 120)
    place: Fields = {"output_index": index}
    yield "response.output_item.added", {"item": begun, **place}
    place = {"item_id": item.get("id"), **place}
    for where in lists:
        yield from _list(item[where], where, place, seed)
    if written_out:
        yield from _text(family, key, item, place, seed)
    yield "response.output_item.done", {"item": item, "output_index": index}


def _list(parts: JSON, where: str, place: Fields, seed: str) -> Iterator[tuple[str, Fields]]:
    family, counter = _LISTS[where]
    for index, part in enumerate(as_list(parts)):
        if not isinstance(part, dict):
            continue
        here: Fields = {**place, counter: index}
        texts, key = _PARTS.get((where, str(part.get("type"))), ("", ""))
        has_text = isinstance(part.get(key), str)
        begun: Fields = {**part, key: ""} if has_text else {**part}
        if "annotations" in part:
            begun["annotations"] = []
        yield f"{family}.added", {**here, "part": begun}
        if has_text:
            yield from _text(texts, key, part, here, f"{seed} {where} {index}")
        yield f"{family}.done", {**here, "part": part}


def _text(family: str, key: str, holder: Fields, place: Fields, seed: str) -> Iterator[tuple[str, Fields]]:
    """Yield the pieces of a string, then the complete string, which is omitted for a truncated call."""
    text = string(holder.get(key)) or ""
    logprobs: Fields = {"logprobs": []} if family == "response.output_text" else {}
    for piece in fragments(text, seed, key):
        yield f"{family}.delta", {**place, "delta": piece, **logprobs}
    if holder.get("status") not in ("incomplete", "in_progress"):
        yield f"{family}.done", {**place, key: text, **logprobs}


def stream_error(status: int, seed: str, request: RequestView) -> bytes:
    """Return the events that report an error with this status inside a stream.

    In recorded streams, an `error` event contains the error object, and `response.failed` follows it. In the SDK's
    type, the event itself has the fields of the error (openai-responses-stream-error). Azure sends only
    `response.failed`. `seed` selects one of these forms. The sequence numbers have a gap, since the number of earlier
    events is unknown.
    """
    kind, code = type_and_code(status)
    error = error_object(message(status), kind, code)
    at = number(seed, "sequence", 1000, 9000)
    flat: dict[str, JSON] = {"code": code or kind, "message": message(status), "param": None}
    nested: dict[str, JSON] = {"error": error}
    chosen = [flat, nested, None][number(seed, "failure", 0, 2)]
    model = request.model or ""
    body = build(ModelStep(stop=StopReason.ERROR), seed, model, registry.api(NAME).profile_for(model))
    failed: dict[str, JSON] = {**body, "error": {"code": code or kind, "message": message(status)}, "usage": None}
    end = serialize_event({"type": "response.failed", "response": failed, "sequence_number": at + 1}, "response.failed")
    if chosen is None:
        return end
    return serialize_event({"type": "error", **chosen, "sequence_number": at}, "error") + end


_DELTA = "response.function_call_arguments.delta"


def _in_one_delta(stream: bytes, _seed: str) -> bytes:
    """Join all arguments of a call into one delta."""
    events: list[Fields] = []
    for read in sent_objects(stream):
        last = events[-1] if events else {}
        same_item = read.get("item_id") == last.get("item_id")
        if read.get("type") == last.get("type") == _DELTA and same_item:
            events[-1] = {**last, "delta": f"{last.get('delta')}{read.get('delta')}"}
        else:
            events.append(read)
    return serialize_typed_events(events)


SHAPES: Mapping[str, StreamShape] = {
    "arguments-in-one-delta": StreamShape(_in_one_delta)  # 20 of 32 calls recorded from the API and xAI
}


refuse = partial(refusal, indent=2)
fail = partial(failure, indent=2)


_PREVIOUS_ID = "previous_response_id"

_REPEATED = frozenset(
    {
        *("background", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls"),
        *("previous_response_id", "prompt_cache_key", "reasoning", "safety_identifier", "store", "temperature", "text"),
        *("tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user"),
    }
)
"""Request fields that the response repeats with the same meaning."""


def respond(request: HttpRequest, _models: Sequence[str]) -> HttpResponse | None:
    """Respond to a request for a token count; return `None` for any other request. The Chat Completions module responds
    to requests for the list of models.
    """
    if request.method != "POST" or not urlsplit(request.url).path.endswith("/responses/input_tokens"):
        return None
    return json_response({"object": "response.input_tokens", "input_tokens": estimate_tokens(request.body)})


def restore(request: HttpRequest, kept: StoredAnswers) -> HttpRequest:
    """Return the request with the items of earlier responses prepended. Raises `StateNotFound`."""
    body = request_fields(request)
    named = body.pop(_PREVIOUS_ID, None)
    if named is None:
        return request
    stored = kept.get(str(named))
    if not isinstance(stored, list):
        words = f"Previous response with id '{named}' not found."
        error: dict[str, JSON] = {
            "message": words,
            "type": "invalid_request_error",
            "param": _PREVIOUS_ID,
            "code": "previous_response_not_found",
        }
        raise StateNotFound(f"no answer {named!r} was kept", json_response({"error": error}, 400))
    body["input"] = [*stored, *_items(body.get("input"))]
    return replace(request, body=json.dumps(body, ensure_ascii=False).encode())


def store(request: HttpRequest, answer: ResponseView) -> tuple[str, JSON] | None:
    """Return the response's id and the conversation's items, including the response. Return `None` if the request
    disables storage.
    """
    body, answered = request_fields(request), answer.body
    if not isinstance(answered, dict) or body.get("store") is False:
        return None
    return str(answered.get("id")), [*_items(body.get("input")), *_items(answered.get("output"))]


def echo(body: dict[str, JSON], request: HttpRequest) -> dict[str, JSON]:
    """Add the request fields that a response repeats."""
    request_body = request_fields(request)
    return {**body, **{key: request_body[key] for key in _REPEATED if request_body.get(key) is not None}}


def _items(value: JSON) -> list[JSON]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return as_list(value)


SERVER_ENDPOINTS = ServerEndpoints(
    compared="/prompt_cache_options/comparison_response_id",
    variables=("OPENAI_BASE_URL",),
    headers=headers,
    has_key=has_key,
    respond=respond,
    restore=restore,
    store=store,
    echo=echo,
)
