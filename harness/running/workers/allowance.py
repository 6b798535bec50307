"""The time that something may take, of which only that counts in which this process runs."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager


class Allowance:
    """Seconds that may be waited for somebody, `left` of which are left.

    A clock would run on while this process is stopped, by Ctrl-Z, a debugger or a frozen container; and who is waited
    for may be waiting for it.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    @contextmanager
    def waiting(self, most: float) -> Generator[float]:
        """Inside, it is waited: for the seconds that this gives, `most` or what is left. No more than these count,
        however much later it is then."""
        seconds = max(min(most, self.left), 0.0)
        begun = time.monotonic()
        try:
            yield seconds
        finally:
            self.left -= min(time.monotonic() - begun, seconds)
