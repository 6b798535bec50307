"""What is said of cells beside their findings: where answers come from, what could not be looked at or judged, what
adapters printed."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from harness.reports import _groups as groups
from harness.reports._costs import costs
from harness.reports._page import hanging, heading, indented
from harness.reports._words import count, label, listed, plain
from harness.reports.terminal.words import CELLS, NAMES, spot
from harness.results import RunResult, Verdict

_PRINTED = 5  # lines that are shown of what an adapter printed, the last ones


def provenance(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    """Where the answers came from, what they cost, and where a recording has put them."""
    for sentence in groups.provenance(run):
        yield Text(plain(sentence))
    for sentence in costs(run, by_target=verbose):
        yield Text(plain(sentence))
    if run.mode == "record":
        yield Text(plain(f"The cassettes are in {run.cassettes}."))
    for reason, places in groups.unrecorded(run):
        yield Text(plain(f"{listed([spot(each) for each in places], NAMES)}: {reason}"), style="bold red")


def not_applicable(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    """What targets were not asked, and why."""
    found = groups.not_applicable(run, None if verbose else NAMES)
    if found:
        more = "" if found == groups.not_applicable(run) else "; --verbose names each"
        yield heading(f"Not applicable: {count(run.summary[Verdict.NOT_APPLICABLE], 'cell')}{more}")
    for targets, cells, reason in found:
        yield indented(f"{targets}: {cells}: {reason}")


def inconclusive(run: RunResult) -> Iterator[RenderableType]:
    """What could not be judged by what the model did."""
    found = groups.inconclusive(run)
    if found:
        total = count(run.summary[Verdict.INCONCLUSIVE], "cell")
        yield heading(f"Inconclusive: {total}; neither passed nor failed")
    for reason, places in found:
        yield indented(f"{listed([each.name for each in places], CELLS)}: {reason}")


def missing(run: RunResult) -> Iterator[RenderableType]:
    """What nobody could look at, with the two ways to do so."""
    found = groups.missing(run)
    if found:
        total = count(run.summary[Verdict.MISSING], "cell")
        where = f" in {run.cassettes}" if run.cassettes else ""
        yield heading(
            f"Not recorded: {total}" if run.mode == "record" else f"Could not look: no cassette of {total}{where}"
        )
    for each in found:
        yield indented(f"{listed([*each.scenarios], NAMES)}: {', '.join(each.targets)}")
        if run.mode == "record" or len(each.cells) == 1:
            yield indented(each.reason, by=4)
        yield hanging("record", each.record, width=9, by=4)
        yield hanging("or play", each.reference, width=9, by=4)


def printed(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    """What adapters printed, where that may explain what went wrong."""
    bad = (Verdict.FAIL, Verdict.ERROR)
    cells = [cell for cell in run.cells if cell.printed and (verbose or cell.verdict in bad)]
    if cells:
        yield heading(f"Printed by the adapter: in {count(len(cells), 'cell')}")
    for cell in cells if verbose else cells[:CELLS]:
        lines = (cell.printed or "").splitlines()
        yield indented(f"{label(cell)} . {cell.target}", "bold")
        yield from (indented(line, by=4) for line in (lines if verbose else lines[-_PRINTED:]))
    if cells[CELLS:] and not verbose:
        yield indented(f"and {count(len(cells) - CELLS, 'more cell')}; --verbose shows all", "dim")


def tracebacks(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    """Where cells broke; only a `verbose` report is long enough for it."""
    for cell in run.cells if verbose else ():
        if cell.traceback:
            yield heading(f"Traceback of {label(cell)} . {cell.target}")
            yield from (indented(line, by=4) for line in cell.traceback.splitlines())
