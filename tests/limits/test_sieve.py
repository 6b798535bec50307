"""The sieve of conditions lets nothing through that is met: a docket finds what asking each fact by itself finds."""

from __future__ import annotations

import pytest

from harness import catalog
from harness.apis.conditions import Asked
from harness.apis.facts import Docket
from harness.apis.jsonvalue import loads
from tests.limits.pairs import pairs


@pytest.mark.parametrize("name", [api.name for api in catalog.apis()])
def test_a_docket_finds_what_each_fact_finds_by_itself(name: str) -> None:
    api = catalog.api(name)
    facts = [fact for fact in api.facts.all() if fact.when]
    docket = Docket(facts, api.schema_places)
    found = 0
    for pair in (each for each in pairs().values() if each.api is api):
        for request in (pair.broken, pair.twin):
            asked = Asked(loads(request.body), request.headers, api.schema_places)
            met = [fact.id for fact in facts if fact.conditions.met(asked) is not None]
            assert [each.rule for each in docket.broken(request)] == met, (pair.fact.id, request.body)
            found += len(met)
    assert found or not facts
