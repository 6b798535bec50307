"""Errors of generateContent, and everything except chats: headers, keys, models, token counts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from harness.apis.gemini.proto import ProtoMessage, repeated
from harness.apis.gemini.requests import asks_for_array
from harness.apis.limits import Violation
from harness.apis.server import ServerEndpoints, error_view, message, number, token, tokens
from harness.apis.view import ErrorView, RequestView
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON

_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""Maps HTTP statuses to google.rpc's canonical codes."""

_STATUSES = {name: status for status, name in _STATUS_NAMES.items()}
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s", re.ASCII)


def refuse(violation: Violation) -> HttpResponse:
    """Return the provider's rejection of a request."""
    name = violation.code or _STATUS_NAMES.get(violation.status, "UNKNOWN")
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


def read_error(error: ProtoMessage | None, response: HttpResponse) -> ErrorView | None:
    """Return the error of a response. The error's code is an HTTP status, even in an HTTP 200 response."""
    if error is None:
        return error_view(response, "") if response.status >= 400 else None
    code, name = error.get("code"), error.text("status")
    named = code if isinstance(code, int) and 400 <= code < 600 else _STATUSES.get(name or "")
    return error_view(response, error.text("message") or "", name, stands_for=named, wait=_wait(error))


def _wait(error: ProtoMessage) -> float | None:
    """Return the delay of a RetryInfo in seconds. It is a protobuf duration such as `1.5s`."""
    details = (detail for detail, _ in repeated(error.get("details"), ""))
    delays = (detail.get("retryDelay") for detail in details if isinstance(detail, dict))
    found = (_SECONDS.fullmatch(delay) for delay in delays if isinstance(delay, str))
    return next((float(seconds[1]) for seconds in found if seconds), None)


def _duration(seconds: float) -> str:
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def _name(status: int) -> str:
    return _STATUS_NAMES.get(status, "INTERNAL" if status >= 500 else "FAILED_PRECONDITION")


def _error(status: int, message: str, name: str) -> dict[str, JSON]:
    return {"code": status, "message": message, "status": name}


def _response(error: dict[str, JSON], seed: str) -> HttpResponse:
    headers = {"content-type": "application/json; charset=UTF-8", "x-goog-request-id": token(seed, "request", 23)}
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
        count = tokens(request.body)
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
