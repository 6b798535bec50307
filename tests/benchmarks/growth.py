"""How time and memory grow with the conversations and the cells of a run.

Each size is measured in a process of its own, `python -m tests.benchmarks.growth PLAYER SIZE FOLDER TIMES`, so that its
peak of memory is its own.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cassettes.library import CassetteLibrary
from tests.backends import shipped_targets
from tests.benchmarks import many
from tests.benchmarks.contenders import JUDGED, ROOT, Field, contenders, ready
from tests.benchmarks.conversations import Conversation
from tests.benchmarks.recordings import record

TARGET = "openai-chat"
PLAYERS = {"conversations": 0, "one process": 1, "two processes": 2}
"""How many processes run the cells, for those that run cells."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Milliseconds for one conversation or cell, and peaks of memory: of the process, and of its largest child."""

    player: str
    size: int
    milliseconds: float
    peak_megabytes: float
    forks_megabytes: float


def conversations(folder: Path, sizes: Sequence[int]) -> list[Growth]:
    """Runs of the harness with all rules over one cassette per conversation."""
    record(folder, [Conversation(number) for number in range(max(sizes))], [shipped_targets()[TARGET]])
    return [_measured("conversations", size, folder, times=1 if size > 1_000 else 5) for size in sizes]


def cells(folder: Path, sizes: Sequence[int]) -> list[Growth]:
    """Runs of many cells with their JSON and terminal report, by one process and by two."""
    return [_measured(player, size, folder) for player in ("one process", "two processes") for size in sizes]


def _measured(player: str, size: int, folder: Path, times: int = 1) -> Growth:
    command = [sys.executable, "-m", "tests.benchmarks.growth", player, str(size), str(folder), str(times)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    reported: dict[str, Any] = json.loads(done.stdout)
    return Growth(
        player, size, reported["seconds"] / size * 1000, reported["peak_megabytes"], reported["forks_megabytes"]
    )


def _seconds(player: str, size: int, folder: Path, times: int) -> float:
    """The fastest of some runs."""
    if processes := PLAYERS[player]:
        return min(many.run_seconds(many.some_cells(size), folder, processes) for _ in range(times))
    chosen = [Conversation(number) for number in range(size)]
    (judged,) = (each for each in contenders() if each.name == JUDGED)
    with ready(judged, Field(shipped_targets()[TARGET], chosen, CassetteLibrary(folder), folder)) as play:
        return min(play() for _ in range(times))


def peak_megabytes() -> float:
    """The most memory that this process has held (Linux). `getrusage` would count its parent's, before `exec`, too."""
    found = re.search(r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    taken = _seconds(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    forks = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"seconds": taken, "peak_megabytes": peak_megabytes(), "forks_megabytes": forks}))
