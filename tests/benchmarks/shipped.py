"""`harness run`, the whole shipped suite: by one process, and by as many as it takes by itself."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import dataclass

from tests.benchmarks.contenders import ROOT


@dataclass(frozen=True, slots=True)
class Suite:
    """A run of the suite: the fastest of some, in seconds of the processor and on the clock."""

    words: str
    processor: float
    clock: float


def measure(rounds: int) -> list[Suite]:
    """In replay and against the reference server; they take turns."""
    runs = [f"run --mode {mode}{jobs}" for mode in ("replay", "reference") for jobs in (" -n 1", "")]
    taken = [{words: _seconds(words) for words in runs} for _ in range(rounds)]
    return [
        Suite(words, min(each[words][0] for each in taken), min(each[words][1] for each in taken)) for words in runs
    ]


def _seconds(words: str) -> tuple[float, float]:
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "harness", *words.split()]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    clock, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock
