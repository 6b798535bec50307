"""A file as its bytes: read in bounds, and only if it is a plain file.

A named pipe or a terminal would hold a command for ever, and a device has no end.
"""

from __future__ import annotations

import errno
import os
import stat
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
