"""The gateway as a command of the user's, for as long as a check takes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import IO
from urllib.parse import urlsplit

from harness.contract.errors import UsageError

_LAST = 2000
"""Bytes of what the command printed that an error repeats."""
_POLL = 0.1


class Process:
    """A command that is running. What it prints goes to a file, of which the end is shown if it fails."""

    def __init__(self, command: str, process: subprocess.Popen[bytes], printed: IO[bytes]) -> None:
        self.command = command
        self._process = process
        self._printed = printed

    def check(self) -> None:
        """Whether it is still running. Raises `UsageError` with what it said."""
        code = self._process.poll()
        if code is not None:
            raise UsageError(f"--command {self.command!r}: it ended with exit code {code}.{self.last_words}")

    @property
    def last_words(self) -> str:
        """The end of what it has printed, as a sentence; empty if it has printed nothing."""
        self._printed.flush()
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - _LAST))
        text = " ".join(self._printed.read().decode(errors="replace").split())
        return f" It printed: {text}" if text else ""


@contextmanager
def running(command: str, environment: Mapping[str, str]) -> Generator[Process]:
    """Run a command in a shell, with these variables beside our own, and end it with all that it has started."""
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(  # noqa: S602 - it is the user's own
            command,
            shell=True,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield Process(command, process, printed)
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):  # it has ended, and all that it started
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
            return


def await_listening(url: str, seconds: float, alive: Callable[[], None] = lambda: None) -> None:
    """Wait until somebody listens where a URL leads. `alive` raises if that cannot happen any more.

    Raises:
        UsageError: nobody does after `seconds`.
    """
    parts = urlsplit(url)
    port = parts.port or {"https": 443}.get(parts.scheme, 80)
    until = time.monotonic() + seconds
    while True:
        alive()
        try:
            socket.create_connection((parts.hostname or "", port), timeout=5).close()
        except OSError as error:
            if time.monotonic() >= until:
                raise UsageError(
                    f"check gateway {url}: nobody listens there after {seconds:g} s: {error.strerror or error}. "
                    "Start the gateway, or have it started by --command."
                ) from None
            time.sleep(_POLL)
        else:
            return
