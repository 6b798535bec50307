"""Allow-listed programs, run without a shell in a folder.

The programs are found once, outside the folder, so that nothing in it can stand in for one of them. A run has no input,
no descriptor of ours, a session of its own, and of our environment nothing: `PATH`, `HOME` (the folder) and `LANG` are
all there is. When the program ends, or its time is up, all that is left of its process group is killed.

**This is no sandbox.** An allowed program has the rights of the user who runs the harness: it can read and write
anywhere and use the network. Allowing an interpreter, a shell, `env`, `find`, `xargs`, `git`, `make`, `npm` or any
other program that starts programs, or that takes its configuration from the folder into which the model writes, is
allowing everything. A process that leaves its group (`setsid`) outlives the run. To confine programs, run the harness
in a container.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO, Self

from harness.contract.errors import ToolFailed, UsageError
from harness.contract.model import JSON
from harness.kit.workspace.folder import excerpt, quoted

_TICK = 0.02
"""Seconds between two looks at whether the program has ended, while it says nothing."""

_GRACE = 1.0
"""Seconds for which output is awaited after the group is killed: a process that left the group can hold the pipe."""

_BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class _Program:
    """`found` is the path by which it was found, and by which a program knows itself; `file` is what is executed."""

    found: Path
    file: Path


class Commands:
    """The programs that may run in the folder `root`, which is resolved: by their bare names, or by name and path.

    Raises:
        UsageError: a program is not there, is named by a path, or lies in the folder; or the platform is Windows, which
            has no process groups to kill.
    """

    def __init__(self, commands: Mapping[str, Path] | Sequence[str], root: Path) -> None:
        paths = commands if isinstance(commands, Mapping) else dict.fromkeys(commands)
        if paths and not hasattr(os, "killpg"):
            raise UsageError(
                "commands cannot be allowed on Windows: a run could not be ended together with its children."
            )
        self._root = root
        self._programs = {name: _program(name, path, root) for name, path in paths.items()}
        folders = dict.fromkeys(str(program.found.parent) for program in self._programs.values())
        self._environment = {"PATH": os.pathsep.join([*folders, os.defpath]), "HOME": str(root), "LANG": "C.UTF-8"}

    @property
    def names(self) -> tuple[str, ...]:
        """The names that may stand first in a command."""
        return tuple(self._programs)

    def run(self, command: Sequence[str], timeout: float, limit: int) -> dict[str, JSON]:
        """Run a command to its end: its exit code (negative: the signal that ended it), and its output.

        Standard output and standard error are one text, of which `limit` bytes are kept while it is read; the rest is
        read and dropped. Bytes that are not UTF-8 become U+FFFD. A program that fails is a result, not an error.

        Raises:
            ToolFailed: the program is not allowed or cannot be started, or `timeout` seconds were not enough.
        """
        program = self._programs.get(command[0]) if command else None
        if program is None:
            reason = f"{quoted(command[0])} is not allowed." if command else "the command is empty."
            raise ToolFailed(f"{reason} Allowed, by these names and without a path: {', '.join(self.names)}.")
        with self._started(program, command) as process, _Output(process.stdout, limit) as output:
            deadline = monotonic() + timeout
            while not _has_ended(process):
                if monotonic() >= deadline:
                    said = f" Its output until then:\n{output.text}" if output.text else ""
                    raise ToolFailed(f"not done within {timeout:g} seconds, so it and its children were killed.{said}")
                output.wait(_TICK)
            _kill(process)
            deadline = monotonic() + _GRACE
            output.wait(_TICK)  # a full pipe at least, however late it is
            while output.is_open and monotonic() < deadline:
                output.wait(_TICK)
        return {"exit_code": process.returncode, "output": output.text}

    @contextmanager
    def _started(self, program: _Program, command: Sequence[str]) -> Generator[subprocess.Popen[bytes], None, None]:
        try:
            process = subprocess.Popen(  # noqa: S603 - no shell, and only programs that the caller allowed
                [str(program.found), *command[1:]],
                executable=program.file,
                cwd=self._root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument, or half of a surrogate pair
            reason = error.strerror if isinstance(error, OSError) else "an argument cannot be passed to a program"
            raise ToolFailed(f"{command[0]} cannot be started: {reason}.") from None
        with process:
            try:
                yield process
            finally:
                if process.returncode is None:
                    _kill(process)


class _Output:
    """What comes out of a pipe: the beginning is kept, the rest counted."""

    def __init__(self, pipe: IO[bytes] | None, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._total = 0
        self._selector = selectors.DefaultSelector()
        if pipe is not None:
            self._selector.register(pipe, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    @property
    def is_open(self) -> bool:
        """Whether somebody can still write."""
        return bool(self._selector.get_map())

    @property
    def text(self) -> str:
        return excerpt(bytes(self._kept), self._total, "replace")

    def wait(self, seconds: float) -> None:
        """Take what is there, or comes within the time."""
        for key, _ in self._selector.select(seconds):
            block = os.read(key.fd, _BLOCK)
            self._kept += block[: self._limit - len(self._kept)]
            self._total += len(block)
            if not block:
                self._selector.unregister(key.fileobj)


def _program(name: str, path: Path | None, root: Path) -> _Program:
    if not name or Path(name).name != name:
        raise UsageError(
            f"the command {name!r} is to be allowed by a bare name. Give the path beside it: {{name: path}}."
        )
    where = shutil.which(name if path is None else path)
    if where is None:
        raise UsageError(
            f"there is no program {str(path or name)!r} to allow as a command. Install it, or give its path."
        )
    program = _Program(Path(where).absolute(), Path(where).resolve())
    for place in (program.found, program.found.parent.resolve(), program.file):
        if any(folder.samefile(root) for folder in (place, *place.parents)):
            raise UsageError(
                f"the command {name!r} lies in the workspace ({program.found}), where tools could replace it. "
                "Allow one that lies outside."
            )
    return program


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the program has ended. It is not reaped, if that can be helped: its number has to stay its group's."""
    if hasattr(os, "waitid"):  # macOS: only from Python 3.13 on
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS: the latter, if only zombies are left
        os.killpg(process.pid, signal.SIGKILL)
