"""The benchmarks: `python -m tests.benchmarks`. Ratios are between contenders of the same run on the same machine."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.backends import shipped_targets
from tests.benchmarks import growth, speed, starts
from tests.benchmarks.bare import SDKS
from tests.benchmarks.contenders import FLOOR, JUDGED, NO_KEEPALIVE, contenders
from tests.benchmarks.conversations import Conversation

MEMORY = Path("/dev/shm")

PARTS = ("speed", "lengths", "conversations", "cells", "starts", "suite")

LENGTHS = (1, 10, 99)
"""Calls of a conversation; a scenario has a hundred answers at most."""


def main() -> None:
    options = _options()
    console = Console(width=130)
    results: dict[str, Any] = {}
    for part in options.only or PARTS:
        # In memory where that is possible: what is measured is the contenders and not the disk.
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            results[part] = _PARTS[part](console, options, Path(folder))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="a part of it; may be given several times")
    parser.add_argument("--target", action="append", choices=SDKS, help="in the first two: one; default: one per API")
    parser.add_argument("--conversations", type=int, default=200, help="in `speed` (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="repetitions (default: %(default)s)")
    parser.add_argument("--most", type=int, default=10_000, help="the largest size of growth (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")
    return parser.parse_args()


def _speed(console: Console, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    everybody = contenders()
    taking_part = [each for each in everybody if each.missing is None]
    for each in everybody:
        if each.missing:
            console.print(f"left out: {each.name}: {each.missing}")
    floors = ("× floor", "× alone")
    table = Table("target", "contender", "× floor (median)", *floors, "ms per conversation (min)")
    measured: list[speed.Speed] = []
    for name in options.target or SDKS:
        chosen = [Conversation(number) for number in range(options.conversations)]
        rows = speed.measure(shipped_targets()[name], taking_part, chosen, options.rounds, folder / name)
        measured += rows
        least = {row.contender: row.least for row in rows}
        for row in rows:
            ratios = (f"{row.least / least[floor]:.2f}" for floor in (FLOOR, NO_KEEPALIVE))
            table.add_row(name, row.contender, f"{row.ratio:.2f}", *ratios, f"{row.least:.2f}")
        table.add_section()
    console.print(
        f"{options.conversations} tool conversations of two requests per API, {options.rounds} rounds; ratios of minima"
    )
    console.print(table)
    return [asdict(row) for row in measured]


def _lengths(console: Console, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """The floor and the harness over conversations of several lengths."""
    console.print("conversations of many calls, each of which repeats all before it")
    taking_part = [each for each in contenders() if each.name in (FLOOR, NO_KEEPALIVE, JUDGED)]
    table = Table("target", "calls", "contender", "× floor (median)", "ms per call (min)")
    measured: list[dict[str, Any]] = []
    for name in options.target or SDKS:
        for calls in LENGTHS:
            chosen = [Conversation(number, calls) for number in range(max(1, LENGTHS[-1] // calls // 5))]
            place = folder / f"{name}-{calls}"
            for row in speed.measure(shipped_targets()[name], taking_part, chosen, options.rounds, place):
                table.add_row(name, str(calls), row.contender, f"{row.ratio:.2f}", f"{row.least / calls:.2f}")
                measured.append({"calls": calls, **asdict(row)})
        table.add_section()
    console.print(table)
    return measured


def _suite(console: Console, options: argparse.Namespace, _folder: Path) -> list[dict[str, Any]]:
    rows = starts.suite(min(options.rounds, 3))
    table = Table("command", "s of the processor (min)", "s on the clock (min)")
    for row in rows:
        table.add_row(f"harness {row.words}", f"{row.processor:.1f}", f"{row.clock:.1f}")
    console.print(table)
    return [asdict(row) for row in rows]


def _conversations(console: Console, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    sizes = [size for size in (100, 1_000, 10_000) if size <= options.most]
    rows = growth.conversations(folder, sizes)
    table = Table("conversations", "ms per conversation", f"× that at {sizes[0]}", "peak memory (MB)")
    for row in rows:
        ratio = row.milliseconds / rows[0].milliseconds
        table.add_row(str(row.size), f"{row.milliseconds:.2f}", f"{ratio:.2f}", f"{row.peak_megabytes:.0f}")
    console.print("a run of the harness, all rules, one target, each in a process of its own")
    console.print(table)
    return [asdict(row) for row in rows]


def _cells(console: Console, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    rows = growth.cells(folder, [size for size in (1_000, 10_000, 100_000) if size <= options.most])
    table = Table("by", "cells", "ms per cell", "× that of the fewest", "peak memory (MB)", "of a fork (MB)")
    for row in rows:
        first = next(each for each in rows if each.player == row.player)
        ratio = row.milliseconds / first.milliseconds
        megabytes = f"{row.peak_megabytes:.0f}", f"{row.forks_megabytes:.0f}" if row.player != "one process" else ""
        table.add_row(row.player, str(row.size), f"{row.milliseconds:.2f}", f"{ratio:.2f}", *megabytes)
    console.print("a run of shipped scenarios under many names, all rules, six targets, with its JSON and its report")
    console.print(table)
    return [asdict(row) for row in rows]


def _starts(console: Console, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    rows = starts.measure(folder, options.rounds)
    table = Table("command", "ms (median)", "ms (min)", "× an empty Python", "SDKs imported")
    for row in rows:
        table.add_row(row.command, f"{row.median:.0f}", f"{row.least:.0f}", f"{row.ratio:.2f}", row.sdks or "none")
    console.print(table)
    return [asdict(row) for row in rows]


_PARTS = {
    "speed": _speed,
    "lengths": _lengths,
    "conversations": _conversations,
    "cells": _cells,
    "starts": _starts,
    "suite": _suite,
}

if __name__ == "__main__":
    sys.exit(main())
