"""Around Chat Completions: headers, keys, models, and several answers to one question.

Headers: https://developers.openai.com/api/reference/overview (read 2026-11-22). Models: the types of
https://github.com/openai/openai-python/tree/v3.54.0 (read 2026-11-22).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from harness.apis.eventstream import events, written
from harness.apis.frontage import Frontage, json_response
from harness.apis.openai_server import has_key, headers
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON


def desk(request: HttpRequest, models: Sequence[str]) -> HttpResponse | None:
    """The models, or one of them."""
    before, found, behind = urlsplit(request.url).path.rpartition("/models")
    if request.method != "GET" or not found or before.endswith("/v1beta") or "anthropic-version" in request.headers:
        return None
    named = behind.strip("/")
    if not named:
        return json_response({"object": "list", "data": [_model(name) for name in models]})
    if named in models:
        return json_response(_model(named))
    said = f"The model '{named}' does not exist"
    error: dict[str, JSON] = {
        "message": said,
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    return json_response({"error": error}, 404)


def several(answers: Sequence[HttpResponse]) -> HttpResponse:
    """Several choices of one answer. Each has calls of its own; the tokens of all of them are counted in the first
    answer's way."""
    if answers[0].headers.get("content-type", "").startswith("text/event-stream"):
        return _several_streams(answers)
    bodies: list[Any] = [json.loads(answer.body) for answer in answers]
    choices = [{**body["choices"][0], "index": index} for index, body in enumerate(bodies)]
    first = {**bodies[0], "choices": choices}
    return replace(answers[0], body=json.dumps(first, ensure_ascii=False).encode())


def _several_streams(answers: Sequence[HttpResponse]) -> HttpResponse:
    """The chunks of the streams in turns. What has no choice (the usage, the end) comes once, behind all others."""
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


FRONTAGE = Frontage(variables=("OPENAI_BASE_URL",), headers=headers, has_key=has_key, desk=desk, several=several)
