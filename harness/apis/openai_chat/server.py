"""Errors of Chat Completions, and all server behaviour except chats: headers, keys, model lists, several choices.

Model objects follow the types of https://github.com/openai/openai-python/tree/v3.54.0 (read 2026-11-22).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from harness.apis.eventstream import events, written
from harness.apis.jsonvalue import is_blank
from harness.apis.openai_common import error_object, failure, has_key, headers, meant_status, refusal, type_and_code
from harness.apis.server import ServerEndpoints, error_view, json_response, message
from harness.apis.view import ErrorView, RequestView
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON

refuse = refusal
fail = failure


def stream_error(status: int, _seed: str, _request: RequestView) -> bytes:
    """Return the error chunk that ends a stream (openai-chat-stream-cut-unnoticed)."""
    return written({"error": error_object(message(status), *type_and_code(status))})


def read_error(body: dict[str, JSON], choice: dict[str, JSON], response: HttpResponse) -> ErrorView | None:
    """Return the error of a body, in OpenAI's format or a compatible server's. `choice` is the body's first choice."""
    error = body.get("error")
    if is_blank(error):  # OpenRouter reports an error of the model's host in the choice
        error = choice.get("error")
    if not is_blank(error):
        return _view(error if isinstance(error, dict) else {"message": error}, response)
    if response.status >= 400 or body.get("object") == "error":  # Mistral and similar servers do not wrap the error
        return _view(body, response)
    return None


def _view(error: dict[str, JSON], response: HttpResponse) -> ErrorView:
    message = error.get("message", error.get("detail"))
    code = next((error[key] for key in ("code", "type") if not is_blank(error.get(key))), None)
    return error_view(
        response,
        message if isinstance(message, str) else str(message or error),
        str(code) if isinstance(code, str | int) else None,
        stands_for=meant_status(error),
    )


def respond(request: HttpRequest, models: Sequence[str]) -> HttpResponse | None:
    """Respond to a request for the model list or a single model."""
    before, found, behind = urlsplit(request.url).path.rpartition("/models")
    if request.method != "GET" or not found or before.endswith("/v1beta") or "anthropic-version" in request.headers:
        return None
    named = behind.strip("/")
    if not named:
        return json_response({"object": "list", "data": [_model(name) for name in models]})
    if named in models:
        return json_response(_model(named))
    message = f"The model '{named}' does not exist"
    error: dict[str, JSON] = {
        "message": message,
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    return json_response({"error": error}, 404)


def combine(answers: Sequence[HttpResponse]) -> HttpResponse:
    """Combine several responses into one with several choices. The token counts are those of the first response."""
    if answers[0].headers.get("content-type", "").startswith("text/event-stream"):
        return _several_streams(answers)
    bodies: list[Any] = [json.loads(answer.body) for answer in answers]
    choices = [{**body["choices"][0], "index": index} for index, body in enumerate(bodies)]
    first = {**bodies[0], "choices": choices}
    return replace(answers[0], body=json.dumps(first, ensure_ascii=False).encode())


def _several_streams(answers: Sequence[HttpResponse]) -> HttpResponse:
    """Interleave the chunks of the streams. Chunks without a choice (usage, end) are sent once, at the end."""
    streams: list[list[Any]] = [
        [json.loads(event.data) for event in events(answer.body) if event.data != "[DONE]"] for answer in answers
    ]
    chunks: list[Any] = []
    for at in range(max(map(len, streams))):
        for index, stream in enumerate(streams):
            if at < len(stream) and stream[at].get("choices"):
                choice = {**stream[at]["choices"][0], "index": index}
                chunks.append({**stream[at], "id": streams[0][0]["id"], "choices": [choice]})
    behind = [chunk for chunk in streams[0] if not chunk.get("choices")]
    return replace(answers[0], body=b"".join(map(written, [*chunks, *behind])) + b"data: [DONE]\n\n")


def _model(name: str) -> dict[str, JSON]:
    return {"id": name, "object": "model", "created": 1_767_225_600, "owned_by": "openai"}


SERVER_ENDPOINTS = ServerEndpoints(
    variables=("OPENAI_BASE_URL",), headers=headers, has_key=has_key, respond=respond, combine=combine
)
