"""The table of all facts: what one cell shows of them, all cells of a target, and the targets beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.results import Difference
from harness.rules.evidence import Evidence
from harness.running.differences import answers, calls, json_mode, prompts, tools
from harness.running.differences.fact import Fact

NOT_OBSERVED = "not observed"

FACTS: tuple[Fact, ...] = (*calls.FACTS, *prompts.FACTS, *json_mode.FACTS, *tools.FACTS, *answers.FACTS)

Observations = Mapping[str, frozenset[str]]
"""Name of a fact → the values that a cell shows; of facts of which it shows none there is nothing."""


def observe(evidence: Evidence) -> Observations:
    """What one cell shows of the facts."""
    shown = ((fact.name, frozenset(fact.observe(evidence))) for fact in FACTS)
    return {name: values for name, values in shown if values}


class Observed:
    """What all cells of a target show of each fact."""

    def __init__(self, cells: Iterable[Observations] = ()) -> None:
        self._values: dict[str, set[str]] = {fact.name: set() for fact in FACTS}
        for each in cells:
            self.see(each)

    def see(self, cell: Mapping[str, Iterable[str]]) -> None:
        """One more cell shows this."""
        for name, values in cell.items():
            self._values[name].update(values)

    def __getitem__(self, fact: str) -> list[str]:
        """The values of a fact, in order."""
        return sorted(self._values[fact])

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values of each fact that is seen, in order."""
        return {fact: tuple(sorted(values)) for fact, values in self._values.items() if values}


def tables(observed: Mapping[str, Observed]) -> tuple[Difference, ...]:
    """A row for each fact; `observed` holds what the cells of each target show."""
    rows: list[Difference] = []
    for fact in FACTS:
        values = {target: " · ".join(seen[fact.name]) or NOT_OBSERVED for target, seen in observed.items()}
        known = {value for value in values.values() if value != NOT_OBSERVED}
        rows.append(Difference(fact.subject.value, fact.name, values, differs=len(known) > 1))
    return tuple(rows)
