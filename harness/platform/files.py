"""File access: read regular files, replace files atomically, lock files, and find the files that ship with harness."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Generator, Iterable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file. If it has more than `max_bytes`, return only one byte more than that.

    Other kinds of file are rejected: a named pipe or a terminal could block forever, and a device has no end.

    Raises:
        OSError: The file is missing, unreadable or not a regular file; `strerror` has the reason.
    """
    kind = stat.S_IFMT(path.stat().st_mode)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(kind):
        what = next((name for is_kind, name in _KINDS if is_kind(kind)), "something else")
        raise OSError(errno.EINVAL, f"this is {what}, not a file", str(path))
    # A pipe may have replaced the file after the check. Opening it must not block either.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        left = min(os.fstat(handle).st_size, max_bytes) + 1
        found: list[bytes] = []
        # No more than the size: Python allocates the requested size first.
        while left > 0 and (piece := os.read(handle, left)):
            left -= len(piece)
            found.append(piece)
        return b"".join(found)
    finally:
        os.close(handle)


_BLOCK_BYTES = 64 << 10

_TEMPORARY_NAME = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")


def replace_file(path: Path, data: bytes | Iterable[bytes], permissions: int | None = None) -> None:
    """Write `data` to `path` atomically. `data` may be an iterable of chunks. With `permissions=None`, the file gets
    the default permissions.

    If the process is killed or the disk is full, the file has either its old or its new content. Readers never see a
    partly written file. Name and content are synced to disk when the function returns.

    Raises:
        OSError: The file cannot be written. The old content is unchanged.
    """
    remove_leftovers(path.parent, path.name)
    handle, beside = _open_temporary(path)
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
    block = bytearray()
    for piece in pieces:
        block += piece
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def write_all(handle: int, data: bytes) -> None:
    """Write all of `data` to an open file. Raises `OSError`; part of the data may then have been written."""
    while data:
        data = data[os.write(handle, data) :]


def remove_leftovers(folder: Path, name: str = "") -> None:
    """Remove temporary files that killed processes left in `folder`, for the file `name` or for all files.

    Files that cannot be removed are kept, as are files that a running process is writing, because these are locked.
    """
    for left in folder.glob(f".{_escape_glob(name)}.*.tmp" if name else ".*.tmp"):
        if _TEMPORARY_NAME.fullmatch(left.name):
            with contextlib.suppress(OSError):
                _remove_unlocked(left)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that new and renamed files survive a power loss. Does nothing where folders cannot be synced.

    Raises:
        OSError: The disk failed.
    """
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_file(handle: int) -> bool:
    """Lock an open file until it is closed or its process ends.

    Return whether the lock was acquired. On platforms without file locks the result is always false.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on every system
    except ImportError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open_temporary(path: Path) -> tuple[int, Path]:
    while True:
        beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with contextlib.suppress(OSError):  # a disk without locks: leftovers stay
            lock_file(handle)
        if os.fstat(handle).st_nlink:
            return handle, beside
        os.close(handle)  # another process swept it between our open and our lock


def _remove_unlocked(path: Path) -> None:
    with _open(path) as handle:
        if lock_file(handle):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _open(path: Path) -> Generator[int, None, None]:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        yield handle
    finally:
        os.close(handle)


def _escape_glob(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def read_shipped_yaml(package: str, name: str) -> Any:
    """Parse a YAML file that is part of a package of harness."""
    import yaml  # noqa: PLC0415 - help and completion need none

    text = (resources.files(package) / name).read_text(encoding="utf-8")
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe


# --- Shipped scenarios and cassettes: inside the package in a wheel, next to it in a checkout ---

_PACKAGE = Path(__file__).parent.parent
_ARCHIVE = _PACKAGE / "_shipped" / "cassettes.tar.xz"

SHIPPED = "shipped"
"""Name of the set of all shipped scenarios, in settings and on the command line."""


def shipped_folder(name: str) -> Path:
    """Return the folder `scenarios` or `cassettes` that ships with the package.

    A wheel holds the cassettes as one archive. The first call unpacks it into the user's cache folder, or into a
    temporary folder if that cannot be written.
    """
    if name == "cassettes" and _ARCHIVE.is_file():
        return _unpack(_ARCHIVE)
    packed = _PACKAGE / "_shipped" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name


@cache
def _unpack(archive: Path) -> Path:
    import atexit  # noqa: PLC0415 - only a wheel has an archive
    import hashlib  # noqa: PLC0415
    import shutil  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    caches = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    folder = Path(caches) / "toolcall-harness" / f"cassettes-{digest}"
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=folder.parent))
    except OSError:
        fresh = Path(tempfile.mkdtemp(prefix="harness-cassettes-"))
        atexit.register(shutil.rmtree, fresh, ignore_errors=True)
        _extract(archive, fresh)
        return fresh
    _extract(archive, fresh)
    try:
        fresh.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _extract(archive: Path, folder: Path) -> None:
    import tarfile  # noqa: PLC0415 - see `_unpack`

    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later
            packed.extraction_filter = tarfile.data_filter
        packed.extractall(folder)  # noqa: S202 - the archive is our own
