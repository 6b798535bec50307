"""What the tables of all APIs hold together."""

from __future__ import annotations

from harness import catalog
from harness.apis.endpoint import PATH_UNKNOWN
from harness.apis.limit import Limit, Severity, lesser


def known_limits() -> tuple[Limit, ...]:
    """Everything that a request can violate."""
    return (PATH_UNKNOWN, *(limit for api in catalog.apis() for limit in api.table))


def severity(limit: Limit) -> Severity:
    """How bad it is to break a limit, by the facts of any day that it rests on; one that rests on none says itself."""
    facts = [fact for api in catalog.apis() for fact in api.facts.named(limit.facts)]
    return lesser(limit.severity, facts) if facts else limit.severity
