"""What to do about a finding is said per rule, in the words of the API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.fact import Fact
from harness.apis.limits import remedy
from harness.apis.registry import known_limits
from harness.reports.words import what_to_do
from harness.results import Blame, Severity
from harness.rules.rule import Rule, RuleViolation, all_rules

RULES = {rule.id: rule for rule in all_rules()}


def without_remedy(rules: Iterable[Rule]) -> list[str]:
    """The rules that can fail an adapter and do not say what to do, to the adapter of any API."""
    judging = [rule for rule in rules if rule.blame is Blame.ADAPTER]
    filled = [(rule.id, api.terms.fill(rule.remedy)) for rule in judging for api in registry.apis()]
    return sorted({name for name, text in filled if not is_remedy(text)})


def is_remedy(text: str) -> bool:
    """Whether a text can stand behind `What to do:`, where a full stop is put after it."""
    return bool(text) and (text[0].islower() or text[0] in "`'") and not text.endswith(".")


def test_every_rule_that_can_fail_an_adapter_says_what_to_do() -> None:
    assert without_remedy(RULES.values()) == []


def test_a_rule_without_a_remedy_is_found() -> None:
    silent = replace(RULES["result-swapped"], id="silent", remedy="")
    others = replace(silent, blame=Blame.PROVIDER)

    assert without_remedy([RULES["result-swapped"], silent, others]) == ["silent"]


def test_every_limit_says_what_to_do() -> None:
    assert [limit.id for limit in known_limits() if not is_remedy(limit.remedy)] == []


def test_every_refused_fact_with_conditions_says_what_to_do() -> None:
    facts = [fact for api in registry.apis() for fact in api.facts.all() if fact.when]

    assert facts
    assert [fact.id for fact in facts if not is_remedy(remedy(fact))] == []


@pytest.mark.parametrize(
    ("api", "field"),
    [
        ("anthropic", "the field `system`"),
        ("openai-chat", "a first message with the role `system` or `developer`"),
        ("openai-responses", "the field `instructions`"),
        ("gemini", "the field `systemInstruction`"),
    ],
)
def test_a_remedy_names_the_field_of_its_api(api: str, field: str) -> None:
    found = RULES["system-missing"].finding(RuleViolation("it is not there"), registry.api(api).terms)

    assert what_to_do(found) == f"Put the system prompt into {field}, in every request."


def test_what_somebody_else_has_to_mend_has_no_remedy_of_the_rules() -> None:
    terms = registry.api("anthropic").terms
    provider = RULES["chat-failure"].finding(RuleViolation("no answer", blame=Blame.PROVIDER, remedy="raise it"), terms)
    own = RULES["chat-failure"].finding(RuleViolation("no answer", remedy="raise it"), terms)
    note = replace(RULES["setting-uninvited"].finding(RuleViolation("one too many"), terms), severity=Severity.NOTE)

    assert (provider.remedy, own.remedy) == ("", "raise it")
    assert what_to_do(provider).startswith("The server's answer differs")
    assert what_to_do(own) == "Raise it."
    assert what_to_do(note).startswith("Nothing: ")


@pytest.mark.parametrize(
    ("condition", "reported"),
    [
        ({"at": "top_p", "there": True}, "leave out `top_p`"),
        ({"at": "store", "there": False}, "send `store`"),
        ({"at": "tools", "longer": 0}, "leave out `tools`"),
        ({"at": "tools", "longer": 128}, "keep `tools` to a length of `128`"),
        ({"at": "temperature", "over": 2.0}, "send at most `2` for `temperature`"),
        ({"at": "effort", "out": ["low", "high"]}, "send `effort` as `low` or `high`, or leave it out"),
        ({"at": "messages[].role", "is": "system"}, "send `messages[].role` other than `system`"),
        ({"at": "tools", "is": []}, "send `tools` other than `[]`, or leave it out"),
        ({"at": "name", "is": ""}, 'send `name` other than `""`'),
        ({"schema": "tools", "keyword": "$ref", "there": True}, "leave out `$ref` in the schemas of tools"),
        ({"header": "anthropic-beta", "is": "x"}, "send the header `anthropic-beta` other than `x`, or leave it out"),
    ],
)
def test_the_remedy_of_a_fact_is_what_no_longer_meets_its_first_condition(
    condition: dict[str, Any], reported: str
) -> None:
    evidence = [{"kind": "captured", "date": "2026-11-01", "address": "https://example.com"}]
    fact = Fact.model_validate(
        {"id": "an-example", "verdict": "refused", "says": "No.", "evidence": evidence, "when": [condition]}
    )

    assert remedy(fact) == reported
