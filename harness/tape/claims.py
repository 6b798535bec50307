"""The cassettes that a run is going to record, claimed before it sends anything: of two runs with one in common, only
one begins."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.contract.errors import CassetteTaken

_NAME = ".recording.lock"
_ANYWHERE = 1 << 62
"""Offsets in the file: each cassette has a byte of its own, by its name. None is ever written."""


class Claim:
    """The claim to the cassettes at `paths` below `root`, until it is released or the process ends.

    Where files have no such locks, or none can be written, nothing is claimed.

    Raises:
        CassetteTaken: another process has claimed one of them.
    """

    def __init__(self, root: Path, paths: Iterable[Path]) -> None:
        self._path = root / _NAME
        self._handle: int | None = None
        places = {_offset(path.relative_to(root)): path for path in paths}
        try:
            import fcntl  # noqa: PLC0415 - not on every system
        except ImportError:
            return
        self._fcntl: Any = fcntl
        self._folders = [each for each in (root, *root.parents) if not each.exists()]
        with contextlib.suppress(OSError):
            root.mkdir(parents=True, exist_ok=True)
            while self._handle is None and places:
                self._handle = self._taken(places)

    def release(self) -> None:
        """Let the cassettes go."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        with contextlib.suppress(OSError):
            self._fcntl.lockf(handle, self._fcntl.LOCK_EX | self._fcntl.LOCK_NB)  # all of it: nobody else has a claim
            self._path.unlink()
        os.close(handle)
        for folder in self._folders:
            with contextlib.suppress(OSError):  # there are cassettes now
                folder.rmdir()

    def _taken(self, places: dict[int, Path]) -> int | None:
        """The open file, `None` if it was removed meanwhile. In one order, so that of two runs one gets all."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            for offset, path in sorted(places.items()):
                self._lock(handle, offset, path)
            if self._path.exists() and self._path.stat().st_ino == os.fstat(handle).st_ino:
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        return None

    def _lock(self, handle: int, offset: int, path: Path) -> None:
        try:
            self._fcntl.lockf(handle, self._fcntl.LOCK_EX | self._fcntl.LOCK_NB, 1, offset)
        except (BlockingIOError, PermissionError):
            reason = "another process is recording it, so nothing was sent for any cell. Wait for it, or end it."
            raise CassetteTaken(str(path), reason) from None


def _offset(path: Path) -> int:
    return int.from_bytes(hashlib.sha256(path.as_posix().encode()).digest()[:8]) % _ANYWHERE
