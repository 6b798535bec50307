"""Streams in the chunks of other servers: the same answer, in other bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.apis import registry
from harness.apis.view import ModelStep, ResponseView
from harness.equivalence.view_differences import alike
from harness.model.http import HttpRequest, HttpResponse

CALLS = ModelStep(text="Let me look.", calls=(("get_weather", {"city": "S\u00e3o Paulo", "days": [1, 2]}), ("now", {})))
SHAPES = [(api.name, name) for api in registry.apis() for name in api.stream_shapes]


def streamed(api: str, step: ModelStep, shape: str | None = None) -> tuple[ResponseView, bytes]:
    wire = registry.api(api)
    model = wire.targets[-1].model
    body = b'{"messages": [], "stream_options": {"include_usage": true}}' if api == "openai-chat" else wire.least_body
    request = wire.view(HttpRequest("POST", "https://it.example/v1/x?alt=sse", {}, body))
    sent = wire.build_stream(step, "a seed", model, wire.profile_for(model), request)
    if shape is not None:
        sent = replace(sent, body=wire.stream_shapes[shape].respell(sent.body, "a seed"))
    return wire.read(HttpResponse(200, sent.headers, sent.body)), sent.body


@pytest.mark.parametrize(("api", "shape"), SHAPES)
def test_a_shape_says_the_same_in_other_chunks(api: str, shape: str) -> None:
    plain, respelled = streamed(api, CALLS), streamed(api, CALLS, shape)
    assert respelled[1] != plain[1]
    assert respelled[0].complete
    assert alike(respelled[0].parts, plain[0].parts)
    assert (respelled[0].stop_reason, respelled[0].usage) == (plain[0].stop_reason, plain[0].usage)
