"""Cells, findings and differences of a run, grouped by common properties, and the commands that repeat them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from harness.reports.words import count, label, list_names
from harness.results import (
    CellResult,
    DetailCounts,
    DetailOutcome,
    Difference,
    Finding,
    Provenance,
    RunResult,
    Severity,
    Subject,
    Variant,
    Verdict,
)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAX_NAMED_SCENARIOS = 12
"""Maximum number of scenarios that a command names. With more, the command repeats the run's selection."""
_MAX_HIDDEN_RULES = 5
_LACKS = " does not have: "
_ABOUT_OTHER_MODELS = "it is only for the profiles "

GATEWAY_HEADING = "What the gateway passed on, by number of cells"


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A row of the matrix of verdicts.

    `verdicts` maps each column to the verdicts of its cells, each with a count or a variant. `total` has the verdicts
    of all cells of the row.
    """

    name: str
    verdicts: dict[str, list[tuple[str, Verdict]]]
    total: list[tuple[str, Verdict]]


@dataclass(frozen=True, slots=True)
class CellPlace:
    """The cells of a scenario and a target that have the same findings: one variant, or both.

    `name` includes the variant of a single streamed cell, or of a place with only one of the run's two variants.
    `findings` are those of the first cell. `is_paired` is set if the run has both variants of the scenario with this
    target.
    """

    name: str
    cells: tuple[CellResult, ...]
    findings: tuple[Finding, ...] = ()
    is_paired: bool = False

    @property
    def target(self) -> str:
        """The target of all cells."""
        return self.cells[0].target


@dataclass(frozen=True, slots=True)
class MissingCells:
    """Scenarios without a cassette for the same targets, with two commands: to record them, and to run them without a
    cassette.
    """

    targets: tuple[str, ...]
    reason: str
    scenarios: tuple[str, ...]
    cells: tuple[CellResult, ...]
    record: str
    reference: str


def targets(run: RunResult) -> list[str]:
    """Return the targets of the run, in the order of their columns."""
    return list(dict.fromkeys(cell.target for cell in run.cells))


def _column(run: RunResult) -> Callable[[CellResult], str]:
    """Return a function that names the column of a cell: its target, or its variant in a check."""
    if run.check is None:
        return lambda cell: cell.target
    streamed = "streamed and rechunked" if any(each.recuts for each in run.cells) else "streamed"
    has_one_target = len(targets(run)) == 1

    def name(cell: CellResult) -> str:
        variant = "whole" if cell.variant == "whole" else streamed
        return variant if has_one_target else f"{cell.target} {variant}"

    return name


def columns(run: RunResult) -> list[str]:
    """Return the columns of the matrix in order."""
    return list(dict.fromkeys(map(_column(run), run.cells)))


def matrix(run: RunResult, *, by_scenario: bool) -> list[MatrixRow]:
    """Return a row for each scenario, or for each feature that the scenarios cover."""
    by_row = group_by(run.cells, lambda cell: cell.scenario if by_scenario else feature(cell))
    heads, column = columns(run), _column(run)
    tally = _verdicts_by_variant if by_scenario else _verdict_counts
    return [
        MatrixRow(name, {head: tally([cell for cell in cells if column(cell) == head]) for head in heads}, tally(cells))
        for name, cells in sorted(by_row, key=lambda group: group[0])
    ]


def feature(cell: CellResult) -> str:
    """Return the feature that a cell counts for: the first one that its scenario covers.

    A cell counts for streaming instead if it is streamed and fails only because of streaming.
    """
    failing = [each for each in cell.findings if each.fails and each.follows is None]
    if cell.variant == "stream" and failing and all(each.subject is Subject.STREAMING for each in failing):
        return Subject.STREAMING
    about = [each for each in cell.covers if cell.variant == "stream" or each != Subject.STREAMING]
    return next(iter(about), "other")


def _verdict_counts(cells: list[CellResult]) -> list[tuple[str, Verdict]]:
    counted = Counter(cell.verdict for cell in cells)
    return [(str(counted[verdict]), verdict) for verdict in Verdict if counted[verdict]]


def _verdicts_by_variant(cells: list[CellResult]) -> list[tuple[str, Verdict]]:
    if len({cell.verdict for cell in cells}) == 1:
        return [("", cells[0].verdict)]
    return [(cell.variant, cell.verdict) for cell in cells]


def places_of(
    run: RunResult,
    found: Iterable[tuple[CellResult, tuple[Finding, ...]]],
    *,
    both: str = "",
    pairs: set[tuple[str, str]] | None = None,
) -> tuple[CellPlace, ...]:
    """Group cells with findings into `CellPlace` entries. If both variants have the same findings, they share one
    entry, and `both` is appended to its name.

    `pairs` is the result of `paired_cells(run)`, if the caller has it already.
    """
    pairs = paired_cells(run) if pairs is None else pairs
    places: list[CellPlace] = []
    for (scenario, target), members in group_by(found, lambda each: (each[0].scenario, each[0].target)):
        first, is_paired = members[0], (scenario, target) in pairs
        if len(members) > 1 and all(each[1] == first[1] for each in members[1:]):
            places.append(CellPlace(scenario + both, tuple(cell for cell, _ in members), first[1], is_paired))
            continue
        for cell, findings in members:
            name = f"{scenario} [{cell.variant}]" if is_paired else label(cell)
            places.append(CellPlace(name, (cell,), findings, is_paired))
    return tuple(places)


def paired_cells(run: RunResult) -> set[tuple[str, str]]:
    """Return the pairs of scenario and target that the run has in both variants."""
    first: dict[tuple[str, str], Variant] = {}
    for cell in run.cells:
        first.setdefault((cell.scenario, cell.target), cell.variant)
    return {(cell.scenario, cell.target) for cell in run.cells if first[cell.scenario, cell.target] != cell.variant}


def _by_reason(run: RunResult, cells: Iterable[CellResult]) -> list[tuple[str, tuple[CellPlace, ...]]]:
    pairs = paired_cells(run)
    return [
        (reason, places_of(run, ((cell, ()) for cell in members), pairs=pairs))
        for reason, members in group_by(cells, lambda cell: cell.reason or "")
    ]


def count_cells(places: Iterable[CellPlace]) -> int:
    """Count the different cells of the given places."""
    return len({id(cell) for place in places for cell in place.cells})


def broken_cells(run: RunResult) -> list[tuple[str, tuple[CellPlace, ...]]]:
    """Return the cells that ended with an exception and have no finding of severity error, grouped by the exception's
    text.
    """
    cells = (
        cell
        for cell in run.cells
        if cell.verdict is Verdict.ERROR and all(finding.severity is not Severity.ERROR for finding in cell.findings)
    )
    return _by_reason(run, cells)


def not_applicable(run: RunResult, max_cells: int | None = None) -> list[tuple[str, str, str]]:
    """Return the cells that are not applicable, as tuples of targets, cells and reason.

    Cells are named by their scenarios. If a target has more than `max_cells` such cells, they are counted instead, in
    total and for each missing capability.
    """
    rows: list[tuple[str, str, str]] = []
    skipped = (
        replace(cell, reason=_general_reason(cell, brief=max_cells is not None))
        for cell in run.cells
        if cell.verdict is Verdict.NOT_APPLICABLE
    )
    for target, cells in group_by(skipped, lambda cell: cell.target):
        named = [(reason, [place.name for place in places]) for reason, places in _by_reason(run, cells)]
        if max_cells is None or sum(len(names) for _, names in named) <= max_cells:
            rows += [(target, ", ".join(names), reason) for reason, names in named]
        else:
            rows += [(target, number, reason) for number, reason in _tally(cells, max_cells)]
    return [
        (", ".join(target for target, _, _ in members), which, reason)
        for (which, reason), members in group_by(rows, lambda row: row[1:])
    ]


def _general_reason(cell: CellResult, *, brief: bool) -> str:
    """Return the reason without the adapter's name, so that adapters share it. If `brief`, omit profiles too."""
    reason = (cell.reason or "").replace(f"the adapter {cell.adapter!r} ", "the adapter ")
    return "the scenario is about other models" if brief and reason.startswith(_ABOUT_OTHER_MODELS) else reason


def _tally(cells: Iterable[CellResult], max_cells: int) -> Iterator[tuple[str, str]]:
    for who, members in group_by(cells, lambda cell: (cell.reason or "").partition(_LACKS)[0]):
        lacking = Counter(name for cell in members for name in (cell.reason or "").partition(_LACKS)[2].split(", "))
        del lacking[""]
        tally = list_names([f"{name} ({number})" for name, number in lacking.most_common()], max_cells)
        yield count(len(members), "cell"), f"{who}{_LACKS}{tally}" if tally else who


def inconclusive(run: RunResult) -> list[tuple[str, tuple[CellPlace, ...]]]:
    """Return the inconclusive cells by reason."""
    return _by_reason(run, (cell for cell in run.cells if cell.verdict is Verdict.INCONCLUSIVE))


def expected_failures(run: RunResult) -> list[tuple[str, tuple[CellPlace, ...]]]:
    """Return the expected failures, grouped by the given reason. Cells that also fail for other
    reasons are included.
    """
    expected = [
        replace(cell, reason=reason)
        for cell in run.cells
        for reason in dict.fromkeys(finding.accepted for finding in cell.findings)
        if reason is not None
    ]
    return _by_reason(run, expected)


def missing(run: RunResult) -> list[MissingCells]:
    """Return the cells without a cassette. Targets that lack the same scenarios in the same variants form one group.

    For an audit, the list is empty, because no command can restore missing files.
    """
    if run.audit is not None:
        return []
    places = places_of(run, ((cell, ()) for cell in run.cells if cell.verdict is Verdict.MISSING))
    by_target = group_by(places, lambda place: (place.target, _only_variant([place])))
    # Words that select one column may unselect another, so a column with words of its own has commands of its own.
    special = run.invocation.targets
    alike = group_by(
        by_target, lambda group: (group[0][0] if group[0][0] in special else "", tuple(each.name for each in group[1]))
    )
    return [_missing_cells(run, [place for _, places in members for place in places]) for _, members in alike]


def _missing_cells(run: RunResult, places: list[CellPlace]) -> MissingCells:
    cells = tuple(cell for place in places for cell in place.cells)
    names = tuple(dict.fromkeys(cell.target for cell in cells))
    scenarios = list(dict.fromkeys(cell.scenario for cell in cells))
    chosen, call = scenarios if len(scenarios) <= _MAX_NAMED_SCENARIOS else None, run.invocation
    variant = _variant_option(places)
    return MissingCells(
        names,
        cells[0].reason or "there is no cassette",
        tuple(dict.fromkeys(place.name for place in places)),
        cells,
        call.command([*call.record, *variant], names, chosen),
        call.command([*call.reference, *variant], names, chosen),
    )


def _only_variant(places: Sequence[CellPlace]) -> Variant | None:
    variants: set[Variant] = {cell.variant for place in places for cell in place.cells}
    return variants.pop() if len(variants) == 1 and any(place.is_paired for place in places) else None


def _variant_option(places: Sequence[CellPlace]) -> Sequence[str]:
    variant = _only_variant(places)
    return () if variant is None else ("--variant", variant)


def rerun_command(run: RunResult, place: CellPlace) -> str:
    """Return the command that reruns the cells of a place."""
    call, cells = run.invocation, place.cells
    recut = call.recut if any(cell.variant == "stream" for cell in cells) else ()
    words = [*call.rerun, *_variant_option([place]), *recut]
    return call.command(words, [place.target], [cells[0].scenario])


def show_command(run: RunResult, cell: CellResult) -> str:
    """Return the command that shows a cell, or an empty string if no command does."""
    if not run.invocation.show:
        return ""
    words = [*run.invocation.show, "--variant", cell.variant]
    return run.invocation.command(words, [cell.target], [cell.scenario])


def reproduce_command(run: RunResult, place: CellPlace) -> str:
    """Return the `harness reproduce` command for the first failing finding of a place, or an empty string if there is
    none.
    """
    call, cell, finding = run.invocation, place.cells[0], next((each for each in place.findings if each.fails), None)
    is_own = "--adapter" in call.targets.get(cell.target, ())
    if not call.show or run.mode != "reference" or not is_own or finding is None:
        return ""
    words = ["harness", "reproduce", "--variant", cell.variant, "--rule", finding.rule]
    return call.command(words, [cell.target], [cell.scenario])


def unrecorded_cells(run: RunResult) -> list[tuple[str, tuple[CellPlace, ...]]]:
    """Return the cells that could not be recorded, by reason."""
    known = (Verdict.MISSING, Verdict.NOT_APPLICABLE, Verdict.EXPECTED_FAILURE)
    cells = (cell for cell in run.cells if run.mode == "record" and cell.reason and cell.verdict not in known)
    return _by_reason(run, cells)


def provenance(run: RunResult, *, by_target: bool = True) -> list[str]:
    """Return sentences about the origin of the answers, and about facts and rules that differ from the default.

    If `by_target` is set, targets and models are named even if all answers came from the reference server.
    """
    without = {cell.key for _, places in unrecorded_cells(run) for place in places for cell in place.cells}
    played = [cell for cell in run.cells if cell.provenance is not None and cell.key not in without]
    origins = group_by(played, lambda cell: cell.provenance and (cell.provenance.origin, cell.provenance.recorded_from))
    how = "Answered by" if run.mode == "live" else "Recorded from"
    lines: list[str] = []
    for origin, members in origins:
        kind, address = origin or ("", None)
        if kind != "reference":
            source = "the provider" if kind == "provider" else f"{address}, not {how.split()[1]} the provider"
            lines.append(f"{how} {source}: {_with_targets(members)}.")
        elif len(members) == len(played):
            lines.append("All answers are harness's own; no provider was asked.")
            lines += [f"Answers of the reference server: {_with_targets(members)}."] if by_target else []
        else:
            lines.append(f"Answered by harness's reference server, not by a provider: {_with_targets(members)}.")
    return [*lines, *facts(run), *scope(run)]


def facts(run: RunResult) -> list[str]:
    """Return a sentence that names the user's own files of facts, if there are any."""
    return [f"Judged by the facts in {', '.join(run.facts)}, then by the shipped facts."] if run.facts else []


def scope(run: RunResult) -> list[str]:
    """Return sentences to print if the run is one of several shards, or if only some rules count."""
    part = run.part
    shard = [f"Shard {part.name}: 'harness merge' joins all shards to one run."] if part and part.of > 1 else []
    if not (run.rules or run.ignored):
        return shard
    only = f"Only findings of {', '.join(run.rules)} count" if run.rules else ""
    ignored = f"ignored: {', '.join(run.ignored)}" if run.ignored else ""
    each = list_names([f"{rule} ({number})" for rule, number in run.hidden.items()], _MAX_HIDDEN_RULES)
    hidden = f"that hides {count(sum(run.hidden.values()), 'finding')}: {each}" if run.hidden else "that hides nothing"
    text = "; ".join(part for part in (only, ignored, hidden) if part)
    return [*shard, f"{text[0].upper()}{text[1:]}."]


def model_of(provenance: Provenance) -> str:
    """Return the model that answered.

    The reference server invents the names of some served models, so the requested model is returned for it.
    """
    served = provenance.model_served if provenance.origin != "reference" else None
    return served or provenance.model_requested or ""


def _with_targets(cells: list[CellResult]) -> str:
    texts: list[str] = []
    for target, members in group_by(cells, lambda cell: cell.target):
        known = [cell.provenance for cell in members if cell.provenance is not None]
        details = sorted({model_of(each) for each in known} - {""})
        dates = sorted({each.recorded_at[:10] for each in known if each.recorded_at})
        if dates:
            details.append(dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}")
        texts.append(f"{target} ({', '.join(details)})" if details else target)
    return f"{count(len(cells), 'cell')} of {', '.join(texts)}"


def by_value(row: Difference) -> list[tuple[str, str]]:
    """Return the values of a difference with the targets that have them.

    Rare values come first, and the most common one is listed with "others". `gemini-*` means all targets whose names
    begin with `gemini-`.
    """
    groups = [(value, [name for name, _ in members]) for value, members in group_by(row.values.items(), lambda x: x[1])]
    groups.sort(key=lambda group: len(group[1]))
    sizes = [len(names) for _, names in groups]
    others = len(sizes) > 1 and sizes[-1] > 1 and sizes[-1] > sizes[-2]
    last = len(groups) - 1
    return [
        (value, "others" if others and index == last else ", ".join(_with_wildcards(names, list(row.values))))
        for index, (value, names) in enumerate(groups)
    ]


def _with_wildcards(names: list[str], known: list[str]) -> Iterator[str]:
    for family, members in group_by(names, lambda name: name.partition("-")[0]):
        every = [name for name in known if name.partition("-")[0] == family]
        yield from [f"{family}-*"] if len(members) > 1 and members == every else members


def differing(run: RunResult, *, everything: bool) -> Iterator[tuple[str, list[Difference]]]:
    """Yield the differences by feature. With `everything`, include properties that are the same for all targets."""
    yield from group_by((row for row in run.differences if everything or row.differs), lambda row: row.subject)


def group_by(items: Iterable[V], key: Callable[[V], K]) -> Iterable[tuple[K, list[V]]]:
    """Group items by a key, in order of first occurrence."""
    groups: dict[K, list[V]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups.items()


def gateway_columns(counts: Sequence[DetailCounts]) -> list[str]:
    """Return the column heads of the gateway table: an empty one, then one for each pair of APIs."""
    return ["", *dict.fromkeys(map(api_pair, counts))]


def api_pair(counts: DetailCounts) -> str:
    """Return the client's and the upstream's API: `openai-chat>anthropic`."""
    return f"{counts.client}>{counts.upstream}"


def gateway_rows(counts: Sequence[DetailCounts]) -> Iterator[tuple[str, list[list[tuple[DetailOutcome, int]]]]]:
    """Yield a row for each detail. Each column holds the number of cells for each outcome, best outcome first."""
    heads = gateway_columns(counts)[1:]
    for detail in dict.fromkeys(each.detail for each in counts):
        by_column = {api_pair(each): each for each in counts if each.detail == detail}
        yield detail, [outcome_counts(by_column[head]) if head in by_column else [] for head in heads]


def outcome_counts(counts: DetailCounts) -> list[tuple[DetailOutcome, int]]:
    """Return the outcomes that occur, each with its number of cells."""
    return [(outcome, number) for outcome in DetailOutcome if (number := int(getattr(counts, outcome.value)))]


def outcome_counts_text(found: Sequence[tuple[DetailOutcome, int]]) -> str:
    """Return `40 preserved, 2 lost`, or `-` if the detail never occurred."""
    return ", ".join(f"{number} {outcome}" for outcome, number in found) or "-"
