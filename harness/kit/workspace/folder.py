"""Access to the files of one folder, and to no others.

With `openat` (Linux, macOS), every path is walked from the folder by descriptors, one name at a time. Each name is
opened relative to the descriptor before it and must not be a symbolic link. The checked file is the opened file, so
swapping a folder for a link meanwhile has no effect.

Windows has no `openat`. There each name is checked and then opened by its path. **Between the two, another process that
writes into the folder can swap the name for a link, and the tool follows it.** The tools themselves cannot make links.

A hard link is the file itself, so it can be read through the folder. It cannot be changed, because a write creates a
new file and does not affect the other name. A mount inside the folder belongs to the folder.
"""

from __future__ import annotations

import codecs
import heapq
import json
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.model.errors import ToolFailed

HAS_OPENAT = hasattr(os, "O_NOFOLLOW") and {os.open, os.stat, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd

_SAFELY = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not block
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOINHERIT", 0)
    | getattr(os, "O_BINARY", 0)
)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFELY
_GONE = "the workspace's folder is gone, or is another one now."
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY


@dataclass(frozen=True, slots=True)
class _OpenFolder:
    """A folder on the path, with an open descriptor. The descriptor is `None` where only paths are available."""

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
    """Access to an existing folder, given by its resolved path.

    Names are tuples that `names_of` returned. All methods raise `ToolFailed`, also if the folder was deleted or
    replaced by another one.
    """

    def __init__(self, root: Path, *, has_openat: bool = HAS_OPENAT) -> None:
        self.root = root
        self._has_openat = has_openat
        self._identity = _identity(root.stat())

    def read(self, names: tuple[str, ...], limit: int) -> tuple[bytes, int]:
        """Return the first `limit` bytes of a regular file, and its size."""
        with _explained(names), self._parent(names) as (parent, name):
            _check_file(parent.status(name))
            handle = os.open(parent.at(name), os.O_RDONLY | _SAFELY, dir_fd=parent.handle)
            try:
                status = os.fstat(handle)
                _check_file(status)
                data = _read(handle, limit + 1)
            finally:
                os.close(handle)
        return data[:limit], len(data) if len(data) <= limit else max(status.st_size, len(data))

    def write(self, names: tuple[str, ...], data: bytes) -> None:
        """Create or replace a regular file, atomically, and create its missing folders."""
        with _explained(names), self._parent(names, create=True) as (parent, name):
            mode = None
            with suppress(FileNotFoundError):
                status = parent.status(name)
                _check_file(status)
                mode = stat.S_IMODE(status.st_mode) & 0o777
            draft = parent.at(f".{secrets.token_hex(8)}.tmp")
            handle = os.open(draft, _NEW, 0o666 if mode is None else mode, dir_fd=parent.handle)
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
        with _explained(names), self._folder(names) as step, os.scandir(step.place) as found:

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
            step = _OpenFolder(self.root, os.open(self.root, _FOLDER) if self._has_openat else None)
        except OSError:
            raise ToolFailed(_GONE) from None
        try:
            if step.identity != self._identity:
                raise ToolFailed(_GONE)
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
        handle = os.open(name, _FOLDER, dir_fd=step.handle) if self._has_openat else None
        return _OpenFolder(step.path / name, handle)


@contextmanager
def _explained(names: tuple[str, ...]) -> Generator[None, None, None]:
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
    reason = _wrong(path)
    if reason:
        raise ToolFailed(f"the path {quoted(path)} {reason}")
    return tuple(name for name in path.split("/") if name not in {"", "."})


def _wrong(path: str) -> str | None:
    if len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES} bytes."
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in path):
        return "holds a control character or half of a surrogate pair."
    if path.startswith("/"):
        return "is absolute. Paths are relative to the workspace."
    if path.startswith("~"):
        return "begins with ~, which is not expanded. Paths are relative to the workspace."
    if "\\" in path or ":" in path:
        return "holds a backslash or a colon. Folders are separated by /, and there are no drives or streams."
    names = path.split("/")
    if len(names) > MAX_FOLDERS:
        return f"is deeper than {MAX_FOLDERS} folders."
    return next(filter(None, map(_wrong_name, names)), None)


def _wrong_name(name: str) -> str | None:
    if name == "..":
        return "holds '..'. Paths are relative to the workspace and do not climb."
    if name != "." and name.endswith((".", " ")):
        return "holds a name that ends in a dot or a space, which Windows drops."
    if _DEVICE.fullmatch(name):
        return f"holds {name!r}, which is a device on Windows."
    return None


# --- text for the model ---


def excerpt(data: bytes, total: int, errors: str = "strict") -> str:
    """Return `data`, the first of `total` bytes, as text. If bytes are missing, the last line says so.

    A character that is cut in two is left out. Raises `UnicodeDecodeError` unless `errors` is lenient.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    text = decoder.decode(data, final=len(data) == total)
    shown = len(data) - len(decoder.getstate()[0])
    return text if shown == total else f"{text}\n[truncated: the first {shown} of {total} bytes]"


def quoted(word: str) -> str:
    """Quote a string from the model for an error message: in ASCII, on one line and shortened."""
    return ascii(word if len(word) <= 80 else f"{word[:77]}...")
