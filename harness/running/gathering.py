"""What is left of cells when they are done: their results, and of the rest what the end of a run needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.results import CellResult, Mode, RunResult, Verdict
from harness.results.part import Values
from harness.rules.scope import EVERYTHING, Scope
from harness.running.costs import price_version
from harness.running.differences import Observed, tables
from harness.running.expected_failures import Expectations, ExpectedFailure
from harness.running.judging import Judged
from harness.running.versions import versions


class Gathering:
    """Takes the `number` cells of a run as they are done, in any order. `targets` are the names of their targets. Of
    what is `expected` only findings in `scope` count."""

    def __init__(
        self, number: int, targets: Iterable[str], expected: Sequence[ExpectedFailure], scope: Scope = EVERYTHING
    ) -> None:
        self._results: list[CellResult | None] = [None] * number
        self._observed = {target: Observed() for target in targets}
        self._expectations = Expectations(expected, scope)

    def add(self, number: int, judged: Judged) -> None:
        """The cell with this number is done. Its evidence is not kept."""
        result = judged.result
        self._results[number] = result
        self._expectations.see(result, played=is_judged(result))
        if judged.observations is not None:
            self._observed[result.target].see(judged.observations)

    def keep(self, cells: Mapping[int, CellResult], observed: Values) -> None:
        """Cells that were played in an earlier run, by their numbers in this one, and what was observed there."""
        for number, result in cells.items():
            self.add(number, Judged(result))
        for target, values in observed.items():
            if target in self._observed:
                self._observed[target].see(values)

    @property
    def cells(self) -> tuple[CellResult, ...]:
        """The results of the cells that are done, in the order of the run."""
        return tuple(result for result in self._results if result is not None)

    @property
    def observed(self) -> Values:
        """What the cells have shown on the wire until now."""
        return {target: seen.values for target, seen in self._observed.items()}

    def result(self, mode: Mode) -> RunResult:
        """The run of these cells."""
        return RunResult(
            mode,
            self.cells,
            tables(self._observed),
            self._expectations.stale,
            versions() | price_version(),
            unmatched=self._expectations.unmatched,
        )


def is_judged(cell: CellResult) -> bool:
    """Whether all that is wrong with a cell has been looked for."""
    if cell.verdict is Verdict.ERROR:
        return bool(cell.findings)  # else it broke before a rule saw anything
    return cell.verdict not in (Verdict.NOT_APPLICABLE, Verdict.MISSING)
