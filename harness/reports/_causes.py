"""The causes of a run: findings of one rule, at one place of one API's requests or answers, without those that follow
from others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.reports._groups import Place, cells_of, grouped, places_of
from harness.reports._words import count, listed
from harness.results import Blame, CellResult, Finding, Kind, RunResult, Severity

_FREE = frozenset(
    {"parameters", "parametersJsonSchema", "input_schema", "schema", "responseJsonSchema", "args", "input"}
)
"""Below these stand names of the scenario's, or values: what differs there is no other place."""

_NAMED = re.compile(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\b\w*\d\w*\b")
"""What of a message is about one call, one value or one request."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong, wherever it shows.

    `at` says for each API at which place of its bodies, without indices; `alone` in how many cells nothing else fails.
    `followers` counts what follows from it, by rule.
    """

    rule: str
    kind: Kind
    severity: Severity
    blame: Blame
    source: str
    at: tuple[tuple[str, str], ...]
    places: tuple[Place, ...]
    alone: int
    followers: tuple[tuple[str, int], ...] = ()

    @property
    def cells(self) -> int:
        """In how many cells it shows."""
        return cells_of(self.places)

    @property
    def extent(self) -> str:
        """`5 cells, 3 of them only for this`."""
        if self.severity is not Severity.ERROR:
            return count(self.cells, "cell")
        if self.cells == self.alone:
            return f"{count(self.cells, 'cell')}, only for this"
        return f"{count(self.cells, 'cell')}, {self.alone or 'none'} of them only for this"

    @property
    def following(self) -> str:
        """`and 3 that follow from it: exchange-unplayed (2), chat-refused`, or nothing."""
        if not self.followers:
            return ""
        total = sum(number for _, number in self.followers)
        names = [f"{rule} ({number})" if number > 1 else rule for rule, number in self.followers]
        return f"and {total} that {'follow' if total > 1 else 'follows'} from it: {listed(names, 5)}"


@dataclass(frozen=True, slots=True)
class _Hit:
    cell: CellResult
    finding: Finding

    @property
    def key(self) -> tuple[str, Kind, Severity, Blame, str | None, str, str]:
        finding = self.finding
        what = finding.rule, finding.kind, finding.severity, finding.blame, finding.raised
        return *what, self.cell.api, spot(finding)


def spot(finding: Finding) -> str:
    """Where a finding points, whichever message or call it is: `/messages/*/content/*/id`. Empty where it is about a
    whole body, or about none."""
    steps: list[str] = []
    for step in (finding.pointer or "").split("/")[1:]:
        steps.append("*" if step.isdigit() else step)
        if len(steps) > 1 and step in _FREE:
            break
    return "".join(f"/{step}" for step in steps)


def causes(run: RunResult, severity: Severity) -> list[Cause]:
    """The causes of one severity, those that nobody expects: first those for which alone the most cells fail, then the
    most widespread."""
    hits = [
        _Hit(cell, finding)
        for cell in run.cells
        for finding in cell.findings
        if finding.severity is severity and finding.accepted is None and finding.follows is None
    ]
    found = list(_together([members for _, members in grouped(hits, lambda hit: hit.key)]))
    in_cell = Counter(cell for members in found for cell in {id(hit.cell) for hit in members})
    made = [_cause(run, members, in_cell) for members in found]
    return sorted(made, key=lambda cause: (-cause.alone, -cause.cells))


def _together(parts: Sequence[list[_Hit]]) -> Iterator[list[_Hit]]:
    """Causes of which only the API differs as one."""
    for _, alike in grouped(parts, lambda hits: (hits[0].key[:5], hits[0].finding.source, _common(hits))):
        apis = [hits[0].cell.api for hits in alike]
        if len(set(apis)) == len(apis):
            yield [hit for hits in alike for hit in hits]
        else:
            yield from alike


def _common(hits: Sequence[_Hit]) -> str:
    """What a cause says, whichever call and value it is about: where only the API differs it is shown once."""
    first = hits[0]
    text = _NAMED.sub("", first.finding.message)
    return text if first.finding.kind is not Kind.LIMIT else f"{first.cell.api} {spot(first.finding)} {text}"


def _cause(run: RunResult, hits: Sequence[_Hit], in_cell: Counter[int]) -> Cause:
    """`in_cell` counts the causes of each cell."""
    first = hits[0].finding
    by_cell = [(hit[0].cell, tuple(each.finding for each in hit)) for _, hit in grouped(hits, lambda hit: id(hit.cell))]
    return Cause(
        first.rule,
        first.kind,
        first.severity,
        first.blame,
        first.source,
        tuple(dict.fromkeys((hit.cell.api, spot(hit.finding)) for hit in hits)),
        places_of(run, by_cell, both=" [whole and stream]"),
        sum(in_cell[id(cell)] == 1 for cell, _ in by_cell),
        tuple(Counter(each.rule for each in _followers(hits)).most_common()),
    )


def _followers(hits: Sequence[_Hit]) -> Iterator[Finding]:
    """What follows from the findings, but for the same that is sent again."""
    for hit in hits:
        for other in hit.cell.findings:
            cause = None if other.follows is None else hit.cell.findings[other.follows]
            if cause is hit.finding and other.rule != hit.finding.rule:
                yield other
