"""Starts the worker processes of foreign adapters for the tests: one process has imported the harness and the SDKs, has
read the facts, and is forked for each worker. Hundreds of tests start one, and to import the SDKs costs seconds.

`python -m tests.cradle FD` is that process; `Cradle` is the other side. `tests/running/workers` does without.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, cast

from harness.running.workers import worker
from harness.running.workers.child import main

STARTED = worker.started
"""What starts a process of its own, as the harness does."""

ROOT = Path(__file__).parent.parent
LARGEST = 1 << 17
"""Bytes of one message: the environment, mostly."""

_LOADED = (
    "harness.adapters.anthropic.client",
    "harness.adapters.gemini.client",
    "harness.adapters.openai_chat.client",
    "harness.adapters.openai_responses.client",
    "tests.stages",
)
_APIS = ("anthropic", "claude_cli", "gemini", "openai_chat", "openai_responses")


class Cradle:
    """Forks workers. It is started when the first one is asked for."""

    def __init__(self) -> None:
        self._begun: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._lock = Lock()

    def started(self, connection: int, faults: int, output: int, environment: Mapping[str, str]) -> Any:
        """What `harness.running.workers.worker.started` gives: so much of a `Popen` as is asked for there."""
        asked = {"environment": dict(environment), "folder": str(Path.cwd()), "path": sys.path}
        return Forked(cast("int", self._asked(asked, [connection, faults, output])), self._ended)

    def close(self) -> None:
        """End it; workers that still run are their runs' to end."""
        if self._begun is not None:
            process, ours = self._begun
            ours.close()
            process.wait()

    def _ended(self, process: int) -> int:
        return os.waitstatus_to_exitcode(cast("int", self._asked({"ended": process}, [])))

    def _asked(self, question: dict[str, Any], descriptors: list[int]) -> object:
        with self._lock:
            self._begun = self._begun or _begin()
            _, ours = self._begun
            socket.send_fds(ours, [json.dumps(question).encode()], descriptors)
            return json.loads(ours.recv(LARGEST))


def _begin() -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        descriptor = theirs.fileno()
        command = [sys.executable, "-m", "tests.cradle", str(descriptor)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=[descriptor], cwd=ROOT, start_new_session=True
        )
    return process, ours


class Forked:
    """A worker that is a child of the cradle."""

    def __init__(self, pid: int, ended: Callable[[int], int]) -> None:
        self.pid = pid
        self._ended = ended
        self._handle = os.pidfd_open(pid)
        self._code: int | None = None
        self._lock = Lock()  # one thread may wait for it while another one kills it

    def __del__(self) -> None:
        os.close(self._handle)

    def poll(self) -> int | None:
        return self._code if self._code is not None else self._waited(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._code if self._code is not None else self._waited(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a forked worker", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _waited(self, timeout: float | None) -> int | None:
        if not select.select([self._handle], [], [], timeout)[0]:
            return None
        with self._lock:
            if self._code is None:
                self._code = self._ended(self.pid)
        return self._code


def _forked(theirs: socket.socket) -> tuple[int, int] | None:
    """Answer until nobody asks; in a child, the file descriptors of its worker."""
    while True:
        question, descriptors, _, _ = socket.recv_fds(theirs, LARGEST, 3)
        if not question:
            return None
        asked = json.loads(question)
        if "ended" in asked:
            theirs.send(str(os.waitpid(asked["ended"], 0)[1]).encode())
            continue
        connection, faults, output = descriptors
        child = os.fork()
        if not child:
            theirs.close()
            _become(asked, output)
            return connection, faults
        for each in descriptors:
            os.close(each)
        theirs.send(str(child).encode())


def _become(asked: dict[str, Any], output: int) -> None:
    """Take on what a process that was started has from who started it."""
    os.setsid()
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(output, number)
        stream = open(number, "w", closefd=False)  # noqa: SIM115 - the one before knows where it was in a file
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.close(output)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.path[:] = asked["path"]
    sys.argv[:] = ["-c"]
    importlib.invalidate_caches()
    random.seed()


def _load() -> None:
    for each in _LOADED:
        importlib.import_module(each)
    for name in _APIS:  # not by the catalog, which keeps what it finds: a worker may have another path
        importlib.import_module(f"harness.apis.{name}").API.facts.all()
    gc.freeze()  # what the collector touches would be copied in every child


if __name__ == "__main__":
    _load()
    descriptors = _forked(socket.socket(fileno=int(sys.argv[1])))
    if descriptors is not None:
        main(*descriptors)
