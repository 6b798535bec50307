"""What has changed from one run to another, for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from harness.reports import _groups as groups
from harness.reports._comparison import Change, Comparison, compared
from harness.reports._page import Page, hanging, heading, indented
from harness.reports._words import plain, verdict
from harness.results import Presentation, RunResult

_SHOWN = 12
"""Changes of a kind that are shown."""

_WORDS = {"WORSE": "bold red", "NOT WORSE": "bold green", "SAME": "bold green"}


def render(before: RunResult, run: RunResult, presentation: Presentation) -> str:
    """The comparison as text that ends with a line break."""
    page = Page(presentation)
    made = compared(run, before)
    most = None if presentation.verbose else _SHOWN
    sections = (
        _verdict(before, run, made),
        _conditions(made.conditions),
        *(_section(title, changes, most) for title, changes in made.sections),
        _look(run, made),
    )
    return "\n\n".join("\n".join(lines) for lines in map(page.lines, sections) if lines) + "\n"


def _verdict(before: RunResult, run: RunResult, made: Comparison) -> Iterator[RenderableType]:
    text = Text(made.word, style=_WORDS[made.word])
    text.append(f"  {made.sentence}", style="not bold")
    yield text
    for name, each in (("before", before), ("now", run)):
        at = f"{each.played_at}  " if each.played_at else ""
        yield hanging(name, plain(f"{at}{'  '.join(verdict(each))}"), width=6)


def _conditions(sentences: Sequence[str]) -> Iterator[RenderableType]:
    if sentences:
        yield heading("Not runs of the same")
    yield from map(indented, sentences)


def _section(title: str, changes: Sequence[Change], most: int | None) -> Iterator[RenderableType]:
    yield heading(title)
    for each in changes[:most]:
        style = "red" if each.worse else "green" if each.better else "dim"
        word = Text(each.label, style=style)
        told = Text(plain(f"{each.what}: {each.told}"))
        yield hanging(word, told, width=7)
    if changes[len(changes[:most]) :]:
        yield indented(f"and {len(changes) - len(changes[:most])} more: --verbose", "dim")


def _look(run: RunResult, made: Comparison) -> Iterator[RenderableType]:
    worse = {change.key for change in made.cells if change.worse}
    cells = (cell for cell in run.cells if (cell.scenario, cell.target, cell.variant) in worse)
    command = next((shown for shown in (groups.look(run, cell) for cell in cells) if shown), "")
    if command:
        yield hanging("Look", command, width=6, by=0)
