"""The options of a live run: addresses, pace, budget, costs, and what is kept of an earlier run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation

import typer

from harness import catalog
from harness.apis.targets import Target
from harness.cli.options import Options, named_values
from harness.cli.outputs import read
from harness.contract.errors import UnknownName, UsageError
from harness.kit import factories
from harness.reports.groups import missing
from harness.reports.words import costs, count, forecast, money, plain
from harness.results import CellResult, Invocation, Mode, RunResult, Verdict
from harness.running.budget import Budget, estimate
from harness.running.cells import Cell, not_applicable
from harness.running.costs import price_version
from harness.running.live import RateLimits, RateOptions, base_urls_of
from harness.running.recorder import Recorder
from harness.running.shards import ResumedCells, resumed_cells


def check(options: Options, mode: Mode) -> None:
    """Whether what was typed can be meant. Raises `UsageError`: nothing is sent live, or two options contradict."""
    for option, value in options.sending.items():
        if value and mode != "live":
            raise UsageError(f"{option}: it is for what is sent live: add --mode live, or record --from provider.")
    if options.concurrency and options.jobs not in (None, "1"):
        raise UsageError("--concurrency: it counts the cells of each target, and -n those of all. Leave one out.")


def rate_limits(options: Options, targets: Sequence[Target]) -> RateLimits:
    """How fast requests are sent.

    Raises:
        UsageError: a value is none, or names no target of the run.
    """
    names = [target.name for target in targets]
    return RateLimits(RateOptions.parsed(options.rates or (), options.concurrency or (), names))


def budget(options: Options, targets: Sequence[Target]) -> Budget | None:
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
    Budget.check(targets)
    return Budget(limit)


def earlier(options: Options) -> RunResult | None:
    """The run that `--resume` names, if it does: to be read before its file is written anew.

    Raises:
        UsageError: there is no such run.
    """
    file = options.resume
    return None if file is None else read(file, "--resume")


def resumed(options: Options, run: RunResult | None, cells: Sequence[Cell]) -> ResumedCells:
    """What is kept of an earlier run; says how much that is.

    Raises:
        UsageError: it cannot be gone on with.
    """
    file = options.resume
    if run is None:
        return ResumedCells()
    found = resumed_cells(run, str(file), cells)
    left = len(cells) - len(found.cells)
    typer.echo(f"--resume {file}: {count(len(found.cells), 'cell')} kept, {left} to play.", err=True)
    return found


def spent(budget: Budget | None) -> None:
    """Say what is spent of a budget."""
    if budget is not None:
        typer.echo(f"Budget: {money(budget.spent)} of ${budget.limit:f} spent, by list prices.", err=True)


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


def say_notes(sentences: Iterable[str]) -> None:
    """Say what earlier recordings have left, or this one."""
    for sentence in sentences:
        _say(sentence)


def say_fresh(number: int, left: int, *, stale: bool = False) -> None:
    """Say how many of the chosen cells are recorded already, or have no recording that is `stale`."""
    if number and stale:
        again = f"{count(left, 'cell')} to record again" if left else "nothing to record again"
        _say(f"{count(number, 'chosen cell')} without a stale cassette: --stale leaves what is there; {again}.")
    elif number:
        rest = f"{count(left, 'cell')} to record" if left else "nothing to record"
        _say(f"{count(number, 'chosen cell')} with a fresh cassette: --missing leaves what is there; {rest}.")


def say_stopped(
    cells: Sequence[Cell], recorded: Sequence[Cell], recorder: Recorder, invocation: Invocation, named: Sequence[str]
) -> None:
    """Say which cells of a recording that stops are done, and the command that goes on with the others.

    `named` are the targets that were named; none, if nobody named any.
    """
    complete = {id(cell) for cell in recorded}
    done, left = [[cell for cell in cells if (id(cell) in complete) is wanted] for wanted in (True, False)]
    _say(f"Recorded before it stopped: {len(done)} of {count(len(cells), 'cell')}{':' if done else '.'}")
    for name in dict.fromkeys(cell.target.name for cell in done):
        _say(f"  {name}: {', '.join(map(_named, (cell for cell in done if cell.target.name == name)))}")
    if not left:
        return
    force = ("--force",) if recorder.force else ()
    if (
        recorder.force and not recorder.missing and recorder.outdated is None
    ):  # what is left has cassettes that are to be replaced: none is missing
        verdicts = [_result(cell, Verdict.PASS if id(cell) in complete else Verdict.MISSING) for cell in cells]
        forced = replace(invocation, record=(*invocation.record, *force))
        commands = [group.record for group in missing(RunResult("record", tuple(verdicts), invocation=forced))]
    else:
        which = ("--missing",) if recorder.outdated is None else recorder.outdated.words
        commands = [invocation.command((*invocation.record, *which, *force), named)]
    for command in commands:
        _say(f"To go on: {command}")


def _result(cell: Cell, verdict: Verdict) -> CellResult:
    target = cell.target
    return CellResult(cell.scenario.id, target.name, target.adapter.name, target.api, cell.variant, verdict)


def _named(cell: Cell) -> str:
    return cell.scenario.id if cell.variant == "whole" else f"{cell.scenario.id} ({cell.variant})"


def _say(text: str) -> None:
    typer.echo(plain(text), err=True)
