"""What is said of a recording on standard error: what was found before it, what it leaves, and how to go on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import typer

from harness.reports._groups import missing
from harness.reports._words import count, plain
from harness.results import CellResult, Invocation, RunResult, Verdict
from harness.running.recorder import Recorder
from harness.running.stages import Cell


def notes(sentences: Iterable[str]) -> None:
    """Say what earlier recordings have left, or this one."""
    for sentence in sentences:
        _say(sentence)


def fresh(number: int, left: int, *, stale: bool = False) -> None:
    """Say how many of the chosen cells are recorded already, or have no recording that is `stale`."""
    if number and stale:
        again = f"{count(left, 'cell')} to record again" if left else "nothing to record again"
        _say(f"{count(number, 'chosen cell')} without a stale cassette: --stale leaves what is there; {again}.")
    elif number:
        rest = f"{count(left, 'cell')} to record" if left else "nothing to record"
        _say(f"{count(number, 'chosen cell')} with a fresh cassette: --missing leaves what is there; {rest}.")


def stopped(
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
