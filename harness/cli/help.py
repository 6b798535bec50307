"""`harness help`: the pages in `topics/`, Markdown files whose first line is the title."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import resources
from typing import Annotated

import typer

from harness.cli import app
from harness.cli.options import argument
from harness.model.errors import UnknownName

_MAX_WIDTH = 100


def help_(
    topic: Annotated[
        str | None, argument("", "A topic; without one, all are listed.", autocompletion=app.complete_topics)
    ] = None,
) -> None:
    """Explain one of the topics, or list them."""
    found = topics()
    if topic is None:
        width = max(map(len, found))
        typer.echo("Usage: harness help TOPIC\n")
        for name, text in found.items():
            title = text.splitlines()[0].removeprefix("# ").replace("`", "")
            typer.echo(f"  {name:{width}}  {title}")
    elif topic not in found:
        raise UnknownName("topic", topic, list(found))
    elif sys.stdout.isatty():
        render(found[topic])
    else:
        typer.echo(found[topic], nl=False)


def topics() -> dict[str, str]:
    """Return the Markdown of each topic by name."""
    files = (resources.files("harness.cli") / "topics").iterdir()
    texts = {file.name.removesuffix(".md"): file.read_text(encoding="utf-8") for file in files}
    return dict(sorted(texts.items()))


def render(text: str) -> None:
    """Render Markdown with headings, tables and code for a terminal."""
    from rich.console import Console  # noqa: PLC0415 - slow to import, and needed for terminals only
    from rich.markdown import Markdown  # noqa: PLC0415 - see above

    text = re.sub(r"\[(\w+)\]\((\w+)\.md\)", r"\1 (`harness help \2`)", text)
    width = min(shutil.get_terminal_size().columns, _MAX_WIDTH)
    Console(width=width).print(Markdown(text, code_theme="ansi_dark", hyperlinks=False))
