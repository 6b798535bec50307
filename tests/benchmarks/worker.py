"""One measurement in a process of its own: `python -m tests.benchmarks.worker TASK`, a `growth.Task` as JSON."""

from __future__ import annotations

import json
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2

from harness.cassettes.library import Library
from harness.cassettes.player import ExchangeLog, Player
from harness.cassettes.read import read
from harness.cassettes.transport import HandlerTransport, replaying
from tests.benchmarks import many
from tests.benchmarks.contenders import BODY_MATCHING, JUDGED, Field, contenders, lead, ready, timed
from tests.benchmarks.conversations import Conversation
from tests.benchmarks.growth import TARGET, Task
from tests.benchmarks.recordings import Canned
from tests.stages import shipped_targets


def run(task: Task) -> float:
    field = _field(task, task.size)
    everybody = {each.name: each for each in contenders(None)}
    with ready(everybody[JUDGED], field) as play:
        return min(play() for _ in range(task.times))


def from_memory(task: Task) -> float:
    recorded = [body.encode() for body in json.loads((Path(task.folder) / "bodies.json").read_text())]
    canned = Canned()
    return _fastest(task, canned, lambda: canned.bodies.extend(recorded))


def from_cassette(task: Task) -> float:
    """Reading the cassette counts, as it does for vcrpy."""
    field = _field(task, task.size // 2)

    def work() -> None:
        player = Player(read(Path(task.folder) / "harness.yaml"))
        transport = HandlerTransport(replaying(player, ExchangeLog(field.base_url, field.base_url)))
        with httpx2.Client(transport=transport, trust_env=False) as client:
            lead(field.sdk(client), field.conversations)

    return min(timed(work)() for _ in range(task.times))


def from_vcr(task: Task) -> float:
    import vcr

    recorder = vcr.VCR(match_on=BODY_MATCHING, record_mode="none")
    transport = httpx2.HTTPTransport(trust_env=False)

    def play(converse: Callable[[], None]) -> None:
        with recorder.use_cassette(str(Path(task.folder) / "vcr.yaml")):
            converse()

    return _fastest(task, transport, around=play)


def _fastest(
    task: Task,
    transport: httpx2.BaseTransport,
    before: Callable[[], None] = lambda: None,
    around: Callable[[Callable[[], None]], None] = lambda work: work(),
) -> float:
    field = _field(task, task.size // 2)

    def work() -> None:
        before()
        around(lambda: lead(converse, field.conversations))

    with httpx2.Client(transport=transport, trust_env=False) as client:
        converse = field.sdk(client)
        return min(timed(work)() for _ in range(task.times))


def _field(task: Task, conversations: int) -> Field:
    folder = Path(task.folder)
    numbers = [Conversation(number) for number in range(conversations)]
    return Field(shipped_targets()[TARGET], numbers, Library(folder), folder)


def many_cells(task: Task) -> float:
    return many.played(many.some_cells(task.size), Path(task.folder), 1 if task.player == "one process" else 2)


PLAYERS: dict[str, Callable[[Task], float]] = {
    "run": run,
    "bare SDK": from_memory,
    "harness": from_cassette,
    "plain vcrpy": from_vcr,
    "one process": many_cells,
    "two processes": many_cells,
}


def peak_megabytes() -> float:
    """The most memory that this process has held (Linux). `getrusage` would count its parent's, before `exec`, too."""
    found = re.search(r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    task = Task(**json.loads(sys.argv[1]))
    seconds = PLAYERS[task.player](task)
    forks = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"seconds": seconds, "peak_megabytes": peak_megabytes(), "forks_megabytes": forks}))
