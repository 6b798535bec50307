"""Error responses of the Messages API, and the parts of its server other than chats: headers, keys, models, token
counts and threads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast
from urllib.parse import urlsplit

from harness.apis.eventstream import written
from harness.apis.jsonvalue import as_list, string
from harness.apis.limits import Violation
from harness.apis.server import (
    ServerEndpoints,
    StateNotFound,
    StoredAnswers,
    error_view,
    json_response,
    message,
    sent,
    token,
    tokens,
    wait_headers,
)
from harness.apis.view import ErrorView, RequestView, ResponseView
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON

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
"""Error types by status. See anthropic-error-body. Other 4xx statuses use `invalid_request_error`. The use of
`api_error` for other 5xx statuses is unconfirmed."""

_STATUSES = {kind: status for status, kind in _TYPES.items()}


def refuse(violation: Violation) -> HttpResponse:
    """Return the provider's rejection of a request."""
    kind = violation.code or _type(violation.status)
    return _response(violation.status, kind, violation.message, f"{violation.rule} {violation.pointer}")


def fail(status: int, retry_after: float | None, seed: str) -> HttpResponse:
    """Return the provider's error response for a status. `retry_after` is sent as a header, in seconds."""
    return _response(status, _type(status), message(status), seed, retry_after)


def stream_error(status: int, seed: str, _request: RequestView) -> bytes:
    """Return the `error` event of a stream (anthropic-stream-order). Unlisted statuses use the error type of 400 or
    500."""
    return written(_body(_type(status), message(status), _request_id(seed)), "error")


def read_error(body: JSON, response: HttpResponse) -> ErrorView | None:
    """Return the error in a body or an event.

    If the HTTP status is 200, the error type determines the status (anthropic-stream-error). Bedrock only has a
    `message`.
    """
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, dict):
        kind, message = error.get("type"), error.get("message")
        code = string(kind)
        return error_view(
            response, message if isinstance(message, str) else "", code, stands_for=_STATUSES.get(code or "")
        )
    message = body.get("message")
    return error_view(response, message) if isinstance(message, str) and response.status >= 400 else None


def _type(status: int) -> str:
    return _TYPES.get(status, _TYPES[500] if status >= 500 else _TYPES[400])


def _body(kind: str, message: str, request_id: str) -> dict[str, JSON]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


def _request_id(seed: str) -> str:
    return f"req_011{token(seed, 'request', 21)}"


def _response(status: int, kind: str, message: str, seed: str, retry_after: float | None = None) -> HttpResponse:
    request_id = _request_id(seed)
    headers = {"content-type": "application/json", "request-id": request_id, **wait_headers(retry_after)}
    return HttpResponse(status, headers, json.dumps(_body(kind, message, request_id)).encode())


_LIMITS = {"requests": 4000, "tokens": 2_400_000, "input-tokens": 2_000_000, "output-tokens": 400_000}
_RESET = "2026-06-01T00:00:00Z"
_HELD = ("system", "tools")
"""Fields that a thread stores and its continuation omits (`CREATE_ONLY_FIELDS` of the SDK's
`lib/threads/_thread_state.py`)."""


def headers(seed: str, _model: str) -> Mapping[str, str]:
    """Return the headers that every response has."""
    limits = {f"anthropic-ratelimit-{kind}-limit": str(limit) for kind, limit in _LIMITS.items()}
    left = {f"anthropic-ratelimit-{kind}-remaining": str(limit - 1000) for kind, limit in _LIMITS.items()}
    resets = {f"anthropic-ratelimit-{kind}-reset": _RESET for kind in _LIMITS}
    ids = {
        "request-id": f"req_011{token(seed, 'request', 21)}",
        "anthropic-organization-id": "00000000-0000-4000-8000-000000000000",
    }
    return {**ids, **limits, **left, **resets}


def has_key(request: HttpRequest) -> bool:
    """Return whether a request has an API key or a login token."""
    return bool(request.headers.get("x-api-key") or request.headers.get("authorization"))


def respond(request: HttpRequest, models: Sequence[str]) -> HttpResponse | None:
    """Respond to a request for the model list, a single model, or a token count."""
    path = urlsplit(request.url).path
    if request.method == "POST" and path.endswith("/v1/messages/count_tokens"):
        return json_response({"input_tokens": tokens(request.body)})
    if request.method != "GET" or "/v1/models" not in path or "anthropic-version" not in request.headers:
        return None
    named = path.rpartition("/v1/models")[2].strip("/")
    if not named:
        listed: list[JSON] = [_model(name) for name in models]
        ends: dict[str, JSON] = {"first_id": models[0] if models else None, "last_id": models[-1] if models else None}
        return json_response({"data": listed, "has_more": False, **ends})
    if named in models:
        return json_response(_model(named))
    return _error(404, "not_found_error", f"model: {named}")


def restore(request: HttpRequest, kept: StoredAnswers) -> HttpRequest:
    """Replace a request that continues a thread with an equivalent request that has the whole conversation. Raises
    `StateNotFound`.
    """
    body = sent(request)
    thread = body.pop("thread", None)
    if not isinstance(thread, dict):
        return request
    if thread.get("type") == "continue":
        named = thread.get("previous_message_id")
        held = kept.get(str(named))
        if not isinstance(held, dict):
            raise StateNotFound(
                f"no thread has the answer {named!r}",
                _error(404, "not_found_error", f"thread state not found: {named}", "thread_not_found"),
            )
        old, new = held["messages"], body.get("messages")
        both = [*as_list(old), *as_list(new)]
        body = {**{key: held[key] for key in _HELD if key in held}, **body, "messages": both}
    return replace(request, body=json.dumps(body, ensure_ascii=False).encode())


def store(request: HttpRequest, answer: ResponseView) -> tuple[str, JSON] | None:
    """Return the conversation to store, with the id of its last response. It becomes a thread once a later request
    continues it."""
    body, answered = sent(request), answer.body
    messages = body.get("messages")
    if not isinstance(answered, dict) or not isinstance(messages, list):
        return None
    turn: dict[str, JSON] = {"role": "assistant", "content": answered.get("content")}
    return str(answered.get("id")), {**{key: body[key] for key in _HELD if key in body}, "messages": [*messages, turn]}


def _model(name: str) -> dict[str, JSON]:
    return {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}


def _error(status: int, kind: str, message: str, code: str | None = None) -> HttpResponse:
    error: dict[str, JSON] = {"type": kind, "message": message}
    if code is not None:
        error["details"] = cast("JSON", {"error_code": code})
    return json_response({"type": "error", "error": error}, status)


SERVER_ENDPOINTS = ServerEndpoints(
    compared="/diagnostics/previous_message_id",
    variables=("ANTHROPIC_BASE_URL",),
    headers=headers,
    has_key=has_key,
    respond=respond,
    restore=restore,
    store=store,
)
