"""Tools for a model that works in a folder: read, write, list and, if allowed, run commands.

With `openat` (Linux, macOS), each name of a path is opened relative to the descriptor of its folder. It must not be a
symbolic link, so a folder that is replaced by a link meanwhile has no effect. **Windows has no `openat`.** Another
process can replace a name by a link after the check, and the tool then follows the link. The tools themselves cannot
create links.

**Commands are not sandboxed.** An allowed program has the rights of the user: it can read and write anywhere and use
the network. It runs without a shell and without input. Its environment is `PATH`, `HOME` (the folder) and `LANG`.
Interpreters, shells, `env`, `find`, `git`, `make` and `npm` start other programs, so to allow one of them is to allow
everything. A process that leaves its process group outlives the run. To confine programs, run harness in a container.
"""

from __future__ import annotations

import codecs
import heapq
import json
import os
import re
import secrets
import selectors
import shutil
import signal
import stat
import subprocess
import unicodedata
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from time import monotonic
from typing import IO, Self

from harness.model.errors import ToolFailed, UsageError
from harness.model.messages import JSON, Tool, ToolCall, ToolResult

HAS_OPENAT = hasattr(os, "O_NOFOLLOW") and {os.open, os.stat, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd

_SAFE_FLAGS = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not block
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOINHERIT", 0)
    | getattr(os, "O_BINARY", 0)
)
_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFE_FLAGS
_FOLDER_GONE = "the workspace's folder was deleted or replaced."
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE_FLAGS


@dataclass(frozen=True, slots=True)
class _OpenFolder:
    """A folder, with its open descriptor in `handle`. `handle` is `None` on platforms that cannot open files relative
    to a descriptor.
    """

    path: Path
    handle: int | None

    def at(self, name: str) -> str:
        """Return the path that opens `name` in this folder, for a call with `dir_fd=handle`."""
        return str(self.path / name) if self.handle is None else name

    @property
    def place(self) -> Path | int:
        return self.path if self.handle is None else self.handle

    @property
    def identity(self) -> tuple[int, int]:
        return _identity(self.path.stat() if self.handle is None else os.fstat(self.handle))

    def status(self, name: str) -> os.stat_result:
        return os.stat(self.at(name), dir_fd=self.handle, follow_symlinks=False)

    def close(self) -> None:
        if self.handle is not None:
            os.close(self.handle)


class WorkspaceFolder:
    """Access to the files of an existing folder, which is given by its resolved path.

    A file is given by the names in its path, as `names_of` returns them. All methods raise `ToolFailed`, including when
    the folder was deleted or replaced.
    """

    def __init__(self, root: Path, *, has_openat: bool = HAS_OPENAT) -> None:
        self.root = root
        self._has_openat = has_openat
        self._identity = _identity(root.stat())

    def read(self, names: tuple[str, ...], limit: int) -> tuple[bytes, int]:
        """Return the first `limit` bytes of a regular file, and its size."""
        with _explain_errors(names), self._parent(names) as (parent, name):
            _check_file(parent.status(name))
            handle = os.open(parent.at(name), os.O_RDONLY | _SAFE_FLAGS, dir_fd=parent.handle)
            try:
                status = os.fstat(handle)
                _check_file(status)
                data = _read(handle, limit + 1)
            finally:
                os.close(handle)
        return data[:limit], len(data) if len(data) <= limit else max(status.st_size, len(data))

    def write(self, names: tuple[str, ...], data: bytes) -> None:
        """Create or replace a regular file, atomically, and create its missing folders."""
        with _explain_errors(names), self._parent(names, create=True) as (parent, name):
            mode = None
            with suppress(FileNotFoundError):
                status = parent.status(name)
                _check_file(status)
                mode = stat.S_IMODE(status.st_mode) & 0o777
            draft = parent.at(f".{secrets.token_hex(8)}.tmp")
            handle = os.open(draft, _CREATE_FLAGS, 0o666 if mode is None else mode, dir_fd=parent.handle)
            try:
                with open(handle, "wb") as file:  # noqa: PTH123 - by its descriptor
                    file.write(data)
                    if mode is not None and self._has_openat:
                        os.fchmod(handle, mode)  # independent of the umask
                os.replace(draft, parent.at(name), src_dir_fd=parent.handle, dst_dir_fd=parent.handle)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=parent.handle)
                raise

    def entries(self, names: tuple[str, ...], limit: int) -> tuple[list[str], int]:
        """Return the first `limit` names in a folder, sorted, and the number of all names. Folders end in a slash.

        Unprintable names are quoted as JSON, so that a line break in a name does not look like two names.
        """
        count = 0
        with _explain_errors(names), self._folder(names) as step, os.scandir(step.place) as found:

            def counted() -> Iterator[str]:
                nonlocal count
                for entry in found:
                    count += 1
                    yield f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name

            first = heapq.nsmallest(limit, counted())
        return [name if name.isprintable() else json.dumps(name) for name in first], count

    def check(self) -> None:
        """Check that the folder exists and is still the same one."""
        with self._folder(()):
            pass

    @contextmanager
    def _parent(
        self, names: tuple[str, ...], *, create: bool = False
    ) -> Generator[tuple[_OpenFolder, str], None, None]:
        with self._folder(names[:-1], create=create) as step:
            yield step, names[-1]

    @contextmanager
    def _folder(self, names: tuple[str, ...], *, create: bool = False) -> Generator[_OpenFolder, None, None]:
        try:
            step = _OpenFolder(self.root, os.open(self.root, _FOLDER_FLAGS) if self._has_openat else None)
        except OSError:
            raise ToolFailed(_FOLDER_GONE) from None
        try:
            if step.identity != self._identity:
                raise ToolFailed(_FOLDER_GONE)
            for name in names:
                deeper = self._enter(step, name, create=create)
                step.close()
                step = deeper
            yield step
        finally:
            step.close()

    def _enter(self, step: _OpenFolder, name: str, *, create: bool) -> _OpenFolder:
        try:
            status = step.status(name)
        except FileNotFoundError:
            if not create:
                raise
            with suppress(FileExistsError):  # created meanwhile; it is checked below
                os.mkdir(step.at(name), dir_fd=step.handle)
            status = step.status(name)
        _check_no_link(status, name)
        if not stat.S_ISDIR(status.st_mode):
            raise ToolFailed(f"{name!r} is not a folder.")
        handle = os.open(name, _FOLDER_FLAGS, dir_fd=step.handle) if self._has_openat else None
        return _OpenFolder(step.path / name, handle)


@contextmanager
def _explain_errors(names: tuple[str, ...]) -> Generator[None, None, None]:
    """Convert errors to a `ToolFailed` whose message begins with the path."""
    try:
        yield
    except (ToolFailed, OSError) as error:
        reason = f"{error.strerror}." if isinstance(error, OSError) else error
        raise ToolFailed(f"{'/'.join(names) or '.'}: {reason}") from None


def _read(handle: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (block := os.read(handle, size - len(data))):
        data += block
    return bytes(data)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _check_no_link(status: os.stat_result, name: str) -> None:
    reparsed = getattr(status, "st_file_attributes", 0) & stat.FILE_ATTRIBUTE_REPARSE_POINT  # a junction, on Windows
    if stat.S_ISLNK(status.st_mode) or reparsed:
        raise ToolFailed(f"{name!r} is a symbolic link. Links are not followed, wherever they lead.")


def _check_file(status: os.stat_result) -> None:
    _check_no_link(status, "it")
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailed("it is a folder, not a file.")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailed("it is not a regular file.")


# --- paths ---


MAX_PATH_BYTES = 1024
MAX_FOLDERS = 64
"""Maximum number of names in a path; programs that delete folders fail on deeper trees."""

_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?", re.IGNORECASE | re.DOTALL)
"""Pattern for names of Windows devices. They are reserved in every folder and with any extension."""


def names_of(path: str) -> tuple[str, ...]:
    """Split a path into names. The workspace folder itself (`.` or an empty path) has no names.

    The same paths are rejected on every platform, so scenarios behave the same on all of them. All other paths are
    literal: `%2e%2e`, `$HOME` and look-alikes of a dot or a slash are ordinary file names.

    Raises:
        ToolFailed: the path is absolute, contains `..`, is too long, or is invalid on one of the platforms.
    """
    reason = _path_problem(path)
    if reason:
        raise ToolFailed(f"the path {quote(path)} {reason}")
    return tuple(name for name in path.split("/") if name not in {"", "."})


def _path_problem(path: str) -> str | None:
    if len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES} bytes."
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in path):
        return "contains a control character or half of a surrogate pair."
    if path.startswith("/"):
        return "is absolute. Paths are relative to the workspace."
    if path.startswith("~"):
        return "begins with ~, which is not expanded. Paths are relative to the workspace."
    if "\\" in path or ":" in path:
        return "contains a backslash or a colon. Separate folders by /; there are no drives or streams."
    names = path.split("/")
    if len(names) > MAX_FOLDERS:
        return f"is deeper than {MAX_FOLDERS} folders."
    return next(filter(None, map(_name_problem, names)), None)


def _name_problem(name: str) -> str | None:
    if name == "..":
        return "contains '..'. Paths are relative to the workspace and must stay in it."
    if name != "." and name.endswith((".", " ")):
        return "contains a name that ends in a dot or a space, which Windows drops."
    if _DEVICE.fullmatch(name):
        return f"contains {name!r}, which is a device on Windows."
    return None


# --- text for the model ---


def excerpt(data: bytes, total: int, errors: str = "strict") -> str:
    """Decode `data`, the first bytes of a text of `total` bytes. If bytes are missing, add a last line with both sizes.

    An incomplete character at the end is left out. Other invalid bytes are handled as in `bytes.decode`: with `strict`,
    they raise `UnicodeDecodeError`.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    text = decoder.decode(data, final=len(data) == total)
    shown = len(data) - len(decoder.getstate()[0])
    return text if shown == total else f"{text}\n[truncated: the first {shown} of {total} bytes]"


def quote(word: str) -> str:
    """Quote a string from the model for an error message: in ASCII, on one line and shortened."""
    return ascii(word if len(word) <= 80 else f"{word[:77]}...")


_PATH: dict[str, JSON] = {"type": "string", "description": "Relative to the workspace, with / between the folders."}


def _parameters(**properties: JSON) -> dict[str, JSON]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


_READ = Tool("read_file", "Read a text file of the workspace.", _parameters(path=_PATH))
_WRITE = Tool(
    "write_file",
    "Write a text file of the workspace. A file of that name is replaced; missing folders are created.",
    _parameters(path=_PATH, content={"type": "string", "description": "The whole file."}),
)
_LIST = Tool(
    "list_directory",
    "List a folder of the workspace: one name per line; folders end in a slash. The workspace itself is '.'.",
    _parameters(path=_PATH),
)


def _run_command(names: Sequence[str]) -> Tool:
    described = f"The program and its arguments, one by one; there is no shell. Programs: {', '.join(names)}."
    return Tool(
        "run_command",
        "Run a program in the workspace's folder. Return its exit code and its output.",
        _parameters(command={"type": "array", "items": {"type": "string"}, "description": described}),
    )


class Workspace:
    """Real tools for the folder `root`.

    Put `tools` into a request or, as YAML, into a scenario. `run` is a `harness.model.protocols.ToolFunction`:

        workspace = Workspace("my-project", commands=["node"])
        thread = Thread(ChatRequest(tools=workspace.tools))
        thread.send(client, "Update the header.", workspace.run)

    A command is killed after `timeout` seconds. `max_output_bytes` limits each result, as UTF-8; a truncated result
    ends with a line that states it. The size of written files is not limited.

    File access is confined to the folder (`harness.kit.workspace`), with a documented gap on Windows. **Commands
    are not confined**; read `harness.kit.workspace` before you allow one. Without `commands`, the tool
    `run_command` does not exist.

    Raises:
        UsageError: `root` is not a folder, a limit is not positive, or a command cannot be allowed.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        commands: Mapping[str, Path] | Sequence[str] = (),
        timeout: float = 10.0,
        max_output_bytes: int = 65_536,
    ) -> None:
        if not Path(root).is_dir():
            raise UsageError(f"{root}: the workspace must be a folder. Create it first.")
        if timeout <= 0 or max_output_bytes <= 0:
            raise UsageError("the timeout and max_output_bytes of a workspace must be greater than 0.")
        resolved = Path(root).resolve()
        self._folder = WorkspaceFolder(resolved)
        self._commands = Commands(commands, resolved)
        self._timeout = timeout
        self._limit = max_output_bytes
        self._functions: dict[str, tuple[Tool, Callable[[dict[str, JSON]], JSON]]] = {
            _READ.name: (_READ, self._read_file),
            _WRITE.name: (_WRITE, self._write_file),
            _LIST.name: (_LIST, self._list_directory),
        }
        if self._commands.names:
            tool = _run_command(self._commands.names)
            self._functions[tool.name] = (tool, self._run_command)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools to offer to a model."""
        return tuple(tool for tool, _ in self._functions.values())

    def run(self, call: ToolCall) -> ToolResult:
        """Run a call.

        Raises:
            ToolFailed: the call was rejected or failed. A thread converts it to an error result.
        """
        if call.name not in self._functions:
            raise ToolFailed(f"there is no tool {quote(call.name)} here. Tools: {', '.join(self._functions)}.")
        tool, function = self._functions[call.name]
        properties = tool.parameters["properties"]
        known = [*properties] if isinstance(properties, dict) else []
        if {*known} != {*call.arguments}:
            raise ToolFailed(f"{call.name} takes exactly these arguments: {', '.join(known)}.")
        return ToolResult(call.id, call.name, function(call.arguments))

    def _read_file(self, arguments: dict[str, JSON]) -> str:
        names = _file(arguments)
        data, total = self._folder.read(names, self._limit)
        try:
            return excerpt(data, total)
        except UnicodeDecodeError as error:
            raise ToolFailed(f"{'/'.join(names)}: it is not a text file; byte {error.start} is not UTF-8.") from None

    def _write_file(self, arguments: dict[str, JSON]) -> str:
        names = _file(arguments)
        try:
            data = _text(arguments, "content").encode()
        except UnicodeEncodeError:
            raise ToolFailed("'content' contains half of a surrogate pair, which UTF-8 cannot encode.") from None
        self._folder.write(names, data)
        return f"wrote {len(data)} bytes to {'/'.join(names)}"

    def _list_directory(self, arguments: dict[str, JSON]) -> str:
        names = names_of(_text(arguments, "path"))
        entries, total = self._folder.entries(names, self._limit // 2 + 1)  # a line has at least two bytes
        ends = accumulate(len(entry.encode()) + 1 for entry in entries)
        shown = [entry for entry, end in zip(entries, ends, strict=True) if end <= self._limit]
        return "\n".join(shown + ([f"[truncated: {len(shown)} of {total} names]"] if len(shown) < total else []))

    def _run_command(self, arguments: dict[str, JSON]) -> JSON:
        command = arguments["command"]
        words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
        if words != command:
            raise ToolFailed("'command' must be a list of strings: the program and its arguments; there is no shell.")
        self._folder.check()
        return {**self._commands.run(words, self._timeout, self._limit)}


def _file(arguments: dict[str, JSON]) -> tuple[str, ...]:
    path = _text(arguments, "path")
    names = names_of(path)
    if not names or path.endswith("/"):
        raise ToolFailed(f"{path or '.'}: this names a folder, not a file.")
    return names


def _text(arguments: dict[str, JSON], name: str) -> str:
    value = arguments[name]
    if not isinstance(value, str):
        raise ToolFailed(f"{name!r} must be a string.")
    return value


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
            reason = f"{quote(command[0])} is not allowed." if command else "the command is empty."
            raise ToolFailed(f"{reason} Allowed, by these names and without a path: {', '.join(self.names)}.")
        with self._start(program, command) as process, _Output(process.stdout, limit) as output:
            deadline = monotonic() + timeout
            while not _has_ended(process):
                if monotonic() >= deadline:
                    printed = f" Its output until then:\n{output.text}" if output.text else ""
                    raise ToolFailed(
                        f"not done within {timeout:g} seconds, so it and its children were killed.{printed}"
                    )
                output.wait(_POLL_SECONDS)
            _kill(process)
            deadline = monotonic() + _GRACE_SECONDS
            output.wait(_POLL_SECONDS)  # keep reading, so that the pipe does not fill up
            while output.is_open and monotonic() < deadline:
                output.wait(_POLL_SECONDS)
        return {"exit_code": process.returncode, "output": output.text}

    @contextmanager
    def _start(
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
    """Return whether the program has ended.

    If possible, it is not reaped, so that no other process can reuse the id of its group.
    """
    if hasattr(os, "waitid"):  # macOS: only from Python 3.13 on
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS raises PermissionError if only zombies are left
        os.killpg(process.pid, signal.SIGKILL)
