"""The Gemini API of the reference server: complete bodies, streams, broken responses, errors, headers, keys, models and
token counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias
from urllib.parse import parse_qs, urlsplit

from harness.apis.api import StreamShape
from harness.apis.eventstream import events, is_event_stream, looks_like_event_stream, serialize_event
from harness.apis.gemini.requests import asks_for_array
from harness.apis.gemini.responses import STATUS_NAMES, STOP_REASONS
from harness.apis.jsonvalue import as_list, as_object, loads, objects
from harness.apis.limits import Violation
from harness.apis.profiles import Profile
from harness.apis.server import (
    ServerEndpoints,
    estimate_tokens,
    fragments,
    message,
    number,
    random_text,
    signature,
    stop_word,
)
from harness.apis.view import ModelStep, Prefix, Provocation, RequestView, WireError
from harness.model.http import Delivery, HttpRequest, HttpResponse
from harness.model.messages import JSON, StopReason

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


_MIN_CACHED_TOKENS = 300
"""Minimum number of tokens for caching, a little below the shortest recorded prompt with cached tokens."""


def build(step: ModelStep, seed: str, model: str, profile: Profile) -> dict[str, JSON]:
    """Return the body of a response. Ids, usage and signatures are derived from `seed`.

    The signature is on the first call, or on the text if there is no call. A refusal is a candidate with the
    explanation in `finishMessage`, as in recordings; the API has no field for a refusal by the model. Calls are sent
    complete (gemini-calls-whole) or not at all. A truncated call is omitted. For a malformed call, `finishMessage` has
    the beginning of the call in the model's own notation (gemini-no-candidates; langchain-ai/langchain-google#725).
    """
    bound = StopReason.MAX_TOKENS if step.truncated else StopReason.END_TURN
    stop = step.stop or (StopReason.REFUSAL if step.refusal is not None else bound)
    candidate: dict[str, JSON] = {}
    whole = replace(step, calls=step.calls[:-1]) if step.truncated else step
    if parts := [*_parts(whole, seed, profile)]:
        candidate["content"] = {"parts": parts, "role": "model"}
    elif step.text is not None:
        candidate["content"] = {"role": "model"}
    candidate["finishReason"] = stop_word(step, _FINISH_REASONS[stop], STOP_REASONS, seed)
    candidate["index"] = 0
    if step.refusal is not None:
        candidate["finishMessage"] = step.refusal
    elif stop is StopReason.MALFORMED_CALL:
        candidate["finishMessage"] = "Malformed function call: print(default_api."
    elif step.calls and candidate["finishReason"] == "STOP":
        candidate["finishMessage"] = "Model generated function call(s)."
    if stop is StopReason.PAUSE:
        candidate["continuationToken"] = signature(seed, "continuation")
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(seed, step.prefix, reasoned=_is_signed(step, profile)),
        "modelVersion": model,
        "responseId": random_text(seed, "response", 23),
    }


def build_stream(step: ModelStep, seed: str, model: str, profile: Profile, request: RequestView) -> HttpResponse:
    """Return the response of `build` as a stream: server-sent events, or a JSON array if the request does not ask for
    events.
    """
    return stream_of(build(step, seed, model, profile), seed, profile, request)


def stream_of(body: dict[str, JSON], seed: str, _profile: Profile, request: RequestView) -> HttpResponse:
    """Convert a complete body to a stream, in the format that the request asks for."""
    if request.stream_format == "json-array":
        return HttpResponse(200, {"content-type": "application/json; charset=UTF-8"}, array(body, seed))
    return HttpResponse(200, {"content-type": "text/event-stream"}, event_stream(body, seed))


def _is_signed(step: ModelStep, profile: Profile) -> bool:
    match profile.thought_signatures:
        case "required":
            return True
        case "optional":
            return step.thinking is not None
        case "none":
            return False


def _parts(step: ModelStep, seed: str, profile: Profile) -> Iterator[JSON]:
    state: dict[str, JSON] = {}
    if _is_signed(step, profile):
        state["thoughtSignature"] = signature(seed, "thought")
    if step.thinking is not None:
        yield {"text": step.thinking, "thought": True}
    yield from step.raw
    if step.text:  # recordings have empty parts only in streams
        *texts, last = step.texts
        for text in texts:
            yield {"text": text}
        yield {"text": last} if step.calls else {"text": last, **state}
    for index, (name, arguments) in enumerate(step.calls):
        call: dict[str, JSON] = {"name": name, "args": {**arguments}}
        if profile.call_ids is True:
            is_repeated = Provocation.REPEATED_IDS in step.provocations
            call["id"] = f"call_{index}" if is_repeated else random_text(seed, f"call {index}", 8, _LOWER_ALPHANUMERIC)
        part: dict[str, JSON] = {"functionCall": call}
        if index and state and Provocation.SIGNED_CALLS in step.provocations:
            part["thoughtSignature"] = signature(seed, f"thought {index}")
        yield part | (state if index == 0 else {})


def _usage(seed: str, prefix: Prefix, *, reasoned: bool) -> dict[str, JSON]:
    """Return the usage. The prompt tokens include cached tokens. The field for cached tokens is omitted if there are
    none.

    In recordings of repeated prompts with at least 328 tokens, about two thirds of the tokens are cached.
    """
    cached = prefix.repeated * 2 // 3 if prefix.repeated >= _MIN_CACHED_TOKENS else 0
    prompt = (prefix.repeated if cached else 0) + number(seed, "prompt", 20, 400)
    candidates = number(seed, "candidates", 5, 120)
    thoughts = number(seed, "thoughts", 20, 300) if reasoned else 0
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


_Parts: TypeAlias = list[dict[str, JSON]]

_TEXT = frozenset({"text", "thought", "thoughtSignature"})
_ENDING = frozenset({"finishReason", "finishMessage", "continuationToken"})


def event_stream(body: dict[str, JSON], seed: str) -> bytes:
    """Convert a complete response to server-sent events. Chunk boundaries are derived from `seed`."""
    return b"".join(b"data: " + _encode(chunk) + b"\r\n\r\n" for chunk in _chunks(body, seed))


def array(body: dict[str, JSON], seed: str) -> bytes:
    """Convert a complete response to a JSON array of the chunks that `event_stream` also sends. This is the API's
    default format.
    """
    return b"[" + b"\n,\r\n".join(_encode(chunk, indent=2) for chunk in _chunks(body, seed)) + b"\n]"


def _encode(chunk: dict[str, JSON], indent: int | None = None) -> bytes:
    return json.dumps(chunk, ensure_ascii=False, indent=indent).encode(errors="backslashreplace")


def _chunks(body: dict[str, JSON], seed: str) -> list[dict[str, JSON]]:
    """Split a response into chunks (gemini-chunks). Each chunk is a complete response object with all fields and the
    usage up to that point."""
    candidates = [
        chunk for _, candidate in objects(body.get("candidates")) for chunk in _candidate_chunks(candidate, seed)
    ]
    if not candidates:
        return [body]
    steps = range(1, len(candidates) + 1)
    usages = [_usage_so_far(body.get("usageMetadata"), step / len(candidates)) for step in steps]
    return [{**body, "candidates": [candidate], **usage} for candidate, usage in zip(candidates, usages, strict=True)]


def _usage_so_far(usage: JSON, share: float) -> dict[str, JSON]:
    """Return the usage for a chunk, scaled to its `share`. The last chunk has the usage of the response."""
    if not isinstance(usage, dict):
        return {}
    counted, total = usage.get("candidatesTokenCount"), usage.get("totalTokenCount")
    if share == 1 or not isinstance(counted, int) or not isinstance(total, int):
        return {"usageMetadata": usage}
    so_far = int(counted * share)
    return {"usageMetadata": usage | {"candidatesTokenCount": so_far, "totalTokenCount": total - counted + so_far}}


def _candidate_chunks(candidate: dict[str, JSON], seed: str) -> Iterator[dict[str, JSON]]:
    """Yield the candidate in pieces. The last one has the finish reason."""
    content = candidate.get("content")
    if not isinstance(content, dict):
        yield candidate
        return
    going_on = {key: value for key, value in candidate.items() if key not in _ENDING}
    *pieces, last = _append_end(_pieces([part for _, part in objects(content.get("parts"))], seed), seed)
    for parts in pieces:
        yield {**going_on, "content": {**content, "parts": [*parts]}}
    yield {**candidate, "content": {**content, "parts": [*last]}}


def _pieces(parts: _Parts, seed: str) -> list[_Parts]:
    """Return the parts for each chunk. Text is split; all other parts are complete (gemini-calls-whole)."""
    pieces: list[_Parts] = []
    for index, part in enumerate(parts):
        label = f"part {index}"
        if isinstance(part.get("text"), str) and part.keys() <= _TEXT:
            pieces.extend([piece] for piece in _text(part, seed, label))
        else:
            pieces.append([part])
    return pieces


def _append_end(pieces: list[_Parts], seed: str) -> list[_Parts]:
    """Append one of the endings seen in recordings: an empty part in a chunk of its own, an empty part after the last
    call, or nothing.
    """
    empty: dict[str, JSON] = {"text": ""}
    signed = bool(pieces) and "thoughtSignature" in pieces[-1][-1] and not _is_call(pieces[-1][-1])
    ending = number(seed, "ending", 0, 2)
    if not pieces or (ending == 0 and not signed):
        return [*pieces, [empty]]
    if ending == 1 and _is_call(pieces[-1][-1]):
        return [*pieces[:-1], [*pieces[-1], empty]]
    return pieces


def _text(part: dict[str, JSON], seed: str, label: str) -> _Parts:
    """Split a text into fragments. The signature is on the first fragment, as in Gemini 2.5, or on an empty part at the
    end, as in Gemini 3.
    """
    plain = {key: value for key, value in part.items() if key != "thoughtSignature"}
    pieces = [plain | {"text": text} for text in fragments(str(part["text"]), seed, label, max_piece_characters=40)]
    if plain == part:
        return pieces
    if pieces and number(seed, f"{label} signed", 0, 2) == 0:
        return [part | pieces[0], *pieces[1:]]
    return [*pieces, part | {"text": ""}]


def _is_call(part: dict[str, JSON]) -> bool:
    return "functionCall" in part


_JSON = "application/json"
_SEPARATOR, _END = "\n,\r\n", "\n]"
_BODY_HEADERS = frozenset({"content-encoding", "content-length", "content-type", "transfer-encoding"})
"""Headers that describe the encoding or size of the body."""


def broken_for(response: HttpResponse, request: HttpRequest) -> HttpResponse:
    """Return a truncated or unreadable response, converted to a JSON array if the request asks for one.

    In the array, each event becomes an element, and the last one may be incomplete. The array is closed after an error,
    as in the provider's responses. A truncated array is not closed. HTML pages and empty bodies are not streams, so
    they stay unchanged.
    """
    if not asks_for_array(request) or not response.body:
        return response
    content_type = response.headers.get("content-type", "")
    if is_event_stream(content_type, response.body):
        elements = [event.data for event in events(response.body + b"\n\n")]  # ends a truncated event
        ended = any(map(_is_error, elements[-1:]))
    elif content_type.partition(";")[0].strip().lower() == _JSON and not response.body.startswith(b"["):
        elements = [response.body.decode(errors="replace")]
        ended = _is_whole(elements[0])
    else:
        return response
    body = f"[{_SEPARATOR.join(elements)}{_END if ended else ''}".encode()
    kept = {name: value for name, value in response.headers.items() if name not in _BODY_HEADERS}
    headers = {**kept, "content-type": f"{_JSON}; charset=UTF-8"}
    return replace(response, headers=headers, body=body, delivery=Delivery(ending=response.delivery.ending))


def _is_error(text: str) -> bool:
    return _is_whole(text) and isinstance(value := loads(text), dict) and "error" in value


def _is_whole(text: str) -> bool:
    try:
        loads(text)
    except WireError:
        return False
    return True


def _parts_of(chunk: JSON) -> list[JSON]:
    candidates = as_object(chunk).get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    return as_list(as_object(as_object(first).get("content")).get("parts"))


def _with_parts(chunk: dict[str, JSON], parts: list[JSON]) -> dict[str, JSON]:
    candidates = chunk.get("candidates")
    if not isinstance(candidates, list) or not isinstance(candidates[0], dict):
        return chunk
    content = candidates[0].get("content")
    new_content: JSON = {**(content if isinstance(content, dict) else {"role": "model"}), "parts": parts}
    return {**chunk, "candidates": [{**candidates[0], "content": new_content}, *candidates[1:]]}


def _has_call(part: JSON) -> bool:
    return isinstance(part, dict) and "functionCall" in part


def _calls_with_the_end(stream: bytes, _seed: str) -> bytes:
    """Move all calls into the chunk with the finish reason."""
    if not looks_like_event_stream(stream):
        return stream
    read = [chunk for event in events(stream) if isinstance(chunk := loads(event.data), dict)]
    at = next((i for i, chunk in enumerate(read) if any(map(_has_call, _parts_of(chunk)))), None)
    end = next((i for i, chunk in enumerate(read) if _ends(chunk)), None)
    if at is None or end is None or at >= end:
        return stream
    held = [part for chunk in read[at : end + 1] for part in _parts_of(chunk)]
    chunks = [*read[:at], _with_parts(read[end], held), *read[end + 1 :]]
    return b"".join(map(serialize_event, chunks))


def _ends(chunk: dict[str, JSON]) -> bool:
    candidates = chunk.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    return isinstance(first, dict) and first.get("finishReason") is not None


SHAPES: Mapping[str, StreamShape] = {
    "calls-in-the-last-chunk": StreamShape(_calls_with_the_end)  # 16 of 25 calls recorded from the API
}


_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


def refuse(violation: Violation) -> HttpResponse:
    """Return the provider's rejection of a request."""
    name = violation.code or STATUS_NAMES.get(violation.status, "UNKNOWN")
    return _response(_error(violation.status, violation.message, name), f"{violation.rule} {violation.pointer}")


def fail(status: int, retry_after: float | None, seed: str) -> HttpResponse:
    """Return the provider's error response for a status.

    `retry_after` is sent as a RetryInfo in the body, as in a recorded 429. No recording has a `retry-after` header, and
    the SDK reads neither.
    """
    error = _error(status, message(status), _name(status))
    if retry_after is not None:
        error["details"] = [{"@type": _RETRY_INFO, "retryDelay": _duration(retry_after)}]
    return _response(error, seed)


def error_for(response: HttpResponse, request: HttpRequest) -> HttpResponse:
    """Return an error in the format that the request expects: an array of one error, if its response would be an array.

    google-gemini/gemini-cli#6454 and #14831 show such bodies.
    """
    return replace(response, body=b"[" + response.body + b"\n]") if asks_for_array(request) else response


def stream_error(status: int, _seed: str, request: RequestView) -> bytes:
    """Return an error chunk that follows another chunk. In an array it is the last element."""
    chunk = {"error": _error(status, message(status), _name(status))}
    if request.stream_format == "json-array":
        return f"\n,\r\n{json.dumps(chunk, indent=2)}\n]".encode()
    return f"data: {json.dumps(chunk)}\r\n\r\n".encode()


def _duration(seconds: float) -> str:
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def _name(status: int) -> str:
    return STATUS_NAMES.get(status, "INTERNAL" if status >= 500 else "FAILED_PRECONDITION")


def _error(status: int, message: str, name: str) -> dict[str, JSON]:
    return {"code": status, "message": message, "status": name}


def _response(error: dict[str, JSON], seed: str) -> HttpResponse:
    headers = {"content-type": "application/json; charset=UTF-8", "x-goog-request-id": random_text(seed, "request", 23)}
    return HttpResponse(int(str(error["code"])), headers, json.dumps({"error": error}, indent=2).encode())


_LIST = re.compile(r"/v1(?:beta|alpha)/models(?:/([^/:]+))?$")


def headers(seed: str, _model: str) -> Mapping[str, str]:
    """Return the headers that every response has."""
    return {
        "server": "scaffolding on HTTPServer2",
        "server-timing": f"gfet4t7; dur={number(seed, 'processing', 200, 2000)}",
        "vary": "Origin, X-Origin, Referer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "SAMEORIGIN",
        "x-xss-protection": "0",
    }


def has_key(request: HttpRequest) -> bool:
    """Return whether a request has a key in a header or the query, or a Vertex token."""
    by_header = request.headers.get("x-goog-api-key") or request.headers.get("authorization")
    return bool(by_header or parse_qs(urlsplit(request.url).query).get("key"))


def respond(request: HttpRequest, models: Sequence[str]) -> HttpResponse | None:
    """Respond to a request for the model list, a single model, or a token count."""
    path = urlsplit(request.url).path
    if request.method == "POST" and path.endswith(":countTokens"):
        count = estimate_tokens(request.body)
        return _as_response({"totalTokens": count, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": count}]})
    found = _LIST.search(path)
    if request.method != "GET" or found is None:
        return None
    named = found[1]
    if named is None:
        return _as_response({"models": [_model(name) for name in models]})
    if named in models:
        return _as_response(_model(named))
    message = f"models/{named} is not found for API version v1beta."
    return _as_response({"error": {"code": 404, "message": message, "status": "NOT_FOUND"}}, 404)


def _model(name: str) -> dict[str, JSON]:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


def _as_response(body: Mapping[str, JSON], status: int = 200) -> HttpResponse:
    return HttpResponse(status, {"content-type": "application/json; charset=UTF-8"}, json.dumps(body).encode())


SERVER_ENDPOINTS = ServerEndpoints(
    variables=("GOOGLE_GEMINI_BASE_URL",), headers=headers, has_key=has_key, status_without_key=403, respond=respond
)
