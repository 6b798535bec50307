"""Prints the table of limits and modes: `python -m tests.limits`, from the folder of the repository."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import typer

from harness import catalog
from harness.apis.tables import known_limits
from tests.limits.cases import CASES
from tests.limits.proof import MODES, Group, Played, play


def _word(limit: str, played: Played | None) -> str:
    if played is None:
        return "no case"
    severity = played.limits.get(limit)
    others = sorted({*played.limits} - {limit, *CASES[limit].also})
    return f"{'red' if severity == 'error' else severity or 'PASSED'}{f', and {others}' if others else ''}"


def main() -> int:
    started = time.process_time()
    played: dict[tuple[str, str], Played] = {}
    for group in dict.fromkeys(map(Group.of, CASES)):
        with tempfile.TemporaryDirectory(prefix="limits-") as folder:
            played |= play(group, Path(folder))
    width = max(len(limit.id) for limit in known_limits())
    missed = 0
    typer.echo(f"{'LIMIT'.ljust(width)}  {'  '.join(mode.ljust(10) for mode in MODES)}")
    for limit in known_limits():
        words = [_word(limit.id, played.get((mode, limit.id))) for mode in MODES]
        missed += sum(word not in ("red", "warning") for word in words)
        typer.echo(f"{limit.id.ljust(width)}  {'  '.join(word.ljust(10) for word in words)}".rstrip())
    counts = ", ".join(f"{api} {len(wire.limits)}" for api, wire in ((each.name, each) for each in catalog.apis()))
    seconds = time.process_time() - started
    everywhere = len(known_limits()) - sum(len(wire.limits) for wire in catalog.apis())
    typer.echo(
        f"\n{len(known_limits())} limits: {counts}, of every API {everywhere}. {missed} are not as they should be."
    )
    typer.echo(f"{seconds:.0f} s of CPU for both modes and the recording.")
    return 1 if missed else 0


sys.exit(main())
