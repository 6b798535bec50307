"""Allow-listed programs, run without a shell in a folder.

The programs are resolved once, outside the folder, so that no file in it can replace one. A program gets its own
session, no input and no open descriptors. Its environment is `PATH`, `HOME` (the folder) and `LANG`, and nothing else.
When it ends or times out, the rest of its process group is killed.

**This is not a sandbox.** An allowed program has the rights of the user who runs the harness: it can read and write
anywhere and use the network. Some programs start other programs, or read their configuration from the folder that the
model writes to: interpreters, shells, `env`, `find`, `xargs`, `git`, `make`, `npm`. If you allow one of these, you
allow everything. A process that leaves its group (`setsid`) outlives the run. To confine programs, run the harness in a
container.
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

from harness.kit.workspace.folder import excerpt, quoted
from harness.model.errors import ToolFailed, UsageError
from harness.model.messages import JSON

_POLL_SECONDS = 0.02
_GRACE_SECONDS = 1.0
"""Time to wait for output after the group is killed: a process that left the group may keep the pipe open."""

_BLOCK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class _AllowedProgram:
    """An allowed program. `found` is its path and `argv[0]`; `file` is the executed file, with links resolved."""

    found: Path
    file: Path


class Commands:
    """The programs that may run in the folder `root`. The path of `root` must be resolved. Programs are given by name,
    or by name and path.

    Raises:
        UsageError: a program does not exist, its name is a path, or it is inside the folder; or the platform is
            Windows, which has no process groups to kill.
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
        """The names of the allowed programs."""
        return tuple(self._programs)

    def run(self, command: Sequence[str], timeout: float, limit: int) -> dict[str, JSON]:
        """Run a command to its end and return its exit code (negative: the signal that killed it) and its output.

        Standard output and standard error are merged. The first `limit` bytes are kept; the rest is read and dropped.
        Bytes that are not UTF-8 become U+FFFD. If the program fails, a result is returned and nothing is raised.

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
                output.wait(_POLL_SECONDS)
            _kill(process)
            deadline = monotonic() + _GRACE_SECONDS
            output.wait(_POLL_SECONDS)  # keep reading, so that the pipe does not fill up
            while output.is_open and monotonic() < deadline:
                output.wait(_POLL_SECONDS)
        return {"exit_code": process.returncode, "output": output.text}

    @contextmanager
    def _started(
        self, program: _AllowedProgram, command: Sequence[str]
    ) -> Generator[subprocess.Popen[bytes], None, None]:
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
    """The output in a pipe: keeps the first `limit` bytes and counts the rest."""

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
        """True while a process holds the pipe open."""
        return bool(self._selector.get_map())

    @property
    def text(self) -> str:
        return excerpt(bytes(self._kept), self._total, "replace")

    def wait(self, seconds: float) -> None:
        """Read the output that is available or arrives within this time."""
        for key, _ in self._selector.select(seconds):
            block = os.read(key.fd, _BLOCK_BYTES)
            self._kept += block[: self._limit - len(self._kept)]
            self._total += len(block)
            if not block:
                self._selector.unregister(key.fileobj)


def _program(name: str, path: Path | None, root: Path) -> _AllowedProgram:
    if not name or Path(name).name != name:
        raise UsageError(
            f"the command {name!r} must be allowed by its bare name. Give the path separately: {{name: path}}."
        )
    where = shutil.which(name if path is None else path)
    if where is None:
        raise UsageError(
            f"there is no program {str(path or name)!r} to allow as a command. Install it, or give its path."
        )
    program = _AllowedProgram(Path(where).absolute(), Path(where).resolve())
    for place in (program.found, program.found.parent.resolve(), program.file):
        if any(folder.samefile(root) for folder in (place, *place.parents)):
            raise UsageError(
                f"the command {name!r} is inside the workspace ({program.found}), where tools could replace it. "
                "Allow a program outside it."
            )
    return program


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the program has ended, if possible without reaping it, because its group keeps the process id."""
    if hasattr(os, "waitid"):  # macOS: only from Python 3.13 on
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS: the latter, if only zombies are left
        os.killpg(process.pid, signal.SIGKILL)
