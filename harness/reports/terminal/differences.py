"""Where targets differ: a table that gets tighter as its room gets smaller."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from harness.reports import _groups as groups
from harness.reports._page import Page, hanging, heading, indented
from harness.reports._words import listed, plain
from harness.reports.terminal.words import NAMES
from harness.results import Difference, RunResult

LEAST = 8
"""Lines that a section always has, however little room there is."""


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


def whole(run: RunResult, page: Page, *, everything: bool) -> list[str]:
    """All that differs, or all facts, as long as it may get."""
    return _table(run, page, _LAYOUTS[0], everything=everything)


def tightest(run: RunResult, page: Page) -> list[str]:
    """What is left of it where there is the least room."""
    return _table(run, page, _LAYOUTS[-1], everything=False)


def fitted(run: RunResult, page: Page, room: int) -> list[str]:
    """What differs, in so many lines."""
    for layout in _LAYOUTS:
        lines = _table(run, page, layout, everything=False)
        if len(lines) <= room:
            return lines
    room = max(room, LEAST)
    tables = (_table(run, page, _LAYOUTS[-1], everything=False, most=most) for most in range(room, -1, -1))
    return next((lines for lines in tables if len(lines) <= room), list[str]())


def _table(run: RunResult, page: Page, layout: _Layout, *, everything: bool, most: int | None = None) -> list[str]:
    """The table in a layout, with at most `most` of its rows."""
    subjects = list(groups.differing(run, everything=everything))
    if not subjects:
        return []
    differing = sum(row.differs for row in run.differences)
    title = f"Differences: {differing} of {len(run.differences)} facts on the wire are not the same for all targets"
    counted = [(subject, rows) for subject, rows in subjects if layout.main and subject not in _MAIN]
    shown = [(subject, rows) for subject, rows in subjects if (subject, rows) not in counted]
    rows_shown = [(subject, row) for subject, rows in shown for row in rows][:most]
    cut = sum(len(rows) for _, rows in shown) - len(rows_shown)
    shown = [(subject, [row for own, row in rows_shown if own == subject]) for subject, _ in shown]
    shown = [(subject, rows) for subject, rows in shown if rows]
    fact_width = min(max((len(row.fact) for _, rows in shown for row in rows), default=0), layout.facts or page.width)
    value_width = page.width - fact_width - 4
    parts: list[RenderableType] = [heading(title)]
    for subject, rows in shown:
        if layout.headings:
            parts.append(Text(plain(subject)))
        parts += [
            hanging(row.fact, page.cut(_values(row), value_width, layout.lines), width=fact_width) for row in rows
        ]
    hidden = sum(len(rows) for _, rows in counted) + cut
    if hidden or layout.lines:
        of = f", of {listed([plain(subject) for subject, _ in counted], NAMES)}" if counted and not cut else ""
        more = f"{hidden} more{of}" if hidden else "uncut"
        parts.append(indented(f"{more}: --all-differences", "dim"))
    return page.lines(parts)


def _values(row: Difference) -> Text:
    text = Text()
    for value, names in groups.by_value(row):
        text.append("; " if text else "")
        text.append(plain(value))
        text.append(f" ({plain(names)})", style="dim")
    return text
