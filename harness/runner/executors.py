"""Runs cells in other processes: forks of this one, or Dask workers."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
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

from harness.cassettes.library import CassetteLibrary
from harness.model import errors
from harness.model.errors import HarnessError, UsageError
from harness.platform.environment import hidden_variables
from harness.platform.files import shipped_folder
from harness.runner.cells import Cell
from harness.runner.recorder import versions
from harness.runner.verdicts import JudgedCell
from harness.stdio.workers import ForeignAdapter

if TYPE_CHECKING:
    from harness.runner.suite_run import Plan, Run


MIN_CELLS_PER_FORK = 40
"""Minimum number of cells per fork. Starting a fork takes as long as about ten cells."""

MIN_FOREIGN_CELLS_PER_FORK = 80
"""Minimum number of cells per fork if each fork starts its own process for a foreign adapter."""

CHUNK_CELLS = 32

_CHUNKS_AHEAD = 2
"""Chunks submitted per process, so that no process waits for its next one."""

_CHECK_SECONDS = 5.0
"""Time without a result after which the executor's workers are checked."""

_PR_SET_PDEATHSIG = 1

_Results: TypeAlias = Sequence[JudgedCell | None]
_Chunk: TypeAlias = list[tuple[int, Cell]]


class CellExecutor(Protocol):
    """An executor with `size` processes, and the handling of their failures."""

    executor: Executor
    size: int

    def check(self) -> None:
        """Raise `HarnessError` if the processes are no longer available."""
        ...

    def explain(self, error: Exception, cells: Sequence[Cell]) -> Exception:
        """Return the exception to raise for cells whose chunk failed with `error`."""
        ...

    def cancel(self, chunks: Iterable[Future[_Results]]) -> None:
        """Drop the chunks that have not started."""
        ...


def run_forked(run: Run, size: int, cells: Sequence[Cell]) -> Generator[tuple[int, JudgedCell | None]]:
    """Run cells in forks of this process. See `run_chunks` for what it yields and raises."""
    with ForkExecutor(run, cells, size) as cell_executor:
        yield from run_chunks(cell_executor, cells, lambda chunk: (run_inherited, [number for number, _ in chunk]))


def run_sent(
    cell_executor: CellExecutor, plan: Plan, cells: Sequence[Cell]
) -> Generator[tuple[int, JudgedCell | None]]:
    """Run cells in processes that receive the whole plan. See `run_chunks` for what it yields and raises."""
    work = SentPlan.of(plan, len(cells))
    yield from run_chunks(cell_executor, cells, lambda chunk: (run_received, work, [cell for _, cell in chunk]))


def run_chunks(
    cell_executor: CellExecutor, cells: Sequence[Cell], task: Callable[[_Chunk], tuple[Any, ...]]
) -> Generator[tuple[int, JudgedCell | None]]:
    """Yield the number and result of each cell as it finishes. The result is `None` if the cell raised an exception.

    `task` returns the function and arguments that run a chunk. Closing the generator cancels the chunks that have not
    started.

    Raises:
        HarnessError: The processes are no longer available.
    """
    left = iter(_chunks(cells, cell_executor.size))
    under_way: dict[Future[_Results], _Chunk] = {}
    try:
        while True:
            while len(under_way) < cell_executor.size * _CHUNKS_AHEAD and (chunk := next(left, None)):
                try:
                    under_way[cell_executor.executor.submit(*task(chunk))] = chunk
                except BrokenExecutor as error:
                    raise cell_executor.explain(error, [cell for _, cell in chunk]) from error
            if not under_way:
                return
            done, _ = wait(under_way, _CHECK_SECONDS, FIRST_COMPLETED)
            if not done:
                cell_executor.check()
            for each in done:
                chunk = under_way.pop(each)
                try:
                    judged = each.result()
                except HarnessError:
                    raise
                except Exception as error:
                    raise cell_executor.explain(error, [cell for _, cell in chunk]) from error
                yield from ((number, one) for (number, _), one in zip(chunk, judged, strict=True))
    finally:
        cell_executor.cancel(under_way)


def _chunks(cells: Sequence[Cell], processes: int) -> Iterator[_Chunk]:
    """Split the cells into chunks.

    Cells that need the same SDK share large chunks, so that few processes import it. The largest of these groups and
    the cells that need no SDK are split into small chunks, so that all processes finish at about the same time.
    """
    needs: dict[Hashable, _Chunk] = {}
    for number, cell in enumerate(cells):
        needs.setdefault(_import_key(cell), []).append((number, cell))
    small = needs.pop(None, [])
    by_size = sorted(needs.values(), key=len)
    for group in by_size[:-1]:
        size = max(CHUNK_CELLS, len(cells) // processes)
        yield from (group[start : start + size] for start in range(0, len(group), size))
    for group in (*by_size[-1:], small):
        yield from (group[start : start + CHUNK_CELLS] for start in range(0, len(group), CHUNK_CELLS))


def _import_key(cell: Cell) -> Hashable:
    adapter = cell.target.adapter
    if isinstance(adapter, ForeignAdapter):
        return adapter.spec
    return adapter.requires if adapter.requires is not None and adapter.requires.extra is not None else None


def can_fork() -> bool:
    """Return whether this process can be forked safely: it runs on Linux and has only one thread."""
    return sys.platform == "linux" and threading.active_count() == 1


def cpu_count() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class ForkExecutor:
    """Forks of this process that share one run. As a context manager, it kills them at exit."""

    def __init__(self, run: Run, cells: Sequence[Cell], size: int) -> None:
        self.size = size
        context = multiprocessing.get_context("fork")
        self.executor: Executor = ProcessPoolExecutor(size, context, _start_fork, (run, cells, os.getpid()))
        # Blocked in the forks as well: only the first process handles signals to all processes of a run.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        try:
            self.executor.submit(os.getpid)  # this starts all workers
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for each in multiprocessing.active_children():
            each.kill()
        self.executor.shutdown()

    def check(self) -> None:
        """See `CellExecutor.check`. Does nothing, because the pool itself detects a dead fork."""

    def explain(self, error: Exception, cells: Sequence[Cell]) -> Exception:
        """See `CellExecutor.explain`."""
        if isinstance(error, BrokenExecutor):
            return HarnessError(f"a process that ran cells, {cells[0].scenario.id} or later, was ended from outside")
        return error

    def cancel(self, chunks: Iterable[Future[_Results]]) -> None:
        """See `CellExecutor.cancel`. Does nothing, because the forks are killed at exit.

        When its forks are killed, the pool of Python 3.11 prints a traceback for every cancelled future.
        """


_inherited: list[tuple[Run, Sequence[Cell]]] = []
"""The run that a fork inherits, with all of its cells."""


def _start_fork(run: Run, cells: Sequence[Cell], parent: int) -> None:
    """Initialize a fork so that it is killed when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    _inherited.append((run, cells))
    run.__enter__()


def run_inherited(numbers: Sequence[int]) -> _Results:
    """Run the inherited run's cells with these numbers."""
    ((run, cells),) = _inherited
    return run.run_some([cells[number] for number in numbers], len(cells))


@dataclass(frozen=True, slots=True)
class SentPlan:
    """A plan to send to another process, with the total number of cells.

    `folders` are the cassette folders. `None` means the built-in folder, which may have another path in the receiving
    process.
    """

    plan: Plan
    cells: int
    folders: tuple[Path | None, ...]

    @staticmethod
    def of(plan: Plan, cells: int) -> SentPlan:
        """Return the plan for other processes, without the options that only live runs use."""
        shipped = shipped_folder("cassettes")
        folders = tuple(None if each.root == shipped else each.root.absolute() for each in plan.libraries)
        return SentPlan(replace(plan, libraries=(), rate_limits=None, budget=None), cells, folders)

    def here(self) -> Plan:
        """Return the plan for use in the process that received it."""
        folders = [shipped_folder("cassettes") if each is None else each for each in self.folders]
        return replace(self.plan, libraries=[CassetteLibrary(each) for each in folders])


_ONE_RUN = Lock()
"""A lock that allows one run at a time, because a run changes the environment of its process."""


def run_received(work: SentPlan, cells: Sequence[Cell]) -> _Results:
    """Run cells in the process that received them."""
    with _ONE_RUN, hidden_variables():
        targets = list({cell.target.name: cell.target for cell in cells}.values())
        with work.here().run(targets) as run:
            return run.run_some(cells, work.cells)


@dataclass(frozen=True, slots=True)
class ProcessSetup:
    """The versions and missing folders of a process, to be compared with those of this process."""

    python: str
    versions: dict[str, str]
    missing: tuple[Path, ...]


def process_setup(folders: Sequence[Path]) -> ProcessSetup:
    """Return the setup of this process: its versions, and which of the folders are missing."""
    python = ".".join(map(str, sys.version_info[:2]))
    return ProcessSetup(python, versions(), tuple(each for each in folders if not each.is_dir()))


def folders(plan: Plan) -> list[Path]:
    """Return the plan's cassette folders that other processes must find at the same path."""
    return [each for each in SentPlan.of(plan, 0).folders if each is not None and each.is_dir()]


_CONNECT_SECONDS = 10.0
"""Maximum time for a scheduler to respond, and for its first worker to start."""

_FORM = "it must be dask://HOST:PORT, a scheduler's address, or dask://local?workers=N, N workers on this machine."


class DaskExecutor:
    """The workers of one Dask scheduler."""

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address
        self.executor: Executor = client.get_executor(pure=False)
        self.size = len(self._workers())

    def check(self) -> None:
        """See `CellExecutor.check`."""
        if self._client.status != "running" or not self._workers():
            raise self._gone_error()

    def explain(self, error: Exception, cells: Sequence[Cell]) -> Exception:
        """See `CellExecutor.explain`."""
        if type(error).__name__ == "KilledWorker":
            first, last = (f"{each.scenario.id} of {each.target.name}" for each in (cells[0], cells[-1]))
            return HarnessError(
                f"--executor {self._address}: worker after worker has died while it ran the cells from {first} to "
                f"{last}: the logs of the workers say why."
            )
        if isinstance(error, CancelledError | OSError) or self._client.status != "running":
            return self._gone_error()
        return error

    def cancel(self, chunks: Iterable[Future[_Results]]) -> None:
        """See `CellExecutor.cancel`."""
        for each in chunks:
            each.cancel()

    def compare(self, folders: Sequence[Path]) -> None:
        """Check that each worker has the same versions and folders as this process. Raises `UsageError`."""
        here = process_setup(folders)
        try:
            found: dict[str, ProcessSetup | Exception] = self._client.run(process_setup, folders, on_error="return")
        except OSError:
            raise self._gone_error() from None
        for worker, there in found.items():
            if isinstance(there, Exception):
                raise UsageError(
                    f"--executor {self._address}: the worker {worker} cannot run cells: {there}. Install there what "
                    f"is here, as in: {errors.install_command('all,dask')}"
                )
            self._compare(worker, here, there)

    def _compare(self, worker: str, here: ProcessSetup, there: ProcessSetup) -> None:
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

    def _gone_error(self) -> HarnessError:
        return HarnessError(
            f"--executor {self._address}: the scheduler or its workers are gone. Is 'dask scheduler' still up, and a "
            "'dask worker'? Run again, or without --executor."
        )


def check_address(address: str) -> str:
    """Check the value of `--executor` and return it. Raises `UsageError` if it is not a valid address."""
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
def dask_executor(address: str, folders: Sequence[Path]) -> Generator[DaskExecutor]:
    """Connect to the workers at an address, and check that they have the same versions and see the same `folders`.

    Raises:
        UsageError: The address is invalid, Dask is not installed, nothing responds, or a worker has another setup.
    """
    check_address(address)
    with contextlib.ExitStack() as stack:
        made = DaskExecutor(_client(address, stack), address)
        made.compare(folders)
        yield made


def _client(address: str, stack: contextlib.ExitStack) -> Any:
    try:
        import distributed  # noqa: PLC0415 - an extra, and large  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        raise UsageError(
            f"--executor {address}: Dask is not installed: {errors.install_command('dask')} (in a checkout: "
            "pip install -e '.[dask]')"
        ) from None
    of: Any = distributed
    parts = urlsplit(address)
    try:
        if parts.netloc == "local":
            number = int(parse_qs(parts.query).get("workers", [str(cpu_count())])[-1])
            where = stack.enter_context(
                of.LocalCluster(n_workers=number, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL")
            )
        else:
            where = f"tcp://{parts.netloc}"
        client = stack.enter_context(of.Client(where, timeout=_CONNECT_SECONDS))
        client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
    except (OSError, TimeoutError) as error:
        reason = "no worker is there" if "workers" in str(error) else "no scheduler answers there"
        raise UsageError(
            f"--executor {address}: {reason}. 'dask scheduler' starts one, 'dask worker tcp://{parts.netloc}' a worker."
        ) from None
    return client
