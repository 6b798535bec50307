"""Refusals and failures, by status and inside a stream."""

from __future__ import annotations

import json

from harness.apis.eventstream import serialize_event
from harness.apis.limits import Violation
from harness.apis.server import error_view, message, wait_headers
from harness.apis.view import ErrorView, RequestView
from harness.model.http import HttpResponse
from harness.model.messages import JSON


def refuse(violation: Violation) -> HttpResponse:
    """The refusal of a request."""
    return _response(violation.status, violation.message)


def fail(status: int, retry_after: float | None, _seed: str) -> HttpResponse:
    """A failure, with the seconds to wait in a header."""
    return _response(status, message(status), retry_after)


def stream_error(status: int, _seed: str, _request: RequestView) -> bytes:
    """The last event of a stream that fails."""
    return serialize_event(_error(status, message(status)))


def read_error(body: JSON, response: HttpResponse) -> ErrorView | None:
    """The error that a body or the status says."""
    said = body.get("error") if isinstance(body, dict) else None
    if isinstance(said, dict):
        status = said.get("status")
        return error_view(response, str(said.get("message")), stands_for=status if isinstance(status, int) else None)
    return error_view(response, response.body.decode(errors="replace")) if response.status >= 400 else None


def _error(status: int, said: str) -> dict[str, JSON]:
    return {"error": {"status": status, "message": said}}


def _response(status: int, said: str, retry_after: float | None = None) -> HttpResponse:
    headers = {"content-type": "application/json", **wait_headers(retry_after)}
    return HttpResponse(status, headers, json.dumps(_error(status, said)).encode())
