"""Table of hand-overs: which target begins a conversation, which one continues it, and the outcome for its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from rich.console import RenderableType
from rich.text import Text

from harness.reports.page import columns, hanging, heading, indent
from harness.reports.words import plain
from harness.results import CellResult, HandOver, HandOverOutcome, RunResult

HEADING = "Hand-overs: the target of the row begins the conversation, the target of the column continues it"


@dataclass(frozen=True, slots=True)
class OutcomeReason:
    """A reason for an outcome, with the cases and target names it applies to and the `number` of their cells."""

    outcome: HandOverOutcome
    subject: str
    reason: str
    cases: tuple[str, ...]
    targets: tuple[str, ...]
    number: int

    @property
    def text(self) -> str:
        """The reason as a sentence, with its cases, its targets and the number of cells."""
        cases, targets = ", ".join(self.cases), ", ".join(self.targets)
        return f"{self.subject}: {self.reason} ({cases}; to {targets}; {self.number} cells)"


@dataclass(frozen=True)
class HandOverTable:
    """The hand-overs of a run."""

    run: RunResult

    @cached_property
    def found(self) -> list[tuple[HandOver, CellResult]]:
        """The hand-overs of the run, each with its cell."""
        return [(cell.hand_over, cell) for cell in self.run.cells if cell.hand_over is not None]

    @cached_property
    def sources(self) -> list[str]:
        """The targets that begin a conversation."""
        return list(dict.fromkeys(each.source for each, _ in self.found))

    @cached_property
    def targets(self) -> list[str]:
        """The targets that continue a conversation. Those that also begin one come first, in the order of `sources`."""
        names = dict.fromkeys(cell.target for _, cell in self.found)
        return [
            *(name for name in self.sources if name in names),
            *(name for name in names if name not in self.sources),
        ]

    @cached_property
    def absent(self) -> dict[str, str]:
        """The targets that continue no conversation, each with a reason."""
        others = [cell for cell in self.run.cells if cell.target not in self.targets and cell.reason]
        own = [cell for cell in others if "cannot begin" not in (cell.reason or "")]
        return {cell.target: cell.reason or "" for cell in reversed(own)}

    def counts(self, source: str, target: str) -> list[tuple[HandOverOutcome, int]]:
        """Return the outcomes that occur for a pair of targets, each with its number of cases."""
        counted = Counter(each.outcome for each, cell in self.found if (each.source, cell.target) == (source, target))
        return [(outcome, counted[outcome]) for outcome in HandOverOutcome if counted[outcome]]

    def of(self, source: str, target: str, outcome: HandOverOutcome) -> list[tuple[HandOver, CellResult]]:
        """Return the hand-overs of a pair of targets that have this outcome, each with its cell."""
        wanted = source, target, outcome
        return [(each, cell) for each, cell in self.found if (each.source, cell.target, each.outcome) == wanted]

    def reasons(self) -> Iterator[OutcomeReason]:
        """Yield the reasons of all outcomes other than `preserved`, the worst outcome first."""
        groups: dict[tuple[HandOverOutcome, str, str], list[tuple[HandOver, CellResult]]] = {}
        for each, cell in self.found:
            failing = next((finding.rule for finding in cell.findings if finding.fails), each.reason)
            groups.setdefault((each.outcome, each.subject, failing), []).append((each, cell))
        for outcome in reversed(HandOverOutcome):
            for (which, subject, _), cells in groups.items():
                if which is outcome is not HandOverOutcome.PRESERVED:
                    reason = cells[0][0].reason
                    cases = tuple(dict.fromkeys(each.case for each, _ in cells))
                    targets = tuple(dict.fromkeys(cell.target for _, cell in cells))
                    yield OutcomeReason(outcome, subject, reason, cases, targets, len(cells))


_STYLES = {
    HandOverOutcome.PRESERVED: "green",
    HandOverOutcome.TRANSLATED: "cyan",
    HandOverOutcome.DROPPED: "yellow",
    HandOverOutcome.REFUSED: "yellow",
    HandOverOutcome.LOST: "bold red",
}


def hand_over_lines(run: RunResult, width: int) -> Iterator[RenderableType]:
    """Yield the table for a terminal, and the reasons of all outcomes other than `preserved`."""
    table = HandOverTable(run)
    if not table.found:
        return
    yield heading(HEADING)
    rows = [
        [Text(plain(source)), *(_counts(table.counts(source, target)) for target in table.targets)]
        for source in table.sources
    ]
    yield from columns(["", *table.targets], rows, width)
    letters = ", ".join(f"{outcome.value[0]} {outcome.value}" for outcome in HandOverOutcome)
    yield indent(f"Cases by outcome: {letters}. 'harness help hand-over' explains them.", "dim")
    for target, reason in table.absent.items():
        yield indent(plain(f"{target} cannot continue a conversation: {reason}"), "dim")
    yield indent("Cases that the first target cannot begin are not counted; --verbose lists the reasons.", "dim")
    yield ""
    yield heading("Outcomes other than preserved, and why")
    for each in table.reasons():
        yield hanging(Text(each.outcome.value, style=_STYLES[each.outcome]), each.text, width=11)


def _counts(counts: list[tuple[HandOverOutcome, int]]) -> Text:
    text = Text()
    for outcome, number in counts:
        text.append(" " if text else "")
        text.append(f"{number}{outcome.value[0]}", style=_STYLES[outcome])
    return text or Text("-", style="dim")
