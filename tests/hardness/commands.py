"""Runs `harness` commands in processes that can be killed, and measures them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_BASE_URL")

Until = Callable[[Callable[[], bool]], None]
"""Returns when a command is to be killed. The argument tells whether the command still runs."""


@dataclass(frozen=True)
class Ended:
    """The end of a command. `code` is its exit code, or the negative number of the signal that killed it."""

    code: int
    out: str
    err: str
    cpu_seconds: float = 0
    megabytes: float = 0

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    @property
    def output(self) -> str:
        return self.out + self.err


def harness(
    folder: Path, *words: str, fault: tuple[str, int, str] | None = None, until: Until | None = None, **environment: str
) -> Ended:
    """Run `harness` in a folder, without keys. For `fault` see `tests.hardness.faults`."""
    module = ["tests.hardness.faults", *map(str, fault)] if fault else ["harness"]
    known = {name: value for name, value in os.environ.items() if name not in _KEYS}
    with (folder / "out.txt").open("w+b") as out, (folder / "err.txt").open("w+b") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", *module, *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**known, "PYTHONPATH": str(ROOT), **environment},
            start_new_session=True,
        )
        if until is not None:
            until(lambda: _is_running(process.pid))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # for its destructor
    texts = ((folder / name).read_text(errors="replace") for name in ("out.txt", "err.txt"))
    return Ended(process.returncode, *texts, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _is_running(child: int) -> bool:
    return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def within(seconds: float) -> Until:
    """Kill a command after this time."""

    def until(is_running: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while is_running() and time.monotonic() < deadline:
            time.sleep(0.002)

    return until
