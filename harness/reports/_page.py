"""A page of text: rich renderables laid out as lines, with or without colours."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.reports._words import plain
from harness.results import Presentation

_NARROWEST, _WIDEST = 60, 160


class Page:
    """Lays out for one width; everything of its own is ASCII, and nothing is read as markup."""

    def __init__(self, presentation: Presentation) -> None:
        self.width = min(max(presentation.width, _NARROWEST), _WIDEST)
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
        """The lines that the parts take."""
        with self._console.capture() as capture:
            for part in parts:
                self._console.print(part)
        return [line.rstrip() for line in capture.get().splitlines()]

    def cut(self, text: Text, width: int, most: int | None) -> Text:
        """The text as at most so many lines of a width, with an ellipsis if that is not all of it."""
        lines = text.wrap(self._console, width)
        if most is None or len(lines) <= most:
            return text
        kept = list(lines[:most])
        kept[-1].rstrip()
        kept[-1] = kept[-1][: width - 4].append(" ...")
        return Text("\n").join(kept)


def heading(text: str) -> Text:
    """A line above others."""
    return Text(plain(text), style="bold")


def indented(text: str, style: str = "", *, by: int = 2) -> RenderableType:
    """A paragraph, moved to the right."""
    return Padding(Text(plain(text), style=style), (0, 0, 0, by))


def hanging(first: Text | str, rest: Text | str, *, width: int, by: int = 2) -> RenderableType:
    """A paragraph beside its first words, which take `width` columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=width, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    table.add_row(*(Text(plain(part)) if isinstance(part, str) else part for part in (first, rest)))
    return Padding(table, (0, 0, 0, by))


def matrix(heads: Sequence[str], rows: Iterable[Sequence[Text]], width: int) -> Iterator[RenderableType]:
    """Columns with heads, none of them cut: those that do not fit into `width` follow below, beside the first again."""
    columns = [[Text(plain(head)), *cells] for head, cells in zip(heads, zip(*rows, strict=True), strict=True)]
    widths = [max(cell.cell_len for cell in column) for column in columns]
    gap = 2 if sum(widths) + 2 * len(widths) - 2 <= width else 1
    first = 1
    while first < len(columns):
        last, used = first + 1, widths[0] + gap + widths[first]
        while last < len(columns) and used + gap + widths[last] <= width:
            used += gap + widths[last]
            last += 1
        yield from [""] if first > 1 else []
        yield _block([columns[0], *columns[first:last]], gap)
        first = last


def _block(columns: Sequence[Sequence[Text]], gap: int) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column[0], overflow="fold")
    for row in list(zip(*columns, strict=True))[1:]:
        table.add_row(*row)
    return table
