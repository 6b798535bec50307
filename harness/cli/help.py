"""`harness help`: what does not fit beside an option. The texts are `topics/*.txt`, whose first line says what for."""

from __future__ import annotations

from importlib import resources
from typing import Annotated

import typer

from harness.cli import completion
from harness.contract.errors import UnknownName


def help_(
    topic: Annotated[
        str | None,
        typer.Argument(
            show_default=False, autocompletion=completion.topics, help="A topic; without one, all are listed."
        ),
    ] = None,
) -> None:
    """Explain one of the topics, or list them."""
    found = topics()
    if topic is None:
        width = max(map(len, found))
        typer.echo("Usage: harness help TOPIC\n")
        for name, text in found.items():
            summary, _, _ = text.partition("\n")
            typer.echo(f"  {name:{width}}  {summary}")
    elif topic not in found:
        raise UnknownName("topic", topic, list(found))
    else:
        typer.echo(found[topic], nl=False)


def topics() -> dict[str, str]:
    """The texts by name."""
    files = (resources.files("harness.cli") / "topics").iterdir()
    texts = {file.name.removesuffix(".txt"): file.read_text(encoding="utf-8") for file in files}
    return dict(sorted(texts.items()))
