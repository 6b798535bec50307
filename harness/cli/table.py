"""Rows in columns: whole where they are piped, fitted where somebody looks at them in a terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence

from harness.cli import streams

_LEAST = 24
"""Columns that a description has at least before others stand beside it."""


def printed(rows: Sequence[Sequence[str]], text: str = "") -> Iterator[str]:
    """The lines of a table. In a terminal the descriptions, below the head `text` or the last one, are cut, and columns
    for which there is no room are left out, which is said on standard error; names are whole."""
    if not sys.stdout.isatty():
        yield from aligned(rows)
        return
    fitted, left_out = fit(rows, shutil.get_terminal_size().columns, text or rows[0][-1])
    yield from aligned(fitted)
    if left_out:
        streams.tell(f"Left out for want of room, and there in a pipe: {', '.join(left_out)}.")


def fit(rows: Sequence[Sequence[str]], width: int, text: str) -> tuple[list[list[str]], list[str]]:
    """The rows within a width, and the heads of the columns that are left out."""
    heads, widths = rows[0], _widths(rows)
    described = heads.index(text)
    kept = [0] if described == 0 else [0, described]
    used = widths[0] + (min(widths[described], _LEAST) + 2 if described else 0)
    for column, wide in enumerate(widths):
        if column not in kept and used + wide + 2 <= width:
            kept.append(column)
            used += wide + 2
    kept.sort()
    room = width - sum(widths[column] + 2 for column in kept if column != described)
    cut = [[_cut(row[at], room) if at == described and at else row[at] for at in kept] for row in rows]
    return cut, [head for at, head in enumerate(heads) if at not in kept]


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows as lines, each column as wide as its widest cell."""
    widths = _widths(rows)
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]


def _cut(text: str, width: int) -> str:
    width = max(width, 2)
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"
