"""A pipe that a worker writes to, of which only so much is kept as can be shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

_PIECE = 65536
_NOTE = 80  # bytes, for what stands in place of the rest
_AT_ONCE = 32  # pieces: more than a pipe holds, and an end with whoever never stops writing


class Output:
    """Both ends of a pipe. Of what is written at most `length` bytes are kept: the first ones and the last ones."""

    def __init__(self, length: int) -> None:
        self._half = (length - _NOTE) // 2
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self.is_open = True
        self._clear()

    def fileno(self) -> int:
        """The end to read from, to be waited for."""
        return self._reading

    def drain(self) -> None:
        """Take in what was written, without waiting for more."""
        for piece in self._pieces():
            self._total += len(piece)
            room = self._half - len(self._first)
            self._first += piece[:room] if room > 0 else b""
            self._last = (self._last + piece[max(room, 0) :])[-self._half :]

    def take(self) -> str:
        """All that was kept since it was last taken, as text, with a note of what was left out."""
        first, last, missing = self._first, self._last, self._total - len(self._first) - len(self._last)
        self._clear()
        note = f"\n[... {missing} bytes are left out ...]\n".encode() if missing else b""
        return (first + note + last).decode("utf-8", "replace")

    def close_writing(self) -> None:
        """Leave the end for writing to the worker."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def close(self) -> None:
        """Close what is open."""
        self.close_writing()
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1
        self.is_open = False

    def _clear(self) -> None:
        self._first, self._last, self._total = b"", b"", 0

    def _pieces(self) -> Iterator[bytes]:
        with suppress(BlockingIOError):
            for _ in range(_AT_ONCE if self.is_open else 0):
                piece = os.read(self._reading, _PIECE)
                if not piece:
                    self.is_open = False
                    return
                yield piece
