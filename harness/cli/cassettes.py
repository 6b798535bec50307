"""`harness list cassettes`: what lies in the project's folder of cassettes, and whether it is still of use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from harness.cli.options import Options
from harness.cli.selection import scenarios_of, select
from harness.cli.settings import completed
from harness.contract.errors import UsageError
from harness.host.environment import hidden_variables
from harness.running.plan import CELL_SECONDS
from harness.running.recorder import CassetteState, Inventory, StoredCassette
from harness.stdio.workers import WorkerPool
from harness.tape.library import Library

HEADS = ("CASSETTE", "STATE", "ORIGIN", "MODEL", "RECORDED", "WHY")


def kept(options: Options) -> list[StoredCassette]:
    """The cassettes of the project, or of the folder that is named, held against what the project plays.

    Raises:
        UsageError: there is no such folder, or as for a run.
    """
    options = completed(options, "replay")
    folder = Path(options.cassettes or options.folder)
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder of cassettes. 'harness record' makes it.")
    with hidden_variables(), WorkerPool(CELL_SECONDS, offline=True) as workers:
        cells = select(options, workers).cells
    scenarios = scenarios_of(options.paths)[0]
    return list(Inventory(cells, scenarios, options.outdated).of(Library(folder)))


def rows(cassettes: Sequence[StoredCassette]) -> list[tuple[str, ...]]:
    """A row for each cassette, those first that have to be looked at."""
    order = [*(state for state in CassetteState if state is not CassetteState.FRESH), CassetteState.FRESH]
    return [_row(each) for each in sorted(cassettes, key=lambda each: order.index(each.state))]


def _row(kept: StoredCassette) -> tuple[str, ...]:
    known = kept.metadata
    about = ("-",) * 3 if known is None else (known.origin, known.model_requested, (known.recorded_at or "-")[:10])
    return str(kept.path), kept.state.value, *about, kept.why or "-"


def summary(cassettes: Sequence[StoredCassette]) -> str:
    """How many there are in each state, and what can be done."""
    counted = Counter(each.state for each in cassettes)
    told = ", ".join(f"{counted[state]} {state}" for state in CassetteState if counted[state]) or "none"
    again = any(counted[state] for state in (CassetteState.STALE, CassetteState.OLD))
    return f"{told}{'. What is stale or old is recorded again by: harness record --stale' if again else ''}"
