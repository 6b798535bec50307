"""Around the Responses API: headers, keys, counts of tokens, answers that are kept, and what an answer repeats.

Headers: https://developers.openai.com/api/reference/overview (read 2026-11-22). Counts, kept answers and what is
repeated: the types of https://github.com/openai/openai-python/tree/v3.54.0 (read 2026-11-22). The refusal of an answer
that is not kept: https://github.com/maximhq/bifrost/issues/2441 (2026-03-31). That an answer is kept unless `store` is
false: `openai-responses-stored-item-missing-store-false`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from harness.apis.frontage import Forgotten, Frontage, Kept, json_response, sent, tokens
from harness.apis.openai_server import has_key, headers
from harness.apis.view import ResponseView
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON

_LEANS = "previous_response_id"

_REPEATED = frozenset(
    {
        *("background", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls"),
        *("previous_response_id", "prompt_cache_key", "reasoning", "safety_identifier", "store", "temperature", "text"),
        *("tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user"),
    }
)
"""Fields that a request and its answer share, and that mean the same in both."""


def desk(request: HttpRequest, _models: Sequence[str]) -> HttpResponse | None:
    """A count of tokens. The models are told by Chat, whose server it is too."""
    if request.method != "POST" or not urlsplit(request.url).path.endswith("/responses/input_tokens"):
        return None
    return json_response({"object": "response.input_tokens", "input_tokens": tokens(request.body)})


def whole(request: HttpRequest, kept: Kept) -> HttpRequest:
    """The request with the items of the answers that it goes on from. Raises `Forgotten`: no such answer was kept."""
    body = sent(request)
    named = body.pop(_LEANS, None)
    if named is None:
        return request
    said = kept.get(str(named))
    if not isinstance(said, list):
        words = f"Previous response with id '{named}' not found."
        error: dict[str, JSON] = {
            "message": words,
            "type": "invalid_request_error",
            "param": _LEANS,
            "code": "previous_response_not_found",
        }
        raise Forgotten(f"no answer {named!r} was kept", json_response({"error": error}, 400))
    body["input"] = [*said, *_items(body.get("input"))]
    return replace(request, body=json.dumps(body, ensure_ascii=False).encode())


def keep(request: HttpRequest, answer: ResponseView) -> tuple[str, JSON] | None:
    """The items up to an answer and of it, under its id, unless the request wants nothing stored."""
    body, said = sent(request), answer.body
    if not isinstance(said, dict) or body.get("store") is False:
        return None
    return str(said.get("id")), [*_items(body.get("input")), *_items(said.get("output"))]


def echo(body: dict[str, JSON], request: HttpRequest) -> dict[str, JSON]:
    """The answer with the fields of its request that it repeats."""
    asked = sent(request)
    return {**body, **{key: asked[key] for key in _REPEATED if asked.get(key) is not None}}


def _items(value: JSON) -> list[JSON]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return value if isinstance(value, list) else []


FRONTAGE = Frontage(
    variables=("OPENAI_BASE_URL",), headers=headers, has_key=has_key, desk=desk, whole=whole, keep=keep, echo=echo
)
