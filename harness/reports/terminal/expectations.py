"""Failures that were expected: those that happened, those that did not, and entries that speak of no cell."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from harness.reports import _groups as groups
from harness.reports._page import heading, indented
from harness.reports._words import count, listed
from harness.reports.terminal.words import CELLS, LESSER, spot
from harness.results import RunResult


def met(run: RunResult) -> Iterator[RenderableType]:
    """Those that happened, by the reason given for them."""
    found = groups.expected_failures(run)
    if found:
        cells = sum(any(finding.accepted is not None for finding in cell.findings) for cell in run.cells)
        yield heading(f"Expected failures: {count(cells, 'cell')}")
    for reason, places in found:
        yield indented(f"{listed([spot(each) for each in places], CELLS)}: {reason}")


def stale(run: RunResult) -> Iterator[RenderableType]:
    """Those that did not happen, which fails the run."""
    if run.stale:
        yield heading("Expected failures that did not happen: take them off the list")
    for each in run.stale:
        variant = f" [{each.variant}]" if each.variant else ""
        yield indented(f"{each.rule} in {each.scenario}{variant}, {each.target} (listed because: {each.reason})")


def unmatched(run: RunResult) -> Iterator[RenderableType]:
    """Entries that may be misspelt, or are about what this run left out."""
    if run.unmatched:
        yield heading(f"Expected failures that speak of no cell of this run: {len(run.unmatched)}")
    for each in run.unmatched[:LESSER]:
        yield indented(f"{each.rule} in {each.scenario}, {each.target}")
    if len(run.unmatched) > LESSER:
        yield indented(f"and {len(run.unmatched) - LESSER} more")
