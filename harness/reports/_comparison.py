"""What has changed from one run to another: its cells, causes, expected failures, differences and costs; and in what
the two are not runs of the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from harness.reports._causes import Cause, causes
from harness.reports._conditions import conditions
from harness.reports._costs import spent
from harness.reports._words import count
from harness.results import CellResult, RunResult, Severity, Spending, StaleExpectation, Variant, Verdict

_BADNESS = {Verdict.WARN: 1, Verdict.MISSING: 2, Verdict.FAIL: 3, Verdict.ERROR: 3}
"""How bad a verdict is; the others are not."""
_SEEN = frozenset({Verdict.PASS, Verdict.NOTE})
"""Verdicts that prove something, so that it is a loss if a target is not asked any more."""

CellKey = tuple[str, str, Variant]
"""Scenario, target and variant."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was (`before`), that is (`now`), or that was otherwise: both. `worse`: it is bad, and was not, or
    not so bad; `better`: the other way about."""

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
        """`worse` or `better`, where it is either; else as `word`."""
        return "worse" if self.worse else "better" if self.better else self.word

    @property
    def told(self) -> str:
        """What it was and is: `pass -> fail`, `new, fail`, `gone, was pass`."""
        if self.before is None:
            return f"new, {self.now}"
        return f"gone, was {self.before}" if self.now is None else f"{self.before} -> {self.now}"


@dataclass(frozen=True, slots=True)
class CellChange(Change):
    """A cell that ended otherwise, or is in one of the runs only."""

    key: CellKey = ("", "", "whole")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What of a run is not as it was in an earlier one. Times are no part of it. `stale` are expected failures that did
    not happen, `conditions` sentences that say in what the two are not runs of the same."""

    cells: tuple[CellChange, ...]
    causes: tuple[Change, ...]
    differences: tuple[Change, ...]
    costs: tuple[Change, ...]
    stale: tuple[Change, ...] = ()
    conditions: tuple[str, ...] = ()
    unfinished: bool = False

    @property
    def worse(self) -> bool:
        """Whether anything got worse: a cell, a cause, an expected failure; or the later run was not played to its end,
        and the earlier one was."""
        return self.unfinished or any(each.worse for each in (*self.cells, *self.causes, *self.stale))

    @property
    def word(self) -> str:
        """The comparison in one word, or two."""
        if self.worse:
            return "WORSE"
        same = not any((self.cells, self.causes, self.stale, self.differences, self.costs))
        return "SAME" if same else "NOT WORSE"

    @property
    def sections(self) -> Iterator[tuple[str, tuple[Change, ...]]]:
        """What has changed, by what it is: each kind with a heading that counts it, the worst first. Two cells of a
        scenario, one for each variant, that changed alike are one change."""
        kinds = (
            ("Causes", self.causes),
            ("Cells", tuple(_together(self.cells))),
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
        """How much has changed."""
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
            return "Nothing has changed but times and versions."
        bad = f"Worse, or new and bad: {count(worse, 'cell')}." if worse else "No cell is worse."
        return f"Not as before: {', '.join(parts)}. {bad}"


def _together(cells: tuple[CellChange, ...]) -> Iterator[Change]:
    alike: dict[tuple[str, str, str], list[CellChange]] = {}
    for each in cells:
        alike.setdefault((*each.key[:2], each.told), []).append(each)
    for (scenario, target, _), members in alike.items():
        yield members[0] if len(members) == 1 else replace(members[0], what=f"{scenario} [whole and stream], {target}")


def _rank(change: Change) -> int:
    return 0 if change.worse else 1 if change.better else 2


def compared(run: RunResult, before: RunResult) -> Comparison:
    """What has changed in `run` since `before`."""
    return Comparison(
        tuple(_cells(run, before)),
        tuple(_causes(run, before)),
        _differences(run, before),
        _costs(run, before),
        _stale(run, before),
        tuple(conditions(run, before)),
        before.finished and not run.finished,
    )


def _key(cell: CellResult) -> CellKey:
    return cell.scenario, cell.target, cell.variant


def _cells(run: RunResult, before: RunResult) -> list[CellChange]:
    then, now = ({_key(cell): cell for cell in each.cells} for each in (before, run))
    made: list[CellChange] = []
    for key in dict.fromkeys((*now, *then)):
        was, is_ = then.get(key), now.get(key)
        said = [each and each.verdict.value.replace("-", " ") for each in (was, is_)]
        if said[0] != said[1]:
            scenario, target, variant = key
            worse, better = _weighed(was and was.verdict, is_ and is_.verdict)
            made.append(CellChange(f"{scenario} [{variant}], {target}", *said, worse=worse, better=better, key=key))
    return made


def _weighed(was: Verdict | None, now: Verdict | None) -> tuple[bool, bool]:
    """Whether a cell ended worse, and whether better. One that is new is worse if it is bad; one that is gone is
    neither."""
    if now is None:
        return False, False
    then, bad = 0 if was is None else _BADNESS.get(was, 0), _BADNESS.get(now, 0)
    unseen = was in _SEEN and now is Verdict.NOT_APPLICABLE
    return bad > then or unseen, bad < then


def _causes(run: RunResult, before: RunResult) -> Iterator[Change]:
    """What a note says has to be mended by nobody, and is never worse."""
    for severity in Severity:
        then, now = ({_named(cause): cause for cause in causes(each, severity)} for each in (before, run))
        for what in dict.fromkeys((*now, *then)):
            was, is_ = then.get(what), now.get(what)
            extents = was and was.extent, is_ and is_.extent
            if extents[0] != extents[1]:
                more = (is_.cells if is_ else 0) - (was.cells if was else 0)
                counts = severity is not Severity.NOTE
                yield Change(what, *extents, worse=counts and more > 0, better=counts and more < 0)


def _stale(run: RunResult, before: RunResult) -> tuple[Change, ...]:
    then, now = ({_entry(each): each.reason for each in every.stale} for every in (before, run))
    return _changes(then, now, worse=True)


def _entry(stale: StaleExpectation) -> str:
    variant = f" [{stale.variant}]" if stale.variant else ""
    return f"{stale.rule} in {stale.scenario}{variant}, {stale.target}"


def _named(cause: Cause) -> str:
    at = ", ".join(f"{api} {spot}".strip() for api, spot in cause.at)
    return f"{cause.rule} ({cause.severity}, blame: {cause.blame}): {at}"


def _differences(run: RunResult, before: RunResult) -> tuple[Change, ...]:
    """Of what both runs have looked at: a target that only one of them has changes nothing."""
    played = [{cell.target for cell in each.cells} for each in (before, run)]
    both = played[0] & played[1]
    then, now = (
        {
            f"{row.subject}: {row.fact}: {target}": value
            for row in each.differences
            for target, value in row.values.items()
            if target in both
        }
        for each in (before, run)
    )
    return _changes(then, now)


def _costs(run: RunResult, before: RunResult) -> tuple[Change, ...]:
    then, now = ({target: _said(spending) for target, spending in each.costs.items()} for each in (before, run))
    return _changes(then, now)


def _said(spending: Spending) -> str:
    sides = ((spending.usage.input_tokens, "in"), (spending.usage.output_tokens, "out"))
    tokens = ", ".join(f"{number:,} tokens {side}" for number, side in sides if number is not None)
    return f"{spent(spending)}; {tokens or 'tokens are not known'}"


def _changes(then: Mapping[str, str], now: Mapping[str, str], *, worse: bool = False) -> tuple[Change, ...]:
    """`worse`: what is new is bad."""
    return tuple(
        Change(what, then.get(what), now.get(what), worse and what not in then)
        for what in dict.fromkeys((*now, *then))
        if then.get(what) != now.get(what)
    )
