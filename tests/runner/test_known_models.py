"""The list of models: a projection of the price library, the profiles and the targets."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from genai_prices.data_snapshot import get_snapshot

from harness.apis import registry
from harness.model.errors import UnknownName
from harness.model.protocols import Capability
from harness.runner.costs import ModelInfo, models
from harness.stdio import adapter_specs

APIS = sorted({each.api for each in registry.targets()})


@pytest.mark.parametrize("api", APIS)
def test_every_model_is_one_that_somebody_keeps(api: str) -> None:
    priced = {model.id: model for provider in get_snapshot().providers for model in provider.models}
    shipped = {each.model for each in registry.targets() if each.api == api}
    found = models(api)

    assert len(found) > 10
    assert [each.id for each in found] == sorted({each.id for each in found})
    assert shipped <= {each.id for each in found} <= priced.keys() | shipped
    assert all(each.profile == registry.api(api).profile_for(each.id).name for each in found)


@pytest.mark.parametrize("api", APIS)
def test_the_shipped_targets_are_named_with_their_model(api: str) -> None:
    named = {target: each.id for each in models(api) for target in each.targets}
    assert named == {each.name: each.model for each in registry.targets() if each.api == api}


def test_vision_and_thinking_are_claimed_only_where_a_source_says_so() -> None:
    def info(api: str, model: str) -> ModelInfo:
        return next(each for each in models(api) if each.id == model)

    noon = datetime.now(UTC)
    prices = {
        each.id: each.get_prices(noon) for each in get_snapshot().find_provider("gemini-3-flash", None, None).models
    }
    found = models("gemini")
    assert {each.id for each in found if each.vision} == {
        each.id for each in found if each.id in prices and prices[each.id].input_image_mtok is not None
    }
    assert any(each.vision for each in found)

    opus, flash = info("anthropic", "claude-opus-5-5"), info("gemini", "gemini-2.5-flash-lite")
    assert (opus.vision, opus.thinking) == (None, True)  # the profile says how its reasoning is asked for
    assert (flash.thinking, flash.context) == (True, 1_000_000)
    for api, model in (
        ("openai-chat", "gpt-4-32k"),
        ("gemini", "gemini-2.5-flash-tts"),
        ("gemini", "gemini-2.0-flash"),
    ):
        assert (info(api, model).vision, info(api, model).thinking) in {(None, None), (None, False)}
    assert Capability.THINKING not in adapter_specs.adapter("openai-chat").capabilities
    assert info("openai-chat", registry.target("openai-chat").model).thinking is False
    assert {(each.vision, each.thinking) for each in models("claude-cli")} == {(False, False)}


def test_an_unknown_api_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"unknown API 'openai'\. Did you mean 'openai-chat'"):
        models("openai")
