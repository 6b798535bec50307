"""Dask's workers: those of a scheduler somewhere, or some on this machine."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError, Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from harness.contract import distribution
from harness.contract.errors import HarnessError, UsageError
from harness.running.processes import Place, looked, processors
from harness.running.stages import Cell

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
