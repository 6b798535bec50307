"""What a recording costs, on standard error: about how much before anything is sent, and how much it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer

from harness.reports._costs import costs, money
from harness.reports._words import count, plain
from harness.results import RunResult, Spending
from harness.running.cells import not_applicable
from harness.running.costs import price_version
from harness.running.estimate import estimate
from harness.running.stages import Cell


def before(cells: Sequence[Cell], base_urls: Mapping[str, str], max_requests: int | None) -> None:
    """Say what the applicable cells are about to cost, target by target."""
    sent = [cell for cell in cells if not_applicable(cell, "live") is None]
    parts = estimate(sent, base_urls=base_urls, max_requests=max_requests)
    if not parts:
        return
    source = " ".join(part for pair in price_version().items() for part in pair)
    _say(f"To be sent: {_about(Spending.together(parts.values()))}; reasoning comes on top ({source}).")
    for target, part in parts.items():
        _say(f"  {target} ({part.model}): {_about(part)}")


def _about(spending: Spending) -> str:
    requests = f"about {count(spending.requests, 'request')}"
    if spending.dollars is None:
        return f"{requests}, at a cost that is not known"
    dollars = money(spending.dollars)
    unknown = f", and {spending.unpriced} of them at a cost that is not known" if spending.unpriced else ""
    return f"{requests}, {dollars if dollars.startswith('less') else f'about {dollars}'}{unknown}"


def after(run: RunResult) -> None:
    """Say what the recording cost, where no report on the screen does."""
    for sentence in costs(run):
        _say(sentence)


def _say(text: str) -> None:
    typer.echo(plain(text), err=True)
