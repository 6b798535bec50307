"""For people at a terminal: the verdict, the score by subject, what is wrong and what to do, then the differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from harness.reports import _audit as audit
from harness.reports import _gateway as gateways
from harness.reports import _groups as groups
from harness.reports._causes import Cause, causes
from harness.reports._checked import sentences
from harness.reports._costs import costs
from harness.reports._page import Page, hanging, heading, indented, matrix
from harness.reports._words import CRASHED, count, label, listed, place, plain, plain_line, short, verdict, what_to_do
from harness.results import Difference, Fate, Finding, Presentation, Report, RunResult, Severity, Verdict

MAX_LINES = 60
"""As long as the report of a run without findings may get. What is not applicable gives way first, then differences."""

_SCREEN = 24  # lines; a longer report ends with the verdict that it began with
_LEAST = 8  # lines that the differences always have
_MOST = 30  # lines that they have where there is something worse to see
_SHOWN = 3  # cells that are named where more have the same in common
_NAMES = 8  # scenarios that are named where more have the same in common
_PRINTED = 5  # lines that are shown of what an adapter printed, the last ones
_BODY = 8  # lines that are shown of a body of which no place matters more than others
_LESSER = 8  # rules whose warnings, or notes, are shown

_STYLES = {
    Verdict.PASS: "green",
    Verdict.NOTE: "cyan",
    Verdict.WARN: "yellow",
    Verdict.FAIL: "bold red",
    Verdict.ERROR: "bold red",
    Verdict.MISSING: "magenta",
    Verdict.INCONCLUSIVE: "magenta",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.EXPECTED_FAILURE: "yellow",
}
_FATES = {Fate.PRESERVED: "green", Fate.TRANSLATED: "cyan", Fate.REFUSED: "yellow", Fate.LOST: "bold red"}
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
    if run.audit is not None:
        return "\n".join(audit.lines(run, run.audit, verbose=presentation.verbose)) + "\n"
    page = Page(presentation)
    verbose = presentation.verbose
    first = (
        _verdict(run),
        _matrix(run, page.width, verbose=verbose),
        _gateway(run, page.width),
        _ranked(run),
        _causes(run, verbose=verbose),
        _broken(run, verbose=verbose),
        _printed(run, verbose=verbose),
        _tracebacks(run, verbose=verbose),
        _stale(run),
        _missing(run),
    )
    last = (
        _provenance(run, verbose=verbose),
        _not_applicable(run, verbose=verbose),
        _inconclusive(run),
        _checked(run),
        _expected_failures(run),
        _unmatched(run),
        _lesser(run, Severity.WARNING, verbose=verbose),
        _lesser(run, Severity.NOTE, verbose=verbose),
    )
    above, below = ([page.lines(section) for section in sections] for sections in (first, last))
    if verbose or presentation.all_differences:
        differences = _table(run, page, _LAYOUTS[0], everything=presentation.all_differences)
    elif run.exit_code:
        differences = _differences(run, page, _MOST)
    else:
        taken = sum(len(lines) + 1 for lines in (*above, *below, above[0]) if lines)
        tightest = len(_table(run, page, _LAYOUTS[-1], everything=False))
        kept = _cut(page, below[1], taken + tightest - MAX_LINES)
        differences = _differences(run, page, MAX_LINES - taken + len(below[1]) - len(kept))
        below[1] = kept
    made = [lines for lines in (*above, differences, *below) if lines]
    if sum(len(lines) + 1 for lines in made) > _SCREEN:
        made.append(above[0])
    return "\n\n".join("\n".join(lines) for lines in made) + "\n"


def _cut(page: Page, lines: list[str], over: int) -> list[str]:
    """What is not applicable, by so many lines shorter, but for the first ones."""
    kept = max(len(lines) - over - 1, _LEAST)
    if over <= 0 or kept + 1 >= len(lines):
        return lines
    return lines[:kept] + page.lines([indented("and more: --verbose names each", "dim")])


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
    columns = groups.columns(run)
    rows = groups.matrix(run, by_scenario=verbose)
    yield from matrix(
        ["scenario" if verbose else "subject", *columns],
        ([Text(plain(row.name)), *(_counted(row.verdicts[column]) for column in columns)] for row in rows),
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


def _gateway(run: RunResult, width: int) -> Iterator[RenderableType]:
    fates = run.check.gateway if run.check is not None else ()
    if fates:
        yield heading(gateways.HEADING)
        rows = ([Text(plain(fact)), *map(_fates, found)] for fact, found in gateways.rows(fates))
        yield from matrix(gateways.heads(fates), rows, width)


def _fates(found: Sequence[tuple[Fate, int]]) -> Text:
    text = Text()
    for fate, number in found:
        text.append(", " if text else "")
        text.append(f"{number} {fate}", style=_FATES[fate])
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


def _inconclusive(run: RunResult) -> Iterator[RenderableType]:
    found = groups.inconclusive(run)
    if found:
        total = count(run.summary[Verdict.INCONCLUSIVE], "cell")
        yield heading(f"Inconclusive: {total}; neither right nor wrong, since the model did not do what was looked for")
    for reason, places in found:
        yield indented(f"{listed([each.name for each in places], _SHOWN)}: {reason}")


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
        if run.mode == "record" or len(each.cells) == 1:
            yield indented(each.reason, by=4)
        yield hanging("record", each.record, width=9, by=4)
        yield hanging("or play", each.reference, width=9, by=4)


def _lesser(run: RunResult, severity: Severity, *, verbose: bool) -> Iterator[RenderableType]:
    """Findings that fail nothing: by cause, each with one place."""
    found = causes(run, severity)
    if verbose:
        for number, cause in enumerate(found, 1):
            yield from [""] if number > 1 else []
            yield from _cause(run, cause, f"{severity.capitalize()} {number}", verbose=True)
        return
    if found:
        optional = ", none of which has to be mended" if severity is Severity.NOTE else ""
        yield heading(f"{severity.capitalize()}s: {len(found)}{optional}; --verbose shows each")
    for cause in found[:_LESSER]:
        first, *others = cause.places
        more = f" and {count(groups.cells_of(others), 'more cell')}" if others else ""
        yield indented(f"{cause.rule} ({cause.blame}): {_place(first)}{more}: {first.findings[0].message}")
    if len(found) > _LESSER:
        yield indented(f"and {len(found) - _LESSER} more")


def _broken(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    for index, (reason, places) in enumerate(groups.broken(run)):
        shown = places if verbose else places[:_SHOWN]
        yield from [""] if index else []
        yield heading(f"error in {count(groups.cells_of(places), 'cell')}: {reason or 'no reason is known'}")
        for each in shown:
            yield indented(_place(each), "bold")
        yield from _more(places[len(shown) :])
        yield hanging("What to do", CRASHED, width=11)
        yield from _look(run, places[0])
        yield hanging("Play again", groups.rerun(run, places[0]), width=11)


def _ranked(run: RunResult) -> Iterator[RenderableType]:
    """In a check all causes at a glance, the worst one first, of which alone more is then shown."""
    found = causes(run, Severity.ERROR) if run.check is not None else []
    if len(found) > 1:
        yield heading(f"{len(found)} causes, the worst first; --verbose shows each as it shows the first")
    for number, cause in enumerate(found if len(found) > 1 else (), 1):
        yield hanging(f"{number}", f"{cause.rule} ({cause.blame}), {cause.extent}", width=2)
        yield indented(cause.places[0].findings[0].message, "dim", by=6)


def _checked(run: RunResult) -> Iterator[RenderableType]:
    for about, said in groups.grouped(sentences(run.check) if run.check is not None else (), lambda each: each[0]):
        yield heading(about)
        yield from (indented(sentence) for _, sentence in said)


def _causes(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    found = causes(run, Severity.ERROR)
    for number, cause in enumerate(found if verbose or run.check is None else found[:1], 1):
        yield from [""] if number > 1 else []
        yield from _cause(run, cause, f"Cause {number}", verbose=verbose)


def _cause(run: RunResult, cause: Cause, title: str, *, verbose: bool) -> Iterator[RenderableType]:
    source = f"; source: {cause.source}" if cause.source else ""
    yield heading(f"{title}: {cause.rule}: {cause.extent}")
    yield indented(f"{cause.kind}; blame: {cause.blame}; {_at(cause)}{source}", "dim")
    shown = cause.places if verbose else cause.places[:1]
    for each in shown:
        yield indented(_place(each), "bold")
        for finding in each.findings if verbose else each.findings[:1]:
            yield from _evidence(finding)
        if not verbose and len(each.findings) > 1:
            yield indented(f"and {count(len(each.findings) - 1, 'more finding')} like it in this cell", "dim", by=4)
        if verbose:
            yield from _followers(each)
    yield from _more(cause.places[len(shown) :])
    if cause.followers and not verbose:
        yield indented(cause.following, "dim")
    first = cause.places[0]
    yield hanging("What to do", what_to_do(cause.kind, cause.severity, cause.blame), width=11)
    yield from _look(run, first)
    yield hanging("Play again", groups.rerun(run, first), width=11)


def _look(run: RunResult, place: groups.Place) -> Iterator[RenderableType]:
    shown = groups.look(run, place.cells[0])
    if shown:
        yield hanging("Look", shown, width=11)


def _at(cause: Cause) -> str:
    """The APIs, each with the place in its bodies."""
    return ", ".join(f"{api} {spot}".strip() for api, spot in cause.at)


def _evidence(finding: Finding) -> Iterator[RenderableType]:
    where = place(finding)
    yield indented(f"{where}: {finding.message}" if where else finding.message, by=4)
    if finding.actual is not None or finding.expected is not None:
        yield hanging("actual", short(finding.actual), width=8, by=6)
        yield hanging("expected", short(finding.expected), width=8, by=6)
    yield from _lines(finding.piece)
    for body in finding.bodies:
        yield indented(f"{body.end}{': ' if body.piece else ''}{body.piece[0] if body.piece else ''}", by=6)
        yield from _lines(body.piece[1:] or body.text.splitlines()[:_BODY])


def _lines(piece: Sequence[str]) -> Iterator[RenderableType]:
    for line in piece:
        yield Padding(Text(plain_line(line), style="dim", no_wrap=True, overflow="ellipsis"), (0, 0, 0, 6))


def _followers(place: groups.Place) -> Iterator[RenderableType]:
    cell = place.cells[0]
    for follower in cell.findings:
        if follower.follows is not None and cell.findings[follower.follows] in place.findings:
            yield indented(f"follows: {follower.rule}", by=4)
            yield from _evidence(follower)


def _more(left: Sequence[groups.Place]) -> Iterator[RenderableType]:
    if left:
        rest = groups.cells_of(left[_SHOWN:])
        names = ", ".join(_place(each) for each in left[:_SHOWN]) + (f" and {count(rest, 'more cell')}" if rest else "")
        yield indented(f"also in {names}; --verbose shows each", "dim")


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
