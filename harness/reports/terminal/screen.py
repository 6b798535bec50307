"""The sections of the report, as many lines of each as a screen has room for."""

from __future__ import annotations

from harness.reports import _audit as audit
from harness.reports import _groups
from harness.reports._page import Page, indented
from harness.reports.terminal import causes, cells, differences, expectations, score
from harness.results import Presentation, RunResult, Severity

MAX_LINES = 60
"""As long as the report of a run without findings may get. What is not applicable gives way first, then differences."""

_SCREEN = 24  # lines; a longer report ends with the verdict that it began with

_MOST = 30  # lines that they have where there is something worse to see


def render(run: RunResult, presentation: Presentation) -> str:
    """The report as text that ends with a line break."""
    if run.audit is not None:
        return "\n".join(audit.lines(run, run.audit, verbose=presentation.verbose, quiet=presentation.quiet)) + "\n"
    page = Page(presentation)
    verbose = presentation.verbose
    if presentation.quiet:
        return _quiet(run, page)
    first = (
        score.verdict(run),
        score.model_note(run),
        score.matrix(run, page.width, verbose=verbose),
        score.gateway(run, page.width),
        causes.ranked(run),
        causes.errors(run, verbose=verbose),
        causes.broken(run, verbose=verbose),
        cells.printed(run, verbose=verbose),
        cells.tracebacks(run, verbose=verbose),
        expectations.stale(run),
        cells.missing(run),
    )
    last = (
        cells.provenance(run, verbose=verbose),
        cells.not_applicable(run, verbose=verbose),
        cells.inconclusive(run),
        score.checked(run),
        expectations.met(run),
        expectations.unmatched(run),
        causes.lesser(run, Severity.WARNING, verbose=verbose),
        causes.lesser(run, Severity.NOTE, verbose=verbose),
    )
    above, below = ([page.lines(section) for section in sections] for sections in (first, last))
    if verbose or presentation.all_differences:
        between = differences.whole(run, page, everything=presentation.all_differences)
    elif run.exit_code:
        between = differences.fitted(run, page, _MOST)
    else:
        taken = sum(len(lines) + 1 for lines in (*above, *below, above[0]) if lines)
        tightest = len(differences.tightest(run, page))
        kept = _cut(page, below[1], taken + tightest - MAX_LINES)
        between = differences.fitted(run, page, MAX_LINES - taken + len(below[1]) - len(kept))
        below[1] = kept
    made = [lines for lines in (*above, between, *below) if lines]
    if sum(len(lines) + 1 for lines in made) > _SCREEN:
        made.append(above[0])
    return "\n\n".join("\n".join(lines) for lines in made) + "\n"


def _quiet(run: RunResult, page: Page) -> str:
    """What fails, could not be looked at or does not count, and the verdict."""
    sections = (
        causes.errors(run, verbose=False),
        causes.broken(run, verbose=False),
        expectations.stale(run),
        cells.missing(run),
        map(indented, _groups.scope(run)),
        score.verdict(run),
    )
    return "\n\n".join("\n".join(lines) for lines in map(page.lines, sections) if lines) + "\n"


def _cut(page: Page, lines: list[str], over: int) -> list[str]:
    """What is not applicable, by so many lines shorter, but for the first ones."""
    kept = max(len(lines) - over - 1, differences.LEAST)
    if over <= 0 or kept + 1 >= len(lines):
        return lines
    return lines[:kept] + page.lines([indented("and more: --verbose names each", "dim")])
