"""Which faults of broken adapters generated conversations find, without the scenario that was written for each.

    python -m tests.broken.generated [--most N] [--seed S] [NAME...]

For each fault: the number of conversations until its rule reports it, and the lines of the smallest one. Faults that
need another provider than the reference server are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from unittest import mock

import typer

from harness.apis.registry import Target
from harness.checks import random_conversations
from harness.checks.generation import CauseKey, causes_of, shrink_cause
from harness.cli.generating import text_of
from harness.results import CellResult
from harness.runner.backends import GeneratedBackend
from harness.runner.cells import Cell
from harness.runner.suite_run import Run
from tests.backends import InProcess, generated_cell, shipped_targets
from tests.broken.fault import Expected, Fault
from tests.broken.faults import FAULTS
from tests.broken.running import RULES

LEAST_SHARE, MOST_LINES = 0.85, 15


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.broken.generated")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=int, default=150, help="conversations for each fault (150)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    chosen = [
        each for each in FAULTS if each[1].backend is InProcess and each[1].name in (options.names or [each[1].name])
    ]
    found, lengths = 0, list[int]()
    for expected, fault in chosen:
        target = shipped_targets()[fault.played_on[0]]
        count, lines = searched(expected, fault, target, options.most, options.seed)
        found += count > 0
        lengths += [lines] * bool(lines)
        outcome = f"found by {count}, {f'{lines} lines' if lines else 'a warning'}" if count else "not found"
        typer.echo(f"{fault.name} ({expected.rule}, {target.name}, {fault.scenario}): {outcome}")
    share = found / len(chosen)
    typer.echo(f"{found} of {len(chosen)} found ({share:.0%}), median {median(lengths or [0]):g} lines")
    return int(share < LEAST_SHARE or median(lengths or [0]) > MOST_LINES)


def searched(expected: Expected, fault: Fault, target: Target, most: int, seed: int) -> tuple[int, int]:
    """The number of conversations until a fault is found, or 0, and the lines of the smallest; 0 for a warning."""
    others = tuple(each for each in random_conversations.bases() if each[0].id != fault.scenario)
    broken = replace(target, adapter=fault.wrap(target.adapter))
    with (
        mock.patch.object(random_conversations, "bases", return_value=others),
        Run(GeneratedBackend(), RULES, recuts=fault.recuts, strict=True) as run,
    ):

        def run_one(cell: Cell) -> CellResult:
            return run([cell], jobs=1).cells[0]

        for number in range(most):
            cell = generated_cell(broken, f"{seed}/{number}", fault.variant)
            result = run_one(cell)
            if shown := _shown(expected, result):
                if shown not in causes_of(result):  # a warning, which is not searched for
                    return number + 1, 0
                found = shrink_cause(cell, shown, run_one, seconds=60)  # retries may really wait
                return number + 1, len(text_of(found.scenario).splitlines())
    return 0, 0


def _shown(expected: Expected, result: CellResult) -> CauseKey | None:
    keys = [key for key in causes_of(result) if key[0] == expected.rule]
    noted = [each for each in result.findings if (each.rule, each.severity) == (expected.rule, expected.severity)]
    return keys[0] if keys else (expected.rule, "") if noted else None


if __name__ == "__main__":
    sys.exit(main())
