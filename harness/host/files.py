"""Reading and replacing files."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Generator, Iterable
from pathlib import Path

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def contents(path: Path, most: int) -> bytes:
    """The bytes of a file, or the first `most` and one more of them if it has more.

    Raises:
        OSError: there is no such file, it cannot be read, or it is something else than a file: `strerror` says what.
    """
    kind = stat.S_IFMT(path.stat().st_mode)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(kind):
        what = next((name for is_kind, name in _KINDS if is_kind(kind)), "something else")
        raise OSError(errno.EINVAL, f"this is {what}, not a file", str(path))
    # Between the two looks a pipe may have taken the file's place: to open that must not wait either.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        left = min(os.fstat(handle).st_size, most) + 1
        found: list[bytes] = []
        # Not more than there is: Python makes room for all that it is told to read before it looks.
        while left > 0 and (piece := os.read(handle, left)):
            left -= len(piece)
            found.append(piece)
        return b"".join(found)
    finally:
        os.close(handle)


_BLOCK = 64 << 10

_BESIDE = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
"""`.NAME.TOKEN.tmp`, as `_opened_beside` names files."""


def replace(path: Path, data: bytes | Iterable[bytes], permissions: int | None = None) -> None:
    """Put `data`, or its pieces, at `path`, with these permissions, or those of any new file. It is on the disk, name
    and content, when this returns.

    Raises:
        OSError: it cannot be written. What was there is unchanged.
    """
    sweep(path.parent, path.name)
    handle, beside = _opened_beside(path)
    try:
        for block in [data] if isinstance(data, bytes) else _blocks(data):
            write_all(handle, block)
        os.fsync(handle)
        if permissions is not None:
            beside.chmod(permissions)
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    sync_folder(path.parent)


def _blocks(pieces: Iterable[bytes]) -> Generator[bytes]:
    """Small pieces together: each write is a call of the system."""
    block = bytearray()
    for piece in pieces:
        block += piece
        if len(block) >= _BLOCK:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def write_all(handle: int, data: bytes) -> None:
    """Write `data` to an open file. Raises `OSError`: a part of it may be written."""
    while data:
        data = data[os.write(handle, data) :]


def sweep(folder: Path, name: str = "") -> None:
    """Remove what killed processes have left in `folder` while they replaced the file `name`, or any file.

    What a living process is writing stays, as does what cannot be removed.
    """
    for left in folder.glob(f".{_literal(name)}.*.tmp" if name else ".*.tmp"):
        if _BESIDE.fullmatch(left.name):
            with contextlib.suppress(OSError):
                _remove_left(left)


def sync_folder(folder: Path) -> None:
    """Make a rename or a new name in `folder` survive a power loss, where folders can be synced at all.

    Raises:
        OSError: the disk failed.
    """
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock(handle: int) -> bool:
    """Take the lock of an open file, which its process has until it closes the file or ends; whether it was free.

    Where files have no such locks, nothing is locked and none is free.
    """
    try:
        import fcntl  # noqa: PLC0415 - what is not recorded can be played where it is missing
    except ImportError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _opened_beside(path: Path) -> tuple[int, Path]:
    """A new file beside `path`, locked."""
    while True:
        beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with contextlib.suppress(OSError):  # a disk without locks: what is left on it stays
            lock(handle)
        if os.fstat(handle).st_nlink:
            return handle, beside
        os.close(handle)  # another process swept it between our open and our lock


def _remove_left(path: Path) -> None:
    with _opened(path) as handle:
        if lock(handle):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _opened(path: Path) -> Generator[int, None, None]:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        yield handle
    finally:
        os.close(handle)


def _literal(name: str) -> str:
    """A pattern of `glob` that means this name."""
    return re.sub(r"([*?[])", r"[\1]", name)
