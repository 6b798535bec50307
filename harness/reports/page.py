"""Layout of text for terminals: rich renderables as lines, with or without colours."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.reports.words import plain
from harness.results import Presentation

_MIN_WIDTH, _MAX_WIDTH = 60, 160


class Page:
    """Layout for one width. It adds only ASCII characters and does not interpret markup."""

    def __init__(self, presentation: Presentation) -> None:
        self.width = min(max(presentation.width, _MIN_WIDTH), _MAX_WIDTH)
        self._console = Console(
            file=io.StringIO(),
            width=self.width,
            force_terminal=presentation.colour,
            color_system="standard" if presentation.colour else None,
            no_color=not presentation.colour,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )

    def lines(self, parts: Iterable[RenderableType]) -> list[str]:
        """Render the parts as lines."""
        with self._console.capture() as capture:
            for part in parts:
                self._console.print(part)
        return [line.rstrip() for line in capture.get().splitlines()]


def heading(text: str) -> Text:
    """Return a line as a heading."""
    return Text(plain(text), style="bold")


def indent(text: str, style: str = "", *, by: int = 2) -> RenderableType:
    """Return an indented paragraph."""
    return Padding(Text(plain(text), style=style), (0, 0, 0, by))


def hanging(first: Text | str, rest: Text | str, *, width: int, by: int = 2) -> RenderableType:
    """Return a paragraph next to a label that is `width` columns wide."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=width, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    table.add_row(*(Text(plain(part)) if isinstance(part, str) else part for part in (first, rest)))
    return Padding(table, (0, 0, 0, by))


def columns(heads: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> Iterator[RenderableType]:
    """Yield a table whose columns are never truncated. Columns that do not fit into `width` follow in further blocks,
    which repeat the first column.

    If the table does not fit, its headings are wrapped at hyphens.
    """
    titles, cells = _fit(heads, rows, width)
    widths = [_width(title, column) for title, column in zip(titles, cells, strict=True)]
    gap = 2 if _needed_width(titles, cells, gap=2) <= width else 1
    first = 1
    while first < len(widths):
        last, used = first + 1, widths[0] + gap + widths[first]
        while last < len(widths) and used + gap + widths[last] <= width:
            used += gap + widths[last]
            last += 1
        yield from [""] if first > 1 else []
        yield _table([titles[0], *titles[first:last]], [cells[0], *cells[first:last]], gap)
        first = last


def fits(heads: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> bool:
    """Return whether a table fits into `width` in one block of columns."""
    return _needed_width(*_fit(heads, rows, width)) <= width


def _fit(
    heads: Sequence[str], rows: Sequence[Sequence[Text]], width: int
) -> tuple[Sequence[Text], Sequence[Sequence[Text]]]:
    cells = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in heads]
    titles = [Text(plain(head)) for head in heads]
    if _needed_width(titles, cells) > width:
        titles = [Text(_broken_head(title.plain, column)) for title, column in zip(titles, cells, strict=True)]
    return titles, cells


def _width(title: Text, column: Sequence[Text]) -> int:
    return max([*(len(line) for line in title.plain.splitlines()), *(cell.cell_len for cell in column)])


def _needed_width(titles: Sequence[Text], cells: Sequence[Sequence[Text]], gap: int = 1) -> int:
    widths = [_width(title, column) for title, column in zip(titles, cells, strict=True)]
    return sum(widths) + gap * (len(widths) - 1)


def _broken_head(title: str, column: Sequence[Text]) -> str:
    """Wrap a column heading at hyphens. Its lines are no longer than the widest cell, unless a single part of the
    heading is.
    """
    most = max((cell.cell_len for cell in column), default=0)
    lines: list[str] = [""]
    for part in title.replace("-", "-\n").split("\n"):
        if lines[-1] and len(lines[-1] + part) > most:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _table(titles: Sequence[Text], cells: Sequence[Sequence[Text]], gap: int) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    height = max(title.plain.count("\n") for title in titles)
    for title in titles:
        table.add_column(Text("\n" * (height - title.plain.count("\n")) + title.plain), overflow="fold")
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table
