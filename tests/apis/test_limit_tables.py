from __future__ import annotations

import importlib.util
import re

from harness.apis import registry
from harness.apis.limits import Limit
from harness.apis.registry import known_limits, severity


def test_every_limit_has_an_id_of_its_own_and_says_what_holds_and_where_from() -> None:
    assert len({limit.id for limit in known_limits()}) == len(known_limits())
    for limit in known_limits():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", limit.id)
        assert limit.sentence.endswith((".", "-"))
        assert limit.source
        assert limit.severity in ("error", "warning")


def test_a_limit_is_an_error_only_where_somebody_was_seen_to_be_refused() -> None:
    """What the evidence says already, a table does not say again."""
    facts = {fact.id: fact for api in registry.apis() for fact in api.facts.all()}
    for limit in known_limits():
        certain = any(facts[each].verdict == "refused" and facts[each].is_certain for each in limit.facts)
        assert severity(limit) == (limit.severity if certain else "warning")
        assert certain or limit.severity == "error", f"{limit.id}: leave the severity away"


def test_a_limit_of_the_facts_has_conditions_or_a_check_that_exists() -> None:
    for entry in (entry for api in registry.apis() for _, entry in api.facts.limits.values()):
        assert entry.breaches or entry.check, entry.id
        assert entry.check is None or importlib.util.find_spec(f"harness.apis.{entry.check}"), entry.id


def test_a_violation_is_its_limit_s_unless_the_check_knows_better() -> None:
    limit = Limit("a-b", "It holds.", "anthropic-required-fields")
    plain = limit.broken("No.", "/a")
    known = limit.broken("No.", "/a", severity="warning", source="anthropic-tool-name-pattern", status=413)
    assert (plain.rule, plain.severity, plain.source, plain.status) == (
        "a-b",
        "error",
        "anthropic-required-fields",
        400,
    )
    assert (known.rule, known.severity, known.source, known.status) == (
        "a-b",
        "warning",
        "anthropic-tool-name-pattern",
        413,
    )
