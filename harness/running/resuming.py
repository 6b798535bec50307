"""Going on with a live run that was stopped: what its cells came to is kept, and only the others are played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.contract.errors import UsageError
from harness.results import CellResult, RunResult, Verdict
from harness.results.part import Values
from harness.running.cells import scenarios_of
from harness.running.definitions import beginning
from harness.running.stages import Cell
from harness.running.versions import versions

_AGAIN = frozenset({Verdict.MISSING, Verdict.ERROR, Verdict.NOT_APPLICABLE})
"""What was not finished, or costs nothing to be said again."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What an earlier run came to: results by the number of the cell in this one, and what was observed."""

    cells: dict[int, CellResult] = field(default_factory=dict[int, CellResult])
    observed: Values = field(default_factory=dict[str, dict[str, tuple[str, ...]]])


def kept(run: RunResult, name: str, cells: Sequence[Cell]) -> Kept:
    """The cells that an earlier run, of the file `name`, has finished as they would be played now: with the same
    scenario and model.

    Raises:
        UsageError: it was no live run, says too little, or is of other versions.
    """
    if run.mode != "live" or run.part is None:
        what = f"it is a run in mode {run.mode}" if run.mode != "live" else "it had not begun to play"
        raise UsageError(f"--resume {name}: there is nothing to go on with: {what}.")
    there, here = run.versions, versions()
    other = next((each for each in here if there.get(each) != here[each]), None)
    if other is not None:
        raise UsageError(
            f"--resume {name}: that run was made with {other} {there.get(other, '(missing)')}, and here is "
            f"{here[other]}. Results are of one version of each: play with that one, or from the beginning."
        )
    done = {cell.key: cell for cell in run.cells if cell.verdict not in _AGAIN}
    digests = {each.id: beginning(each) for each in scenarios_of(cells)}
    found: dict[int, CellResult] = {}
    for number, cell in enumerate(cells):
        result = done.get((cell.scenario.id, cell.target.name, cell.variant))
        same = run.part.scenarios.get(cell.scenario.id) == digests[cell.scenario.id]
        if result is not None and same and _model(result) in (None, cell.target.model):
            found[number] = result
    return Kept(found, run.part.observed)


def _model(result: CellResult) -> str | None:
    return result.provenance.model_requested if result.provenance else None
