"""The provider's errors: as a refusal or a failure by status, inside a stream, and read from both."""

from __future__ import annotations

import json

from harness.apis import seeded
from harness.apis.eventstream import written
from harness.apis.failure import error_view, message, wait_headers
from harness.apis.limit import Violation
from harness.apis.view import ErrorView, RequestView
from harness.contract.http import HttpResponse
from harness.contract.model import JSON

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""anthropic-error-body. `invalid_request_error` stands for each 4xx without a type of its own; that `api_error` does so
for 5xx nobody has confirmed."""

_STATUSES = {kind: status for status, kind in _TYPES.items()}


def refuse(violation: Violation) -> HttpResponse:
    """The provider's refusal of a request, in its own status and shape."""
    kind = violation.code or _type(violation.status)
    return _response(violation.status, kind, violation.message, f"{violation.rule} {violation.pointer}")


def fail(status: int, retry_after: float | None, seed: str) -> HttpResponse:
    """The provider's failure of this status. It asks to wait `retry_after` seconds by header."""
    return _response(status, _type(status), message(status), seed, retry_after)


def stream_error(status: int, seed: str, _request: RequestView) -> bytes:
    """The `error` event of a stream (anthropic-stream-order). Only its type says what failed: a status that has none of
    its own is read as 400 or 500."""
    return written(_body(_type(status), message(status), _request_id(seed)), "error")


def read_error(body: JSON, response: HttpResponse) -> ErrorView | None:
    """The error that a body or an event carries, if it does.

    Inside HTTP 200 its type says which status it stands for (anthropic-stream-error). Bedrock, which speaks the same
    messages, has only a `message`.
    """
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, dict):
        kind, said = error.get("type"), error.get("message")
        code = kind if isinstance(kind, str) else None
        return error_view(response, said if isinstance(said, str) else "", code, stands_for=_STATUSES.get(code or ""))
    said = body.get("message")
    return error_view(response, said) if isinstance(said, str) and response.status >= 400 else None


def _type(status: int) -> str:
    return _TYPES.get(status, _TYPES[500] if status >= 500 else _TYPES[400])


def _body(kind: str, said: str, request_id: str) -> dict[str, JSON]:
    return {"type": "error", "error": {"type": kind, "message": said}, "request_id": request_id}


def _request_id(seed: str) -> str:
    return f"req_011{seeded.token(seed, 'request', 21)}"


def _response(status: int, kind: str, said: str, seed: str, retry_after: float | None = None) -> HttpResponse:
    request_id = _request_id(seed)
    headers = {"content-type": "application/json", "request-id": request_id, **wait_headers(retry_after)}
    return HttpResponse(status, headers, json.dumps(_body(kind, said, request_id)).encode())
