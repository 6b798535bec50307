"""Requests and answers of all four APIs, for tests of what they have in common."""

from __future__ import annotations

import json

from harness.apis import registry
from harness.apis.view import ModelStep, RequestView
from harness.model.http import HttpResponse

MODELS = {
    "anthropic": "claude-opus-5",
    "openai-chat": "gpt-5.5",
    "openai-responses": "gpt-6-sol",
    "gemini": "gemini-3-flash-preview",
}
STREAMS = {
    **{api: RequestView(api, model, (), (), stream=True, usage_pointer="/x") for api, model in MODELS.items()},
    "gemini as array": RequestView("gemini", MODELS["gemini"], (), (), stream=True, stream_format="json-array"),
}
"""What asks for a stream, by API; Gemini has two forms of it."""


def whole(api: str, step: ModelStep, seed: str = "seed") -> HttpResponse:
    """An answer that is not streamed."""
    body = registry.api(api).build(step, seed, MODELS[api], registry.api(api).profile_for(MODELS[api]))
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(body, ensure_ascii=False).encode())


def streamed(request: RequestView, step: ModelStep, seed: str = "seed") -> HttpResponse:
    """The same answer as a stream in the form that `request` asks for."""
    model = MODELS[request.api]
    return registry.api(request.api).build_stream(
        step, seed, model, registry.api(request.api).profile_for(model), request
    )
