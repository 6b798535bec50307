"""The provider's errors, and what its server does around generateContent: headers, keys, models and counts of tokens.

Headers: as a recording of the Developer API of 2025-06-14 has them, in a public diff without an address. Models and
counts: the types of https://github.com/googleapis/python-genai/tree/v3.4.0 (read 2026-11-22).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from harness.apis import seeded
from harness.apis.failure import error_view, message
from harness.apis.frontage import Frontage, tokens
from harness.apis.gemini.proto import ProtoMessage, repeated
from harness.apis.gemini.requests import asks_for_array
from harness.apis.limit import Violation
from harness.apis.seeded import number
from harness.apis.view import ErrorView, RequestView
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON

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
"""The canonical codes of google.rpc, with the statuses that they come with. What names a status without one is K."""

_STATUSES = {name: status for status, name in _STATUS_NAMES.items()}
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s", re.ASCII)


def refuse(violation: Violation) -> HttpResponse:
    """The provider's refusal of a request with this violation."""
    name = violation.code or _STATUS_NAMES.get(violation.status, "UNKNOWN")
    return _response(_error(violation.status, violation.message, name), f"{violation.rule} {violation.pointer}")


def fail(status: int, retry_after: float | None, seed: str) -> HttpResponse:
    """The provider's failure of this status.

    It asks to wait `retry_after` seconds by a RetryInfo in the body, as a recorded 429 does. Whether a header
    `retry-after` comes with it no recording shows, and the SDK looks at neither.
    """
    error = _error(status, message(status), _name(status))
    if retry_after is not None:
        error["details"] = [{"@type": _RETRY_INFO, "retryDelay": _duration(retry_after)}]
    return _response(error, seed)


def error_for(response: HttpResponse, request: HttpRequest) -> HttpResponse:
    """An error as this request gets it: the one element of an array, where its answer would be an array
    (google-gemini/gemini-cli#6454 and #14831 show such bodies)."""
    return replace(response, body=b"[" + response.body + b"\n]") if asks_for_array(request) else response


def stream_error(status: int, _seed: str, request: RequestView) -> bytes:
    """The chunk that says why a stream goes no further, to stand behind another chunk; it closes an array."""
    chunk = {"error": _error(status, message(status), _name(status))}
    if request.stream_format == "json-array":
        return f"\n,\r\n{json.dumps(chunk, indent=2)}\n]".encode()
    return f"data: {json.dumps(chunk)}\r\n\r\n".encode()


def read_error(error: ProtoMessage | None, response: HttpResponse) -> ErrorView | None:
    """The error that a response carries, if it does. Its code is a status, inside HTTP 200 too."""
    if error is None:
        return error_view(response, "") if response.status >= 400 else None
    code, name = error.get("code"), error.text("status")
    named = code if isinstance(code, int) and 400 <= code < 600 else _STATUSES.get(name or "")
    return error_view(response, error.text("message") or "", name, stands_for=named, wait=_wait(error))


def _wait(error: ProtoMessage) -> float | None:
    """The seconds of a RetryInfo: a duration as protobuf writes it in JSON, `1.5s`."""
    details = (detail for detail, _ in repeated(error.get("details"), ""))
    delays = (detail.get("retryDelay") for detail in details if isinstance(detail, dict))
    found = (_SECONDS.fullmatch(delay) for delay in delays if isinstance(delay, str))
    return next((float(seconds[1]) for seconds in found if seconds), None)


def _duration(seconds: float) -> str:
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def _name(status: int) -> str:
    return _STATUS_NAMES.get(status, "INTERNAL" if status >= 500 else "FAILED_PRECONDITION")


def _error(status: int, said: str, name: str) -> dict[str, JSON]:
    return {"code": status, "message": said, "status": name}


def _response(error: dict[str, JSON], seed: str) -> HttpResponse:
    headers = {
        "content-type": "application/json; charset=UTF-8",
        "x-goog-request-id": seeded.token(seed, "request", 23),
    }
    return HttpResponse(int(str(error["code"])), headers, json.dumps({"error": error}, indent=2).encode())


_LIST = re.compile(r"/v1(?:beta|alpha)/models(?:/([^/:]+))?$")


def headers(seed: str, _model: str) -> Mapping[str, str]:
    """The headers of every answer."""
    return {
        "server": "scaffolding on HTTPServer2",
        "server-timing": f"gfet4t7; dur={number(seed, 'processing', 200, 2000)}",
        "vary": "Origin, X-Origin, Referer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "SAMEORIGIN",
        "x-xss-protection": "0",
    }


def has_key(request: HttpRequest) -> bool:
    """A key by header or in the query, or Vertex's token."""
    by_header = request.headers.get("x-goog-api-key") or request.headers.get("authorization")
    return bool(by_header or parse_qs(urlsplit(request.url).query).get("key"))


def desk(request: HttpRequest, models: Sequence[str]) -> HttpResponse | None:
    """The models, one of them, or a count of tokens."""
    path = urlsplit(request.url).path
    if request.method == "POST" and path.endswith(":countTokens"):
        count = tokens(request.body)
        return _as_response(
            {"totalTokens": count, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": count}]},
        )
    found = _LIST.search(path)
    if request.method != "GET" or found is None:
        return None
    named = found[1]
    if named is None:
        return _as_response({"models": [_model(name) for name in models]})
    if named in models:
        return _as_response(_model(named))
    said = f"models/{named} is not found for API version v1beta."
    return _as_response({"error": {"code": 404, "message": said, "status": "NOT_FOUND"}}, 404)


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


FRONTAGE = Frontage(variables=("GOOGLE_GEMINI_BASE_URL",), headers=headers, has_key=has_key, keyless=403, desk=desk)
