"""Every refused fact with conditions is proved by a pair made from them: what breaks it is refused, its twin is not.

The reference server answers both as the provider or the server would, and an audit judges both at that address.
"""

from __future__ import annotations

import pytest

from harness.contract.http import HttpRequest
from harness.reference.session import Session
from harness.scenarios import suite
from harness.scenarios.load import load_file
from tests.limits.pairs import SIDES, Pair, pairs, refused

WITHOUT = {
    "openai-chat-cerebras-additional-properties-required",
    "openai-chat-deepseek-root-type-required",
    "openai-chat-deepseek-strict-additional-properties",
    "openai-chat-groq-required-without-properties",
    "openai-chat-moonshot-root-type-required",
    "openai-chat-pattern-not-a-regex",
    "openai-responses-pattern-not-a-regex",
    "openai-responses-stored-item-missing-store-false",
}
"""Facts for which no pair is made: of what a schema lacks, of odd patterns, of what excludes itself."""

HIDDEN = {"anthropic-cache-ttl-order-system-messages-refused"}
"""Facts whose pair is refused for its shape before anybody comes to them."""

SAID_AS_WELL = {
    "anthropic-adaptive-thinking-refused-4-5": "anthropic-thinking-unsupported",
    "anthropic-bedrock-beta-flags-opus-4-7": "anthropic-extra-input",
    "anthropic-bedrock-body-betas-refused-may-2026": "anthropic-extra-input",
    "anthropic-bedrock-mcp-servers-beta-refused": "anthropic-extra-input",
    "anthropic-context-management-refused-bedrock": "anthropic-extra-input",
    "anthropic-context-management-refused-without-beta": "anthropic-extra-input",
    "anthropic-enabled-thinking-refused-probed": "anthropic-thinking-unsupported",
    "anthropic-instructions-field-refused-vertex": "anthropic-extra-input",
    "anthropic-opus-5-disabled-up-to-high": "anthropic-disabled-thinking-xhigh-refused-opus-5",
    "anthropic-tool-use-text-key-refused": "anthropic-extra-input",
    "anthropic-system-role-refused-opus-4-7": "anthropic-system-role",
    "gemini-budget-and-level-together-refused": "gemini-thinking",
    "gemini-empty-part-refused": "gemini-part-data",
    "gemini-empty-type-refused": "gemini-schema-type",
    "gemini-parameters-examples-refused": "gemini-unknown-field",
    "gemini-response-schema-defs-refused": "gemini-unknown-field",
    "gemini-response-schema-ref-refused": "gemini-unknown-field",
    "gemini-response-schema-schema-keyword-refused": "gemini-unknown-field",
    "gemini-type-list-refused": "gemini-field-type",
    "gemini-vertex-parameters-not-object-refused": "gemini-schema-type",
    "openai-chat-copilot-tool-name-empty": "openai-chat-tool-name",
    "openai-chat-gpt-5-6-max-completion-tokens-zero": "openai-chat-parameter-range",
    "openai-chat-gpt-6-astra-max-tokens-refused": "openai-chat-max-tokens",
    "openai-chat-gpt-6-tools-responses-only": "openai-chat-tools-unsupported",
    "openai-chat-kimi-k3-1-pro-effort-off": "openai-chat-kimi-coding-effort-none",
    "openai-chat-kimi-k3-1-pro-temperature": "openai-chat-moonshot-temperature-fixed-thinking-absent",
    "openai-chat-llama-cpp-escape-class-pattern": "openai-chat-llama-cpp-unanchored-pattern",
    "openai-chat-llama-cpp-lookaround-pattern": "openai-chat-llama-cpp-unanchored-pattern",
    "openai-chat-max-tokens-refused-dated": "openai-chat-max-tokens",
    "openai-chat-mistral-tool-after-user": "openai-chat-result-orphan",
    "openai-chat-moonshot-k3-no-thinking-object": "openai-chat-moonshot-k3-thinking-type-invalid",
    "openai-chat-xai-grok-4-6-stop-refused": "openai-chat-xai-stop-refused",
    "openai-responses-codex-messages-refused": "openai-responses-parameter-unknown",
    "openai-responses-codex-stream-options-refused": "openai-responses-stream-options",
    "openai-responses-messages-refused": "openai-responses-parameter-unknown",
}
"""What another limit, or another fact, refuses just as well: the same thing at the same place."""

BESIDE = {
    "anthropic-fable-5-no-forced-choice": "anthropic-field-missing",
    "anthropic-tool-use-input-array-refused": "anthropic-extra-input",
    "anthropic-tool-use-input-string-refused": "anthropic-extra-input",
    "anthropic-thinking-signature-missing-refused": "anthropic-extra-input",
    "gemini-cached-content-with-tool-config-refused": "gemini-function-calling-config-without-declarations-refused",
    "gemini-function-response-parts-refused-2-5": "gemini-field-type",
    "gemini-vertex-ids-unknown": "gemini-part-data",
    "openai-responses-item-reference-store-false": "openai-responses-item-type",
}
"""Pairs that break something else too, which a probe cannot tell apart: their conditions name no whole block, of which
one could be made, or what they ask for is refused in any company."""


SCENARIO = load_file(suite.shipped("scenarios") / "system-absent.yaml")


def test_every_refused_fact_with_conditions_has_a_pair_but_those_that_say_why_not() -> None:
    assert {fact.id for _, fact in refused()} - pairs().keys() == WITHOUT


@pytest.mark.parametrize("fact", pairs())
def test_what_breaks_a_fact_is_refused_by_the_reference_server_and_its_twin_is_taken(fact: str) -> None:
    made = pairs()[fact]
    if made.fact.is_certain:
        assert _status(made, made.broken) >= 400
    assert _status(made, made.twin) == 200


def _status(made: Pair, request: HttpRequest) -> int:
    return Session(SCENARIO, made.api, "", made.law.profile, made.law)(request).status


@pytest.mark.parametrize("fact", pairs())
def test_a_pair_breaks_one_thing_and_its_twin_nothing(fact: str) -> None:
    made = pairs()[fact]
    broken, twin = (made.api.judge(made.side(side), made.law) for side in SIDES)

    new = {each.rule for each in broken} - {each.rule for each in twin}
    assert new or fact in HIDDEN
    assert fact not in {each.rule for each in twin}
    assert [each for each in twin if each.severity == "error"] == []
    others = {each.rule for each in broken if each.severity == "error" and fact not in each.source.split(", ")}
    known = SAID_AS_WELL.get(fact, BESIDE.get(fact))
    assert others == ({known} if known else set())
