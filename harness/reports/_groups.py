"""A run's cells, findings and differences, put together by what they have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from harness.reports._words import count, label, listed
from harness.results import CellResult, Difference, Finding, RunResult, Severity, Subject, Variant, Verdict

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_NAMED = 12
"""As many scenarios are named in a command line; beyond that it takes the selection of the run."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the matrix: for each target, the verdicts of its cells, each with how many or which they are."""

    name: str
    verdicts: dict[str, list[tuple[str, Verdict]]]


@dataclass(frozen=True, slots=True)
class Place:
    """A scenario with a target, in the variants in which the same was found.

    `name` says which variant, where it is not to be taken for both. `findings` are those of the first cell.
    `is_paired`: the run has the scenario with the target in both variants.
    """

    name: str
    cells: tuple[CellResult, ...]
    findings: tuple[Finding, ...] = ()
    is_paired: bool = False

    @property
    def target(self) -> str:
        """The target."""
        return self.cells[0].target


@dataclass(frozen=True, slots=True)
class Missing:
    """Scenarios that are missing for the same targets, and the two ways to look at them."""

    targets: tuple[str, ...]
    reason: str
    scenarios: tuple[str, ...]
    cells: tuple[CellResult, ...]
    record: str
    reference: str


def targets(run: RunResult) -> list[str]:
    """The columns of the run, in their order."""
    return list(dict.fromkeys(cell.target for cell in run.cells))


def _column(run: RunResult) -> Callable[[CellResult], str]:
    """Where cells stand in the matrix: below their target, and in a check below their variant."""
    if run.check is None:
        return lambda cell: cell.target
    streamed = "streamed and cut elsewhere" if any(each.recuts for each in run.cells) else "streamed"
    is_one = len(targets(run)) == 1

    def shown(cell: CellResult) -> str:
        variant = "whole" if cell.variant == "whole" else streamed
        return variant if is_one else f"{cell.target} {variant}"

    return shown


def columns(run: RunResult) -> list[str]:
    """The columns of the matrix, in their order."""
    return list(dict.fromkeys(map(_column(run), run.cells)))


def matrix(run: RunResult, *, by_scenario: bool) -> list[Row]:
    """A row for each scenario, or for each main subject of scenarios."""
    by_row = grouped(run.cells, lambda cell: cell.scenario if by_scenario else subject(cell))
    heads, column = columns(run), _column(run)
    tally = _which if by_scenario else _how_many
    return [
        Row(name, {head: tally([cell for cell in cells if column(cell) == head]) for head in heads})
        for name, cells in sorted(by_row, key=lambda group: group[0])
    ]


def subject(cell: CellResult) -> str:
    """What a cell is about: the first subject of its scenario, and streaming only where it is streamed, or not played
    since it would have been. A streamed cell that fails by nothing else is about streaming."""
    failing = [each for each in cell.findings if each.fails and each.follows is None]
    if cell.variant == "stream" and failing and all(each.subject is Subject.STREAMING for each in failing):
        return Subject.STREAMING
    about = [each for each in cell.covers if cell.variant == "stream" or each != Subject.STREAMING]
    return next(iter(about), "other")


def _how_many(cells: list[CellResult]) -> list[tuple[str, Verdict]]:
    counted = Counter(cell.verdict for cell in cells)
    return [(str(counted[verdict]), verdict) for verdict in Verdict if counted[verdict]]


def _which(cells: list[CellResult]) -> list[tuple[str, Verdict]]:
    """A verdict for each variant, or one for both if it is the same."""
    if len({cell.verdict for cell in cells}) == 1:
        return [("", cells[0].verdict)]
    return [(cell.variant, cell.verdict) for cell in cells]


def places_of(
    run: RunResult, found: Iterable[tuple[CellResult, tuple[Finding, ...]]], *, both: str = ""
) -> tuple[Place, ...]:
    """The places of some cells, each with what was found there. `both` is added to a scenario's name if
    the same was found in both of its variants."""
    pairs = paired(run)
    places: list[Place] = []
    for (scenario, target), members in grouped(found, lambda each: (each[0].scenario, each[0].target)):
        first, is_paired = members[0], (scenario, target) in pairs
        if len(members) > 1 and all(each[1] == first[1] for each in members[1:]):
            places.append(Place(scenario + both, tuple(cell for cell, _ in members), first[1], is_paired))
            continue
        for cell, findings in members:
            name = f"{scenario} [{cell.variant}]" if is_paired else label(cell)
            places.append(Place(name, (cell,), findings, is_paired))
    return tuple(places)


def paired(run: RunResult) -> set[tuple[str, str]]:
    """Scenario and target of those cells that are in the run in both variants."""
    first: dict[tuple[str, str], Variant] = {}
    for cell in run.cells:
        first.setdefault((cell.scenario, cell.target), cell.variant)
    return {(cell.scenario, cell.target) for cell in run.cells if first[cell.scenario, cell.target] != cell.variant}


def _by_reason(run: RunResult, cells: Iterable[CellResult]) -> list[tuple[str, tuple[Place, ...]]]:
    return [
        (reason, places_of(run, ((cell, ()) for cell in members)))
        for reason, members in grouped(cells, lambda cell: cell.reason or "")
    ]


def cells_of(places: Iterable[Place]) -> int:
    """How many cells they are."""
    return sum(len(place.cells) for place in places)


def broken(run: RunResult) -> list[tuple[str, tuple[Place, ...]]]:
    """Cells that ended in an error by its text, unless a finding tells of it."""
    cells = (
        cell
        for cell in run.cells
        if cell.verdict is Verdict.ERROR and all(finding.severity is not Severity.ERROR for finding in cell.findings)
    )
    return _by_reason(run, cells)


_LACKS = " does not have: "


def not_applicable(run: RunResult, most: int | None = None) -> list[tuple[str, str, str]]:
    """Targets, which cells of theirs are not applicable, and why.

    The cells are named by their scenarios. Where a target has more than `most` of these, its cells are only counted,
    all together and for each thing that it does not have.
    """
    rows: list[tuple[str, str, str]] = []
    skipped = (replace(cell, reason=_impersonal(cell)) for cell in run.cells if cell.verdict is Verdict.NOT_APPLICABLE)
    for target, cells in grouped(skipped, lambda cell: cell.target):
        named = [(reason, [place.name for place in places]) for reason, places in _by_reason(run, cells)]
        if most is None or sum(len(names) for _, names in named) <= most:
            rows += [(target, ", ".join(names), reason) for reason, names in named]
        else:
            rows += [(target, cells, reason) for cells, reason in _tallied(cells, most)]
    return [
        (", ".join(target for target, _, _ in members), which, reason)
        for (which, reason), members in grouped(rows, lambda row: row[1:])
    ]


def _impersonal(cell: CellResult) -> str:
    """The reason without the name of the adapter, so that it is the same for others."""
    return (cell.reason or "").replace(f"the adapter {cell.adapter!r} ", "the adapter ")


def _tallied(cells: Iterable[CellResult], most: int) -> Iterator[tuple[str, str]]:
    for who, members in grouped(cells, lambda cell: (cell.reason or "").partition(_LACKS)[0]):
        lacking = Counter(name for cell in members for name in (cell.reason or "").partition(_LACKS)[2].split(", "))
        del lacking[""]
        tally = listed([f"{name} ({number})" for name, number in lacking.most_common()], most)
        yield count(len(members), "cell"), f"{who}{_LACKS}{tally}" if tally else who


def inconclusive(run: RunResult) -> list[tuple[str, tuple[Place, ...]]]:
    """The places that could not be judged, by the reason."""
    return _by_reason(run, (cell for cell in run.cells if cell.verdict is Verdict.INCONCLUSIVE))


def expected_failures(run: RunResult) -> list[tuple[str, tuple[Place, ...]]]:
    """The places of expected failures by the reason that is given for them, also where more than that is wrong."""
    listed_in = [
        replace(cell, reason=reason)
        for cell in run.cells
        for reason in dict.fromkeys(finding.accepted for finding in cell.findings)
        if reason is not None
    ]
    return _by_reason(run, listed_in)


def missing(run: RunResult) -> list[Missing]:
    """The cells at which nobody could look: targets that miss the same scenarios, in the same variants, together. What
    an audit misses are files, which no command brings back."""
    if run.audit is not None:
        return []
    places = places_of(run, ((cell, ()) for cell in run.cells if cell.verdict is Verdict.MISSING))
    by_target = grouped(places, lambda place: (place.target, _alone([place])))
    # Words that select one column may unselect another, so a column with words of its own has commands of its own.
    special = run.invocation.targets
    alike = grouped(
        by_target, lambda group: (group[0][0] if group[0][0] in special else "", tuple(each.name for each in group[1]))
    )
    return [_missing(run, [place for _, places in members for place in places]) for _, members in alike]


def _missing(run: RunResult, places: list[Place]) -> Missing:
    cells = tuple(cell for place in places for cell in place.cells)
    targets = tuple(dict.fromkeys(cell.target for cell in cells))
    scenarios = list(dict.fromkeys(cell.scenario for cell in cells))
    chosen, call = scenarios if len(scenarios) <= _NAMED else None, run.invocation
    variant = _variant_option(places)
    return Missing(
        targets,
        cells[0].reason or "there is no cassette",
        tuple(dict.fromkeys(place.name for place in places)),
        cells,
        call.command([*call.record, *variant], targets, chosen),
        call.command([*call.reference, *variant], targets, chosen),
    )


def _alone(places: Sequence[Place]) -> Variant | None:
    """The variant that is meant if only one of the two that the run has of these places is."""
    variants: set[Variant] = {cell.variant for place in places for cell in place.cells}
    return variants.pop() if len(variants) == 1 and any(place.is_paired for place in places) else None


def _variant_option(places: Sequence[Place]) -> Sequence[str]:
    alone = _alone(places)
    return () if alone is None else ("--variant", alone)


def rerun(run: RunResult, place: Place) -> str:
    """The command line that plays a place again."""
    call, cells = run.invocation, place.cells
    recut = call.recut if any(cell.variant == "stream" for cell in cells) else ()
    words = [*call.rerun, *_variant_option([place]), *recut]
    return call.command(words, [place.target], [cells[0].scenario])


def look(run: RunResult, cell: CellResult) -> str:
    """The command line that shows a cell; empty where none does."""
    if not run.invocation.show:
        return ""
    words = [*run.invocation.show, "--variant", cell.variant]
    return run.invocation.command(words, [cell.target], [cell.scenario])


def unrecorded(run: RunResult) -> list[tuple[str, tuple[Place, ...]]]:
    """The cells that were played to be recorded and were not, by the reason."""
    known = (Verdict.MISSING, Verdict.NOT_APPLICABLE, Verdict.EXPECTED_FAILURE)
    cells = (cell for cell in run.cells if run.mode == "record" and cell.reason and cell.verdict not in known)
    return _by_reason(run, cells)


def provenance(run: RunResult) -> list[str]:
    """Where the answers came from, and by whose facts was judged, in sentences."""
    without = {cell.key for _, places in unrecorded(run) for place in places for cell in place.cells}
    played = [cell for cell in run.cells if cell.provenance is not None and cell.key not in without]
    lines: list[str] = []
    origins = grouped(played, lambda cell: cell.provenance and (cell.provenance.origin, cell.provenance.recorded_from))
    for origin, members in origins:
        kind, address = origin or ("", None)
        if kind == "reference":
            how = "Played against" if run.mode in ("reference", "serve") else "Recorded from"
            source = "the reference server, not from a provider" if how == "Recorded from" else _REFERENCE
            lines.append(f"{how} {source}: {_by_target(members)}.")
        else:
            how = "Answered by" if run.mode == "live" else "Recorded from"
            source = "the provider" if kind == "provider" else f"{address}, not {_BY[how]} the provider"
            lines.append(f"{how} {source}: {_by_target(members)}.")
    return [*lines, *facts(run), *scope(run)]


def facts(run: RunResult) -> list[str]:
    """The files of facts that count beside the shipped ones, in a sentence, if there are any."""
    return [f"Judged by the facts of {', '.join(run.facts)}, before the shipped ones."] if run.facts else []


_HIDDEN = 5
"""Rules that are named whose findings do not count."""


def scope(run: RunResult) -> list[str]:
    """Which part of a run this is; which findings count, and how many that hides, if not all do. In sentences."""
    part = run.part
    shard = [f"Shard {part.name}: 'harness merge' makes one run of all shards."] if part and part.of > 1 else []
    if not (run.rules or run.ignored):
        return shard
    only = f"Only findings of {', '.join(run.rules)} count" if run.rules else ""
    ignored = f"ignored: {', '.join(run.ignored)}" if run.ignored else ""
    each = listed([f"{rule} ({number})" for rule, number in run.hidden.items()], _HIDDEN)
    hidden = f"that hides {count(sum(run.hidden.values()), 'finding')}: {each}" if run.hidden else "that hides nothing"
    said = "; ".join(part for part in (only, ignored, hidden) if part)
    return [*shard, f"{said[0].upper()}{said[1:]}."]


_BY = {"Answered by": "by", "Recorded from": "from"}
_REFERENCE = "the reference server that comes with harness, not against a provider"


def _by_target(cells: list[CellResult]) -> str:
    texts: list[str] = []
    for target, members in grouped(cells, lambda cell: cell.target):
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
    groups = [(value, [name for name, _ in members]) for value, members in grouped(row.values.items(), _second)]
    groups.sort(key=lambda group: len(group[1]))
    sizes = [len(names) for _, names in groups]
    others = len(sizes) > 1 and sizes[-1] > 1 and sizes[-1] > sizes[-2]
    last = len(groups) - 1
    return [
        (value, "others" if others and index == last else ", ".join(_starred(names, list(row.values))))
        for index, (value, names) in enumerate(groups)
    ]


def _starred(names: list[str], known: list[str]) -> Iterator[str]:
    for family, members in grouped(names, lambda name: name.partition("-")[0]):
        every = [name for name in known if name.partition("-")[0] == family]
        yield from [f"{family}-*"] if len(members) > 1 and members == every else members


def differing(run: RunResult, *, everything: bool) -> Iterator[tuple[str, list[Difference]]]:
    """The rows that differ, or all of them, by subject."""
    yield from grouped((row for row in run.differences if everything or row.differs), lambda row: row.subject)


def _second(item: tuple[str, str]) -> str:
    return item[1]


def grouped(items: Iterable[V], key: Callable[[V], K]) -> Iterable[tuple[K, list[V]]]:
    groups: dict[K, list[V]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups.items()
