"""All that a finding can be called, as `harness list rules` shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness import catalog
from harness.apis.departure import PROMISES
from harness.apis.fact import Fact
from harness.apis.tables import known_limits, severity
from harness.checking.gateways.judging import FACTS, OTHERS, SOURCE
from harness.checking.servers.checks import CHECKS
from harness.checking.servers.watching import BECAUSE
from harness.results import Blame, Kind, Severity

HEADS = ("RULE", "KIND", "SEVERITY", "BLAME", "SOURCE", "EVIDENCE", "REQUIREMENT", "BECAUSE")


def rows() -> Iterator[Sequence[str]]:
    """The row of each. Raises `PluginError`: what another package brings is no rule, or no API."""
    for rule in catalog.rules():
        yield rule.id, rule.kind, rule.severity, rule.blame, rule.source, "-", rule.requirement, rule.because
    for passing in (*FACTS, *OTHERS):
        what = Kind.LOSS, passing.severity, Blame.GATEWAY, SOURCE
        yield passing.id, *what, "-", passing.requirement, passing.because
    facts = {fact.id: fact for api in catalog.apis() for fact in api.facts.all()}
    why = next(rule.because for rule in catalog.rules() if rule.kind is Kind.LIMIT)
    for limit in known_limits():  # what the rule `limits` reports, each under an id of its own
        known = best(facts[each] for each in limit.facts if each in facts)
        yield limit.id, Kind.LIMIT, severity(limit), Blame.ADAPTER, limit.source, known, limit.sentence, why
    yield from _of_servers()


def _of_servers() -> Iterator[Sequence[str]]:
    """What 'harness check --server' judges by: what it looks at in every answer, and what it asks for."""
    how = Kind.LOSS, Severity.ERROR, Blame.PROVIDER
    for promise in PROMISES.values():
        yield promise.id, *how, promise.source, "-", promise.sentence, BECAUSE
    for check in CHECKS.values():
        yield check.id, *how, check.source, "-", check.promise, check.because


def best(facts: Iterable[Fact]) -> str:
    """The strongest evidence of facts, and of that the newest, with its day and its address."""
    order = ("report", "documents", "probe", "captured")
    pieces = [piece for fact in facts for piece in fact.evidence]
    found = max(pieces, key=lambda piece: (order.index(piece.kind), piece.date), default=None)
    return f"{found.kind} {found.date} {found.address}" if found else "-"
