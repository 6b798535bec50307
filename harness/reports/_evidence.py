"""What a run proves, by what evidence, and until when: for what is put up in public and looked at long afterwards."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from harness.reports._words import count
from harness.results import CellResult, Presentation, RunResult, Verdict

DAYS = 90
"""How long evidence counts: what a provider takes and refuses changes by the month."""

GOOD = frozenset({Verdict.PASS, Verdict.NOTE, Verdict.WARN})
UNASKED = frozenset({Verdict.NOT_APPLICABLE, Verdict.INCONCLUSIVE})


@dataclass(frozen=True, slots=True)
class Evidence:
    """`run` is an id of what came out: of the same result it is the same. `sources` says whose answers they were,
    `is_real` that providers gave all of them. `day` is that of the oldest evidence: the run itself, or what was
    recorded from a provider; `until` the last day on which it counts. A run that does not say when it was has neither.
    """

    run: str
    harness: str
    sources: str
    is_real: bool
    day: dt.date | None
    until: dt.date | None

    @property
    def told(self) -> str:
        """Which run it is, in a sentence."""
        return f"Run {self.run} of {self.day or 'an unknown day'}, {self.harness}."

    def expired(self, today: dt.date | None) -> bool:
        """Whether it does not count any more: evidence without a day never did."""
        return self.until is None or (today is not None and today > self.until)


def evidence(run: RunResult) -> Evidence:
    """The evidence that a run is."""
    played = [cell for cell in run.cells if cell.provenance is not None]
    days = [_day(run.played_at), *(_day(at) for at in map(_recorded, played) if at)]
    known = [day for day in days if day is not None]
    day = min(known) if _day(run.played_at) is not None else None
    return Evidence(
        _identity(run),
        next((f"harness {number}" for name, number in run.versions.items() if name.endswith("harness")), "harness"),
        sources(run, played),
        bool(played) and all(cell.provenance is not None and cell.provenance.origin == "provider" for cell in played),
        day,
        day and day + dt.timedelta(days=DAYS),
    )


def today(run: RunResult, presentation: Presentation) -> dt.date | None:
    """The day on which a report is made, or that of the run."""
    return presentation.today or _day(run.played_at)


def sources(run: RunResult, cells: Iterable[CellResult]) -> str:
    """Whose answers they were: `reference server only`, `recorded from the provider 2026-10-02 to 2026-11-20`."""
    told: dict[str, list[CellResult]] = {}
    for cell in cells:
        if cell.provenance is not None:
            told.setdefault(cell.provenance.origin, []).append(cell)
    if not told:
        return "nothing was played"
    if len(told) == 1:
        ((origin, members),) = told.items()
        return "reference server only" if origin == "reference" else _source(run, origin, members)
    parts = ((count(len(members), "cell"), _source(run, origin, members)) for origin, members in told.items())
    return ", ".join(" ".join(part) for part in parts)


def _source(run: RunResult, origin: str, cells: list[CellResult]) -> str:
    whose = {"reference": "the reference server", "provider": "the provider"}.get(origin, "another server")
    if run.mode == "live" or origin == "reference":
        return f"{'answered by' if run.mode != 'replay' else 'recorded from'} {whose}"
    days = sorted({at[:10] for at in map(_recorded, cells) if at})
    span = "" if not days else f" {days[0]}" if days[0] == days[-1] else f" {days[0]} to {days[-1]}"
    return f"recorded from {whose}{span}"


def _recorded(cell: CellResult) -> str | None:
    """When a provider's answers were recorded; what the reference server says has no age of its own."""
    made = cell.provenance
    return made.recorded_at if made is not None and made.origin != "reference" else None


def _day(at: str | None) -> dt.date | None:
    try:
        return dt.date.fromisoformat(at[:10]) if at else None
    except ValueError:
        return None


def _identity(run: RunResult) -> str:
    said = hashlib.sha256()
    for cell in run.cells:
        rules = ",".join(sorted(f"{each.rule}:{each.severity}:{each.accepted is not None}" for each in cell.findings))
        line = f"{cell.scenario}\0{cell.target}\0{cell.adapter}\0{cell.variant}\0{cell.verdict}\0{rules}\n"
        said.update(line.encode("utf-8", "backslashreplace"))
    for name, each in sorted(run.definitions.items()):
        said.update(f"{name}\0{each.digest}\n".encode("utf-8", "backslashreplace"))
    return said.hexdigest()[:12]
