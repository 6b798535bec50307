from __future__ import annotations

import pytest

from harness.apis import registry
from harness.model.protocols import Capability
from tests.known_profiles import PROFILES

MODELS = [
    ("anthropic", "claude-opus-5-5", "claude-opus-5-5"),
    ("anthropic", "claude-opus-5-5-20260922", "claude-opus-5-5"),
    ("anthropic", "claude-sonnet-5-5", "claude-sonnet-5-5"),
    ("anthropic", "claude-haiku-5-5", "claude-haiku-5-5"),
    ("anthropic", "claude-opus-5", "claude-opus-5"),
    ("anthropic", "claude-opus-5-20260724", "claude-opus-5"),
    ("anthropic", "claude-opus-5-6", "claude"),
    ("anthropic", "claude-sonnet-5", "claude-sonnet-5"),
    ("anthropic", "claude-fable-5", "claude-fable-5"),
    ("anthropic", "claude-mythos-5-20260609", "claude-fable-5"),
    ("anthropic", "claude-fable-5-1", "claude-fable-5-1"),
    ("anthropic", "claude-mythos-5-1", "claude-fable-5-1"),
    ("anthropic", "claude-fable-5-2", "claude-fable-5-2"),
    ("anthropic", "claude-mythos-5-2", "claude-fable-5-2"),
    ("anthropic", "claude-opus-4-8-20260801", "claude-4-8"),
    ("anthropic", "claude-opus-4-7", "claude-4-7"),
    ("anthropic", "claude-opus-4-6", "claude-4-6"),
    ("anthropic", "claude-sonnet-4-6-20260101", "claude-4-6"),
    ("anthropic", "claude-sonnet-4-5-20250929", "claude-4-5"),
    ("anthropic", "claude-haiku-4-5", "claude-4-5"),
    ("anthropic", "claude-opus-4-20250514", "claude-4-5"),
    ("anthropic", "claude-opus-4-1", "claude-4-5"),
    ("anthropic", "claude-3-7-sonnet-latest", "claude-4-5"),
    ("anthropic", "claude-opus-51", "claude"),
    ("anthropic", "glm-5", "claude"),
    ("openai-chat", "gpt-5.6", "gpt-5.5-chat"),
    ("openai-chat", "gpt-6", "gpt-5.5-chat"),
    ("openai-chat", "gpt-6-astra", "gpt-6-astra-chat"),
    ("openai-chat", "gpt-6.1-sol", "gpt-6.1-chat"),
    ("openai-chat", "gpt-6.2-sol", "gpt-6.1-chat"),
    ("openai-chat", "gpt-6-sol", "gpt-5.5-chat"),
    ("openai-chat", "gpt-5.4-mini", "gpt-5-chat"),
    ("openai-chat", "gpt-5-nano-2025-08-07", "gpt-5-mini-chat"),
    ("openai-chat", "gpt-5", "o-series-chat"),
    ("openai-chat", "mistral-large-latest", "mistral-chat"),
    ("openai-chat", "gpt-5-chat-latest", "openai-chat"),
    ("openai-chat", "o3-mini", "o-series-chat"),
    ("openai-chat", "o1-preview", "o1-preview-chat"),
    ("openai-chat", "gpt-4o", "openai-chat"),
    ("openai-chat", "", "openai-chat"),
    ("openai-responses", "gpt-5.6", "gpt-5.6-responses"),
    ("openai-responses", "gpt-5.6-luna", "gpt-5.6-responses"),
    ("openai-responses", "gpt-5.2", "gpt-5.6-responses"),
    ("openai-responses", "gpt-6-astra", "gpt-5.6-responses"),
    ("openai-responses", "gpt-6.2-astra", "gpt-6.2-responses"),
    ("openai-responses", "gpt-6.2-astra-law", "gpt-6.2-responses"),
    ("openai-responses", "gpt-5.4", "gpt-5-responses"),
    ("openai-responses", "o3", "gpt-5-responses"),
    ("openai-responses", "gpt-4.1", "gpt-4-responses"),
    ("openai-responses", "deepseek-v4", "deepseek-responses"),
    ("openai-responses", "llama", "openai-responses"),
    ("gemini", "gemini-4-argon", "gemini-4"),
    ("gemini", "gemini-4-neon-preview", "gemini-4"),
    ("gemini", "gemini-3.6-flash", "gemini-3.6"),
    ("gemini", "models/gemini-3.6-flash", "gemini-3.6"),
    ("gemini", "gemini-3.5-flash-lite", "gemini-3.6"),
    ("openai-chat", "gpt-5.1", "gpt-5.1-chat"),
    ("openai-responses", "gpt-5.1", "gpt-5.1-responses"),
    ("gemini", "gemini-3.5-flash", "gemini-3-ids"),
    ("gemini", "gemini-3.1-pro-preview", "gemini-3-ids"),
    ("gemini", "gemini-3.7-flash", "gemini-3.7"),
    ("gemini", "gemini-3.8-flash", "gemini-3.7"),
    ("gemini", "gemini-3-pro-preview", "gemini-3"),
    ("gemini", "gemini-2.5-flash", "gemini-2"),
    ("gemini", "gemma-3", "gemini"),
    ("claude-cli", "claude-opus-5-5", "claude-cli"),
    ("claude-cli", "sonnet", "claude-cli"),
]


@pytest.mark.parametrize(("api", "model", "name"), MODELS)
def test_a_model_has_its_profile(api: str, model: str, name: str) -> None:
    profile = registry.api(api).profile_for(model)
    assert profile.name == name


def test_names_are_unique() -> None:
    assert len({profile.name for _, profile in PROFILES}) == len(PROFILES)


def test_every_profile_is_the_one_of_some_model() -> None:
    assert {name for _, _, name in MODELS} == {profile.name for _, profile in PROFILES}


@pytest.mark.parametrize("api", registry.APIS.names())
def test_an_unknown_model_is_claimed_little_of(api: str) -> None:
    profile = registry.api(api).profile_for("what nobody knows\n")
    assert profile.name == registry.api(api).profiles[-1].name
    assert not profile.strict_requests
    assert not profile.strict_pairing
    assert profile.sampling == "any"
    assert profile.prefill != "refused"
    assert not profile.thinking_types
    assert profile.lacks <= {Capability.THINKING}


def test_the_shipped_gemini_targets_differ_in_ids() -> None:
    ids = {
        each.name: registry.api(each.api).profile_for(each.model).call_ids
        for each in registry.targets()
        if each.api == "gemini"
    }
    assert ids == {"gemini-4": None, "gemini-3": True, "gemini-2.5": False}


def test_what_is_unsupported_is_lacking() -> None:
    for _, profile in PROFILES:
        assert (profile.json_with_tools == "unsupported") is (Capability.JSON_WITH_TOOLS in profile.lacks)
