"""Files in a folder, and in no other place.

Where the platform has `openat` (Linux, macOS), every path is walked from the folder, a name at a time, by descriptors:
each is opened in the descriptor of the one before it and must not be a symbolic link. What has been checked is what is
used, so whoever swaps a folder for a link meanwhile gains nothing.

On Windows there is none of this. There each name is looked at and then opened by its path; **between the two, another
process that writes into the folder can swap it for a link, and the tool will follow**. The tools themselves cannot make
links.

A hard link is the file itself: what somebody has linked into the folder can be read from it. It is not changed, since a
write makes a new file and leaves the other name as it was. A mount inside the folder belongs to the folder.
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

from harness.contract.errors import ToolFailed

HAS_OPENAT = hasattr(os, "O_NOFOLLOW") and {os.open, os.stat, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd

_SAFELY = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO in the place of a file must not keep us waiting
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOINHERIT", 0)
    | getattr(os, "O_BINARY", 0)
)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFELY
_GONE = "the workspace's folder is gone, or is another one now."
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY


@dataclass(frozen=True, slots=True)
class _Step:
    """A folder on the way, held open by `handle`, or known by its path only (`None`)."""

    path: Path
    handle: int | None

    def at(self, name: str) -> str:
        """What to open, together with `dir_fd=handle`, to get at a name in the folder."""
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


class Folder:
    """The folder at `root`, which exists and is resolved. It has to stay the folder that it is now.

    Names are as `names_of` gives them; a file has at least one. Everything raises `ToolFailed` where it cannot do
    what it is asked.
    """

    def __init__(self, root: Path, *, has_openat: bool = HAS_OPENAT) -> None:
        self.root = root
        self._has_openat = has_openat
        self._identity = _identity(root.stat())

    def read(self, names: tuple[str, ...], limit: int) -> tuple[bytes, int]:
        """Up to `limit` bytes of a regular file, and how many it has."""
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
        """Make a regular file, or replace one, with the folders that it needs: all of `data`, or nothing."""
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
                        os.fchmod(handle, mode)  # whatever the umask says
                os.replace(draft, parent.at(name), src_dir_fd=parent.handle, dst_dir_fd=parent.handle)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=parent.handle)
                raise

    def entries(self, names: tuple[str, ...], limit: int) -> tuple[list[str], int]:
        """The first `limit` names in a folder, sorted, and how many there are. Folders end in a slash.

        Names that do not print as they are stand in JSON's quotes: a line break in a name cannot pass for two names.
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
        """Make sure that the folder is there and the one it was."""
        with self._folder(()):
            pass

    @contextmanager
    def _parent(self, names: tuple[str, ...], *, create: bool = False) -> Generator[tuple[_Step, str], None, None]:
        with self._folder(names[:-1], create=create) as step:
            yield step, names[-1]

    @contextmanager
    def _folder(self, names: tuple[str, ...], *, create: bool = False) -> Generator[_Step, None, None]:
        try:
            step = _Step(self.root, os.open(self.root, _FOLDER) if self._has_openat else None)
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

    def _enter(self, step: _Step, name: str, *, create: bool) -> _Step:
        try:
            status = step.status(name)
        except FileNotFoundError:
            if not create:
                raise
            with suppress(FileExistsError):  # somebody else was faster; what it is, is looked at now
                os.mkdir(step.at(name), dir_fd=step.handle)
            status = step.status(name)
        _check_no_link(status, name)
        if not stat.S_ISDIR(status.st_mode):
            raise ToolFailed(f"{name!r} is not a folder.")
        handle = os.open(name, _FOLDER, dir_fd=step.handle) if self._has_openat else None
        return _Step(step.path / name, handle)


@contextmanager
def _explained(names: tuple[str, ...]) -> Generator[None, None, None]:
    """Puts the path in front of what went wrong."""
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


LONGEST = 1024
"""Bytes that a path may have in UTF-8."""

DEEPEST = 64
"""Names that a path may have. Deeper trees are what programs that clean up stumble over."""

_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?", re.IGNORECASE | re.DOTALL)
"""Names that Windows takes for a device, in any folder and with any extension."""


def names_of(path: str) -> tuple[str, ...]:
    """The names that `path` is made of; none for the workspace's folder itself (`.` or an empty path).

    The same paths are refused on every platform, so that a scenario plays alike on all of them. What is not refused is
    taken literally: `%2e%2e`, `$HOME` and look-alikes of a dot or a slash are file names like any other.

    Raises:
        ToolFailed: the path is absolute, climbs, is too long, or is no path on one of the platforms.
    """
    reason = _wrong(path)
    if reason:
        raise ToolFailed(f"the path {quoted(path)} {reason}")
    return tuple(name for name in path.split("/") if name not in {"", "."})


def _wrong(path: str) -> str | None:
    if len(path.encode(errors="surrogatepass")) > LONGEST:
        return f"is longer than {LONGEST} bytes."
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in path):
        return "holds a control character or half of a surrogate pair."
    if path.startswith("/"):
        return "is absolute. Paths are relative to the workspace."
    if path.startswith("~"):
        return "begins with ~, which is not expanded. Paths are relative to the workspace."
    if "\\" in path or ":" in path:
        return "holds a backslash or a colon. Folders are separated by /, and there are no drives or streams."
    names = path.split("/")
    if len(names) > DEEPEST:
        return f"is deeper than {DEEPEST} folders."
    return next(filter(None, map(_wrong_name, names)), None)


def _wrong_name(name: str) -> str | None:
    if name == "..":
        return "holds '..'. Paths are relative to the workspace and do not climb."
    if name != "." and name.endswith((".", " ")):
        return "holds a name that ends in a dot or a space, which Windows drops."
    if _DEVICE.fullmatch(name):
        return f"holds {name!r}, which is a device on Windows."
    return None


# --- text that is shown ---


def excerpt(data: bytes, total: int, errors: str = "strict") -> str:
    """The beginning `data` of `total` bytes as text, with a last line that says what is missing, if anything is.

    A character that the bound cuts in two is left out. Raises `UnicodeDecodeError` unless `errors` is lenient.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    text = decoder.decode(data, final=len(data) == total)
    shown = len(data) - len(decoder.getstate()[0])
    return text if shown == total else f"{text}\n[truncated: the first {shown} of {total} bytes]"


def quoted(word: str) -> str:
    """A word of the model's in quotes, for an error: in ASCII, and not longer than a line."""
    return ascii(word if len(word) <= 80 else f"{word[:77]}...")
