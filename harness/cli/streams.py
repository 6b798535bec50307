"""Standard output and error as a command finds them: open or closed, full, or read by somebody who has gone."""

from __future__ import annotations

import errno
import os
import sys

_OF_OUTPUT = frozenset(
    {
        errno.EBADF,
        errno.ECONNRESET,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EINVAL,
        errno.EIO,
        errno.ENOSPC,
        errno.ENXIO,
        errno.EPIPE,
    }
)
"""What writing fails with. Other errors that name no file are the system's: no descriptors, processes or memory."""

_USAGE = 2


def open_closed() -> None:
    """Give the null device to each stream that was closed before this process began, as with `>&-`.

    Who closes one wants none of it. Left as it is, the next file that is opened takes the place of the stream, and gets
    what is printed.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest number that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # as Python has it for a stream that was closed
            null = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - without pathlib, and to the end
            setattr(sys, name, null)


def tell(line: str) -> None:
    """Write a line to standard error, if that can be written."""
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr.fileno())


def fail(error: OSError) -> int:
    """Say what the system has refused, and give back the exit code."""
    if error.filename is not None:
        tell(f"harness: {error.filename}: {error.strerror}.")
        return _USAGE
    if error.errno not in _OF_OUTPUT:
        tell(f"harness: the system refuses to go on: {error.strerror or error}.")
        return _USAGE
    _silence(sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # whoever reads has seen enough
        return 1
    tell(f"harness: standard output cannot be written: {error.strerror}.")
    return _USAGE


def _silence(descriptor: int) -> None:
    """Let what is left in a stream go nowhere: Python would complain when it flushes at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
