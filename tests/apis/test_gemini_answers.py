import json
import re
from dataclasses import replace
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.gemini import API
from harness.apis.gemini.proto import camel, messages
from harness.apis.limits import Limit
from harness.apis.view import CallView, ModelStep, OpaqueView, Prefix, ResponseView, TextView
from harness.model.http import HttpResponse
from harness.model.messages import StopReason
from tests.apis.test_gemini_limits import good
from tests.known_profiles import profile_named

MODELS = ("gemini-3.5-flash", "gemini-3-flash-preview", "gemini-2.5-flash", "gemini-flash-latest")
STEPS = {
    "text": ModelStep(text="18 °C."),
    "thinking": ModelStep(thinking="Hm.", text="18 °C."),
    "calls": ModelStep(calls=(("get_weather", {"city": "Paris"}), ("get_weather", {}))),
    "everything": ModelStep(
        thinking="Hm.", text="Let me see.", calls=(("now", {}),), raw=({"executableCode": {"code": "1"}},)
    ),
    "refusal": ModelStep(refusal="No."),
    "cut": ModelStep(text="18", stop=StopReason.MAX_TOKENS),
    "nothing": ModelStep(),
}


def build(step: ModelStep, model: str, seed: str = "seed") -> dict[str, Any]:
    return API.build(step, seed, model, registry.api("gemini").profile_for(model))


def read(body: Any) -> ResponseView:
    return API.read(HttpResponse(200, {"content-type": "application/json"}, json.dumps(body).encode()))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", STEPS)
def test_what_is_built_is_read_back(name: str, model: str) -> None:
    step = STEPS[name]
    seen = read(build(step, model))
    assert [(call.name, call.arguments) for call in seen.calls] == [*step.calls]
    assert seen.text == (step.text or "")
    assert [part.raw for part in seen.parts if isinstance(part, OpaqueView) and part.kind != "thought"] == [*step.raw]
    thoughts = [part.raw for part in seen.parts if isinstance(part, OpaqueView) and part.kind == "thought"]
    assert thoughts == ([{"text": step.thinking, "thought": True}] if step.thinking else [])
    assert (seen.model, seen.complete, seen.error) == (model, True, None)


def test_parts_stand_in_the_order_thinking_raw_text_calls() -> None:
    kinds = [type(part) for part in read(build(STEPS["everything"], MODELS[0])).parts]
    assert kinds == [OpaqueView, OpaqueView, TextView, CallView]


@pytest.mark.parametrize(
    ("stop", "read_as"),
    [
        (StopReason.STOP_SEQUENCE, StopReason.END_TURN),  # the wire has one word for both
        (StopReason.TOOL_USE, StopReason.END_TURN),  # without calls
        *((stop, stop) for stop in StopReason if stop not in (StopReason.STOP_SEQUENCE, StopReason.TOOL_USE)),
    ],
)
def test_stop_reasons_are_read_back(stop: StopReason, read_as: StopReason) -> None:
    assert read(build(ModelStep(text="Hi", stop=stop), MODELS[0])).stop_reason is read_as


def test_calls_stop_the_turn_for_tool_use_and_refusals_say_why() -> None:
    assert read(build(STEPS["calls"], MODELS[0])).stop_reason is StopReason.TOOL_USE
    (candidate,) = build(STEPS["refusal"], MODELS[0])["candidates"]
    assert candidate == {"finishReason": "SAFETY", "finishMessage": "No.", "index": 0}


def test_ids_exist_only_where_the_profile_has_them() -> None:
    ids = {model: [call.id for call in read(build(STEPS["calls"], model)).calls] for model in MODELS}
    first, second = ids["gemini-3.5-flash"]
    assert first != second
    assert all(re.fullmatch("[a-z0-9]{8}", str(number)) for number in (first, second))
    assert ids["gemini-3-flash-preview"] == ids["gemini-2.5-flash"] == ids["gemini-flash-latest"] == [None, None]


@pytest.mark.parametrize(
    ("model", "name", "signed"),
    [
        ("gemini-3.5-flash", "calls", [True, False]),
        ("gemini-3.5-flash", "text", [True]),
        ("gemini-3.5-flash", "everything", [False, True]),
        ("gemini-2.5-flash", "calls", [False, False]),
        ("gemini-2.5-flash", "thinking", [True]),
        ("gemini-2.5-flash", "everything", [False, True]),
    ],
)
def test_signatures_sit_on_the_first_call_or_else_on_the_text(model: str, name: str, signed: list[bool]) -> None:
    parts = [part for part in read(build(STEPS[name], model)).parts if isinstance(part, TextView | CallView)]
    assert [part.opaque is not None for part in parts] == signed


def test_a_profile_without_signatures_gets_none() -> None:
    profile = profile_named("openai-chat")  # any that says "none"
    assert profile is not None
    assert "thoughtSignature" not in json.dumps(API.build(STEPS["thinking"], "seed", "m", profile))


@pytest.mark.parametrize(("repeated", "cached"), [(0, None), (250, None), (600, 400)])
def test_usage_adds_up_and_says_what_came_out_of_the_cache(repeated: int, cached: int | None) -> None:
    step = replace(STEPS["thinking"], prefix=Prefix(repeated=repeated))
    for body in (build(step, MODELS[0], seed=f"seed {number}") for number in range(10)):
        usage, counts = read(body).usage, body["usageMetadata"]
        assert usage.input_tokens is not None
        assert usage.output_tokens is not None
        assert usage.input_tokens + usage.output_tokens == counts["totalTokenCount"]
        assert 0 < (usage.reasoning_tokens or 0) < usage.output_tokens
        assert usage.cache_read_tokens == cached
        assert usage.cache_read_tokens is None or usage.cache_read_tokens < usage.input_tokens


def test_an_answer_is_a_function_of_its_seed() -> None:
    assert build(STEPS["calls"], MODELS[0]) == build(STEPS["calls"], MODELS[0])
    assert build(STEPS["calls"], MODELS[0]) != build(STEPS["calls"], MODELS[0], seed="another")


@pytest.mark.parametrize(("status", "name"), [(400, "INVALID_ARGUMENT"), (404, "NOT_FOUND"), (418, "UNKNOWN")])
def test_a_refusal_has_the_providers_shape(status: int, name: str) -> None:
    violation = Limit("gemini-role", "", "gemini-roles").broken("Please use a valid role: \ud800.", "/a", status=status)
    refusal = API.refuse(violation)
    assert refusal.status == status
    assert json.loads(refusal.body) == {"error": {"code": status, "message": violation.message, "status": name}}
    error = API.read(refusal).error
    assert error is not None
    assert (error.status, error.message, error.code) == (status, violation.message, name)
    assert refusal.headers == API.refuse(violation).headers
    assert refusal.headers["content-type"].startswith("application/json")


def test_a_refusal_takes_the_code_of_its_violation() -> None:
    violation = Limit("x", "", "gemini-contents").broken("m", "", status=429, code="RESOURCE_EXHAUSTED")
    assert json.loads(API.refuse(violation).body)["error"]["status"] == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", STEPS)
def test_the_sdk_knows_what_is_built(name: str, model: str) -> None:
    types = pytest.importorskip("google.genai.types")
    body = build(STEPS[name], model)
    response = types.GenerateContentResponse.model_validate(body)  # refuses unknown fields
    calls = [(call.name, call.args, call.id) for call in response.function_calls or ()]
    assert calls == [(call.name, call.arguments, call.id) for call in read(body).calls]


def test_the_sdk_knows_what_a_good_request_holds() -> None:
    types = pytest.importorskip("google.genai.types")
    body = good()
    for content in [*body["contents"], body["systemInstruction"]]:
        types.Content.model_validate(content)
    for tool in body["tools"]:
        types.Tool.model_validate(tool)
    types.ToolConfig.model_validate(body["toolConfig"])
    types.GenerationConfig.model_validate(body["generationConfig"])


@pytest.mark.parametrize("name", [name for name in messages() if name != "GenerateContentRequest"])
def test_every_field_of_the_sdks_types_is_known(name: str) -> None:
    types = pytest.importorskip("google.genai.types")
    fields = getattr(types, name).model_fields
    assert {camel(field) for field in fields} <= messages()[name].keys()
