"""Cells that run in other processes: forks of this one, or Dask workers."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias
from urllib.parse import parse_qs, urlsplit

from harness.catalog import versions
from harness.contract import distribution
from harness.contract.errors import HarnessError, UsageError
from harness.host.environment import isolated
from harness.running.cells import Cell
from harness.running.verdicts import Judged
from harness.scenarios import suite
from harness.stdio.workers import Foreign
from harness.tape.library import Library

if TYPE_CHECKING:
    from harness.running.plan import Plan
    from harness.running.run import Run


WORTH = 40
"""How many cells make a fork worth it, which takes as long as to play some ten."""

WORTH_IMPORTING = 80
"""The same where each fork starts a process of its own for a foreign adapter."""

CHUNK = 32
"""Cells that are sent at once."""

_AHEAD = 2
"""Chunks that are under way for each process, so that none waits for its next one."""

_PATIENCE_SECONDS = 5.0
"""Time without an answer after which the workers are looked at."""

_PR_SET_PDEATHSIG = 1

_Played: TypeAlias = Sequence[Judged | None]
_Chunk: TypeAlias = list[tuple[int, Cell]]


class Crew(Protocol):
    """The processes of an executor, `size` of them."""

    executor: Executor
    size: int

    def check(self) -> None:
        """Raise `HarnessError` if the processes are gone."""
        ...

    def explained(self, error: Exception, cells: Sequence[Cell]) -> Exception:
        """Return the error to raise where cells have not come back."""
        ...


def forked(run: Run, size: int, cells: Sequence[Cell]) -> Generator[tuple[int, Judged | None]]:
    """Play cells in forks of this process. Yields and raises as `played` does."""
    with Forks(run, cells, size) as crew:
        yield from played(crew, cells, lambda chunk: (play_inherited, [number for number, _ in chunk]))


def sent(crew: Crew, plan: Plan, cells: Sequence[Cell]) -> Generator[tuple[int, Judged | None]]:
    """Play cells in processes that are sent all they need. Yields and raises as `played` does."""
    work = Work.of(plan, len(cells))
    yield from played(crew, cells, lambda chunk: (play_sent, work, [cell for _, cell in chunk]))


def played(
    crew: Crew, cells: Sequence[Cell], task: Callable[[_Chunk], tuple[Any, ...]]
) -> Generator[tuple[int, Judged | None]]:
    """Yield the cells as they are done, with their numbers; `None` is the result of a cell that raised.

    `task` is the function and its arguments that play a chunk. When this is closed, no other chunk is sent.

    Raises:
        HarnessError: the processes are gone.
    """
    left = iter(_chunks(cells, crew.size))
    under_way: dict[Future[_Played], _Chunk] = {}
    try:
        while True:
            while len(under_way) < crew.size * _AHEAD and (chunk := next(left, None)):
                try:
                    under_way[crew.executor.submit(*task(chunk))] = chunk
                except BrokenExecutor as error:
                    raise crew.explained(error, [cell for _, cell in chunk]) from error
            if not under_way:
                return
            done, _ = wait(under_way, _PATIENCE_SECONDS, FIRST_COMPLETED)
            if not done:
                crew.check()
            for each in done:
                chunk = under_way.pop(each)
                try:
                    judged = each.result()
                except HarnessError:
                    raise
                except Exception as error:
                    raise crew.explained(error, [cell for _, cell in chunk]) from error
                yield from ((number, one) for (number, _), one in zip(chunk, judged, strict=True))
    finally:
        for each in under_way:
            each.cancel()


def _chunks(cells: Sequence[Cell], processes: int) -> Iterator[_Chunk]:
    """Share out the cells. The cells that need one SDK go to one process, which imports it, if there are not too many
    of them; the rest is cut small, so that all processes end together."""
    needs: dict[Hashable, _Chunk] = {}
    for number, cell in enumerate(cells):
        needs.setdefault(_need(cell), []).append((number, cell))
    small = needs.pop(None, [])
    by_size = sorted(needs.values(), key=len)
    for group in by_size[:-1]:
        size = max(CHUNK, len(cells) // processes)
        yield from (group[start : start + size] for start in range(0, len(group), size))
    for group in (*by_size[-1:], small):
        yield from (group[start : start + CHUNK] for start in range(0, len(group), CHUNK))


def _need(cell: Cell) -> Hashable:
    """Return what is imported for a cell, if much is: an SDK, or an adapter into a worker."""
    adapter = cell.target.adapter
    if isinstance(adapter, Foreign):
        return adapter.spec
    return adapter.requires if adapter.requires is not None and adapter.requires.extra is not None else None


def can_fork() -> bool:
    """Return whether this process may be forked: it has no other thread, and its libraries bear it (macOS's do not)."""
    return sys.platform == "linux" and threading.active_count() == 1


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Forks:
    """Forks of this process, each inside of a run. A context manager, which ends them."""

    def __init__(self, run: Run, cells: Sequence[Cell], size: int) -> None:
        self.size = size
        context = multiprocessing.get_context("fork")
        self.executor: Executor = ProcessPoolExecutor(size, context, _begin, (run, cells, os.getpid()))
        # Blocked in the forks as well: what is sent to all processes of a run is for the first one to hear.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        try:
            self.executor.submit(os.getpid)  # which starts all of them
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for each in multiprocessing.active_children():
            each.kill()
        self.executor.shutdown()

    def check(self) -> None:
        """See `Crew.check`: a fork that is gone is found by its pool."""

    def explained(self, error: Exception, cells: Sequence[Cell]) -> Exception:
        """See `Crew.explained`."""
        if isinstance(error, BrokenExecutor):
            return HarnessError(f"a process that played cells, {cells[0].scenario.id} or later, was ended from outside")
        return error


_inherited: list[tuple[Run, Sequence[Cell]]] = []
"""The run of a fork, and all of its cells."""


def _begin(run: Run, cells: Sequence[Cell], parent: int) -> None:
    """Begin a fork, which ends with its parent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    _inherited.append((run, cells))
    run.__enter__()


def play_inherited(numbers: Sequence[int]) -> _Played:
    """Play cells of the run that this fork has inherited, by their numbers."""
    ((run, cells),) = _inherited
    return run.quietly([cells[number] for number in numbers], len(cells))


@dataclass(frozen=True, slots=True)
class Work:
    """How cells are to be played, and how many there are in all, for another process. The `folders` of cassettes are
    where they are here; the built-in ones (`None`) are where harness is installed there."""

    plan: Plan
    cells: int
    folders: tuple[Path | None, ...]

    @staticmethod
    def of(plan: Plan, cells: int) -> Work:
        """Return what is to be sent of a plan, without what is only for runs that are sent live."""
        shipped = suite.shipped("cassettes")
        folders = tuple(None if each.root == shipped else each.root.absolute() for each in plan.libraries)
        return Work(replace(plan, libraries=(), pace=None, purse=None), cells, folders)

    def here(self) -> Plan:
        """Return the plan, in the process that has received it."""
        folders = [suite.shipped("cassettes") if each is None else each for each in self.folders]
        return replace(self.plan, libraries=[Library(each) for each in folders])


_ONE = Lock()
"""What a run changes of its process, its environment, is for one run at a time."""


def play_sent(work: Work, cells: Sequence[Cell]) -> _Played:
    """Play cells, in the process that received them."""
    with _ONE, isolated():
        targets = list({cell.target.name: cell.target for cell in cells}.values())
        with work.here().run(targets) as run:
            return run.quietly(cells, work.cells)


@dataclass(frozen=True, slots=True)
class Place:
    """What another process has that plays cells, to be compared with what is here."""

    python: str
    versions: dict[str, str]
    missing: tuple[Path, ...]


def looked(folders: Sequence[Path]) -> Place:
    """Return what this process has, and which of the folders are missing."""
    python = ".".join(map(str, sys.version_info[:2]))
    return Place(python, versions(), tuple(each for each in folders if not each.is_dir()))


def folders(plan: Plan) -> list[Path]:
    """Return the folders of a plan that another process has to see where they are."""
    return [each for each in Work.of(plan, 0).folders if each is not None and each.is_dir()]


_CONNECTING = 10.0
"""Seconds that a scheduler may take to answer, and its first worker to be there."""

_FORM = "it has to be dask://HOST:PORT, a scheduler's address, or dask://local?workers=N, N workers on this machine."


class DaskCrew:
    """The workers of one scheduler."""

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address
        self.executor: Executor = client.get_executor(pure=False)
        self.size = len(self._workers())

    def check(self) -> None:
        """See `Crew.check`."""
        if self._client.status != "running" or not self._workers():
            raise self._gone()

    def explained(self, error: Exception, cells: Sequence[Cell]) -> Exception:
        """See `Crew.explained`."""
        if type(error).__name__ == "KilledWorker":
            first, last = (f"{each.scenario.id} of {each.target.name}" for each in (cells[0], cells[-1]))
            return HarnessError(
                f"--executor {self._address}: worker after worker has died while it played the cells from {first} to "
                f"{last}: the logs of the workers say why."
            )
        if isinstance(error, CancelledError | OSError) or self._client.status != "running":
            return self._gone()
        return error

    def compare(self, folders: Sequence[Path]) -> None:
        """Whether each worker has what is here. Raises `UsageError`: the worker, and what it lacks."""
        here = looked(folders)
        try:
            found: dict[str, Place | Exception] = self._client.run(looked, folders, on_error="return")
        except OSError:
            raise self._gone() from None
        for worker, there in found.items():
            if isinstance(there, Exception):
                raise UsageError(
                    f"--executor {self._address}: the worker {worker} cannot play cells: {there}. Install there what "
                    f"is here, as in: {distribution.install('all,dask')}"
                )
            self._compare(worker, here, there)

    def _compare(self, worker: str, here: Place, there: Place) -> None:
        mine, theirs = ({"Python": each.python, **each.versions} for each in (here, there))
        for name in mine:
            if mine[name] != theirs.get(name):
                raise UsageError(
                    f"--executor {self._address}: the worker {worker} has {name} {theirs.get(name, '(missing)')}, and "
                    f"here is {mine[name]}. Results are of one version of each: install the same there."
                )
        if there.missing:
            raise UsageError(
                f"--executor {self._address}: the worker {worker} does not see the folder {there.missing[0]}. Workers "
                "read cassettes where they are here: share the folder at the same path."
            )

    def _workers(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return found

    def _gone(self) -> HarnessError:
        return HarnessError(
            f"--executor {self._address}: the scheduler or its workers are gone. Is 'dask scheduler' still up, and a "
            "'dask worker'? Play again, or without --executor."
        )


def checked(address: str) -> str:
    """The value of `--executor`. Raises `UsageError`: it names no workers."""
    parts = urlsplit(address)
    query = parse_qs(parts.query, keep_blank_values=True)
    numbers = query.get("workers", ["1"])
    local = parts.netloc == "local" and not query.keys() - {"workers"} and re.fullmatch(r"[1-9][0-9]{0,3}", numbers[-1])
    with contextlib.suppress(ValueError):
        remote = parts.hostname and parts.port and not parts.query
        if parts.scheme == "dask" and not parts.path.strip("/") and (local or remote):
            return address
    raise UsageError(f"--executor {address!r}: {_FORM}")


@contextmanager
def crew(address: str, folders: Sequence[Path]) -> Generator[DaskCrew]:
    """The workers at an address, each of which has what is here; they see the `folders` where they are.

    Raises:
        UsageError: it is no address, Dask is not installed, nobody answers, or a worker has something else.
    """
    checked(address)
    with contextlib.ExitStack() as stack:
        made = DaskCrew(_client(address, stack), address)
        made.compare(folders)
        yield made


def _client(address: str, stack: contextlib.ExitStack) -> Any:
    try:
        import distributed  # noqa: PLC0415 - an extra, and large  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        raise UsageError(
            f"--executor {address}: Dask is not installed: {distribution.install('dask')} (in a checkout: "
            "pip install -e '.[dask]')"
        ) from None
    of: Any = distributed
    parts = urlsplit(address)
    try:
        if parts.netloc == "local":
            number = int(parse_qs(parts.query).get("workers", [str(processors())])[-1])
            where = stack.enter_context(
                of.LocalCluster(n_workers=number, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL")
            )
        else:
            where = f"tcp://{parts.netloc}"
        client = stack.enter_context(of.Client(where, timeout=_CONNECTING))
        client.wait_for_workers(1, timeout=_CONNECTING)
    except (OSError, TimeoutError) as error:
        reason = "no worker is there" if "workers" in str(error) else "no scheduler answers there"
        raise UsageError(
            f"--executor {address}: {reason}. 'dask scheduler' starts one, 'dask worker tcp://{parts.netloc}' a worker."
        ) from None
    return client
