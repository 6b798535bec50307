"""Changes from one run to another, and runs and their changes as JSON. `archive` also contains the conversations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from harness.reports.finding_causes import Cause, causes
from harness.reports.words import count, list_names, spending_text
from harness.results import CellResult, ExpectedFailure, Presentation, Report, RunResult, Severity, Spending, Verdict
from harness.results.run_result import CellKey

_SEVERITY_RANK = {Verdict.WARN: 1, Verdict.MISSING: 2, Verdict.FAIL: 3, Verdict.ERROR: 3}
"""Ranks of bad verdicts, higher for worse."""
_PROOF = frozenset({Verdict.PASS, Verdict.NOTE})
"""Verdicts that prove something. If such a cell is no longer applicable, the change counts as worse."""
_MAX_NAMES = 6


@dataclass(frozen=True, slots=True)
class RunChange:
    """A property that is new, gone or changed. `worse` and `better` are set if the change has a direction."""

    what: str
    before: str | None
    now: str | None
    worse: bool = False
    better: bool = False

    @property
    def word(self) -> str:
        """`new`, `gone` or `changed`."""
        return "new" if self.before is None else "gone" if self.now is None else "changed"

    @property
    def label(self) -> str:
        """`worse` or `better` if one of them is set, else `word`."""
        return "worse" if self.worse else "better" if self.better else self.word

    @property
    def text(self) -> str:
        """Both values: `pass -> fail`, `new, fail`, `gone, was pass`."""
        if self.before is None:
            return f"new, {self.now}"
        return f"gone, was {self.before}" if self.now is None else f"{self.before} -> {self.now}"


@dataclass(frozen=True, slots=True)
class CellChange(RunChange):
    """A cell whose verdict changed, or that only one of the runs has."""

    key: CellKey = ("", "", "whole")


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes since an earlier run, except for times.

    `conditions` holds sentences about differences in how the two runs were made. `unfinished` is set if only the later
    run did not finish.
    """

    cells: tuple[CellChange, ...]
    causes: tuple[RunChange, ...]
    differences: tuple[RunChange, ...]
    costs: tuple[RunChange, ...]
    stale: tuple[RunChange, ...] = ()
    conditions: tuple[str, ...] = ()
    unfinished: bool = False

    @property
    def worse(self) -> bool:
        """True if a cell, a cause or an expected failure got worse, or if only the later run did not finish."""
        return self.unfinished or any(each.worse for each in (*self.cells, *self.causes, *self.stale))

    @property
    def word(self) -> str:
        """`WORSE`, `NOT WORSE` or `SAME`."""
        if self.worse:
            return "WORSE"
        same = not any((self.cells, self.causes, self.stale, self.differences, self.costs))
        return "SAME" if same else "NOT WORSE"

    @property
    def sections(self) -> Iterator[tuple[str, tuple[RunChange, ...]]]:
        """The changes by kind, each kind with a heading that counts them. Within a kind, worse changes come first, then
        better ones.

        If both variants of a scenario changed in the same way, they are listed as one change. The heading counts both.
        """
        kinds = (
            ("Causes", self.causes),
            ("Cells", tuple(_joined_variants(self.cells))),
            ("Expected failures that did not happen", self.stale),
            ("Differences between the targets", self.differences),
            ("Costs", self.costs),
        )
        for title, changes in kinds:
            if changes:
                number = len(self.cells) if title == "Cells" else len(changes)
                yield f"{title}: {number}", tuple(sorted(changes, key=_rank))

    @property
    def sentence(self) -> str:
        """A sentence with the number of changes of each kind."""
        worse = sum(each.worse for each in self.cells)
        numbers = (
            (len(self.cells), "cell"),
            (len(self.causes), "cause"),
            (len(self.stale), "stale expected failure"),
            (len(self.differences), "difference"),
            (len(self.costs), "cost"),
        )
        parts = [count(number, noun) for number, noun in numbers if number]
        if not parts:
            return "Nothing changed except times and versions."
        bad = f"Worse, or new and bad: {count(worse, 'cell')}." if worse else "No cell is worse."
        return f"Changed: {', '.join(parts)}. {bad}"


def _joined_variants(cells: tuple[CellChange, ...]) -> Iterator[RunChange]:
    alike: dict[tuple[str, str, str], list[CellChange]] = {}
    for each in cells:
        alike.setdefault((*each.key[:2], each.text), []).append(each)
    for (scenario, target, _), members in alike.items():
        yield members[0] if len(members) == 1 else replace(members[0], what=f"{scenario} [whole and stream], {target}")


def _rank(change: RunChange) -> int:
    return 0 if change.worse else 1 if change.better else 2


def compare_runs(run: RunResult, before: RunResult) -> Changes:
    """Return the changes in `run` since `before`."""
    return Changes(
        tuple(_cells(run, before)),
        tuple(_causes(run, before)),
        _differences(run, before),
        _costs(run, before),
        _stale(run, before),
        tuple(conditions(run, before)),
        before.finished and not run.finished,
    )


def _cells(run: RunResult, before: RunResult) -> Iterator[CellChange]:
    then, now = ({cell.key: cell for cell in each.cells} for each in (before, run))
    for key in dict.fromkeys((*now, *then)):
        was, is_ = then.get(key), now.get(key)
        verdicts = [each and each.verdict.value.replace("-", " ") for each in (was, is_)]
        if verdicts[0] != verdicts[1]:
            scenario, target, variant = key
            worse, better = _worse_or_better(was and was.verdict, is_ and is_.verdict)
            yield CellChange(f"{scenario} [{variant}], {target}", *verdicts, worse=worse, better=better, key=key)


def _worse_or_better(was: Verdict | None, now: Verdict | None) -> tuple[bool, bool]:
    """Return whether a cell got worse and whether it got better. A new cell is worse if it is bad; a cell that is gone
    is neither."""
    if now is None:
        return False, False
    then, bad = 0 if was is None else _SEVERITY_RANK.get(was, 0), _SEVERITY_RANK.get(now, 0)
    unproved = was in _PROOF and now is Verdict.NOT_APPLICABLE
    return bad > then or unproved, bad < then


def _causes(run: RunResult, before: RunResult) -> Iterator[RunChange]:
    """Yield causes that affect more or fewer cells. Changes of notes are never worse."""
    for severity in Severity:
        then, now = ({cause_title(cause): cause for cause in causes(each, severity)} for each in (before, run))
        for what in dict.fromkeys((*now, *then)):
            was, is_ = then.get(what), now.get(what)
            extents = was and was.extent, is_ and is_.extent
            if extents[0] != extents[1]:
                more = (is_.cells if is_ else 0) - (was.cells if was else 0)
                matters = severity is not Severity.NOTE
                yield RunChange(what, *extents, worse=matters and more > 0, better=matters and more < 0)


def cause_title(cause: Cause) -> str:
    """Return the text by which a cause is recognised in another run."""
    return f"{cause.rule} ({cause.severity}, blame: {cause.blame}): {cause.location}"


def _stale(run: RunResult, before: RunResult) -> tuple[RunChange, ...]:
    then, now = ({_entry(each): each.reason for each in every.stale} for every in (before, run))
    return _changes(then, now, worse=True)


def _entry(stale: ExpectedFailure) -> str:
    variant = f" [{stale.variant}]" if stale.variant else ""
    return f"{stale.rule} in {stale.scenario}{variant}, {stale.target}"


def _differences(run: RunResult, before: RunResult) -> tuple[RunChange, ...]:
    played = [{cell.target for cell in each.cells} for each in (before, run)]
    both = played[0] & played[1]
    then, now = (
        {
            f"{row.subject}: {row.aspect}: {target}": value
            for row in each.differences
            for target, value in row.values.items()
            if target in both
        }
        for each in (before, run)
    )
    return _changes(then, now)


def _costs(run: RunResult, before: RunResult) -> tuple[RunChange, ...]:
    then, now = ({target: _cost(spending) for target, spending in each.costs.items()} for each in (before, run))
    return _changes(then, now)


def _cost(spending: Spending) -> str:
    usage = spending.usage
    sides = (
        (usage.input_tokens, "in"),
        (usage.cache_read_tokens or None, "from the prompt cache"),
        (usage.output_tokens, "out"),
    )
    tokens = ", ".join(f"{number:,} tokens {side}" for number, side in sides if number is not None)
    return f"{spending_text(spending)}; {tokens or 'tokens are not known'}"


def _changes(then: Mapping[str, str], now: Mapping[str, str], *, worse: bool = False) -> tuple[RunChange, ...]:
    """Compare two mappings. If `worse` is set, new entries count as worse."""
    return tuple(
        RunChange(what, then.get(what), now.get(what), worse and what not in then)
        for what in dict.fromkeys((*now, *then))
        if then.get(what) != now.get(what)
    )


def conditions(run: RunResult, before: RunResult) -> Iterator[str]:
    """Yield sentences about differences in how two runs were made, which may explain the changes.

    They cover mode, versions, facts, rules, scenarios, targets, and the origin of the answers.
    """
    yield from _if_changed("mode", before.mode, run.mode)
    yield from _versions(before, run)
    yield from _if_changed("files of facts", ", ".join(before.facts), ", ".join(run.facts))
    yield from _if_changed("rules that count", ", ".join(before.rules), ", ".join(run.rules))
    yield from _if_changed("rules that are ignored", ", ".join(before.ignored), ", ".join(run.ignored))
    yield from _in_one_run("scenario", before, run, lambda cell: cell.scenario)
    yield from _in_one_run("target", before, run, lambda cell: cell.target)
    yield from _in_one_run("variant", before, run, lambda cell: cell.variant)
    yield from _rewritten_cassettes(before, run)
    later = {cell.target for cell in run.cells}
    for target in dict.fromkeys(cell.target for cell in before.cells if cell.target in later):
        was, now = (_sources(each, target) for each in (before, run))
        if was and now:
            yield from _if_changed(f"answers of {target}", was, now)
    for name, each in (("earlier", before), ("later", run)):
        if not each.finished:
            yield f"The {name} run was not finished: cells that are gone or new may simply not have run."


def _if_changed(what: str, was: str, now: str) -> Iterator[str]:
    if was != now:
        yield f"{what}: {was or 'none'} before, {now or 'none'} now."


def _versions(before: RunResult, run: RunResult) -> Iterator[str]:
    then, now = before.versions, run.versions
    other = [each for each in dict.fromkeys((*then, *now)) if then.get(each) != now.get(each)]
    if other:
        changed = [f"{each} {then.get(each, 'none')} -> {now.get(each, 'none')}" for each in other]
        yield f"Other versions: {list_names(changed, _MAX_NAMES)}."


def _in_one_run(noun: str, before: RunResult, run: RunResult, key: Callable[[CellResult], str]) -> Iterator[str]:
    then, now = (dict.fromkeys(map(key, each.cells)) for each in (before, run))
    for name, some, others in (("earlier", then, now), ("later", now, then)):
        names = [each for each in some if each not in others]
        if names:
            yield f"Only in the {name} run: {count(len(names), noun)}: {list_names(names, _MAX_NAMES)}."


def _rewritten_cassettes(before: RunResult, run: RunResult) -> Iterator[str]:
    common: Iterable[str] = (name for name in before.definitions if name in run.definitions)
    other = [name for name in common if before.definitions[name].digest != run.definitions[name].digest]
    if other:
        yield f"{count(len(other), 'scenario')} changed between the runs: {list_names(other, _MAX_NAMES)}."


def _sources(run: RunResult, target: str) -> str:
    known = [cell.provenance for cell in run.cells if cell.target == target and cell.provenance is not None]
    return list_names(sorted({f"{each.model_requested or 'a model'} ({each.origin})" for each in known}), _MAX_NAMES)


@dataclass(frozen=True, slots=True)
class CauseHistory:
    """The number of cells that show a cause in each run. `message` is that of its last occurrence."""

    title: str
    message: str
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunHistory:
    """Runs from the oldest to the latest. `verdicts` are those that occur, and `causes` are errors and warnings, with
    those of the latest run first.
    """

    runs: tuple[RunResult, ...]
    verdicts: tuple[Verdict, ...]
    causes: tuple[CauseHistory, ...]


def run_history(run: RunResult, earlier: Sequence[RunResult]) -> RunHistory:
    """Return the history of a run and the earlier runs, which are in the order of their dates."""
    runs = (*earlier, run)
    counted: dict[str, list[int]] = {}
    messages: dict[str, str] = {}
    for at in reversed(range(len(runs))):
        for severity in (Severity.ERROR, Severity.WARNING):
            for cause in causes(runs[at], severity):
                title = cause_title(cause)
                messages.setdefault(title, cause.message)
                counted.setdefault(title, [0] * len(runs))[at] += cause.cells
    verdicts = tuple(each for each in Verdict if any(known.summary[each] for known in runs))
    return RunHistory(
        runs, verdicts, tuple(CauseHistory(title, messages[title], tuple(cells)) for title, cells in counted.items())
    )


def render(run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - for people only
    """Return the run as JSON. Two runs with the same results differ only under `timing`."""
    return run.to_json()


def _pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:  # noqa: ARG001 - for people only
    return run.json_pieces()


def _render_archive(run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - for people only
    return run.to_json(conversations=True)


def _archive_pieces(run: RunResult, presentation: Presentation) -> Iterator[str]:  # noqa: ARG001 - for people only
    return run.json_pieces(conversations=True)


def compare(before: RunResult, run: RunResult, presentation: Presentation) -> str:  # noqa: ARG001 - for people only
    """Return the changes as JSON lists. Each change has the earlier and the current value."""
    made = compare_runs(run, before)
    return json.dumps({"worse": made.worse, **asdict(made)}, ensure_ascii=False, indent=2) + "\n"


JSON_REPORT = Report("json", render, pieces=_pieces, compare=compare, reads_back=True)
ARCHIVE = Report("archive", _render_archive, wants_conversations=True, pieces=_archive_pieces, reads_back=True)
