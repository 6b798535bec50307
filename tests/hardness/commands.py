"""Runs `harness` commands in forks of a process that has imported it: a fork takes milliseconds, a start a second.

`python -m tests.hardness.commands` reads commands, a JSON line each, and writes how each ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """The end of a command. `code` is its exit code, or the negative number of the signal that killed it."""

    code: int
    out: str
    err: str
    cpu_seconds: float
    megabytes: float

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    @property
    def output(self) -> str:
        return self.out + self.err


class Commands:
    """Runs commands in a folder, each in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder

    def at(self, folder: Path) -> Commands:
        """Return the runner for commands in another folder."""
        return Commands(self._process, folder)

    def __call__(
        self,
        *words: str,
        fault: tuple[str, int, str] | None = None,
        until: Callable[[Callable[[], bool]], None] | None = None,
    ) -> Ended:
        """Run `harness` with these words. For `fault` see `tests.hardness.faults.befall`. The command is killed when
        `until` returns; its argument tells whether the command still runs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for name in ("out.txt", "err.txt"):  # the command may be killed before it creates them
            (self._folder / name).write_text("")
        self._process.stdin.write(json.dumps({"words": words, "folder": str(self._folder), "fault": fault}) + "\n")
        self._process.stdin.flush()
        child = int(self._process.stdout.readline())
        if until is not None:
            until(lambda: not _has_ended(child))
            with contextlib.suppress(ProcessLookupError):  # its group may not exist yet
                os.killpg(child, signal.SIGKILL)
            os.kill(child, signal.SIGKILL)  # the process exists until the parent waits for it
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        code, seconds, megabytes = json.loads(self._process.stdout.readline())
        out, err = ((self._folder / name).read_text(errors="replace") for name in ("out.txt", "err.txt"))
        return Ended(code, out, err, seconds, megabytes)


def within(seconds: float) -> Callable[[Callable[[], bool]], None]:
    """Return an `until` that kills a command after this time."""

    def until(runs: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while runs() and time.monotonic() < deadline:
            time.sleep(0.002)

    return until


def _has_ended(child: int) -> bool:
    return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@contextmanager
def commands(folder: Path) -> Iterator[Commands]:
    """Run commands in `folder`, without keys."""
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_BASE_URL")
    environment = {name: value for name, value in os.environ.items() if name not in keys}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-m", "tests.hardness.commands"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=environment) as process:
        try:
            yield Commands(process, folder)
        finally:
            process.kill()


def _import_all() -> None:
    """Import what commands import, and start no thread, which a fork would not copy."""
    from harness.audit import cassette_audit  # noqa: F401
    from harness.cassettes import loopback_server  # noqa: F401
    from harness.cassettes.write import prepare
    from harness.cli import app, execution  # noqa: F401
    from harness.model.protocols import Endpoint
    from harness.reports import REPORTS
    from harness.rules.registry import all_rules
    from harness.stdio import adapter_specs

    prepare()
    for name in ("openai-chat", "anthropic"):
        client = adapter_specs.adapter(name).connect(Endpoint("http://127.0.0.1:9", "none"), "none")
        client.close()
    for name in ("terminal", "json", "junit", "markdown"):
        REPORTS.load(name)
    all_rules()


def _run(words: list[str], folder: str, fault: tuple[str, int, str] | None) -> NoReturn:
    from harness.cli.main import main
    from tests.hardness.faults import befall

    code = 70  # after an exception
    try:
        os.setsid()
        os.chdir(folder)
        for number, name in ((1, "out.txt"), (2, "err.txt")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if fault is not None:
            befall(*fault)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores Ctrl-C
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and `nohup` ignores this
        code = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - tests look for this traceback
        traceback.print_exc()
    os._exit(code)


def _serve(lines: IO[str]) -> None:
    _import_all()
    for line in lines:
        job = json.loads(line)
        child = os.fork()
        if not child:
            _run(job["words"], job["folder"], job["fault"])
        _answer(child)
        lines.readline()
        _, status, usage = os.wait4(child, 0)
        _answer([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024])


def _answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve(sys.stdin)
