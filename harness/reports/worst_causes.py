"""Report of the three worst causes of a run in at most 25 lines, for `harness try`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.console import RenderableType
from rich.text import Text

from harness.reports import groups, words
from harness.reports.finding_causes import Cause, causes
from harness.reports.page import Page, hanging, heading
from harness.results import Finding, Presentation, Report, RunResult, Severity

_MAX_CAUSES = 3
_LABEL_WIDTH = 9


def render(run: RunResult, presentation: Presentation) -> str:
    """Return the verdict and the worst causes, each with the wrong and the right value, a remedy and a command that
    shows a cell.
    """
    page = Page(presentation)
    return "\n".join(line for part in _parts(run) for line in _rendered(page, part)) + "\n"


def _rendered(page: Page, part: RenderableType) -> list[str]:
    """Return the lines of a part. A command stays on one line, so that it can be copied."""
    if isinstance(part, Text):
        part.truncate(page.width, overflow="ellipsis")
    return [part] if isinstance(part, str) else page.lines([part])


def _parts(run: RunResult) -> Iterator[RenderableType]:
    word, totals = words.verdict(run)
    yield heading(f"{word}  {totals}")
    found = causes(run, Severity.ERROR) + causes(run, Severity.WARNING)
    for number, cause in enumerate(found[:_MAX_CAUSES], 1):
        yield ""
        yield from _cause(run, number, cause)
    broken = groups.broken(run)
    for reason, places in broken[: max(_MAX_CAUSES - len(found), 0)]:
        yield ""
        yield _cut(f"error in {words.count(groups.cells_of(places), 'cell')}: {reason or 'no reason is known'}", "bold")
        yield _command("see", groups.look(run, places[0].cells[0]))
    yield ""
    if len(found) > _MAX_CAUSES:
        yield heading(f"and {words.count(len(found) - _MAX_CAUSES, 'more cause')}")
    elif not found and not broken:
        yield heading("Nothing is wrong in this sample.")


def _cause(run: RunResult, number: int, cause: Cause) -> Iterator[RenderableType]:
    place, finding = cause.places[0], cause.places[0].findings[0]
    yield _cut(f"{number}  {cause.message} ({cause.rule}, {words.count(cause.cells, 'cell')})", "bold")
    values = dict(words.values(_with_one_value(finding)))
    side = "received" if finding.of_response else "sent"
    shown = "  ".join(part for part in (words.place(finding), values.get("actual", "")) if part)
    yield _cut(f"   {side:{_LABEL_WIDTH}}{shown}")
    if "expected" in values:
        yield _cut(f"   {'right':{_LABEL_WIDTH}}{values['expected']}")
    yield hanging("do", words.what_to_do(cause), width=_LABEL_WIDTH - 2, by=3)
    if command := groups.look(run, place.cells[0]):
        yield _command("see", command)


def _with_one_value(finding: Finding) -> Finding:
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
