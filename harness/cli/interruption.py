"""Signals that ask a run to end: it ends as after Ctrl-C, with its reports written and what was paid for kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")
"""A CI system sends the first, a terminal that is closed the second, which not every system has."""


@contextmanager
def interruptible() -> Generator[None, None, None]:
    """These signals raise `KeyboardInterrupt` in the context, unless whoever started this process lets it ignore them.

    Signals reach the main thread; in another one nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers if signal.getsignal(number) == signal.SIG_DFL}
    for number in before:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
