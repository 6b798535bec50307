"""What findings can be called: whoever names one that there cannot be has misspelt it."""

from __future__ import annotations

from harness import catalog
from harness.apis.endpoint import PATH_UNKNOWN
from harness.apis.facts import SHIPPED, Edition
from harness.running.judging import CASSETTE_UNREADABLE, TOOL_UNANSWERED


def findable(edition: Edition = SHIPPED) -> frozenset[str]:
    """The ids of all findings that a run can have: of rules, of limits, and of facts of an edition that have
    conditions. Raises `FactsError`."""
    rules = catalog.rules()
    return frozenset(
        (
            CASSETTE_UNREADABLE,
            TOOL_UNANSWERED,
            PATH_UNKNOWN.id,
            *(rule.id for rule in rules),
            *(each for rule in rules for each in rule.also),
            *(each for api in catalog.apis() for each in api.violable(edition)),
        )
    )
