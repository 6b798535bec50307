"""A check: which cells of a run it plays, and what it says beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checking.capabilities import Play, broken, undeclared
from harness.checking.sample import first_target, not_played, sampled
from harness.results import Checked, RunResult
from harness.running.stages import Cell


@dataclass(frozen=True, slots=True)
class Check:
    """What is asked: `everything` of the suite rather than a sample; whether its targets are `named`."""

    everything: bool = False
    named: bool = False

    def chosen(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Those of the cells that are played. Half of the suite at most is for what owns its loop, which plays all of
        that, but for what has to be asked for."""
        of_targets = cells if self.everything or self.named else first_target(cells)
        if self.everything:
            return of_targets
        if any(cell.target.adapter.drive is not None for cell in of_targets):
            return [cell for cell in of_targets if not cell.scenario.provocations]
        return sampled(of_targets)

    def said(self, every: Sequence[Cell], played: Sequence[Cell], result: RunResult, play: Play) -> Checked:
        """What is said beside the result of the cells that were `played` of `every` one. `play` plays what is tried."""
        scenarios = list({cell.scenario.id: cell.scenario for cell in every}.values())
        targets = {cell.target.name: cell.target for cell in played}.values()
        return Checked(
            tuple(tried for target in targets for tried in undeclared(scenarios, target, play)),
            broken(played, result.cells),
            not_played(every, played),
        )
