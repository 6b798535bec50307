"""Cells played in forks of this process: to judge takes the processor, of which a thread gets no more than all of them.

A fork has what was loaded before it, and is sent numbers of cells; what comes back are results. What raises is played
again here, and raises here. What cells have to have loaded takes long, so a fork is sent those for which it has it.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Container, Generator, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from harness.contract.errors import HarnessError

Item = TypeVar("Item")
Result = TypeVar("Result")

WORTH = 40
"""How many cells make it worth to fork: a fork takes as long as to play some ten."""

WORTH_IMPORTING = 80
"""The same where each fork has to import an adapter of others into a process of its own, with what that imports."""

_CHUNK = 16
"""How many cells a fork is sent at once, so that none waits for long while another one has much left."""

_WORTH_LOADING = 256
"""How many cells have to be left for one more fork to load what another one has: an SDK is imported in the time of some
50 to 200 cells, in which that one plays on."""


def possible() -> bool:
    """Whether this process may be forked: it has no other thread, and its libraries bear it (macOS's do not)."""
    return sys.platform == "linux" and threading.active_count() == 1


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def forked(
    play: Callable[[Sequence[Item]], Iterable[Result]],
    items: Sequence[Item],
    processes: int,
    around: AbstractContextManager[Any],
    loads: Callable[[Item], Hashable] = lambda _: None,
) -> Generator[tuple[int, Result]]:
    """What `play` makes of the items, which it is given some at a time: each with its number, as they are done; each
    process is inside of `around`. `loads` says what a process has to have loaded for an item, or that it is nothing.

    Raises:
        HarnessError: a process has ended before its time.
        Exception: what `play` raises.
    """
    work = _Work(map(loads, items))
    gc.freeze()  # what the collector touches would be copied in every fork
    crew: list[_Fork] = []
    try:
        with _undisturbed():  # and they stay so: what is sent to all processes of a run is for the first one to hear
            crew.extend(_Fork(play, items, around) for _ in range(processes))
        at_work = {each.connection: each for each in crew if each.sent(work)}
        while at_work:
            for connection in wait([*at_work]):
                fork = at_work[connection]  # pyright: ignore[reportArgumentType] - of `wait`, whatever was given
                played = fork.received(work)
                if not fork.sent(work):
                    del at_work[fork.connection]
                for number, result in played:
                    if result is None:
                        with around:
                            yield number, next(iter(play([items[number]])))
                    else:
                        yield number, result
    finally:
        for each in crew:
            each.end()


class _Work:
    """What nobody plays yet, by what has to be loaded for it."""

    def __init__(self, needs: Iterable[Hashable]) -> None:
        self._left: dict[Hashable, deque[int]] = {}
        self._begun: set[Hashable] = set()
        self._loaded: set[Hashable] = set()
        for number, need in enumerate(needs):
            self._left.setdefault(need, deque()).append(number)

    def chunk(self, loaded: set[Hashable]) -> Sequence[int]:
        """What a fork plays next that has loaded so much, and then has loaded what that needs; nothing, where whoever
        has loaded it is done sooner."""
        wanted = [need for need, left in self._left.items() if left and self._is_worth(need, loaded)]
        if not wanted:
            return ()
        need = max(wanted, key=lambda each: (each in loaded, each not in self._begun, len(self._left[each])))
        if need is not None:
            loaded.add(need)
            self._begun.add(need)
        left = self._left[need]
        return [left.popleft() for _ in range(min(_CHUNK, len(left)))]

    def is_played(self, loaded: Iterable[Hashable]) -> None:
        """A fork that has loaded so much has played some of what needs it."""
        self._loaded.update(loaded)

    def _is_worth(self, need: Hashable, loaded: Container[Hashable]) -> bool:
        is_free = need is None or need in loaded or need not in self._begun
        return is_free or len(self._left[need]) >= (_WORTH_LOADING if need in self._loaded else WORTH)


@contextmanager
def _undisturbed() -> Generator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Fork:
    """A fork of this process, and what it has loaded."""

    def __init__(
        self,
        play: Callable[[Sequence[Item]], Iterable[Result]],
        items: Sequence[Item],
        around: AbstractContextManager[Any],
    ) -> None:
        self.connection, theirs = multiprocessing.Pipe()
        self._loaded: set[Hashable] = set()
        context = multiprocessing.get_context("fork")
        ends = self.connection, theirs
        self._process: BaseProcess = context.Process(target=_serve, args=(*ends, play, items, around), daemon=True)
        self._process.start()
        theirs.close()

    def sent(self, work: _Work) -> bool:
        """Whether there is something for it to play, which it then has been sent."""
        chunk = work.chunk(self._loaded)
        if chunk:
            self.connection.send(chunk)
        return bool(chunk)

    def received(self, work: _Work) -> Sequence[tuple[int, Any]]:
        """What came of all that it was last sent. To send each by itself would take a twentieth of all the time."""
        try:
            received: Sequence[tuple[int, Any]] = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            raise HarnessError(f"a process that played cells has ended: exit code {self._process.exitcode}") from None
        work.is_played(self._loaded)
        return received

    def end(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.join()


def _serve(
    theirs: Connection,
    connection: Connection,
    play: Callable[[Sequence[Item]], Iterable[Result]],
    items: Sequence[Item],
    around: AbstractContextManager[Any],
) -> None:
    """Play what is asked for, until nobody asks any more."""
    theirs.close()  # else it would never be seen that whoever asks is gone
    with around, suppress(EOFError, OSError):
        while True:
            chunk: Sequence[int] = connection.recv()
            played = unraised(play, [items[number] for number in chunk])
            connection.send(list(zip(chunk, played, strict=True)))


def unraised(play: Callable[[Sequence[Item]], Iterable[Result]], items: Sequence[Item]) -> Sequence[Result | None]:
    """What comes of the items; nothing, from one on that raises."""
    played: list[Result | None] = []
    with suppress(Exception):  # it is raised where somebody hears of it
        played.extend(play(items))
    return [*played, *[None] * (len(items) - len(played))]
