"""Cold starts of the command and the server in CPU time, the SDKs that they import, and the whole shipped suite."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.backends import shipped_scenarios, shipped_targets
from tests.benchmarks.contenders import ROOT
from tests.benchmarks.recordings import record_scenarios

SCENARIO = "call-single"

_HARNESS = "from harness.cli.main import main; code = main(); assert code == 0, code"

_SERVED = """
import http.client
from harness.cassettes.loopback_server import serve
with serve() as running:
    idle = http.client.HTTPConnection(running.origin.removeprefix("http://"), timeout=5)
    idle.request("GET", "/")
    idle.getresponse().read()
"""
"""The server is ended over a connection that its client keeps open."""

_SDKS = "', '.join(sdk for sdk in ('anthropic', 'openai', 'google.genai') if sdk in sys.modules)"

_REPORTED = f"import atexit, sys; atexit.register(lambda: sys.stderr.write({_SDKS}))"


@dataclass(frozen=True, slots=True)
class Start:
    """A command, in milliseconds of the processor; `ratio` is to a Python that does nothing."""

    command: str
    median: float
    least: float
    ratio: float
    sdks: str


def measure(folder: Path, rounds: int) -> list[Start]:
    """The commands take turns; each has run once before, so that its files are compiled and in memory."""
    record_scenarios(folder, [shipped_scenarios()[SCENARIO]], list(shipped_targets().values()))
    run = ["run", SCENARIO, "--variant", "whole", "--cassettes", str(folder)]
    commands: dict[str, list[str]] = {
        "python -c pass": ["-c", "pass"],
        "harness --help": ["-c", _HARNESS, "--help"],
        "harness list rules": ["-c", _HARNESS, "list", "rules"],
        "harness run, anthropic": ["-c", _HARNESS, *run, "--target", "anthropic"],
        "harness run, openai-chat": ["-c", _HARNESS, *run, "--target", "openai-chat"],
        "harness run, openai-responses": ["-c", _HARNESS, *run, "--target", "openai-responses"],
        "harness run, gemini-3": ["-c", _HARNESS, *run, "--target", "gemini-3"],
        "harness run, all targets": ["-c", _HARNESS, *run],
        "server, start and end": ["-c", _SERVED],
    }
    sdks = {name: _imported(command) for name, command in commands.items()}
    taken = [{name: _seconds(command) for name, command in commands.items()} for _ in range(rounds)]
    return [
        Start(
            name,
            statistics.median(each[name] for each in taken) * 1000,
            min(each[name] for each in taken) * 1000,
            statistics.median(each[name] / each["python -c pass"] for each in taken),
            sdks[name],
        )
        for name in commands
    ]


@dataclass(frozen=True, slots=True)
class Suite:
    """`harness run` of the shipped suite: the fastest of some, in seconds of CPU and on the clock."""

    words: str
    processor: float
    clock: float


def suite(rounds: int) -> list[Suite]:
    """The suite in replay and against the reference server, by one process and by the default number, in turns."""
    runs = [f"run --mode {mode}{jobs}" for mode in ("replay", "reference") for jobs in (" -n 1", "")]
    taken: dict[str, list[tuple[float, float]]] = {words: [] for words in runs}
    for _ in range(rounds):
        for words in runs:
            begin = time.perf_counter()
            processor = _seconds(["-m", "harness", *words.split()])
            taken[words].append((processor, time.perf_counter() - begin))
    return [Suite(words, *map(min, zip(*seconds, strict=True))) for words, seconds in taken.items()]


def _seconds(command: Sequence[str]) -> float:
    """CPU time, which no other process on the machine affects."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _python(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _imported(command: Sequence[str]) -> str:
    """The SDKs that a command has imported when it ends."""
    return _python([command[0], f"{_REPORTED}\n{command[1]}", *command[2:]]).stderr.rpartition("\n")[2]


def _python(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else every start would compile the package
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
