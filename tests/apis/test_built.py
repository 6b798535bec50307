"""Responses that the reference server builds: they read back as their step, and the SDKs know their types."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.limits import Limit
from harness.apis.view import CallView, ErrorView, ModelStep, OpaqueView, Prefix, ResponseView, TextView
from harness.model.messages import JSON, StopReason
from tests.apis.samples import MODELS, STREAMS, read, streamed, strict_validator, whole
from tests.known_profiles import profile_named

STEPS = {
    "text": ModelStep(text="18 °C."),
    "nothing": ModelStep(),
    "calls": ModelStep(calls=(("get_weather", {"n": 2**60, "s": "Köln\u2028"}), ("now", {}))),
    "everything": ModelStep(thinking="Hm.", text="Let me see.", calls=(("now", {"x": 1.5}),)),
    "refusal": ModelStep(refusal="No."),
    "cut": ModelStep(text="18", stop=StopReason.MAX_TOKENS),
}
OTHER_MODELS = {"anthropic": ["claude-sonnet-4-5"], "gemini": ["gemini-3.5-flash", "gemini-2.5-flash"]}
CASES = [(api, model, name) for api in MODELS for model in (MODELS[api], *OTHER_MODELS.get(api, ())) for name in STEPS]
RAW: dict[str, dict[str, JSON]] = {
    "anthropic": {"type": "redacted_thinking", "data": "x"},
    "openai-chat": {"id": "call_9", "type": "custom", "custom": {"name": "shell", "input": "ls"}},
    "openai-responses": {"type": "web_search_call", "id": "ws_1"},
    "gemini": {"executableCode": {"code": "1"}},
}


def built(api: str, step: ModelStep, seed: str = "seed", model: str | None = None) -> dict[str, Any]:
    wire, model = registry.api(api), model or MODELS[api]
    return wire.build(step, seed, model, wire.profile_for(model))


def seen(api: str, step: ModelStep, seed: str = "seed", model: str | None = None) -> ResponseView:
    return read(api, built(api, step, seed, model))


@pytest.mark.parametrize(("api", "model", "name"), CASES)
def test_a_response_reads_back(api: str, model: str, name: str) -> None:
    step, view = STEPS[name], seen(api, STEPS[name], model=model)
    assert (view.text, view.model, view.complete, view.error) == (step.text or "", model, True, None)
    assert [(call.name, call.arguments) for call in view.calls] == list(step.calls)
    derived = StopReason.REFUSAL if step.refusal else StopReason.TOOL_USE if step.calls else StopReason.END_TURN
    assert view.stop_reason is (step.stop or derived)
    usage = view.usage
    assert (usage.reasoning_tokens or 0) < (usage.output_tokens or 0)
    assert (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0) < (usage.input_tokens or 0)
    opaque = len([part for part in view.parts if isinstance(part, OpaqueView)])
    has_refusal = step.refusal is not None and api != "gemini"  # whose refusals are in `finishMessage`
    has_thinking = step.thinking is not None and api != "openai-chat"  # which counts them
    assert opaque == has_refusal + has_thinking


@pytest.mark.parametrize(("api", "model", "name"), CASES)
def test_a_response_has_the_types_of_the_sdk(api: str, model: str, name: str) -> None:
    _known_to_the_sdk(api, built(api, STEPS[name], model=model))


def _known_to_the_sdk(api: str, body: Any) -> None:
    if api == "anthropic":
        types = pytest.importorskip("anthropic.types")
        strict_validator(types.Message).validate_json(json.dumps(body), strict=True)
    elif api == "openai-chat":
        chat = pytest.importorskip("openai.types.chat")
        parsed = chat.ChatCompletion.model_validate(body, strict=True)
        assert not parsed.model_extra
        assert not parsed.usage.model_extra
    elif api == "openai-responses":
        types = pytest.importorskip("openai.types.responses")
        parsed = types.Response.model_validate(body)
        assert parsed.model_extra == {"store": True}  # sent by the provider, unknown to the SDK's type
        assert [item.model_extra for item in parsed.output if item.model_extra] == []
    else:
        types = pytest.importorskip("google.genai.types")
        types.GenerateContentResponse.model_validate(body)  # refuses unknown fields


@pytest.mark.parametrize("api", MODELS)
def test_the_types_of_the_sdk_refuse_other_values(api: str) -> None:
    from pydantic import ValidationError

    body = built(api, STEPS["text"])
    for key in ("content", "choices", "output", "candidates"):
        if key in body:
            with pytest.raises(ValidationError):
                _known_to_the_sdk(api, {**body, key: 7})


@pytest.mark.parametrize("api", MODELS)
def test_thinking_raw_parts_text_and_calls_keep_this_order(api: str) -> None:
    step = replace(STEPS["everything"], raw=(RAW[api],))
    view = seen(api, step)
    kinds = [type(part) for part in view.parts]
    expected = [OpaqueView, OpaqueView, TextView, CallView]
    assert kinds == ([TextView, CallView, CallView] if api == "openai-chat" else expected)
    assert json.dumps(RAW[api]) in json.dumps(built(api, step))


@pytest.mark.parametrize("api", [*MODELS, "claude-cli"])
def test_responses_and_streams_are_functions_of_their_seed(api: str) -> None:
    step = ModelStep(text="Four", calls=() if api == "claude-cli" else (("f", {}), ("f", {})))
    one, same, other = (built(api, step, seed, MODELS.get(api, "claude-opus-5-5")) for seed in ("a", "a", "b"))
    assert one == same != other
    if api in STREAMS:
        one, same, other = (streamed(STREAMS[api], step, seed) for seed in ("a", "a", "b"))
        assert one == same != other
        model = "gemini-3.5-flash" if api == "gemini" else MODELS[api]
        ids = {call.id for seed in "ab" for call in seen(api, step, seed, model).calls}
        assert len(ids) == 4


@pytest.mark.parametrize("form", STREAMS)
def test_half_of_a_surrogate_pair_is_sent_as_an_escape(form: str) -> None:
    api = STREAMS[form].api
    step = ModelStep(text="\ud83d", calls=(("f", {"a": "\ud83d"}),))
    for view in (seen(api, step), registry.api(api).read(streamed(STREAMS[form], step))):
        assert (view.text, view.calls[0].arguments) == ("\ud83d", {"a": "\ud83d"})


@pytest.mark.parametrize(
    ("api", "prefix", "cached"),
    [
        *(("anthropic", prefix, (0, 0)) for prefix in (Prefix(), Prefix(repeated=5000), Prefix(marked=900))),
        ("anthropic", Prefix(marked=2000), (0, 2000)),
        ("anthropic", Prefix(marked=2000, marked_again=2000), (2000, 0)),
        ("anthropic", Prefix(marked=3000, marked_again=1800), (1800, 1200)),
        *(
            (api, Prefix(repeated=repeated), (read_tokens, 0))
            for api in ("openai-chat", "openai-responses")
            for repeated, read_tokens in ((0, 0), (1023, 0), (1100, 1024), (1300, 1280))
        ),
        *(("gemini", Prefix(repeated=many), (read_tokens, None)) for many, read_tokens in ((250, None), (600, 400))),
    ],
)
def test_cached_tokens_are_those_of_a_prefix_that_is_repeated(api: str, prefix: Prefix, cached: Any) -> None:
    step = replace(STEPS["everything"], prefix=prefix)
    for seed in range(10):
        usage = seen(api, step, str(seed), "gemini-3.5-flash" if api == "gemini" else None).usage
        assert (usage.cache_read_tokens, usage.cache_write_tokens) == cached
        assert (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0) < (usage.input_tokens or 0)
        assert 0 < (usage.reasoning_tokens or 0) < (usage.output_tokens or 0)


STOPS = {
    "anthropic": {StopReason.PAUSE: StopReason.PAUSE, StopReason.STOP_SEQUENCE: StopReason.STOP_SEQUENCE},
    "openai-chat": {StopReason.PAUSE: StopReason.UNKNOWN, StopReason.STOP_SEQUENCE: StopReason.END_TURN},
    "openai-responses": {StopReason.PAUSE: StopReason.PAUSE, StopReason.ERROR: StopReason.ERROR},
    "gemini": {
        **{stop: stop for stop in StopReason},
        StopReason.STOP_SEQUENCE: StopReason.END_TURN,  # one word for both
        StopReason.TOOL_USE: StopReason.END_TURN,  # without calls
    },
    "claude-cli": {StopReason.PAUSE: StopReason.PAUSE, StopReason.STOP_SEQUENCE: StopReason.STOP_SEQUENCE},
}
"""What each API says for a stop reason: not all have a word for all."""


@pytest.mark.parametrize(
    ("api", "stop", "expected"), [(a, s, e) for a, words in STOPS.items() for s, e in words.items()]
)
def test_stop_reasons_are_sent_in_the_words_of_the_api(api: str, stop: StopReason, expected: StopReason) -> None:
    step = ModelStep(text="Hi", stop=stop)
    assert seen(api, step, model=MODELS.get(api, "claude-opus-5-5")).stop_reason is expected


# What only one API has


def test_ids_have_the_form_of_their_api() -> None:
    step = STEPS["calls"]
    forms = {"anthropic": ("toolu_01", 30), "openai-chat": ("call_", 29), "openai-responses": ("call_", 29)}
    for api, (start, length) in forms.items():
        assert all((call.id or "").startswith(start) and len(call.id or "") == length for call in seen(api, step).calls)
    ids = {model: [call.id for call in seen("gemini", step, model=model).calls] for model in OTHER_MODELS["gemini"]}
    assert [len(each or "") for each in ids["gemini-3.5-flash"]] == [8, 8]
    assert ids["gemini-2.5-flash"] == [None, None]
    reasoning, text, call = built("openai-responses", STEPS["everything"])["output"]
    assert [item["id"].partition("_")[0] for item in (reasoning, text, call)] == ["rs", "msg", "fc"]


@pytest.mark.parametrize(
    ("model", "name", "signed"),
    [
        ("gemini-3.5-flash", "calls", [True, False]),
        ("gemini-3.5-flash", "text", [True]),
        ("gemini-3.5-flash", "everything", [False, True]),
        ("gemini-2.5-flash", "calls", [False, False]),
        ("gemini-2.5-flash", "everything", [False, True]),
    ],
)
def test_signatures_are_on_the_first_call_or_else_on_the_text(model: str, name: str, signed: list[bool]) -> None:
    parts = [p for p in seen("gemini", STEPS[name], model=model).parts if isinstance(p, TextView | CallView)]
    assert [part.opaque is not None for part in parts] == signed


def test_reasoning_is_encrypted_only_by_profiles_that_reason() -> None:
    profile = profile_named("openai-responses")
    assert profile is not None
    plain = json.loads(whole("openai-responses", STEPS["everything"], profile=profile).body)["output"]
    encrypted = built("openai-responses", STEPS["everything"])["output"]
    assert ["encrypted_content" in item for item in (plain[0], encrypted[0])] == [False, True]
    assert ["phase" in item for item in (plain[1], encrypted[1])] == [False, True]
    assert "thoughtSignature" not in json.dumps(registry.api("gemini").build(STEPS["text"], "seed", "m", profile))


# Refusals


@pytest.mark.parametrize(
    ("api", "status", "code", "error"),
    [
        ("anthropic", 400, None, {"type": "invalid_request_error"}),
        ("anthropic", 413, None, {"type": "request_too_large"}),
        ("anthropic", 400, "of_its_own", {"type": "of_its_own"}),
        ("openai-chat", 400, "c", {"type": "invalid_request_error", "param": "a[3].b[0]", "code": "c"}),
        ("openai-responses", 400, "c", {"type": "invalid_request_error", "param": "a[3].b[0]", "code": "c"}),
        ("gemini", 400, None, {"code": 400, "status": "INVALID_ARGUMENT"}),
        ("gemini", 418, None, {"code": 418, "status": "UNKNOWN"}),
        ("gemini", 429, "RESOURCE_EXHAUSTED", {"code": 429, "status": "RESOURCE_EXHAUSTED"}),
    ],
)
def test_a_refusal_has_the_form_of_the_provider(api: str, status: int, code: str | None, error: dict[str, Any]) -> None:
    wire, text = registry.api(api), "messages.0: no — never \ud800"
    violation = Limit("rule", "", "a-fact").make_violation(text, "/a/3/b/0", status=status, code=code)
    refusal = wire.refuse(violation)
    assert refusal == wire.refuse(violation)
    assert (refusal.status, refusal.headers["content-type"].partition(";")[0]) == (status, "application/json")
    body = json.loads(refusal.body)
    assert body["error"] == {"message": text, **error}
    if api == "anthropic":
        assert body["request_id"] == refusal.headers["request-id"]
    view = wire.read(refusal)
    said = code or error.get("status") or error["type"]
    assert view.error == ErrorView(status, text, said, status)
