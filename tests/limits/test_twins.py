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
    "openai-chat-deepseek-strict-additional-properties",
    "openai-chat-moonshot-root-type-required",
    "openai-chat-pattern-not-a-regex",
    "openai-responses-pattern-not-a-regex",
    "openai-responses-stored-item-missing-store-false",
}
"""Facts for which no pair is made: of what a schema lacks, of odd patterns, of what excludes itself."""

HIDDEN = {"anthropic-cache-ttl-order-system-messages-refused"}
"""Facts whose pair is refused for its shape before anybody comes to them."""


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
