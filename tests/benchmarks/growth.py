"""How time and memory grow: with the conversations of a run, with its cells, and with the exchanges in one cassette.

Each size is measured in a process of its own (`worker.py`), so that its peak of memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.cassettes.cassette import Cassette
from harness.cassettes.write import dumps
from tests.benchmarks.contenders import ROOT, Field, cassette_name, recorded_by_vcr
from tests.benchmarks.conversations import Conversation
from tests.benchmarks.recordings import record
from tests.stages import shipped_targets

TARGET = "openai-chat"

MOST_FOR_VCR = 400
"""Exchanges in one cassette of plain vcrpy: its time grows with their square, in recording as in playing."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker does: play `size` conversations, or the conversations of one cassette with `size` exchanges.

    `times` is how often, of which the fastest counts.
    """

    player: str
    size: int
    folder: str
    times: int = 3


@dataclass(frozen=True, slots=True)
class Growth:
    """Milliseconds for one conversation, cell or exchange; `ratio` is to the bare SDK with the same size.
    `forks_megabytes` is the peak of the largest fork, if there are any."""

    player: str
    size: int
    milliseconds: float
    peak_megabytes: float
    ratio: float = 1.0
    forks_megabytes: float = 0.0


def conversations(folder: Path, sizes: Sequence[int]) -> list[Growth]:
    """Runs of the harness, all rules, over one cassette per conversation."""
    record(folder, [Conversation(number) for number in range(max(sizes))], [shipped_targets()[TARGET]])
    return [_measured(Task("run", size, str(folder), times=1 if size > 1_000 else 5)) for size in sizes]


def cells(folder: Path, sizes: Sequence[int]) -> list[Growth]:
    """Runs of many cells with their JSON and the terminal's report, by one process and by two."""
    return [
        _measured(Task(by, size, str(folder), times=1)) for by in ("one process", "two processes") for size in sizes
    ]


def exchanges(folder: Path, sizes: Sequence[int]) -> list[Growth]:
    """The bare SDK, from memory, through the harness's player and through plain vcrpy, from one cassette."""
    target = shipped_targets()[TARGET]
    chosen = [Conversation(number) for number in range(max(sizes) // 2)]
    library = record(folder / "single", chosen, [target])
    rows: list[Growth] = []
    for size in sizes:
        place = folder / str(size)
        field = Field(target, chosen[: size // 2], library, place)
        place.mkdir()
        each = [library.load(target.cassettes, conversation.id, "whole") for conversation in field.conversations]
        cassette = Cassette(tuple(found for one in each for found in one.interactions), each[0].metadata)
        (place / "harness.yaml").write_bytes(dumps(cassette, "harness.yaml"))
        (place / "bodies.json").write_text(json.dumps([body.decode() for body in field.recorded(field.conversations)]))
        times = 1 if size > 1_000 else 3  # what the play before has left would be in the peak
        floor = _measured(Task("bare SDK", size, str(place), times))
        others = [Task("harness", size, str(place), times)]
        if size <= MOST_FOR_VCR:
            (recorded_by_vcr(field, one=True) / cassette_name(0)).rename(place / "vcr.yaml")
            others.append(Task("plain vcrpy", size, str(place), times=1 if size > 100 else 3))
        rows.append(floor)
        rows += [_measured(task, floor) for task in others]
    return rows


def _measured(task: Task, floor: Growth | None = None) -> Growth:
    command = [sys.executable, "-m", "tests.benchmarks.worker", json.dumps(asdict(task))]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    told: dict[str, Any] = json.loads(done.stdout)
    milliseconds: float = told["seconds"] / task.size * 1000
    ratio = milliseconds / floor.milliseconds if floor else 1.0
    return Growth(task.player, task.size, milliseconds, told["peak_megabytes"], ratio, told["forks_megabytes"])
