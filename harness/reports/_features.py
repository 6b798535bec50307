"""What scenarios are about and need, by target: how many of the cells of each feature are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.reports._evidence import GOOD
from harness.reports._groups import targets
from harness.results import CellResult, RunResult, Verdict

_FAILED = frozenset({Verdict.FAIL, Verdict.ERROR})


@dataclass(frozen=True, slots=True)
class Tally:
    """The cells of a feature with a target, by how they ended."""

    good: int = 0
    failed: int = 0
    expected: int = 0
    missing: int = 0
    inconclusive: int = 0
    not_applicable: int = 0

    @property
    def asked(self) -> int:
        """The cells that were to prove something."""
        return self.good + self.failed + self.expected + self.missing + self.inconclusive

    @property
    def word(self) -> str:
        """`pass`, or the worst of what else there is; `not asked` where there is no cell."""
        return next((word for word, number in self._words if number), "not asked")

    @property
    def told(self) -> str:
        """The word, and how many cells it is of: `pass 37`, `fail 3 of 37`."""
        number = dict(self._words)[self.word] if self.asked else 0
        if not number:
            return self.word
        return f"{self.word} {number}" if number == self.asked else f"{self.word} {number} of {self.asked}"

    @property
    def _words(self) -> tuple[tuple[str, int], ...]:
        """The worst first."""
        return (
            ("fail", self.failed),
            ("missing", self.missing),
            ("expected failure", self.expected),
            ("pass", self.good),
            ("inconclusive", self.inconclusive),
            ("not applicable", self.not_applicable),
        )


@dataclass(frozen=True, slots=True)
class Feature:
    """A row: its kind, its name, and what came of it with each target."""

    kind: str
    name: str
    tallies: dict[str, Tally]


def features(run: RunResult) -> list[Feature]:
    """All that the scenarios of a run are about, need, or provoke. A cell counts for each feature that it has."""
    found: dict[tuple[str, str], list[CellResult]] = {}
    for cell in run.cells:
        for key in _of(run, cell):
            found.setdefault(key, []).append(cell)
    columns, order = targets(run), ("subject", "capability", "provocation")
    return [
        Feature(kind, name, {target: _tally([cell for cell in cells if cell.target == target]) for target in columns})
        for (kind, name), cells in sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    ]


def _of(run: RunResult, cell: CellResult) -> Iterator[tuple[str, str]]:
    yield from (("subject", name) for name in cell.covers)
    definition = run.definitions.get(cell.scenario)
    if definition is not None:
        yield from (("capability", name) for name in definition.requires)
        yield from (("provocation", name) for name in definition.provocations)


def _tally(cells: Sequence[CellResult]) -> Tally:
    counted = Counter(cell.verdict for cell in cells)
    return Tally(
        sum(counted[each] for each in GOOD),
        sum(counted[each] for each in _FAILED),
        counted[Verdict.EXPECTED_FAILURE],
        counted[Verdict.MISSING],
        counted[Verdict.INCONCLUSIVE],
        counted[Verdict.NOT_APPLICABLE],
    )
