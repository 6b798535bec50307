"""The provider's errors: as a refusal or a failure by status, inside a stream, and read from both."""

from __future__ import annotations

import json

from harness.apis.eventstream import written
from harness.apis.failure import error_view, message, wait_headers
from harness.apis.limit import Violation
from harness.apis.openai_responses.bodies import build
from harness.apis.openai_responses.items import string
from harness.apis.openai_responses.profiles import PROFILES
from harness.apis.openai_responses.refusals import parameter
from harness.apis.profile import matching
from harness.apis.seeded import number, token
from harness.apis.view import ErrorView, ModelStep, RequestView
from harness.contract.http import HttpResponse
from harness.contract.model import JSON, StopReason

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
    error = _error(violation.message, _REFUSED, violation.code, parameter(violation.pointer) or None)
    return _response(violation.status, error, f"{violation.rule}{violation.pointer}{violation.message}")


def fail(status: int, retry_after: float | None, seed: str) -> HttpResponse:
    """The provider's failure of this status. It asks to wait `retry_after` seconds by header."""
    return _response(status, _error(message(status), *_words(status)), seed, retry_after)


def stream_error(status: int, seed: str, request: RequestView) -> bytes:
    """The events by which a response fails that has begun.

    Recorded streams have an `error` event with the error inside, and then `response.failed`. The SDK's type has the
    error's fields beside the event's own (RS-P4), and Azure sends `response.failed` alone: which it is, depends on
    `seed`. Only the words say what failed: a status that has none of its own is read as 400 or 500. How many events
    came before is not known here, so that the sequence numbers leave a gap.
    """
    kind, code = _words(status)
    error = _error(message(status), kind, code)
    at = number(seed, "sequence", 1000, 9000)
    flat: dict[str, JSON] = {"code": code or kind, "message": message(status), "param": None}
    nested: dict[str, JSON] = {"error": error}
    said = [flat, nested, None][number(seed, "failure", 0, 2)]
    model = request.model or ""
    body = build(ModelStep(stop=StopReason.ERROR), seed, model, matching(PROFILES, model))
    failed: dict[str, JSON] = {**body, "error": {"code": code or kind, "message": message(status)}, "usage": None}
    end = written({"type": "response.failed", "response": failed, "sequence_number": at + 1}, "response.failed")
    if said is None:
        return end
    return written({"type": "error", **said, "sequence_number": at}, "error") + end


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


def _words(status: int) -> tuple[str, str | None]:
    return _WORDS.get(status, (_BROKEN if status >= 500 else _REFUSED, None))


def _error(said: str, kind: str, code: str | None, where: str | None = None) -> dict[str, JSON]:
    return {"message": said, "type": kind, "param": where, "code": code}


def _response(status: int, error: dict[str, JSON], seed: str, retry_after: float | None = None) -> HttpResponse:
    headers = {"content-type": "application/json", "x-request-id": f"req_{token(seed, 'request', 32, _HEX)}"}
    return HttpResponse(status, headers | wait_headers(retry_after), json.dumps({"error": error}, indent=2).encode())
