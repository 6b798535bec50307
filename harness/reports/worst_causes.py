"""Report of the three worst causes of a run in at most 25 lines, for `harness try`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from rich.console import RenderableType
from rich.text import Text

from harness.reports import groups, words
from harness.reports.finding_causes import Cause, causes
from harness.reports.page import Page, hanging, heading
from harness.results import Blame, CellResult, Finding, Presentation, Report, RunResult, Severity, Subject

MAX_CAUSES = 3
_MAX_LINES = 23
_LABEL_WIDTH = 9


def render(run: RunResult, presentation: Presentation) -> str:
    """Return the verdict and the worst causes, each with the wrong and the right value, and a remedy.

    A command shows or reproduces a cell.
    """
    page = Page(presentation)
    lines: list[str] = []
    # Spend the space on the other causes first, then on second lines of messages and remedies, then on blank lines.
    for is_spaced, wrapped, listed in (
        (True, 2, 4),
        (False, 2, 4),
        (False, 2, 1),
        (True, 2, 0),
        (False, 2, 0),
        (True, 1, 0),
    ):
        lines = [line for part in _parts(run, is_spaced, listed) for line in _rendered(page, part, wrapped)]
        if len(lines) <= _MAX_LINES:
            break
    return "\n".join(lines) + "\n"


def _rendered(page: Page, part: RenderableType, wrapped: int) -> list[str]:
    """Return the lines of a part. A command stays on one line, so that it can be copied."""
    if isinstance(part, str):
        return [part]
    if isinstance(part, Text):
        part.truncate(page.width, overflow="ellipsis")
    lines = page.lines([part])
    return [*lines[: wrapped - 1], f"{lines[wrapped - 1][: page.width - 2]} …"] if len(lines) > wrapped else lines


def _parts(run: RunResult, is_spaced: bool, listed: int) -> Iterator[RenderableType]:
    """Yield the parts of the report. At most `listed` further causes have a line of their own."""
    word, totals = words.verdict(run)
    yield heading(f"{word}  {totals}")
    found = by_rule(run)
    for number, same in enumerate(found[:MAX_CAUSES], 1):
        yield from [""] if is_spaced or number == 1 else []
        yield from _cause(run, number, same)
    broken = groups.broken(run)
    for reason, places in broken[: max(MAX_CAUSES - len(found), 0)]:
        yield ""
        yield _cut(f"error in {words.count(groups.cells_of(places), 'cell')}: {reason or 'no reason is known'}", "bold")
        yield _command("see", groups.look(run, places[0].cells[0]))
    yield ""
    others = found[MAX_CAUSES:]
    for number, same in enumerate(others[:listed], MAX_CAUSES + 1):
        yield _cut(f"{number}  {same[0].message} ({same[0].rule})")
    if others[listed:]:
        more = ", ".join(same[0].rule for same in others[listed:])
        yield _cut(f"and {words.count(len(others[listed:]), 'more cause')}: {more}")
    elif not found and not broken:
        yield heading("Nothing is wrong in this sample.")


def by_rule(run: RunResult) -> list[list[Cause]]:
    """Return the causes of errors and then of warnings, grouped by rule, so that a rule takes one of the places that
    are shown.
    """
    rules: dict[str, list[Cause]] = {}
    for each in sorted(
        causes(run, Severity.ERROR) + causes(run, Severity.WARNING), key=lambda each: each.rule in _DERIVED
    ):
        rules.setdefault(each.rule, []).append(each)
    return [*rules.values()]


_DERIVED = ("stream-equals-whole",)
"""Rules that compare two results. Another rule usually names the defect that makes them differ."""

_SUBJECTS_OF_RESULTS = (Subject.STREAMING, Subject.RESPONSES, Subject.ERRORS)
"""Subjects of findings that are about what an adapter returns or raises, if they point to nothing in a request."""


def _cause(run: RunResult, number: int, same: list[Cause]) -> Iterator[RenderableType]:
    cause = same[0]
    place, finding = cause.places[0], cause.places[0].findings[0]
    cells = words.count(groups.cells_of([place for each in same for place in each.places]), "cell")
    title = Text(words.plain_line(f"{cause.message} ({cause.rule}, {cells})"), style="bold")
    yield hanging(Text(str(number), style="bold"), title, width=1, by=0)
    values = dict(words.values(with_one_value(finding)))
    side = side_of(finding)
    shown = "  ".join(part for part in (words.place(finding), values.get("actual", "")) if part)
    yield _cut(f"   {side:{_LABEL_WIDTH}}{shown}")
    if "expected" in values:
        yield _cut(f"   {'right':{_LABEL_WIDTH}}{values['expected']}")
    yield hanging("do", words.what_to_do(cause), width=_LABEL_WIDTH - 2, by=3)
    if command := _command_for(run, cause.rule, place.cells[0]):
        yield _command("see", command)


def _command_for(run: RunResult, rule: str, cell: CellResult) -> str:
    """Return the command that shows a cell, or the one that reproduces it if the run names `reproduce`."""
    if run.invocation.show[1:2] != ("reproduce",):
        return groups.look(run, cell)
    stream = ["--variant", "stream"] if cell.variant == "stream" else []
    several = len({each.rule for each in cell.findings if each.fails}) > 1
    options = [*stream, *(["--rule", rule] if several else [])]
    return shlex.join([*run.invocation.show[:2], cell.scenario, *options, *run.invocation.show[2:]])


def side_of(finding: Finding) -> str:
    """Return whether the wrong value was sent, returned to the caller, or received."""
    if not finding.of_response and (finding.pointer or finding.subject not in _SUBJECTS_OF_RESULTS):
        return "sent"
    return "returned" if finding.blame in (Blame.ADAPTER, Blame.CLIENT) else "received"


def with_one_value(finding: Finding) -> Finding:
    """Return the finding with its expected value unwrapped if it is a list with one entry. The list is kept if the
    actual value is a list, too.
    """
    expected = finding.expected
    if isinstance(expected, list) and len(expected) == 1 and not isinstance(finding.actual, list):
        return replace(finding, expected=expected[0])
    return finding


def _command(label: str, command: str) -> str:
    return words.plain_line(f"   {label:{_LABEL_WIDTH}}{command}")


def _cut(text: str, style: str = "") -> RenderableType:
    """Return one line, which `_rendered` cuts at the width of the page."""
    return Text(words.plain_line(text), style=style)


REPORT = Report("worst", render)
