"""Prompts and their answers; `test_factories` has it over each shipped adapter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.kit.client import ChatGeneration
from harness.model.errors import RateLimited
from harness.model.messages import ChatRequest, Message, Usage
from harness.model.protocols import Generation
from tests.kit.test_thread import Model, says


def test_each_prompt_is_a_request_of_its_own() -> None:
    model = Model([replace(says("Ahoy: 18 °C"), usage=Usage(9, 5)), says("Again"), says("And again")])
    provider = ChatGeneration(model, model="m", system="Be brief.")
    assert provider.generate("What is it like?", max_tokens=300) == Generation("Ahoy: 18 °C", 9, 5)
    assert provider.generate("And?") == Generation("Again", None, None)
    provider.generate("And?", model="m-mini")
    assert model.requests == [
        ChatRequest("m", (Message.user("What is it like?"),), system="Be brief.", max_tokens=300),
        ChatRequest("m", (Message.user("And?"),), system="Be brief."),
        ChatRequest("m-mini", (Message.user("And?"),), system="Be brief."),
    ]


def test_a_failure_is_the_canonical_error() -> None:
    with pytest.raises(RateLimited):
        ChatGeneration(Model([RateLimited(429, "slow down")])).generate("What is it like?")
