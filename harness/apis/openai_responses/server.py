"""Errors of the Responses API, and everything except chats: headers, keys, token counts, stored responses.

Token counts, stored responses and repeated fields follow the types of
https://github.com/openai/openai-python/tree/v3.54.0 (read 2026-11-22). The rejection of an unknown response follows
https://github.com/maximhq/bifrost/issues/2441 (2026-03-31). A response is stored unless `store` is false:
`openai-responses-stored-item-missing-store-false`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

from harness.apis.jsonvalue import as_list, string
from harness.apis.openai_common import failure, has_key, headers, meant_status, refusal
from harness.apis.server import ServerEndpoints, StateNotFound, StoredAnswers, error_view, json_response, sent, tokens
from harness.apis.view import ErrorView, ResponseView
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON

refuse = partial(refusal, indent=2)
fail = partial(failure, indent=2)


def read_error(error: JSON, response: HttpResponse) -> ErrorView:
    """Return the error of a response. In an `error` event, the error's fields are at the top level, next to the event's
    `type`.
    """
    if not isinstance(error, dict):
        return error_view(response, string(error) or "")
    code = error.get("code")
    return error_view(
        response,
        string(error.get("message")) or "",
        None if code is None else str(code),
        stands_for=meant_status(error),
    )


_LEANS = "previous_response_id"

_REPEATED = frozenset(
    {
        *("background", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls"),
        *("previous_response_id", "prompt_cache_key", "reasoning", "safety_identifier", "store", "temperature", "text"),
        *("tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user"),
    }
)
"""Request fields that the response repeats with the same meaning."""


def respond(request: HttpRequest, _models: Sequence[str]) -> HttpResponse | None:
    """Respond to a request for a token count. The module of Chat Completions responds to requests for models."""
    if request.method != "POST" or not urlsplit(request.url).path.endswith("/responses/input_tokens"):
        return None
    return json_response({"object": "response.input_tokens", "input_tokens": tokens(request.body)})


def restore(request: HttpRequest, kept: StoredAnswers) -> HttpRequest:
    """Return the request with the items of earlier responses prepended. Raises `StateNotFound`."""
    body = sent(request)
    named = body.pop(_LEANS, None)
    if named is None:
        return request
    stored = kept.get(str(named))
    if not isinstance(stored, list):
        words = f"Previous response with id '{named}' not found."
        error: dict[str, JSON] = {
            "message": words,
            "type": "invalid_request_error",
            "param": _LEANS,
            "code": "previous_response_not_found",
        }
        raise StateNotFound(f"no answer {named!r} was kept", json_response({"error": error}, 400))
    body["input"] = [*stored, *_items(body.get("input"))]
    return replace(request, body=json.dumps(body, ensure_ascii=False).encode())


def store(request: HttpRequest, answer: ResponseView) -> tuple[str, JSON] | None:
    """Return the response's id and the conversation's items, including the response. Return `None` if the request
    disables storage.
    """
    body, answered = sent(request), answer.body
    if not isinstance(answered, dict) or body.get("store") is False:
        return None
    return str(answered.get("id")), [*_items(body.get("input")), *_items(answered.get("output"))]


def echo(body: dict[str, JSON], request: HttpRequest) -> dict[str, JSON]:
    """Add the request fields that a response repeats."""
    request_body = sent(request)
    return {**body, **{key: request_body[key] for key in _REPEATED if request_body.get(key) is not None}}


def _items(value: JSON) -> list[JSON]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return as_list(value)


SERVER_ENDPOINTS = ServerEndpoints(
    compared="/prompt_cache_options/comparison_response_id",
    variables=("OPENAI_BASE_URL",),
    headers=headers,
    has_key=has_key,
    respond=respond,
    restore=restore,
    store=store,
    echo=echo,
)
