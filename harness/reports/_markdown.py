"""Markdown of texts that are somebody else's: nothing in them is mark-up, HTML or the end of what holds them."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from harness.reports._words import plain


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, whatever its cells hold."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(escaped(cell) for cell in line) + " |" for line in lines)


def details(summary: str, blocks: Iterable[str]) -> str:
    """Blocks that are folded away below a summary."""
    return "\n\n".join([f"<details><summary>{html.escape(plain(summary))}</summary>", *blocks, "</details>"])


def escaped(text: str) -> str:
    """The text as it is, whatever it holds: no mark-up, no HTML, no new line of a table."""
    return re.sub(r"([\\`*_\[\]<>|~#$])", r"\\\1", " ".join(plain(text).split()))


def inline(text: str) -> str:
    """Code within a line; its fence is longer than any run of backticks in it."""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}"


def code(text: str, language: str = "sh") -> str:
    """A block of code; its fence is longer than any run of backticks in it."""
    fence = "`" * (max((len(run) for run in re.findall("`{3,}", text)), default=2) + 1)
    return f"{fence}{language}\n{text}\n{fence}"
