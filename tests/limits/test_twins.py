"""Every refused fact with conditions is proved by a pair made from them: what breaks it is refused, its twin is not.

The reference server answers both as the provider or the server would, and an audit judges both at that address.
"""

from __future__ import annotations

import datetime as dt
import re

import pytest

from harness import catalog
from harness.apis.api import Api
from harness.apis.fact import Fact
from harness.apis.facts import Edition
from harness.apis.law import OWN, Law
from harness.contract.http import HttpRequest
from harness.reference.session import Session
from harness.running.probing.question import paired
from harness.scenarios import suite
from harness.scenarios.load import load_file

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
    "anthropic-system-role-refused-opus-4-7": "anthropic-system-role",
    "gemini-budget-and-level-together-refused": "gemini-thinking",
    "gemini-empty-part-refused": "gemini-part-data",
    "gemini-empty-type-refused": "gemini-schema-type",
    "gemini-parameters-examples-refused": "gemini-unknown-field",
    "gemini-response-schema-defs-refused": "gemini-unknown-field",
    "gemini-response-schema-ref-refused": "gemini-unknown-field",
    "gemini-response-schema-schema-keyword-refused": "gemini-unknown-field",
    "gemini-role-function-refused-3-6": "gemini-role",
    "gemini-type-list-refused": "gemini-field-type",
    "gemini-vertex-parameters-not-object-refused": "gemini-schema-type",
    "openai-chat-copilot-tool-name-empty": "openai-chat-tool-name",
    "openai-chat-gpt-6-astra-max-tokens-refused": "openai-chat-max-tokens",
    "openai-chat-gpt-6-luna-tools-effort-none-only": "openai-chat-tools-with-reasoning",
    "openai-chat-gpt-6-tools-responses-only": "openai-chat-tools-unsupported",
    "openai-chat-kimi-k3-1-pro-effort-off": "openai-chat-kimi-coding-effort-none",
    "openai-chat-kimi-k3-1-pro-temperature": "openai-chat-moonshot-temperature-fixed-thinking-absent",
    "openai-chat-llama-cpp-escape-class-pattern": "openai-chat-llama-cpp-unanchored-pattern",
    "openai-chat-llama-cpp-lookaround-pattern": "openai-chat-llama-cpp-unanchored-pattern",
    "openai-chat-max-tokens-refused-dated": "openai-chat-max-tokens",
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


REFUSED = [(api, fact) for api in catalog.apis() for fact in api.facts.all() if fact.verdict == "refused" and fact.when]
SCENARIO = load_file(suite.shipped("scenarios") / "system-absent.yaml")


def model_of(fact: Fact) -> str:
    """A model that the fact is about."""
    pattern = (fact.models or ["a-model"])[0]
    plain = re.sub(r"\[!?([^\]])[^\]]*\]", r"\1", pattern).replace("*", "").replace("?", "x")
    assert fact.is_of(plain), f"{fact.id}: {plain}"
    return plain


def law_of(api: Api, fact: Fact) -> Law:
    profile = api.profile_for(model_of(fact), Edition(fact.until or fact.since or dt.date(2026, 11, 22)))
    return api.services.law_of(profile, (fact.service or [OWN])[0])


def pair(api: Api, fact: Fact) -> tuple[HttpRequest, HttpRequest] | None:
    """What a probe sends."""
    made = paired(api, fact, model_of(fact), f"https://example.com{api.base_path}", law_of(api, fact))
    return made and (made.meant, made.twin)


def told(api: Api, request: HttpRequest, law: Law) -> dict[str, str]:
    """The limits that are told of a request, with their severity."""
    return {each.rule: each.severity for each in api.judge(request, law)}


@pytest.mark.parametrize(
    ("api", "fact"), REFUSED, ids=lambda value: value.id if isinstance(value, Fact) else value.name
)
def test_what_breaks_a_fact_is_told_so_and_its_twin_is_not(api: Api, fact: Fact) -> None:
    made, law = pair(api, fact), law_of(api, fact)
    assert (made is None) is (fact.id in WITHOUT)
    if made is None or fact.id in HIDDEN:
        return
    broken, twin = (told(api, each, law) for each in made)
    new = {rule: severity for rule, severity in broken.items() if rule not in twin}
    assert new, f"{broken} {made[0].body}"
    assert fact.id not in twin
    if fact.is_certain:
        assert "error" in new.values()
        refusal = Session(SCENARIO, api, "", law.profile, law)(made[0])
        assert refusal.status >= 400


@pytest.mark.parametrize(
    ("api", "fact"), REFUSED, ids=lambda value: value.id if isinstance(value, Fact) else value.name
)
def test_a_pair_breaks_one_thing_and_its_twin_nothing(api: Api, fact: Fact) -> None:
    if fact.id in WITHOUT:
        return
    made, law = pair(api, fact), law_of(api, fact)
    assert made is not None
    broken, twin = ([each for each in api.judge(one, law) if each.severity == "error"] for one in made)
    assert twin == []
    others = {each.rule for each in broken if fact.id not in each.source.split(", ")}
    known = SAID_AS_WELL.get(fact.id, BESIDE.get(fact.id))
    assert others == ({known} if known else set())
