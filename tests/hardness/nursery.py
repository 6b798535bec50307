"""Starts `harness` often: a process that has imported it forks a child for each command, which takes milliseconds.

`python -m tests.hardness.nursery` reads commands, a line of JSON each, and answers with how each has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or the negative number of the signal that killed it."""

    code: int
    out: str
    err: str

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Nursery:
    """Runs commands in a folder, each in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder

    def at(self, folder: Path) -> Nursery:
        """The same for commands in another folder."""
        return Nursery(self._process, folder)

    def __call__(
        self,
        *words: str,
        fault: tuple[str, int, str] | None = None,
        until: Callable[[Callable[[], bool]], None] | None = None,
    ) -> Ended:
        """Run `harness` with these words. `fault` is what befalls it: see `tests.hardness.faults.befall`. It is killed
        once `until` returns, if it still runs, which `until` is given the means to ask."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for name in ("out.txt", "err.txt"):  # it may be killed before it has them
            (self._folder / name).write_text("")
        self._process.stdin.write(json.dumps({"words": words, "folder": str(self._folder), "fault": fault}) + "\n")
        self._process.stdin.flush()
        child = int(self._process.stdout.readline())
        if until is not None:
            until(lambda: not _has_ended(child))
            os.kill(child, signal.SIGKILL)  # or its remains, which are there until the nursery is told to look
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        out, err = ((self._folder / name).read_text(errors="replace") for name in ("out.txt", "err.txt"))
        return Ended(code, out, err)


def _has_ended(child: int) -> bool:
    return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@contextmanager
def nursing(folder: Path) -> Iterator[Nursery]:
    """A nursery whose commands run in `folder`, without keys."""
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_BASE_URL")
    environment = {name: value for name, value in os.environ.items() if name not in keys}
    command = [sys.executable, "-m", "tests.hardness.nursery"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=environment) as process:
        try:
            yield Nursery(process, folder)
        finally:
            process.kill()


def _import_all() -> None:
    """Import what commands import, and start no thread, which a fork would not take along."""
    from harness import catalog
    from harness.cli import app, run  # noqa: F401
    from harness.contract.protocols import Endpoint
    from harness.tape import server  # noqa: F401
    from harness.tape.write import prepare

    prepare()
    for name in ("openai-chat", "anthropic"):
        client = catalog.adapter(name).connect(Endpoint("http://127.0.0.1:9", "none"), "none")
        client.close()
    for name in ("terminal", "json", "junit", "markdown"):
        catalog.REPORTS.load(name)
    catalog.rules()


def _run(words: list[str], folder: str, fault: tuple[str, int, str] | None) -> NoReturn:
    from harness.cli.main import main
    from tests.hardness.faults import befall

    code = 70  # if it raised, which it never does
    with contextlib.suppress(BaseException):
        os.chdir(folder)
        for number, name in ((1, "out.txt"), (2, "err.txt")):
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(handle, number)
        if fault is not None:
            befall(*fault)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what runs behind it ignore Ctrl-C
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and `nohup` lets it ignore this
        code = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _nurse(commands: IO[str]) -> None:
    _import_all()
    for line in commands:
        job = json.loads(line)
        child = os.fork()
        if not child:
            _run(job["words"], job["folder"], job["fault"])
        _say(child)
        commands.readline()
        _, status = os.waitpid(child, 0)
        _say(os.waitstatus_to_exitcode(status))


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _nurse(sys.stdin)
