"""What a recording costs, on standard error: about how much before anything is sent, and how much it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer

from harness.reports._costs import costs, forecast
from harness.reports._words import plain
from harness.results import RunResult
from harness.running.cells import not_applicable
from harness.running.costs import price_version
from harness.running.estimate import estimate
from harness.running.stages import Cell


def before(cells: Sequence[Cell], base_urls: Mapping[str, str], max_requests: int | None) -> None:
    """Say what the applicable cells are about to cost, target by target."""
    sent = [cell for cell in cells if not_applicable(cell, "live") is None]
    parts = estimate(sent, base_urls=base_urls, max_requests=max_requests)
    for sentence in forecast(parts, price_version()):
        _say(sentence)


def after(run: RunResult) -> None:
    """Say what the recording cost, where no report on the screen does."""
    for sentence in costs(run):
        _say(sentence)


def _say(text: str) -> None:
    typer.echo(plain(text), err=True)
