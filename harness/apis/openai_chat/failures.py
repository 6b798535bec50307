"""The provider's errors: as a refusal or a failure by status, inside a stream, and read from both."""

from __future__ import annotations

import json

from harness.apis.eventstream import written
from harness.apis.failure import error_view, message, wait_headers
from harness.apis.limit import Violation
from harness.apis.openai_chat.requests.parts import is_blank
from harness.apis.seeded import token
from harness.apis.view import ErrorView, RequestView
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
"""Status → type and code: 401 and 404 as recorded, the others as the provider's guide to error codes has them. It has
none for other statuses; that the types of 400 and 500 stand in is K."""

_CODES = {
    **{code: status for status, (_, code) in _WORDS.items()},
    "context_length_exceeded": 400,
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
    """The refusal of a request, in OpenAI's shape."""
    error = _error(violation.message, _REFUSED, violation.code, bracketed(violation.pointer) or None)
    return _response(violation.status, error, f"{violation.rule}{violation.pointer}{violation.message}")


def fail(status: int, retry_after: float | None, seed: str) -> HttpResponse:
    """The provider's failure of this status. It asks to wait `retry_after` seconds by header."""
    return _response(status, _error(message(status), *_words(status)), seed, retry_after)


def stream_error(status: int, _seed: str, _request: RequestView) -> bytes:
    """An error in the place of a chunk, after which nothing comes (openai-chat-stream-cut-unnoticed). Only its words
    say what failed: a status that has none of its own is read as 400 or 500."""
    return written({"error": _error(message(status), *_words(status))})


def read_error(body: dict[str, JSON], choice: dict[str, JSON], response: HttpResponse) -> ErrorView | None:
    """The error that a body carries, in OpenAI's shape or in those of compatible servers; `choice` is its first one."""
    error = body.get("error")
    if is_blank(error):  # OpenRouter puts a failure of the model's host into the choice
        error = choice.get("error")
    if not is_blank(error):
        return _view(error if isinstance(error, dict) else {"message": error}, response)
    if response.status >= 400 or body.get("object") == "error":  # Mistral and its kin have no envelope
        return _view(body, response)
    return None


def _view(error: dict[str, JSON], response: HttpResponse) -> ErrorView:
    said = error.get("message", error.get("detail"))
    code = next((error[key] for key in ("code", "type") if not is_blank(error.get(key))), None)
    return error_view(
        response,
        said if isinstance(said, str) else str(said or error),
        str(code) if isinstance(code, str | int) else None,
        stands_for=_meant(error),
    )


def _meant(error: dict[str, JSON]) -> int | None:
    """The status that an error stands for: the one that it names (Groq's `status_code`, OpenRouter's `code`), else the
    one that its words come with."""
    code, kind = error.get("code"), error.get("type")
    for named in (error.get("status_code"), code):
        number = int(named) if isinstance(named, str) and named.isdecimal() else named
        if isinstance(number, int) and 400 <= number < 600:
            return number
    by_code = _CODES.get(code) if isinstance(code, str) else None
    return by_code or (_TYPES.get(kind) if isinstance(kind, str) else None)


def _words(status: int) -> tuple[str, str | None]:
    return _WORDS.get(status, (_BROKEN if status >= 500 else _REFUSED, None))


def _error(said: str, kind: str, code: str | None, where: str | None = None) -> dict[str, JSON]:
    return {"message": said, "type": kind, "param": where, "code": code}


def _response(status: int, error: dict[str, JSON], seed: str, retry_after: float | None = None) -> HttpResponse:
    headers = {"content-type": "application/json", "x-request-id": f"req_{token(seed, 'request', 32, _HEX)}"}
    return HttpResponse(status, headers | wait_headers(retry_after), json.dumps({"error": error}).encode())
