"""A run's cells, findings and differences, put together by what they have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from harness.reports._words import count, label
from harness.results import Blame, CellResult, Difference, Finding, Kind, RunResult, Severity, Verdict

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_NAMED = 12
"""As many scenarios are named in a command line; beyond that it takes the selection of the run."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the matrix: for each target, how many cells ended in each verdict."""

    name: str
    cells: dict[str, Counter[Verdict]]


@dataclass(frozen=True, slots=True)
class Hits:
    """All findings of one rule that blame the same, with their cells."""

    rule: str
    kind: Kind
    severity: Severity
    blame: Blame
    source: str
    hits: tuple[tuple[CellResult, Finding], ...]

    @property
    def cells(self) -> list[CellResult]:
        """The cells in which the rule found something, each once."""
        return list({(cell.scenario, cell.target, cell.variant): cell for cell, _ in self.hits}.values())


@dataclass(frozen=True, slots=True)
class Missing:
    """Scenarios that are missing for the same targets, and the two ways to look at them."""

    targets: tuple[str, ...]
    reason: str
    scenarios: tuple[str, ...]
    record: str
    reference: str


def targets(run: RunResult) -> list[str]:
    """The columns of the run, in their order."""
    return list(dict.fromkeys(cell.target for cell in run.cells))


def matrix(run: RunResult, *, by_scenario: bool) -> list[Row]:
    """A row for each scenario, or for each main subject of scenarios."""
    grouped = _grouped(run.cells, lambda cell: label(cell) if by_scenario else (cell.covers or ("other",))[0])
    columns = targets(run)
    return [
        Row(name, {target: Counter(cell.verdict for cell in cells if cell.target == target) for target in columns})
        for name, cells in sorted(grouped, key=lambda group: group[0])
    ]


def findings(run: RunResult, severity: Severity, *, expected: bool = False) -> list[Hits]:
    """The findings of one severity by rule, those of the most cells first; `expected`: of expected failures."""
    hits = (
        (cell, finding)
        for cell in run.cells
        if (cell.verdict is Verdict.EXPECTED_FAILURE) is expected
        for finding in cell.findings
        if finding.severity is severity
    )
    groups = [
        Hits(*key, tuple(members))
        for key, members in _grouped(hits, lambda hit: (hit[1].rule, hit[1].kind, hit[1].severity, hit[1].blame))
        for key in [(*key, members[0][1].source)]
    ]
    return sorted(groups, key=lambda group: -len(group.cells))


def broken(run: RunResult) -> list[tuple[str, list[CellResult]]]:
    """Cells that ended in an error by its text, unless a finding tells of it."""
    cells = (
        cell
        for cell in run.cells
        if cell.verdict is Verdict.ERROR and all(finding.severity is not Severity.ERROR for finding in cell.findings)
    )
    return list(_grouped(cells, lambda cell: cell.reason or ""))


def not_applicable(run: RunResult) -> list[tuple[str, str, list[str]]]:
    """Target, reason and scenarios of the cells that are not applicable."""
    cells = (cell for cell in run.cells if cell.verdict is Verdict.NOT_APPLICABLE)
    groups = _grouped(cells, lambda cell: (cell.target, cell.reason or ""))
    return [(target, reason, [label(cell) for cell in members]) for (target, reason), members in groups]


def expected_failures(run: RunResult) -> list[tuple[str, list[CellResult]]]:
    """The expected failures by the reason that is given for them."""
    cells = (cell for cell in run.cells if cell.verdict is Verdict.EXPECTED_FAILURE)
    return list(_grouped(cells, lambda cell: cell.reason or ""))


def missing(run: RunResult) -> list[Missing]:
    """The cells at which nobody could look: targets that miss the same scenarios together."""
    cells = (cell for cell in run.cells if cell.verdict is Verdict.MISSING)
    by_target = _grouped(cells, lambda cell: cell.target)
    # Words that select one column may unselect another, so a column with words of its own has commands of its own.
    alone = run.invocation.targets
    alike = _grouped(
        by_target, lambda group: (group[0] if group[0] in alone else "", tuple(label(cell) for cell in group[1]))
    )
    return [_missing(run, [target for target, _ in members], members[0][1]) for _, members in alike]


def _missing(run: RunResult, targets: list[str], cells: list[CellResult]) -> Missing:
    names = list(dict.fromkeys(cell.scenario for cell in cells))
    chosen, call = names if len(names) <= _NAMED else None, run.invocation
    return Missing(
        tuple(targets),
        cells[0].reason or "there is no cassette",
        tuple(label(cell) for cell in cells),
        call.command(call.record, targets, chosen),
        call.command(call.reference, targets, chosen),
    )


def rerun(run: RunResult, cell: CellResult) -> str:
    """The command line that plays one cell again."""
    return run.invocation.command(run.invocation.rerun, [cell.target], [cell.scenario])


def unrecorded(run: RunResult) -> list[tuple[str, list[CellResult]]]:
    """The cells that were played to be recorded and were not, by the reason."""
    known = (Verdict.MISSING, Verdict.NOT_APPLICABLE, Verdict.EXPECTED_FAILURE)
    cells = (cell for cell in run.cells if run.mode == "record" and cell.reason and cell.verdict not in known)
    return list(_grouped(cells, lambda cell: cell.reason or ""))


def provenance(run: RunResult) -> list[str]:
    """Where the answers came from, in sentences."""
    without = [id(cell) for _, cells in unrecorded(run) for cell in cells]
    played = [cell for cell in run.cells if cell.provenance is not None and id(cell) not in without]
    lines: list[str] = []
    origins = _grouped(played, lambda cell: cell.provenance.origin if cell.provenance else "")
    for origin, members in origins:
        if origin == "reference":
            how = "Played against" if run.mode == "reference" else "Recorded from"
            source = "the reference server, not from a provider" if how == "Recorded from" else _REFERENCE
            lines.append(f"{how} {source}: {_by_target(members)}.")
        else:
            how = "Answered by" if run.mode == "live" else "Recorded from"
            lines.append(f"{how} the provider: {_by_target(members)}.")
    return lines


_REFERENCE = "the reference server that comes with harness, not against a provider"


def _by_target(cells: list[CellResult]) -> str:
    texts: list[str] = []
    for target, members in _grouped(cells, lambda cell: cell.target):
        known = [cell.provenance for cell in members if cell.provenance is not None]
        details = sorted({each.model_served or each.model_requested or "" for each in known} - {""})
        dates = sorted({each.recorded_at[:10] for each in known if each.recorded_at})
        if dates:
            details.append(dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}")
        texts.append(f"{target} ({', '.join(details)})" if details else target)
    return f"{count(len(cells), 'cell')} of {', '.join(texts)}"


def by_value(row: Difference) -> list[tuple[str, str]]:
    """The values of a difference, each with the targets that have it: rare ones first, the widespread one with
    "others"; `gemini-*` stands for all targets whose names begin so."""
    groups = [(value, [name for name, _ in members]) for value, members in _grouped(row.values.items(), _second)]
    groups.sort(key=lambda group: len(group[1]))
    sizes = [len(names) for _, names in groups]
    others = len(sizes) > 1 and sizes[-1] > 1 and sizes[-1] > sizes[-2]
    last = len(groups) - 1
    return [
        (value, "others" if others and index == last else ", ".join(_starred(names, list(row.values))))
        for index, (value, names) in enumerate(groups)
    ]


def _starred(names: list[str], known: list[str]) -> Iterator[str]:
    for family, members in _grouped(names, lambda name: name.partition("-")[0]):
        every = [name for name in known if name.partition("-")[0] == family]
        yield from [f"{family}-*"] if len(members) > 1 and members == every else members


def differing(run: RunResult, *, everything: bool) -> Iterator[tuple[str, list[Difference]]]:
    """The rows that differ, or all of them, by subject."""
    yield from _grouped((row for row in run.differences if everything or row.differs), lambda row: row.subject)


def _second(item: tuple[str, str]) -> str:
    return item[1]


def _grouped(items: Iterable[V], key: Callable[[V], K]) -> Iterable[tuple[K, list[V]]]:
    groups: dict[K, list[V]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups.items()
