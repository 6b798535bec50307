from __future__ import annotations

from dataclasses import replace

import pytest

from harness.apis import registry
from harness.apis.limits import Limit
from harness.apis.profiles import OTHER, OWN
from harness.apis.view import WireError
from harness.model.errors import UnknownName
from harness.model.http import HttpRequest
from tests.apis import samples


def test_there_are_four_apis_and_a_command_line_each_under_its_own_name() -> None:
    assert sorted(registry.APIS.names()) == ["anthropic", "claude-cli", "gemini", "openai-chat", "openai-responses"]
    assert all(registry.api(name).name == name for name in registry.APIS.names())


def test_an_unknown_api_is_named_with_its_neighbour() -> None:
    with pytest.raises(UnknownName) as raised:
        registry.api("openai-chats")
    assert str(raised.value) == (
        "unknown API 'openai-chats'. Did you mean 'openai-chat'? "
        "Known: anthropic, claude-cli, gemini, openai-chat, openai-responses."
    )


@pytest.mark.parametrize("api", registry.APIS.names())
def test_an_unreadable_body_violates_no_response_rule(api: str) -> None:
    wire = registry.api(api)
    profile = wire.profile_for("a-model")
    request = HttpRequest("POST", wire.provider_url + "/nowhere", {}, b"no JSON")
    assert not wire.recognises(request)
    assert any(violation.severity == "error" for violation in samples.violations(wire, request, profile))
    with pytest.raises(WireError):
        wire.view(request)
    refusal = wire.refuse(Limit("x", "", "").make_violation("half of a pair: \ud83d", "", status=404))
    error = wire.read(refusal).error
    assert error is not None
    assert error.message == "half of a pair: \ud83d"
    if api != "claude-cli":  # a command line refuses by an exit status
        assert (refusal.status, error.status) == (404, 404)


CHAT = registry.api("openai-chat")
RESPONSES = registry.api("openai-responses")


@pytest.mark.parametrize("api", registry.APIS.names())
def test_the_reference_server_stands_in_for_the_provider(api: str) -> None:
    profile = registry.api(api).profile_for("")
    rule_set = registry.api(api).services.provider_rules(profile, "")
    assert (rule_set.service, rule_set.is_own, rule_set.profile) == (OWN, True, profile)


@pytest.mark.parametrize("api", registry.APIS.names())
def test_the_provider_is_known_by_its_address(api: str) -> None:
    wire = registry.api(api)
    assert wire.services.rules_at(registry.api(api).profile_for(""), "", wire.provider_url).service == OWN
    assert wire.services.rules_at(registry.api(api).profile_for(""), "", "https://example.com/v1").service == OTHER


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080/v1", "http://localhost/v1", "https://notapi.openai.com.evil/v1"]
)
def test_no_other_address_is_the_provider_s(url: str) -> None:
    assert CHAT.services.rules_at(registry.api("openai-chat").profile_for("gpt-4o"), "gpt-4o", url).service == OTHER


@pytest.mark.parametrize("url", ["", "<GPUSTACK_API_BASE>/chat/completions", "http://[::1/chat/completions"])
def test_an_address_that_was_scrubbed_is_another_s(url: str) -> None:
    assert CHAT.services.rules_at(registry.api("openai-chat").profile_for(""), "", url).service == OTHER


@pytest.mark.parametrize(
    ("answer", "service"),
    [
        (b'{"id": "chatcmpl-1", "prompt_logprobs": null}', "vllm"),
        (b'{"error": {"message": "no", "type": "BadRequestError", "code": 400}}', "vllm"),
        (b'data: {"choices": [{"index": 0, "delta": {}, "matched_stop": 154}]}', "sglang"),
        (b'{"choices": [], "system_fingerprint": "b7786-1d7ab2b9"}', "llama-cpp"),
        (b'{"choices": [], "system_fingerprint":"fp_ollama"}', "ollama"),
        (b'{"choices": [], "system_fingerprint": "fp_44709d6fcb"}', OTHER),
    ],
)
def test_a_local_server_is_known_by_its_answers(answer: bytes, service: str) -> None:
    profile = CHAT.profile_for("qwen3")
    assert CHAT.services.rules_at(profile, "qwen3", "http://10.0.0.7:4000/v1", answer).service == service
    assert CHAT.services.rules_at(profile, "gpt-4o", CHAT.provider_url, answer).service == OWN


@pytest.mark.parametrize(("model", "is_own"), [("gpt-5.6", True), ("DeepSeek-V3-0324", False)])
def test_a_cloud_has_the_provider_s_rules_for_its_models(model: str, is_own: bool) -> None:
    rule_set = CHAT.services.rules_at(CHAT.profile_for(model), model, "https://acme.openai.azure.com/openai/v1")
    assert (rule_set.service, rule_set.is_own) == ("azure", is_own)


def test_a_model_of_another_provider_has_another_service() -> None:
    profile = registry.api("openai-chat").profile_for("qwen3")
    assert CHAT.services.provider_rules(profile, "qwen3").service == OTHER
    assert CHAT.services.rules_at(profile, "qwen3", CHAT.provider_url).service == OTHER
    assert CHAT.services.provider_rules(profile, "gpt-4o").service == OWN


def test_the_dialect_of_a_profile_is_the_law_of_the_reference_server_alone() -> None:
    profile = replace(registry.api("openai-chat").profile_for("gpt-4o"), dialect="no-ids")
    assert CHAT.services.provider_rules(profile, "gpt-4o").service == "no-ids"
    assert CHAT.services.rules_at(profile, "gpt-4o", CHAT.provider_url).service == OWN


def test_mistral_s_rules_hold_at_mistral_for_any_model() -> None:
    mistral = registry.api("openai-chat").profile_for("mistral-large-latest")
    assert CHAT.services.provider_rules(mistral, "mistral-large-latest").service == "mistral"
    assert CHAT.services.rules_at(mistral, "my-tune", "https://api.mistral.ai/v1").service == "mistral"
    assert CHAT.services.rules_at(mistral, "mistral-large", "https://openrouter.ai/api/v1").service == "openrouter"


def test_azure_holds_responses_to_openai_s_rules() -> None:
    profile = registry.api("openai-responses").profile_for("gpt-5.6")
    assert RESPONSES.services.rules_at(profile, "gpt-5.6", "https://x.openai.azure.com/openai/v1/responses").is_own
