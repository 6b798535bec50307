"""For people at a terminal: differences first, then the matrix, what went wrong and what to do, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from harness.reports import _groups as groups
from harness.reports._costs import costs
from harness.reports._page import Page, hanging, heading, indented, matrix
from harness.reports._words import CRASHED, WHAT_TO_DO, count, label, listed, place, plain, short, verdict
from harness.results import Difference, Finding, Presentation, Report, RunResult, Severity, Verdict

MAX_LINES = 60
"""As long as the report of a run without findings may get; the differences give way."""

_LEAST = 8  # lines that the differences always have
_MOST = 30  # lines that they have where there is something worse to see
_SHOWN = 3  # cells of a group whose evidence is shown
_NAMES = 8  # scenarios that are named where more have the same in common
_PRINTED = 5  # lines that are shown of what an adapter printed, the last ones
_LESSER = 8  # rules whose warnings, or notes, are shown

_STYLES = {
    Verdict.PASS: "green",
    Verdict.NOTE: "cyan",
    Verdict.WARN: "yellow",
    Verdict.FAIL: "bold red",
    Verdict.ERROR: "bold red",
    Verdict.MISSING: "magenta",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.EXPECTED_FAILURE: "yellow",
}
_ABBREVIATED = {Verdict.NOT_APPLICABLE: "n/a", Verdict.EXPECTED_FAILURE: "expected"}
_WORDS = {"PASS": "bold green", "FAIL": "bold red"}


_MAIN = frozenset({"id-matching", "system-prompt", "json-mode"})
"""The subjects in which adapters break most: where there is no room for all, the others are only counted."""


@dataclass(frozen=True, slots=True)
class _Layout:
    headings: bool = True
    lines: int | None = None  # at most so many for each fact
    main: bool = False  # only the main subjects
    facts: int | None = None  # columns at most for what a fact is called


_LAYOUTS = (
    _Layout(),
    _Layout(main=True),
    _Layout(main=True, headings=False),
    _Layout(main=True, headings=False, facts=20),
    _Layout(main=True, headings=False, facts=20, lines=3),
    _Layout(main=True, headings=False, lines=2),
    _Layout(main=True, headings=False, lines=1),
)
"""From the roomiest to the tightest; the first that fits is taken."""


def render(run: RunResult, presentation: Presentation) -> str:
    """The report as text that ends with a line break."""
    page = Page(presentation)
    sections = (
        _matrix(run, page.width, verbose=presentation.verbose),
        _provenance(run, verbose=presentation.verbose),
        _not_applicable(run, verbose=presentation.verbose),
        _expected_failures(run),
        _missing(run),
        _lesser(run, Severity.NOTE, verbose=presentation.verbose),
        _lesser(run, Severity.WARNING, verbose=presentation.verbose),
        _broken(run, verbose=presentation.verbose),
        _errors(run, verbose=presentation.verbose),
        _printed(run, verbose=presentation.verbose),
        _tracebacks(run, verbose=presentation.verbose),
        _stale(run),
        _unmatched(run),
        _verdict(run),
    )
    laid_out = [lines for lines in (page.lines(section) for section in sections) if lines]
    if presentation.verbose or presentation.all_differences:
        differences = _table(run, page, _LAYOUTS[0], everything=presentation.all_differences)
    else:
        room = MAX_LINES - sum(len(lines) + 1 for lines in laid_out) if run.exit_code == 0 else _MOST
        differences = _differences(run, page, room)
    return "\n\n".join("\n".join(lines) for lines in (differences, *laid_out) if lines) + "\n"


def _differences(run: RunResult, page: Page, room: int) -> list[str]:
    lines: list[str] = []
    for layout in _LAYOUTS:
        lines = _table(run, page, layout, everything=False)
        if len(lines) <= room:
            return lines
    room = max(room, _LEAST)
    return lines[: room - 1] + page.lines([indented(f"and {len(lines) - room + 1} more: --all-differences", "dim")])


def _table(run: RunResult, page: Page, layout: _Layout, *, everything: bool) -> list[str]:
    subjects = list(groups.differing(run, everything=everything))
    if not subjects:
        return []
    differing = sum(row.differs for row in run.differences)
    title = f"Differences: {differing} of {len(run.differences)} facts on the wire are not the same for all targets"
    counted = [(subject, rows) for subject, rows in subjects if layout.main and subject not in _MAIN]
    shown = [(subject, rows) for subject, rows in subjects if (subject, rows) not in counted]
    fact_width = min(max((len(row.fact) for _, rows in shown for row in rows), default=0), layout.facts or page.width)
    value_width = page.width - fact_width - 4
    parts: list[RenderableType] = [heading(title)]
    for subject, rows in shown:
        if layout.headings:
            parts.append(Text(plain(subject)))
        parts += [
            hanging(row.fact, page.cut(_values(row), value_width, layout.lines), width=fact_width) for row in rows
        ]
    hidden = sum(len(rows) for _, rows in counted)
    if hidden or layout.lines:
        more = f"{hidden} more, of {listed([plain(subject) for subject, _ in counted], _NAMES)}" if hidden else "uncut"
        parts.append(indented(f"{more}: --all-differences", "dim"))
    return page.lines(parts)


def _values(row: Difference) -> Text:
    text = Text()
    for value, names in groups.by_value(row):
        text.append("; " if text else "")
        text.append(plain(value))
        text.append(f" ({plain(names)})", style="dim")
    return text


def _matrix(run: RunResult, width: int, *, verbose: bool) -> Iterator[RenderableType]:
    if not run.cells:
        return
    columns = groups.targets(run)
    rows = groups.matrix(run, by_scenario=verbose)
    yield from matrix(
        ["scenario" if verbose else "subject", *columns],
        ([Text(plain(row.name)), *(_counted(row.verdicts[target]) for target in columns)] for row in rows),
        width,
    )
    for target, reason in run.left_out.items():
        yield Text(plain(f"{target} is left out: {reason}"), style="yellow")


def _counted(verdicts: Sequence[tuple[str, Verdict]]) -> Text:
    text = Text()
    for which, each in verdicts:
        text.append(", " if text else "")
        text.append(f"{which} {_ABBREVIATED.get(each, each.value)}".strip(), style=_STYLES[each])
    return text or Text("-", style="dim")


def _provenance(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    for sentence in groups.provenance(run):
        yield Text(plain(sentence))
    for sentence in costs(run, by_target=verbose):
        yield Text(plain(sentence))
    if run.mode == "record":
        yield Text(plain(f"The cassettes are in {run.cassettes}."))
    for reason, places in groups.unrecorded(run):
        yield Text(plain(f"{listed([_place(each) for each in places], _NAMES)}: {reason}"), style="bold red")


def _not_applicable(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    found = groups.not_applicable(run, None if verbose else _NAMES)
    if found:
        more = "" if found == groups.not_applicable(run) else "; --verbose names each"
        yield heading(f"Not applicable: {count(run.summary[Verdict.NOT_APPLICABLE], 'cell')}{more}")
    for targets, cells, reason in found:
        yield indented(f"{targets}: {cells}: {reason}")


def _expected_failures(run: RunResult) -> Iterator[RenderableType]:
    found = groups.expected_failures(run)
    if found:
        cells = sum(any(finding.accepted is not None for finding in cell.findings) for cell in run.cells)
        yield heading(f"Expected failures: {count(cells, 'cell')}")
    for reason, places in found:
        yield indented(f"{listed([_place(each) for each in places], _SHOWN)}: {reason}")


def _missing(run: RunResult) -> Iterator[RenderableType]:
    found = groups.missing(run)
    if found:
        total = count(run.summary[Verdict.MISSING], "cell")
        where = f" in {run.cassettes}" if run.cassettes else ""
        yield heading(
            f"Not recorded: {total}" if run.mode == "record" else f"Could not look: no cassette of {total}{where}"
        )
    for each in found:
        yield indented(f"{listed([*each.scenarios], _NAMES)}: {', '.join(each.targets)}")
        if run.mode == "record":
            yield indented(each.reason, by=4)
        yield hanging("record", each.record, width=9, by=4)
        yield hanging("or play", each.reference, width=9, by=4)


def _lesser(run: RunResult, severity: Severity, *, verbose: bool) -> Iterator[RenderableType]:
    """Findings that fail nothing: by rule, each with one place."""
    found = groups.findings(run, severity)
    if verbose:
        for group in found:
            yield from _group(run, group, verbose=True)
        return
    if found:
        yield heading(f"{severity.capitalize()}s: {count(len(found), 'rule')}; --verbose shows each")
    for group in found[:_LESSER]:
        first, *others = group.places
        more = f" and {count(groups.cells_of(others), 'more cell')}" if others else ""
        yield indented(f"{group.rule} ({group.blame}): {_place(first)}{more}: {first.findings[0].message}")
    if len(found) > _LESSER:
        yield indented(f"and {count(len(found) - _LESSER, 'more rule')}")


def _broken(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    for index, (reason, places) in enumerate(groups.broken(run)):
        shown = places if verbose else places[:_SHOWN]
        yield from [""] if index else []
        yield heading(f"error in {count(groups.cells_of(places), 'cell')}: {reason or 'no reason is known'}")
        for each in shown:
            yield indented(_place(each), "bold")
        yield from _more(places[len(shown) :])
        yield from _way_out(CRASHED, groups.rerun(run, places[0]))


def _errors(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    for index, group in enumerate(groups.findings(run, Severity.ERROR)):
        yield from [""] if index else []
        yield from _group(run, group, verbose=verbose)


def _group(run: RunResult, group: groups.Hits, *, verbose: bool) -> Iterator[RenderableType]:
    shown = group.places if verbose else group.places[:_SHOWN]
    source = f"; source: {group.source}" if group.source else ""
    yield heading(f"{group.rule}: {group.severity} in {count(group.cells, 'cell')}")
    yield indented(f"{group.kind}; blame: {group.blame}{source}", "dim")
    for each in shown:
        yield indented(_place(each), "bold")
        for finding in each.findings if verbose else each.findings[:1]:
            yield from _evidence(finding)
        if not verbose and len(each.findings) > 1:
            yield indented(f"and {count(len(each.findings) - 1, 'more finding')} like it in this cell", "dim", by=4)
    yield from _more(group.places[len(shown) :])
    yield from _way_out(WHAT_TO_DO[group.blame], groups.rerun(run, group.places[0]))


def _evidence(finding: Finding) -> Iterator[RenderableType]:
    where = place(finding)
    yield indented(f"{where}: {finding.message}" if where else finding.message, by=4)
    if finding.actual is not None or finding.expected is not None:
        yield hanging("actual", short(finding.actual), width=8, by=6)
        yield hanging("expected", short(finding.expected), width=8, by=6)


def _more(left: Sequence[groups.Place]) -> Iterator[RenderableType]:
    if left:
        yield indented(f"and {count(groups.cells_of(left), 'more cell')}; --verbose shows all", "dim")


def _way_out(advice: str, command: str) -> Iterator[RenderableType]:
    yield hanging("What to do", advice, width=11)
    yield hanging("Play again", command, width=11)


def _printed(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    """What adapters printed, where that may explain what went wrong."""
    bad = (Verdict.FAIL, Verdict.ERROR)
    cells = [cell for cell in run.cells if cell.printed and (verbose or cell.verdict in bad)]
    if cells:
        yield heading(f"Printed by the adapter: in {count(len(cells), 'cell')}")
    for cell in cells if verbose else cells[:_SHOWN]:
        lines = (cell.printed or "").splitlines()
        yield indented(f"{label(cell)} . {cell.target}", "bold")
        yield from (indented(line, by=4) for line in (lines if verbose else lines[-_PRINTED:]))
    if cells[_SHOWN:] and not verbose:
        yield indented(f"and {count(len(cells) - _SHOWN, 'more cell')}; --verbose shows all", "dim")


def _tracebacks(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    for cell in run.cells if verbose else ():
        if cell.traceback:
            yield heading(f"Traceback of {label(cell)} . {cell.target}")
            yield from (indented(line, by=4) for line in cell.traceback.splitlines())


def _stale(run: RunResult) -> Iterator[RenderableType]:
    if run.stale:
        yield heading("Expected failures that did not happen: take them off the list")
    for each in run.stale:
        variant = f" [{each.variant}]" if each.variant else ""
        yield indented(f"{each.rule} in {each.scenario}{variant}, {each.target} (listed because: {each.reason})")


def _unmatched(run: RunResult) -> Iterator[RenderableType]:
    if run.unmatched:
        yield heading(f"Expected failures that speak of no cell of this run: {len(run.unmatched)}")
    for each in run.unmatched[:_LESSER]:
        yield indented(f"{each.rule} in {each.scenario}, {each.target}")
    if len(run.unmatched) > _LESSER:
        yield indented(f"and {len(run.unmatched) - _LESSER} more")


def _verdict(run: RunResult) -> Iterator[RenderableType]:
    word, sentence = verdict(run)
    seconds = run.timing.get("seconds")
    text = Text(word, style=_WORDS.get(word, "bold magenta"))
    text.append(f"  {sentence}" + ("" if seconds is None else f" ({seconds:.1f} s)"), style="not bold")
    yield text


def _place(place: groups.Place) -> str:
    return f"{place.name} . {place.target}"


REPORT = Report("terminal", render)
