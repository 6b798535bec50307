"""Chat Completions of the reference server: complete bodies, streams in several dialects, errors, headers, keys, model
lists and several choices.

Model objects follow the types of https://github.com/openai/openai-python/tree/v3.54.0 (read 2026-11-22).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from harness.apis.api import StreamShape
from harness.apis.eventstream import events, serialize_event
from harness.apis.jsonvalue import as_list, as_object, is_blank, loads
from harness.apis.openai_chat.responses import DIALECTS, OPENAI, WHOLE, ChatDialect, call_as, dialect_of, fold
from harness.apis.openai_common import (
    cached_prompt,
    error_object,
    failure,
    has_key,
    headers,
    refusal,
    type_and_code,
)
from harness.apis.registry import Profile
from harness.apis.server import (
    ServerEndpoints,
    event_stream,
    fragments,
    interleave,
    json_response,
    message,
    number,
    random_text,
)
from harness.apis.view import ModelStep, Provocation, RequestView, WireError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, StopReason

_FINISH_REASONS = {
    StopReason.END_TURN: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.MAX_TOKENS: "length",
    StopReason.REFUSAL: "content_filter",
}

_HEX = "0123456789abcdef"

Fields: TypeAlias = dict[str, JSON]


def build(step: ModelStep, seed: str, model: str, profile: Profile) -> dict[str, JSON]:
    """Return the body of a response.

    Thinking appears only as reasoning tokens in the usage. Chat messages have no list of parts: an entry of `step.raw`
    with a `type` becomes a tool call. Other entries are merged into the message. The arguments of a truncated call are
    cut off.
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
    if dialect.reasoning:
        message |= _reasoning(dialect, step.thinking or "The question needs a moment of thought.")
    if calls:
        message["tool_calls"] = [call_as(dialect, call) for call in calls]
    body: Fields = {
        "id": f"chatcmpl-{random_text(seed, 'response', 29)}",
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
        "system_fingerprint": f"fp_{random_text(seed, 'fingerprint', 10, _HEX)}",
    }
    return _with_own_fields(dialect, body)


def _with_own_fields(dialect: ChatDialect, body: Fields) -> Fields:
    """Return a body with the fields that the dialect adds, and without those that it leaves out."""
    more = dialect.fields

    def change_at(place: str, value: JSON) -> Fields:
        found = {**as_object(value), **more.get(place, {})}
        gone = {key for key in found if f"{place}.{key}" in dialect.without}
        return {key: each for key, each in found.items() if key not in gone or (place == "message" and each)}

    choices: list[JSON] = []
    for each in map(as_object, as_list(body.get("choices"))):
        message = change_at("message", each.get("message"))
        calls = as_list(message.get("tool_calls"))
        if calls and dialect.indexed:
            message["tool_calls"] = [{"index": at, **as_object(call)} for at, call in enumerate(calls)]
        choices.append(change_at("choice", {**each, "message": message}))
    return change_at("body", {**body, "choices": choices, "usage": change_at("usage", body.get("usage"))})


def _call(name: str, arguments: str, seed: str, index: int) -> JSON:
    return {
        "id": f"call_{random_text(seed, f'call {index}', 24)}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _reasoning(dialect: ChatDialect, text: str) -> Fields:
    if dialect.reasoning != "reasoning_details":
        return {dialect.reasoning: text}
    detail: JSON = {"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}
    return {"reasoning": text, "reasoning_details": [detail]}  # OpenRouter's guide to reasoning tokens


def _finish_reason(step: ModelStep, *, has_calls: bool) -> str:
    """Return the API's finish reason, or the canonical name if the API has none."""
    if step.refusal is not None and step.stop in (None, StopReason.REFUSAL):
        return "stop"  # the refusal's text is in the message, which ends normally
    default = StopReason.TOOL_USE if has_calls else StopReason.END_TURN
    stop = step.stop or (StopReason.MAX_TOKENS if step.truncated else default)
    return _FINISH_REASONS.get(stop, stop.value)


def _usage(step: ModelStep, seed: str, *, reasons: bool) -> JSON:
    """Return the usage. Cached tokens are included in the prompt tokens."""
    cached = cached_prompt(step.prefix.repeated)
    prompt = cached + number(seed, "prompt", 20, 400)
    reasoning = 64 * number(seed, "reasoning", 1, 9) if reasons else 0
    length = len(step.text or "") + len(step.refusal or "") + sum(len(name) + 20 for name, _ in step.calls)
    completion = reasoning + max(1, length // 4)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def error_as(response: HttpResponse, profile: Profile) -> HttpResponse:
    """Return an error response in the dialect of a profile."""
    dialect = dialect_of(profile)
    if response.status < HTTPStatus.BAD_REQUEST:
        return replace(response, body=_named_error(response.body)) if dialect.error_events else response
    if dialect.errors == "object" and not dialect.error_fields:
        return response
    try:
        found = as_object(as_object(loads(response.body)).get("error"))
    except WireError:
        return response
    if not found:  # not an error of the API
        return response
    changed = {key: response.status if value == "{status}" else value for key, value in dialect.error_fields.items()}
    error: Fields = {key: value for key, value in {**found, **changed}.items() if value != "{absent}"}
    shapes: dict[str, Fields] = {"object": {"error": error}, "text": {"error": error["message"]}, "flat": error}
    return replace(response, body=json.dumps(shapes[dialect.errors]).encode())


def _named_error(stream: bytes) -> bytes:
    """Return a stream whose last chunk, if it is an error, is an event named `error` with the HTTP status."""
    begun, found, behind = stream.rpartition(b'data: {"error":')
    if not found:
        return stream
    error = as_object(loads(behind.strip().removesuffix(b"}")))
    status = next((each for each in range(400, 600) if message(each) == error.get("message")), 500)
    return begun + serialize_event({"error": {**error, "status_code": status}}, "error")


def build_stream(step: ModelStep, seed: str, model: str, profile: Profile, request: RequestView) -> HttpResponse:
    """Return the response of `build` as a stream. It has token counts only if the request asks for them.

    Calls are streamed one after another, as in every recording. With the provocation `interleaved-calls`, all calls
    start first and their chunks alternate. The index assigns a chunk to its call (openai-chat-call-deltas), so a client
    that appends to the last call fails.
    """
    body = build(step, seed, model, profile)
    at_once = Provocation.INTERLEAVED_CALLS in step.provocations
    return _stream(body, seed, profile, request, at_once=at_once)


def stream_of(body: Fields, seed: str, profile: Profile, request: RequestView) -> HttpResponse:
    """Convert a complete body to a stream. It has token counts only if the request asks for them."""
    return _stream(body, seed, profile, request, at_once=False)


def _stream(body: Fields, seed: str, profile: Profile, request: RequestView, *, at_once: bool) -> HttpResponse:
    usage = request.usage_pointer is not None
    stream = to_stream(body, seed, usage=usage, dialect=dialect_of(profile), at_once=at_once)
    return event_stream(stream)


def to_stream(body: Fields, seed: str, *, usage: bool, dialect: ChatDialect = OPENAI, at_once: bool = False) -> bytes:
    """Return a stream that is equivalent to `body`.

    `usage` adds token counts. `at_once` interleaves the calls. If the body has an error, an error event replaces
    `[DONE]`.
    """
    pieces = [*_choices(body, seed, dialect, at_once=at_once)]
    sent = [serialize_event(chunk) for chunk in _chunks(body, pieces, seed, dialect, usage=usage)]
    error = body.get("error")
    sent.append(b"data: [DONE]\n\n" if error is None else serialize_event({"error": error}, "error"))
    return (b": PROCESSING\n\n" if dialect.comments else b"").join([b"", *sent])


def _chunks(body: Fields, pieces: list[Fields], seed: str, dialect: ChatDialect, *, usage: bool) -> Iterator[Fields]:
    head = {key: value for key, value in body.items() if key not in ("choices", "usage", "error")}
    head["object"] = "chat.completion.chunk"
    bare: list[Fields] = [{"choices": [piece]} for piece in pieces]
    silent = dialect.usage == "never" or (dialect.usage.startswith("asked") and not usage)
    counts = body.get("usage")
    if bare and "last" in dialect.fields:
        bare[-1] = {**bare[-1], **dialect.fields["last"]}
    if isinstance(counts, dict) and not silent:
        bare = _USAGE[dialect.usage](bare, counts)
    for index, chunk in enumerate(bare):
        padding = random_text(seed, f"padding {index}", number(seed, f"padding of {index}", 0, 12))
        whole = {**head, **chunk, **dialect.fields.get("chunk", {}), "obfuscation": padding}
        yield {key: value for key, value in whole.items() if f"chunk.{key}" not in dialect.without}


def _with_usage(chunks: list[Fields], usage: Fields) -> list[Fields]:
    return [*({**chunk, "usage": None} for chunk in chunks), {"choices": [], "usage": usage}]


def _counted_early(chunks: list[Fields], usage: Fields) -> list[Fields]:
    """Add to every chunk the token counts known at that point."""
    known: Fields = {key: count if key == "prompt_tokens" else None for key, count in usage.items()}
    return [
        *({**chunk, "usage": known} for chunk in chunks[:-1]),
        *({**chunk, "usage": usage} for chunk in chunks[-1:]),
    ]


def _counted_last(chunks: list[Fields], usage: Fields) -> list[Fields]:
    return [*({**chunk, "usage": None} for chunk in chunks[:-1]), *({**chunk, "usage": usage} for chunk in chunks[-1:])]


_USAGE = {"asked": _with_usage, "asked-last": _counted_last, "last": _counted_last, "early": _counted_early}


def _choices(body: Fields, seed: str, dialect: ChatDialect, *, at_once: bool) -> Iterator[Fields]:
    """Yield the pieces of every choice: its deltas, then an empty delta with the finish reason."""
    for index, choice in enumerate(as_list(body.get("choices"))):
        message = as_object(choice).get("message")
        if not isinstance(choice, dict) or not isinstance(message, dict):
            continue
        unsaid: Fields = {key: None for key in ("logprobs", "finish_reason") if key in choice}
        # Calls are interleaved only if complete (a truncated response ends in its last call) and identified by index.
        whole = choice.get("finish_reason") == "tool_calls" and dialect.first_index is not None
        whole = whole and not dialect.one_index
        for delta in _deltas(message, f"{seed} {index}", dialect, at_once=at_once and whole):
            yield {"index": index, "delta": {**delta, **dialect.fields.get("delta", {})}, **unsaid}
        if choice.get("finish_reason") is not None or body.get("error") is None:
            fields = {key: value for key, value in choice.items() if key not in ("index", "message")}
            yield {"index": index, "delta": {}, **fields}


def _deltas(message: Fields, seed: str, dialect: ChatDialect, *, at_once: bool) -> Iterator[Fields]:
    content, calls = message.get("content"), _calls(message)
    announced: Fields = {"role": message.get("role"), "content": "" if isinstance(content, str) else None}
    if "refusal" in message:
        announced["refusal"] = None
    rest = [key for key in message if key not in announced and key != "tool_calls" and not is_blank(message[key])]
    thought = [key for key in rest if key.startswith("reasoning")]
    filled = [key for key in ("content", "refusal") if not is_blank(message.get(key))]
    spoken = [*thought, *filled, *(key for key in rest if key not in thought)]
    starts = [_call_pieces(call, index, seed, dialect) for index, call in enumerate(calls)]
    if len(calls) == 1 and not spoken:  # a call without other content starts in the first delta
        announced["tool_calls"] = [next(starts[0])]
    yield announced
    for key in spoken:
        yield from _pieces(key, message[key], seed)
    for piece in interleave(starts, seed) if at_once and len(calls) > 1 else chain.from_iterable(starts):
        yield {"tool_calls": [piece]}


def _pieces(key: str, value: JSON, seed: str) -> Iterator[Fields]:
    if isinstance(value, str) and key not in WHOLE:
        for text in fragments(value, seed, key):
            yield {key: text}
    else:
        yield {key: value}


def _calls(message: Fields) -> list[Fields]:
    return [call for call in as_list(message.get("tool_calls")) if isinstance(call, dict)]


def _call_pieces(call: Fields, position: int, seed: str, dialect: ChatDialect) -> Iterator[Fields]:
    """Yield a piece with id, type and name but empty arguments, then pieces of the arguments. The dialect may change
    this."""
    counted = 0 if dialect.one_index else position
    index: Fields = {} if dialect.first_index is None else {"index": dialect.first_index + counted}
    function = call.get("function")
    arguments = as_object(function).get("arguments")
    if not isinstance(function, dict) or not isinstance(arguments, str):
        yield call | index  # no recording shows how other types are split
        return
    if dialect.whole:
        yield call | index
        return
    texts = [*fragments(arguments, seed, f"arguments {position}")]
    opening = texts.pop(0) if dialect.opens_with_arguments and texts else ""
    yield {**call, **index, "function": {**function, "arguments": opening}}
    for number_of_piece, text in enumerate(texts):
        piece: Fields = {"arguments": text}
        if dialect.repeats:
            yield {**call, **index, "function": {**function, **piece}}
        elif dialect.later == "arguments":
            yield {**index, "function": piece}
        else:
            other_id = random_text(seed, f"id {position} {number_of_piece}", 24)
            call_id = "" if dialect.later == "blanks" else f"chatcmpl-tool-{other_id}"
            yield {**index, "id": call_id, "type": "function", "function": {"name": "", **piece}}


_READ_BY_THE_SDK = ("arguments-in-opening-piece", "whole-calls", "empty-strings", "empty-arguments")
_DEPARTING = ("repeated-ids", "index-from-one", "early-usage", "no-index", "one-index", "id-per-piece")
"""Dialects of compatible servers that the accumulator of the official SDK misreads (openai 3.57.0,
`client.chat.completions.stream`: it joins repeated names, and needs indexes from 0), and `early-usage`, which violates
the API's documentation. Dialects that omit ids or token counts are in neither list.
"""


def _apply_dialect(dialect: ChatDialect, stream: bytes, seed: str) -> bytes:
    body, complete = fold(stream)
    choices = body.get("choices")
    if not complete or "error" in body or not isinstance(choices, list):
        return stream
    shaped: dict[str, JSON] = {**body, "choices": [_choice(dialect, choice) for choice in choices]}
    return to_stream(shaped, seed, usage=body.get("usage") is not None, dialect=dialect)


def _choice(dialect: ChatDialect, choice: JSON) -> JSON:
    message = as_object(choice).get("message")
    calls = as_object(message).get("tool_calls")
    if not isinstance(choice, dict) or not isinstance(message, dict) or not isinstance(calls, list):
        return choice
    return {**choice, "message": {**message, "tool_calls": [call_as(dialect, call) for call in calls]}}


SHAPES: Mapping[str, StreamShape] = {
    name: StreamShape(partial(_apply_dialect, DIALECTS[name]), departs=name in _DEPARTING)
    for name in (*_READ_BY_THE_SDK, *_DEPARTING)
}


refuse = refusal
fail = failure


def stream_error(status: int, _seed: str, _request: RequestView) -> bytes:
    """Return the error chunk that ends a stream (openai-chat-stream-cut-unnoticed)."""
    return serialize_event({"error": error_object(message(status), *type_and_code(status))})


def respond(request: HttpRequest, models: Sequence[str]) -> HttpResponse | None:
    """Respond to a request for the model list or a single model."""
    before, found, behind = urlsplit(request.url).path.rpartition("/models")
    if request.method != "GET" or not found or before.endswith("/v1beta") or "anthropic-version" in request.headers:
        return None
    named = behind.strip("/")
    if not named:
        return json_response({"object": "list", "data": [_model(name) for name in models]})
    if named in models:
        return json_response(_model(named))
    message = f"The model '{named}' does not exist"
    error: dict[str, JSON] = {
        "message": message,
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    return json_response({"error": error}, 404)


def combine(answers: Sequence[HttpResponse]) -> HttpResponse:
    """Combine several responses into one with several choices. The token counts are those of the first response."""
    if answers[0].headers.get("content-type", "").startswith("text/event-stream"):
        return _several_streams(answers)
    bodies: list[Any] = [json.loads(answer.body) for answer in answers]
    choices = [{**body["choices"][0], "index": index} for index, body in enumerate(bodies)]
    first = {**bodies[0], "choices": choices}
    return replace(answers[0], body=json.dumps(first, ensure_ascii=False).encode())


def _several_streams(answers: Sequence[HttpResponse]) -> HttpResponse:
    """Interleave the chunks of the streams. Chunks without a choice (usage, end) are sent once, at the end."""
    streams: list[list[Any]] = [
        [json.loads(event.data) for event in events(answer.body) if event.data != "[DONE]"] for answer in answers
    ]
    chunks: list[Any] = []
    for at in range(max(map(len, streams))):
        for index, stream in enumerate(streams):
            if at < len(stream) and stream[at].get("choices"):
                choice = {**stream[at]["choices"][0], "index": index}
                chunks.append({**stream[at], "id": streams[0][0]["id"], "choices": [choice]})
    behind = [chunk for chunk in streams[0] if not chunk.get("choices")]
    return replace(answers[0], body=b"".join(map(serialize_event, [*chunks, *behind])) + b"data: [DONE]\n\n")


def _model(name: str) -> dict[str, JSON]:
    return {"id": name, "object": "model", "created": 1_767_225_600, "owned_by": "openai"}


SERVER_ENDPOINTS = ServerEndpoints(
    variables=("OPENAI_BASE_URL",), headers=headers, has_key=has_key, respond=respond, combine=combine
)
