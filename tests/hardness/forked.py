"""Runs commands of `harness`, each in a process of its own, and measures it. To start Python for each of hundreds would
take longer than all that they do.

`python -m tests.hardness.forked` reads requests and writes answers, a line of JSON each. `Commands` is the other side.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_LOADED = (
    "harness.adapters.anthropic.client",
    "harness.auditing.cassette_audit",
    "harness.reports.audit_text",
    "harness.cli.app",
    "harness.cli.run",
    "harness.reports.terminal",
)
"""What commands import when they need it, for all that are forked."""


@dataclass(frozen=True)
class Measured:
    """What a command did. `code` is `None` if it had to be ended; `seconds` are those of the processor."""

    code: int | None
    output: str
    seconds: float
    megabytes: float


class Commands:
    """Asks a process that has loaded the command line to run it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, folder: Path, words: Sequence[str], patience: float = 60.0) -> Measured:
        """Run a command in a folder; one that takes longer than `patience` seconds is ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), list(words), patience]) + "\n")
        self._process.stdin.flush()
        return Measured(*json.loads(self._process.stdout.readline()))


@contextlib.contextmanager
def commands() -> Generator[Commands]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.hardness.forked"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Commands(process)
        assert process.stdin is not None
        process.stdin.close()


def _serve() -> None:
    for module in _LOADED:
        importlib.import_module(module)
    for line in sys.stdin:
        folder, words, patience = json.loads(line)
        with tempfile.TemporaryFile() as output:
            answer = _measured(folder, words, output.fileno(), patience)
            output.seek(0)
            code, seconds, megabytes = answer
            said = output.read().decode("utf-8", "backslashreplace")
        sys.stdout.write(json.dumps([code, said, seconds, megabytes]) + "\n")
        sys.stdout.flush()


def _measured(folder: str, words: list[str], output: int, patience: float) -> tuple[int | None, float, float]:
    process = os.fork()
    if process == 0:
        _run(folder, words, output)
    deadline = time.monotonic() + patience
    ended = False
    while True:
        found, status, usage = os.wait4(process, os.WNOHANG)
        if found:
            code = None if ended else os.waitstatus_to_exitcode(status)
            return code, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
        if time.monotonic() > deadline and not ended:
            os.killpg(process, signal.SIGKILL)
            ended = True
        time.sleep(0.002)


def _run(folder: str, words: list[str], output: int) -> None:
    from harness.cli.main import main

    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        os.dup2(output, 1)
        os.dup2(output, 2)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        code = main(words)
    except BaseException:  # noqa: BLE001 - what the test is about
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
