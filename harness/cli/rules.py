"""All that a finding can be called, as `harness list rules` shows it.

What ships is kept beside this module in `rules.json`, which `python -m harness.cli.rules` writes: to ask the rules
themselves is to import everything that judges, and to read all that is known of providers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.apis.fact import Fact

HEADS = ("RULE", "KIND", "SEVERITY", "BLAME", "SOURCE", "EVIDENCE", "REQUIREMENT", "BECAUSE")

FILE = "rules.json"

_OTHERS = ("harness.apis", "harness.rules")
"""The groups of entry points by which other packages bring some of their own."""


def rows() -> Iterable[Sequence[str]]:
    """The row of each. Raises `PluginError`: what another package brings is no rule, or no API."""
    if any(entry_points(group=group) for group in _OTHERS):
        return told()
    return json.loads((resources.files("harness.cli") / FILE).read_text(encoding="utf-8"))


def told() -> Iterator[Sequence[str]]:
    """The rows as the rules themselves tell them."""
    from harness import catalog  # noqa: PLC0415 - whoever reads the file imports none of it
    from harness.apis.tables import known_limits, severity  # noqa: PLC0415 - the same
    from harness.checking.gateways.facts import FACTS  # noqa: PLC0415 - the same
    from harness.checking.gateways.judging import OTHERS, SOURCE  # noqa: PLC0415 - the same
    from harness.results import Blame, Kind  # noqa: PLC0415 - the same

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
    from harness.apis.departure import PROMISES  # noqa: PLC0415 - as above
    from harness.checking.servers.checks import CHECKS  # noqa: PLC0415 - the same
    from harness.checking.servers.watching import BECAUSE  # noqa: PLC0415 - the same
    from harness.results import Blame, Kind, Severity  # noqa: PLC0415 - the same

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


def text() -> str:
    """What the file has to hold."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in told())
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    from pathlib import Path

    Path(__file__).with_name(FILE).write_text(text(), encoding="utf-8")
