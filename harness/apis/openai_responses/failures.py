"""The provider's errors: as a refusal or a failure by status, and read from answers and streams."""

from __future__ import annotations

import json

from harness.apis.failure import error_view, message, wait_headers
from harness.apis.limit import Violation
from harness.apis.openai_responses.requests.items import string
from harness.apis.seeded import token
from harness.apis.view import ErrorView
from harness.apis.wording import bracketed
from harness.contract.http import HttpResponse
from harness.contract.model import JSON

_REFUSED, _BROKEN = "invalid_request_error", "server_error"

_WORDS = {
    401: (_REFUSED, "invalid_api_key"),
    403: (_REFUSED, "unsupported_country"),
    404: (_REFUSED, "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    500: (_BROKEN, "server_error"),
    503: ("service_unavailable_error", "server_is_overloaded"),
}
"""Status → type and code: 401 as recorded, the others as the provider's guide to error codes has them. It has none for
other statuses; that the types of 400 and 500 stand in is K."""

_CODES = {
    **{code: status for status, (_, code) in _WORDS.items()},
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "bio_policy": 400,  # openai-responses-error-codes
    "misalignment_policy_violation": 400,
    "data_residency_mismatch": 400,
    "insufficient_quota": 429,
}
_TYPES = {
    _REFUSED: 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    _BROKEN: 500,
    "service_unavailable_error": 503,
}
"""Word → the status that it comes with. A code says more than its type, which is often only `invalid_request_error`."""

_HEX = "0123456789abcdef"


def refuse(violation: Violation) -> HttpResponse:
    """The provider's refusal of a request with this violation. The request id is a function of the violation."""
    error = error_object(violation.message, _REFUSED, violation.code, bracketed(violation.pointer) or None)
    return _response(violation.status, error, f"{violation.rule}{violation.pointer}{violation.message}")


def fail(status: int, retry_after: float | None, seed: str) -> HttpResponse:
    """The provider's failure of this status. It asks to wait `retry_after` seconds by header."""
    return _response(status, error_object(message(status), *words(status)), seed, retry_after)


def read_error(error: JSON, response: HttpResponse) -> ErrorView:
    """An error that a response carries. An `error` event has its fields beside its own type, which says nothing."""
    if not isinstance(error, dict):
        return error_view(response, string(error) or "")
    code = error.get("code")
    return error_view(
        response, string(error.get("message")) or "", None if code is None else str(code), stands_for=_meant(error)
    )


def _meant(error: dict[str, JSON]) -> int | None:
    """The status that an error stands for: the one that it names, as compatible servers do, else the one that its words
    come with."""
    code, kind = error.get("code"), error.get("type")
    for named in (error.get("status_code"), code):
        status = int(named) if isinstance(named, str) and named.isdecimal() else named
        if isinstance(status, int) and 400 <= status < 600:
            return status
    words = [word for word in (code, kind) if isinstance(word, str)]
    return next((status for word in words for table in (_CODES, _TYPES) if (status := table.get(word))), None)


def words(status: int) -> tuple[str, str | None]:
    """Type and code of a failure."""
    return _WORDS.get(status, (_BROKEN if status >= 500 else _REFUSED, None))


def error_object(said: str, kind: str, code: str | None, where: str | None = None) -> dict[str, JSON]:
    """An error as bodies and events carry it."""
    return {"message": said, "type": kind, "param": where, "code": code}


def _response(status: int, error: dict[str, JSON], seed: str, retry_after: float | None = None) -> HttpResponse:
    headers = {"content-type": "application/json", "x-request-id": f"req_{token(seed, 'request', 32, _HEX)}"}
    return HttpResponse(status, headers | wait_headers(retry_after), json.dumps({"error": error}, indent=2).encode())
