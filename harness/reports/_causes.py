"""The causes of a run: findings of one rule and case, at one place of one API's requests or answers, without those that
follow from others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

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
    `followers` counts what follows from it, by rule. `remedy` says what to do about it, where its rule does.
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
    remedy: str = ""

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


_Key: TypeAlias = tuple[str, Kind, Severity, Blame, str | None, str, str]
"""What findings of one cause have in common: the last two are the API and the place."""


@dataclass(frozen=True, slots=True)
class _Hit:
    """A finding of a cell and the rules of its followers. `is_alone`: the cell has findings of no other cause."""

    cell: CellResult
    finding: Finding
    followers: tuple[str, ...]
    is_alone: bool


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
    hits: dict[_Key, list[_Hit]] = {}
    for cell in run.cells:
        keys = {
            index: _key(cell, finding)
            for index, finding in enumerate(cell.findings)
            if finding.severity is severity and finding.accepted is None and finding.follows is None
        }
        is_alone = len(set(keys.values())) == 1  # causes that are shown as one are of several APIs, and so of cells
        for index, key in keys.items():
            hits.setdefault(key, []).append(
                _Hit(cell, cell.findings[index], _followers(cell.findings, index), is_alone)
            )
    made = [_cause(run, at, members) for at, members in _together(list(hits.items()))]
    return sorted(made, key=lambda cause: (-cause.alone, -cause.cells))


def _key(cell: CellResult, finding: Finding) -> _Key:
    what = finding.rule, finding.kind, finding.severity, finding.blame, finding.raised or finding.case
    return *what, cell.api, spot(finding)


def _followers(findings: Sequence[Finding], index: int) -> tuple[str, ...]:
    """The rules of what follows from a finding, but for the same that is sent again."""
    rule = findings[index].rule
    return tuple(each.rule for each in findings if each.follows == index and each.rule != rule)


_At: TypeAlias = tuple[tuple[str, str], ...]
"""APIs, each with a place in its bodies."""


def _together(parts: Sequence[tuple[_Key, list[_Hit]]]) -> Iterator[tuple[_At, list[_Hit]]]:
    """Causes of which only the API differs as one."""
    for _, alike in grouped(parts, lambda part: (part[0][:5], part[1][0].finding.source, _common(part[1][0]))):
        at = tuple((api, place) for (*_, api, place), _ in alike)
        if len({api for api, _ in at}) == len(at):
            yield at, [hit for _, hits in alike for hit in hits]
        else:
            yield from (((each,), hits) for each, (_, hits) in zip(at, alike, strict=True))


def _common(hit: _Hit) -> str:
    """What a cause says, whichever call and value it is about: where only the API differs it is shown once."""
    finding = hit.finding
    text = _NAMED.sub("", finding.message)
    return text if finding.kind is not Kind.LIMIT else f"{hit.cell.api} {spot(finding)} {text}"


def _cause(run: RunResult, at: _At, hits: Sequence[_Hit]) -> Cause:
    first = hits[0].finding
    return Cause(
        first.rule,
        first.kind,
        first.severity,
        first.blame,
        first.source,
        at,
        places_of(
            run,
            ((own[0].cell, tuple(hit.finding for hit in own)) for own in _by_cell(hits)),
            both=" [whole and stream]",
        ),
        sum(own[0].is_alone for own in _by_cell(hits)),
        tuple(Counter(rule for hit in hits for rule in hit.followers).most_common()),
        _remedy(hits),
    )


def _remedy(hits: Sequence[_Hit]) -> str:
    """The remedy, once for each API that has other words for it."""
    by_api = {hit.cell.api: hit.finding.remedy for hit in reversed(hits) if hit.finding.remedy}
    if len({*by_api.values()}) == 1:
        return next(iter(by_api.values()))
    return "; ".join(f"{api}: {remedy}" for api, remedy in sorted(by_api.items()))


def _by_cell(hits: Iterable[_Hit]) -> Iterator[list[_Hit]]:
    """The hits of each cell: they follow each other, since a cause has no more than one place of a cell's API."""
    return ([*members] for _, members in groupby(hits, lambda hit: id(hit.cell)))
