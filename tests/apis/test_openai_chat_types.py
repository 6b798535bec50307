"""Cross-check of the witness against the hardened types of the SDK."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.examples import request_of
from harness.apis.openai_chat import API
from harness.apis.openai_chat.checks import LIMITS
from harness.apis.view import ModelStep
from harness.model.messages import StopReason
from tests.apis.hardened import validator
from tests.apis.openai_chat_faults import GOOD, changed, check

chat = pytest.importorskip("openai.types.chat")


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5.5", "o3"])
@pytest.mark.parametrize(
    "step",
    [
        ModelStep(text="18 °C."),
        ModelStep(text="Let me see.", calls=(("get_weather", {"city": "Paris"}), ("get_time", {}))),
        ModelStep(calls=(("get_weather", {}),), thinking="hm"),
        ModelStep(refusal="No."),
        ModelStep(text="The weath", stop=StopReason.MAX_TOKENS),
        ModelStep(stop=StopReason.REFUSAL),
    ],
)
def test_every_body_that_is_built_is_the_sdks_response(step: ModelStep, model: str) -> None:
    body = API.build(step, "a seed", model, registry.api("openai-chat").profile_for(model))
    parsed = chat.ChatCompletion.model_validate(body, strict=True)
    assert parsed.choices[0].message.content == step.text
    assert not set(body) - set(chat.ChatCompletion.model_fields)
    assert not set(body["usage"]) - set(type(parsed.usage).model_fields)  # type: ignore[arg-type]


def _validate(body: dict[str, Any]) -> None:
    from openai.types.chat.completion_create_params import (
        CompletionCreateParamsNonStreaming,
        CompletionCreateParamsStreaming,
    )

    streaming = CompletionCreateParamsStreaming if body.get("stream") else CompletionCreateParamsNonStreaming
    validator(streaming).validate_python(body, strict=True)


@pytest.mark.parametrize(
    "body",
    [
        GOOD,
        changed(tool_choice="required", parallel_tool_calls=False),
        changed(stream=..., stream_options=..., max_completion_tokens=5, temperature=0.5, stop=["x"]),
        changed("messages", 2, content="Let me see."),
        changed("messages", 0, role="developer"),
        {"model": "gpt-5.4", "messages": [{"role": "user", "content": "hi"}], "reasoning_effort": "none"},
    ],
)
def test_a_good_request_is_good_for_the_sdk_and_for_the_witness(body: dict[str, Any]) -> None:
    _validate(body)
    assert check(body) == []


def test_faults_of_type_are_faults_for_the_sdk_too() -> None:
    from pydantic import ValidationError

    of_type = ("role-unknown", "content-type", "arguments-type", "call-id-missing", "call-name-missing", "call-type")
    entries = {each: API.facts.limits[f"openai-chat-{each}"][1].refuses for each in of_type}
    requests = (request_of(API, API.facts.bases, each, "gpt-4.1", "") for each in chain(*entries.values()))
    faults = [json.loads(request.body) for request in requests]
    assert len(faults) > 6
    for body in faults:
        with pytest.raises(ValidationError):
            _validate(body)


def test_the_fields_are_those_of_the_sdk() -> None:
    from openai.types.chat import completion_create_params as params

    known = (
        params.CompletionCreateParamsNonStreaming.__annotations__ | params.CompletionCreateParamsBase.__annotations__
    )
    assert set(known) | {"stream"} == LIMITS.fields.keys()
