"""What has changed from one run to another: its cells, causes, differences and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.reports._causes import Cause, causes
from harness.reports._costs import spent
from harness.reports._words import count
from harness.results import CellResult, RunResult, Severity, Spending, Variant, Verdict

_GOOD = frozenset({Verdict.PASS, Verdict.NOTE, Verdict.NOT_APPLICABLE, Verdict.EXPECTED_FAILURE, Verdict.INCONCLUSIVE})

CellKey = tuple[str, str, Variant]
"""Scenario, target and variant."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was (`before`), that is (`now`), or that was otherwise: both. `worse`: it is bad, and was not."""

    what: str
    before: str | None
    now: str | None
    worse: bool = False

    @property
    def word(self) -> str:
        """`new`, `gone` or `changed`."""
        return "new" if self.before is None else "gone" if self.now is None else "changed"


@dataclass(frozen=True, slots=True)
class CellChange(Change):
    """A cell that ended otherwise, or is in one of the runs only."""

    key: CellKey = ("", "", "whole")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What of a run is not as it was in an earlier one. Times and versions are no part of it."""

    cells: tuple[CellChange, ...]
    causes: tuple[Change, ...]
    differences: tuple[Change, ...]
    costs: tuple[Change, ...]

    @property
    def sentence(self) -> str:
        """How much has changed."""
        worse = sum(each.worse for each in self.cells)
        numbers = (
            (len(self.cells), "cell"),
            (len(self.causes), "cause"),
            (len(self.differences), "difference"),
            (len(self.costs), "cost"),
        )
        parts = [count(number, noun) for number, noun in numbers if number]
        if not parts:
            return "Nothing has changed but times and versions."
        bad = f"Worse, or new and bad: {count(worse, 'cell')}." if worse else "No cell is worse."
        return f"Not as before: {', '.join(parts)}. {bad}"


def compared(run: RunResult, before: RunResult) -> Comparison:
    """What has changed in `run` since `before`."""
    return Comparison(tuple(_cells(run, before)), _causes(run, before), _differences(run, before), _costs(run, before))


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
            worse = is_ is not None and is_.verdict not in _GOOD and (was is None or was.verdict in _GOOD)
            made.append(CellChange(f"{scenario} [{variant}], {target}", *said, worse=worse, key=key))
    return made


def _causes(run: RunResult, before: RunResult) -> tuple[Change, ...]:
    then, now = (
        {_named(cause): cause.extent for severity in Severity for cause in causes(each, severity)}
        for each in (before, run)
    )
    return _changes(then, now, worse=True)


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
