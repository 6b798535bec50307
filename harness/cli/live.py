"""The options of a live run: addresses, pace, budget, costs, and what is kept of an earlier run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation

import typer

from harness import catalog
from harness.apis.targets import Target
from harness.cli.options import Options, named_values
from harness.cli.outputs import read
from harness.contract.errors import UnknownName, UsageError
from harness.kit import factories
from harness.reports._costs import costs, forecast, money
from harness.reports._words import count, plain
from harness.results import Mode, RunResult
from harness.running.cells import not_applicable
from harness.running.costs import price_version
from harness.running.estimate import estimate
from harness.running.pace import Pace, Tempo
from harness.running.purse import Purse
from harness.running.resuming import Kept, kept
from harness.running.stages import Cell
from harness.running.stages.live import base_urls_of


def check(options: Options, mode: Mode) -> None:
    """Whether what was typed can be meant. Raises `UsageError`: nothing is sent live, or two options contradict."""
    for option, value in options.sending.items():
        if value and mode != "live":
            raise UsageError(f"{option}: it is for what is sent live: add --mode live, or record --from provider.")
    if options.concurrency and options.jobs not in (None, "1"):
        raise UsageError("--concurrency: it counts the cells of each target, and -n those of all. Leave one out.")


def pace(options: Options, targets: Sequence[Target]) -> Pace:
    """How fast requests are sent.

    Raises:
        UsageError: a value is none, or names no target of the run.
    """
    names = [target.name for target in targets]
    return Pace(Tempo.parsed(options.rates or (), options.concurrency or (), names))


def purse(options: Options, targets: Sequence[Target]) -> Purse | None:
    """What may be spent, if that is bounded.

    Raises:
        UsageError: it is no amount of dollars, or a price is not known.
    """
    given = options.budget
    if given is None:
        return None
    try:
        limit = Decimal(given.removeprefix("$"))
    except InvalidOperation:
        limit = Decimal(0)
    if not limit.is_finite() or limit <= 0:
        raise UsageError(f"--budget {given!r}: it has to be an amount of US dollars above 0, as in --budget 2.50.")
    Purse.check(targets)
    return Purse(limit)


def earlier(options: Options) -> RunResult | None:
    """The run that `--resume` names, if it does: to be read before its file is written anew.

    Raises:
        UsageError: there is no such run.
    """
    file = options.resume
    return None if file is None else read(file, "--resume")


def resumed(options: Options, run: RunResult | None, cells: Sequence[Cell]) -> Kept:
    """What is kept of an earlier run; says how much that is.

    Raises:
        UsageError: it cannot be gone on with.
    """
    file = options.resume
    if run is None:
        return Kept()
    found = kept(run, str(file), cells)
    left = len(cells) - len(found.cells)
    typer.echo(f"--resume {file}: {count(len(found.cells), 'cell')} kept, {left} to play.", err=True)
    return found


def spent(purse: Purse | None) -> None:
    """Say what is spent of a budget."""
    if purse is not None:
        typer.echo(f"Budget: {money(purse.spent)} of ${purse.limit:f} spent, by list prices.", err=True)


def base_urls_for(given: Sequence[str] | None, mode: Mode, targets: Sequence[Target]) -> Mapping[str, str]:
    """The servers in place of the providers of these targets: as given, or by the environment.

    Raises:
        UsageError: one is no URL, is for no target, or nothing is sent live.
    """
    base_urls = named_values("--base-url", given, "URL")
    known = sorted({target.name for target in targets} | {shipped.name for shipped in catalog.targets()})
    for target, url in base_urls.items():
        if mode != "live":
            raise UsageError("--base-url: it is for what is sent live: add --mode live, or record --from provider.")
        if target not in known:
            raise UnknownName("target", target, known, "--base-url")
        if not factories.is_base_url(url):
            raise UsageError(f"--base-url {target}: {factories.NO_BASE_URL}")
    if mode != "live":
        return {}
    return base_urls_of(base_urls, targets)


def forecast_costs(cells: Sequence[Cell], base_urls: Mapping[str, str], max_requests: int | None) -> None:
    """Say what the applicable cells are about to cost, target by target."""
    sent = [cell for cell in cells if not_applicable(cell, "live") is None]
    parts = estimate(sent, base_urls=base_urls, max_requests=max_requests)
    for sentence in forecast(parts, price_version()):
        _say(sentence)


def say_costs(run: RunResult) -> None:
    """Say what the recording cost, where no report on the screen does."""
    for sentence in costs(run):
        _say(sentence)


def _say(text: str) -> None:
    typer.echo(plain(text), err=True)
