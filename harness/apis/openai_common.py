"""Errors, headers and checks that are common to both OpenAI APIs.

Headers: https://developers.openai.com/api/reference/overview (read 2026-11-22).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from harness.apis.conversion import WireBody
from harness.apis.fact_files import ApiLimits
from harness.apis.jsonvalue import as_list, as_object, count, is_blank, join, loads, type_of
from harness.apis.limits import Violation, bracketed_path
from harness.apis.schemas import inner, schema_fault
from harness.apis.server import message, number, random_text, wait_headers
from harness.apis.view import ChoiceView, ErrorMark, WireError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, Usage

_HEX = "0123456789abcdef"


def headers(seed: str, _model: str) -> Mapping[str, str]:
    """Return the headers of every response."""
    return {
        "x-request-id": f"req_{random_text(seed, 'request', 32, _HEX)}",
        "openai-organization": "harness",
        "openai-processing-ms": str(number(seed, "processing", 200, 2000)),
        "openai-version": "2020-10-01",
        "x-ratelimit-limit-requests": "10000",
        "x-ratelimit-limit-tokens": "2000000",
        "x-ratelimit-remaining-requests": "9999",
        "x-ratelimit-remaining-tokens": "1999000",
        "x-ratelimit-reset-requests": "6ms",
        "x-ratelimit-reset-tokens": "30ms",
    }


def has_key(request: HttpRequest) -> bool:
    """Return whether a request has a bearer token, or a key in Azure's header."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return bool((scheme.lower() == "bearer" and key.strip()) or request.headers.get("api-key"))


_REFUSED, _FAILED = "invalid_request_error", "server_error"

_TYPE_AND_CODE = {
    401: (_REFUSED, "invalid_api_key"),
    403: (_REFUSED, "unsupported_country"),
    404: (_REFUSED, "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    500: (_FAILED, "server_error"),
    503: ("service_unavailable_error", "server_is_overloaded"),
}
"""Status → type and code. 401 and 404 are as recorded, the others as in the provider's guide to error codes."""

_STATUS_OF = {
    **{code: status for status, (_, code) in _TYPE_AND_CODE.items()},
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "bio_policy": 400,  # openai-responses-error-codes
    "misalignment_policy_violation": 400,
    "data_residency_mismatch": 400,
    "insufficient_quota": 429,
    _REFUSED: 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    _FAILED: 500,
    "service_unavailable_error": 503,
}
"""Code or type → the HTTP status with which it is sent."""


def type_and_code(status: int) -> tuple[str, str | None]:
    """Return the error type and the code for a status. An unlisted status has no code, and its type depends only on
    whether it is below 500.
    """
    return _TYPE_AND_CODE.get(status, (_FAILED if status >= 500 else _REFUSED, None))


def error_object(text: str, kind: str, code: str | None, where: str | None = None) -> dict[str, JSON]:
    """Return an error object as used in bodies and events."""
    return {"message": text, "type": kind, "param": where, "code": code}


def refusal(violation: Violation, indent: int | None = None) -> HttpResponse:
    """Return the response that refuses a request because of a violation. Its request id depends on the violation."""
    error = error_object(violation.message, _REFUSED, violation.code, bracketed_path(violation.pointer) or None)
    seed = f"{violation.rule}{violation.pointer}{violation.message}"
    return _error_response(violation.status, error, seed, indent=indent)


def failure(status: int, retry_after: float | None, seed: str, indent: int | None = None) -> HttpResponse:
    """Return the provider's error response for this status. It has a header that requests a wait of `retry_after`
    seconds.
    """
    error = error_object(message(status), *type_and_code(status))
    return _error_response(status, error, seed, retry_after, indent)


def _error_response(
    status: int, error: dict[str, JSON], seed: str, retry_after: float | None = None, indent: int | None = None
) -> HttpResponse:
    headers = {"content-type": "application/json", "x-request-id": f"req_{random_text(seed, 'request', 32, _HEX)}"}
    return HttpResponse(
        status, headers | wait_headers(retry_after), json.dumps({"error": error}, indent=indent).encode()
    )


def meant_status(error: dict[str, JSON]) -> int | None:
    """Return the HTTP status that an error object corresponds to, or `None` if it is unknown.

    Compatible servers state it (Groq in `status_code`, OpenRouter in `code`). Otherwise, the code has precedence over
    the type, which is often only `invalid_request_error`.
    """
    code, kind = error.get("code"), error.get("type")
    for named in (error.get("status_code"), code):
        number_ = int(named) if isinstance(named, str) and named.isdecimal() else named
        if isinstance(number_, int) and 400 <= number_ < 600:
            return number_
    return next((_STATUS_OF[word] for word in (code, kind) if isinstance(word, str) and word in _STATUS_OF), None)


def cached_prompt(repeated: int) -> int:
    """Return how many tokens of a prompt are cached if `repeated` tokens of it were sent before.

    Repeated prompts of 1,024 tokens or more have cached tokens, in steps of 128. Recordings show 1,408 of 1,542, 1,536
    of 1,586 and 2,048 of 2,087. No recording reports cache writes.
    """
    return repeated // 128 * 128 if repeated >= 1024 else 0


def one_call(body: WireBody) -> WireBody:
    """Return the request, limited to one tool call per response."""
    return {**body, "parallel_tool_calls": False}


def wrap_texts(body: WireBody, conversation: str, kind: str) -> WireBody:
    """Return the request with each user text wrapped in a list with one part of type `kind`. Clients that send images
    use this form.
    """
    rewritten: list[JSON] = []
    for entry in as_list(body[conversation]):
        if isinstance(entry, dict) and entry.get("role") == "user":
            rewritten.append({**entry, "content": [{"type": kind, "text": entry["content"]}]})
        else:
            rewritten.append(entry)
    return {**body, conversation: rewritten}


def error_mark(text: str) -> ErrorMark | None:
    """Return the kind of error mark in the text of a tool result, or `None`. The APIs have no field for errors."""
    if text.lstrip().startswith("{"):
        try:
            value = loads(text)
        except WireError:
            return None
        is_marked = isinstance(value, dict) and next(iter(value), None) == "error" and not is_blank(value["error"])
        return "error-key" if is_marked else None
    return "error-text" if text.lstrip()[:5].lower() == "error" else None


def allowed_tools(mode: JSON, names: Sequence[str | None], pointer: str) -> ChoiceView | None:
    """Return a tool choice that is limited to some of the tools, or `None` for an unknown mode."""
    if mode not in ("auto", "required"):
        return None
    allowed = tuple(name for name in names if name is not None)
    return ChoiceView("auto" if mode == "auto" else "required", pointer, allowed=allowed)


def read_usage(usage: JSON, received: str, sent: str) -> Usage:
    """Return the token counts. `received` and `sent` are the field names of the input and output totals. The totals
    include the counts in their details (openai-chat-usage, openai-responses-usage).
    """
    counts = as_object(usage)
    input_details, output_details = (
        as_object(counts.get(f"{received}_details")),
        as_object(counts.get(f"{sent}_details")),
    )
    return Usage(
        input_tokens=count(counts.get(received)),
        output_tokens=count(counts.get(sent)),
        cache_read_tokens=count(input_details.get("cached_tokens")),
        cache_write_tokens=count(input_details.get("cache_write_tokens")),
        reasoning_tokens=count(output_details.get("reasoning_tokens")),
    )


_NAMES = {
    "integer": "an integer",
    "number": "a decimal",
    "boolean": "a boolean",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}


def field_faults(limit: ApiLimits, name: str, value: JSON) -> Iterator[Violation]:
    """Yield violations of the type and the bounds of a known field."""
    schema, place = limit.fields[name], join("", name)
    if message := _wrong_type(name, value, schema):
        yield limit("parameter-type").make_violation(message, place, actual=value, code="invalid_type")
    elif beyond := _out_of_range(name, value, schema):
        yield limit("parameter-range").make_violation(beyond[0], place, actual=value, code=beyond[1])


def _wrong_type(name: str, value: JSON, schema: Mapping[str, JSON]) -> str | None:
    kinds = schema.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds] if kinds else []
    if not listed or any(_is(value, str(kind)) for kind in listed):
        return None
    expected = " or ".join(_NAMES[str(kind)] for kind in listed)
    return f"Invalid type for '{name}': expected {expected}, but got {_type_words(value)} instead."


def _out_of_range(name: str, value: JSON, schema: Mapping[str, JSON]) -> tuple[str, str] | None:
    """Return the error message and the code for a number that is out of bounds, or `None`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    kind = "integer" if schema.get("type") == "integer" else "decimal"
    least, most = schema.get("minimum"), schema.get("maximum")
    if isinstance(least, int | float) and value < least:
        side, bound, code = "below minimum", f">= {least:g}", f"{kind}_below_min_value"
    elif isinstance(most, int | float) and value > most:
        side, bound, code = "above maximum", f"<= {most:g}", f"{kind}_above_max_value"
    else:
        return None
    return f"Invalid '{name}': {kind} {side} value. Expected a value {bound}, but got {value} instead.", code


def _is(value: JSON, kind: str) -> bool:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return type_of(value) == ("number" if kind == "integer" and is_whole else kind)


def _type_words(value: JSON) -> str:
    if isinstance(value, float):
        return "a decimal number"
    return next((text for kind, text in _NAMES.items() if _is(value, kind)), "null")


def invalid_schema(schema: JSON, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield the pointer and the reason of the first fault in a schema, if it is invalid (openai-chat-schema-valid)."""
    fault = schema_fault(schema, lenient=True) if isinstance(schema, dict) else None
    if fault is not None:
        yield join(pointer, *fault[0]), fault[1]


Nodes: TypeAlias = "Sequence[tuple[str, dict[str, JSON]]]"
"""A schema and its subschemas, with their pointers."""


def schema_nodes(schema: JSON, pointer: str, keywords: Sequence[str]) -> Nodes:
    """Return a schema and its subschemas under these keywords."""
    found: list[tuple[str, dict[str, JSON]]] = []
    waiting: list[tuple[str, JSON]] = [(pointer, schema)]
    while waiting:
        place, node = waiting.pop()
        if isinstance(node, dict):
            found.append((place, node))
            waiting.extend(inner(node, place, [each for each in keywords if each in node]))
    return found


def bare_arrays(nodes: Nodes) -> Iterator[str]:
    """Return the pointers of arrays without `items` (openai-chat-array-items)."""
    return (place for place, node in nodes if _is_of(node, "array") and "items" not in node)


def open_objects(nodes: Nodes) -> Iterator[tuple[str, dict[str, JSON], list[str]]]:
    """Yield the object schemas that are not in the strict subset (openai-chat-strict-schema). Each is a tuple of
    pointer, schema and optional properties.
    """
    for place, node in nodes:
        properties, required = node.get("properties"), node.get("required")
        if _is_of(node, "object") or isinstance(properties, dict):
            given = as_list(required)
            missing = [name for name in (properties if isinstance(properties, dict) else ()) if name not in given]
            if missing or node.get("additionalProperties") is not False:
                yield place, node, missing


def _is_of(node: dict[str, JSON], kind: str) -> bool:
    named = node.get("type")
    return named == kind or (isinstance(named, list) and kind in named)
