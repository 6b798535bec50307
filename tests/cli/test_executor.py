"""Cells that other processes run: what comes back is what would have been run here, and what is wrong is said."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.cassettes.library import CassetteLibrary
from harness.model.errors import HarnessError, MissingKey, UsageError
from harness.platform.files import shipped_folder
from harness.results import RunResult
from harness.runner import executors
from harness.runner.cells import Cell, cells
from harness.runner.suite_run import Plan
from tests.backends import shipped_scenarios, shipped_targets
from tests.cli.conftest import Command

SOME = ("call-single", "json-mode", "system-plain")
ADDRESS = "dask://127.0.0.1:8786"


class Sending(Executor):
    """Threads of this process, to which all is sent as to another one."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(2)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        sent = pickle.dumps((fn, args))

        def run_task() -> Any:
            there, given = pickle.loads(sent)  # noqa: S301 - ours
            return pickle.loads(pickle.dumps(there(*given)))  # noqa: S301 - the same

        return self._pool.submit(run_task)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


class Threads:
    size = 2

    def __init__(self) -> None:
        self.executor: Executor = Sending()
        self.gone = False

    def check(self) -> None:
        if self.gone:
            raise HarnessError("they are gone")

    def explained(self, error: Exception, cells: Sequence[Cell]) -> Exception:
        return HarnessError(f"{len(cells)} cells: {error}")

    def cancel(self, chunks: Iterable[Future[Any]]) -> None:
        for each in chunks:
            each.cancel()


@pytest.fixture
def threads() -> Generator[Threads]:
    made = Threads()
    yield made
    made.executor.shutdown()


def plan() -> Plan:
    return Plan(mode="replay", libraries=[CassetteLibrary(shipped_folder("cassettes"))])


def some_cells() -> list[Cell]:
    return cells([shipped_scenarios()[name] for name in SOME], [*shipped_targets().values()])


def document(run: RunResult) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.to_json())
    del found["timing"]
    return found


def test_what_raises_there_raises_here(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise MissingKey("openai-chat", ("OPENAI_API_KEY",))

    run = plan().run([*shipped_targets().values()])
    monkeypatch.setattr("harness.runner.suite_run.Run.judge_cell", failing)
    with pytest.raises(MissingKey):
        run(some_cells(), elsewhere=partial(executors.run_sent, threads, plan()))


def test_whether_anybody_is_still_there_is_looked_at(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "executor", ThreadPoolExecutor(1))
    monkeypatch.setattr(executors, "run_received", lambda *_: time.sleep(0.2) or [])
    monkeypatch.setattr(executors, "_CHECK_SECONDS", 0.01)
    threads.gone = True
    with pytest.raises(HarnessError, match="they are gone"):
        [*executors.run_sent(threads, plan(), some_cells())]


@pytest.mark.parametrize(
    "address",
    ["", "dask", "dask://", "dask://host", "dask://host:port", "dask://host:99999", "tcp://host:1", "dask://local?n=2",
     "dask://local?workers=0", "dask://local?workers=x", "dask://host:1?workers=2", "dask://host:1/path"],
)  # fmt: skip
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        executors.check_address(address)
    assert str(caught.value) == (
        f"--executor {address!r}: it must be dask://HOST:PORT, a scheduler's address, or dask://local?workers=N, "
        "N workers on this machine."
    )


class Client:
    """A client of Dask's, as far as a crew asks it."""

    def __init__(self, found: dict[str, Any], status: str = "running", workers: int = 1) -> None:
        self.found = found
        self.status = status
        self.workers = {str(number): {} for number in range(workers)}

    def get_executor(self, **_: object) -> None:
        return None

    def scheduler_info(self, **_: object) -> dict[str, Any]:
        return {"workers": self.workers}

    def run(self, *_: object, **__: object) -> dict[str, Any]:
        return self.found


def crew(found: dict[str, Any] | None = None, **how: Any) -> executors.DaskExecutor:
    return executors.DaskExecutor(Client(found or {}, **how), ADDRESS)


def other(**changes: Any) -> executors.ProcessSetup:
    here = executors.process_setup([])
    return executors.ProcessSetup(**{"python": here.python, "versions": here.versions, "missing": (), **changes})


WORKERS = {
    "the same": (other(), None),
    "not installed": (
        ModuleNotFoundError("No module named 'harness'"),
        (
            "the worker tcp://a:1 cannot run cells: No module named 'harness'. Install there what is here, as in: "
            "pip install 'toolcall-harness[all,dask]'"
        ),
    ),
    "another Python": (other(python="3.9"), "the worker tcp://a:1 has Python 3.9, and here is "),
    "another version": (
        other(versions={**executors.process_setup([]).versions, "httpx2": "0.1"}),
        "the worker tcp://a:1 has httpx2 0.1, and here is ",
    ),
    "no SDK": (other(versions={}), "the worker tcp://a:1 has toolcall-harness (missing), and here is "),
    "no folder": (
        other(missing=(Path("/here/cassettes"),)),
        (
            "the worker tcp://a:1 does not see the folder /here/cassettes. Workers read cassettes where they are here: "
            "share the folder at the same path."
        ),
    ),
}


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_that_has_not_what_is_here_is_named(name: str) -> None:
    there, message = WORKERS[name]
    if message is None:
        crew({"tcp://a:1": there}).compare([])
        return
    with pytest.raises(UsageError) as caught:
        crew({"tcp://a:1": there}).compare([])
    assert str(caught.value).startswith(f"--executor {ADDRESS}: {message}")


GONE = (
    f"--executor {ADDRESS}: the scheduler or its workers are gone. Is 'dask scheduler' still up, and a 'dask worker'? "
    "Run again, or without --executor."
)


@pytest.mark.parametrize("how", [{"status": "closed"}, {"status": "connecting"}, {"workers": 0}])
def test_a_crew_that_is_gone_is_said(how: dict[str, Any]) -> None:
    with pytest.raises(HarnessError) as caught:
        crew(**how).check()
    assert str(caught.value) == GONE
    crew().check()


class KilledWorker(Exception):
    """As Dask's."""


def test_why_cells_have_not_come_back_is_said() -> None:
    some = some_cells()[:3]
    assert str(crew().explain(CancelledError(), some)) == GONE
    assert str(crew().explain(ConnectionError("x"), some)) == GONE
    assert str(crew(status="closed").explain(ValueError("x"), some)) == GONE
    assert str(crew().explain(KilledWorker(), some)) == (
        f"--executor {ADDRESS}: worker after worker has died while it ran the cells from call-single of "
        f"{some[0].target.name} to call-single of {some[-1].target.name}: the logs of the workers say why."
    )
    unknown = ValueError("x")
    assert crew().explain(unknown, some) is unknown


def test_dask_that_is_missing_is_said(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    outcome = harness("run", "call-single", "--executor", ADDRESS)
    assert outcome.code == 2
    assert outcome.err == (
        f"harness: --executor {ADDRESS}: Dask is not installed: pip install 'toolcall-harness[dask]' (in a checkout: "
        "pip install -e '.[dask]')\n"
    )


@contextmanager
def cluster() -> Generator[str]:
    distributed: Any = pytest.importorskip("distributed", reason="Dask is not installed: pip install -e '.[dask]'")
    made = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL")
    try:
        yield made.scheduler_address.replace("tcp://", "dask://")
    finally:
        made.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_dask_worker_gives_the_same_result(harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("run", *SOME, "--target=openai-chat", "--target=claude-cli")
    monkeypatch.setattr(executors, "CHUNK_CELLS", 2)
    with cluster() as address:
        there = harness(*words, "--executor", address, "--report=json:there.json")
        monkeypatch.setattr(executors, "_CONNECT_SECONDS", 0.5)
    gone = harness(*words, "--executor", address)

    assert there.code == 0, there.err
    assert harness(*words, "-n1", "--report=json:here.json").code == 0
    ends = [RunResult.from_json((folder / f"{name}.json").read_text()) for name in ("here", "there")]
    assert document(ends[0]) == document(ends[1])
    assert gone.code == 2
    assert gone.err == (
        f"harness: --executor {address}: no scheduler answers there. 'dask scheduler' starts one, "
        f"'dask worker tcp://{address.removeprefix('dask://')}' a worker.\n"
    )
