"""The workers of a run: loads foreign adapters, and plays cells through them or, where the adapter is ours, here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from threading import Lock
from typing import Any, NoReturn, Self, TypeVar

from harness import catalog
from harness.apis.targets import Target
from harness.contract.errors import PluginError, UsageError
from harness.contract.model import ToolCall
from harness.contract.protocols import Adapter, Capability, Embeddings, Endpoint, ProcessRunner, Route
from harness.host.environment import leads_out
from harness.running.halted import Halted
from harness.running.play import Playing, play
from harness.running.stages.stage import Cell
from harness.running.workers.messages import Described, Driven, Job, ToolAnswered
from harness.running.workers.worker import Broken, Worker
from harness.scenarios.schema import Scenario, Variant

T = TypeVar("T")

SECONDS = 60.0
"""How long a cell may take where nothing is sent over a network."""

LIVE_SECONDS = 900.0
"""The same where a provider answers."""

_LOADING = 60.0
"""Seconds that an import has at least: a library may take many, in which no cell is played yet."""


def _elsewhere(*_: Any) -> NoReturn:
    raise AssertionError("this adapter is connected in its worker")


@dataclass(frozen=True, slots=True)
class Foreign(Adapter):
    """What is known here of an adapter that only its workers have imported.

    It never has `Route.CLIENT`: from another process everybody sends to the loopback server.
    """

    _: KW_ONLY
    spec: str
    workers: Workers


class Workers:
    """Starts worker processes when they are needed, and ends them when the context is left, or when this process ends.

    `limit` is how long the playing of a cell may take, in seconds; a retelling is a playing of its own. `offline` runs
    hide from the adapter what would lead it elsewhere. A worker belongs to one adapter and to the process that started
    it, plays one cell at a time, and is used again unless it broke.
    """

    def __init__(self, limit: float, *, offline: bool) -> None:
        self.limit = limit
        self.offline = offline
        # Hidden from the import as well: what an SDK reads then holds for as long as the process.
        self._environment = {name: value for name, value in os.environ.items() if not (offline and leads_out(name))}
        self._process = os.getpid()
        self._idle: dict[str, list[Worker]] = {}
        self._busy: set[Worker] = set()
        self._halted = False
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers."""
        self.halt()
        with self._lock:
            idle = [worker for workers in self._idle.values() for worker in workers]
            self._idle.clear()
        for worker in idle:
            worker.close()

    def halt(self) -> None:
        """Let no cell be played any more: what is under way raises `Halted`."""
        with self._lock:
            self._halted = True
            for worker in self._busy:
                worker.kill()

    def adapter(self, spec: str) -> Adapter:
        """An adapter by its name or by `package.module:attribute`; raises what `harness.catalog.adapter` does.

        One that is not ours is imported in a worker.
        """
        if not catalog.is_foreign(spec):
            return catalog.adapter(spec)
        worker = Worker(self._environment)
        try:
            description = worker.load(spec, self._loading)
        except Broken as broken:
            worker.close()
            said = f" It printed: {' '.join(broken.printed.split())}" if broken.printed.strip() else ""
            raise PluginError("adapter", spec, f"{broken.reason}.{said}") from None
        except BaseException:
            worker.kill()
            worker.close()
            raise
        with self._lock:
            self._idle.setdefault(spec, []).append(worker)
        return self._described(spec, description)

    def play(
        self, spec: str, job: Job, begin: Callable[[int], None], processes: ProcessRunner | None = None
    ) -> Playing:
        """Play a cell with an adapter; see `harness.running.play.play`.

        Raises:
            UsageError: the adapter cannot be connected.
            Broken: it broke outside of a chat, ended its process or held it for too long.
            Halted: the run has ended meanwhile.
        """
        return self._with(spec, lambda worker: worker.play(job, begin, processes))

    def drive(self, spec: str, job: Job, tool: Callable[[ToolCall], ToolAnswered]) -> Driven:
        """Have a loop play a cell, of which `tool` runs the tools. Raises as `play` does."""
        return self._with(spec, lambda worker: worker.drive(job, tool))

    def _with(self, spec: str, ask: Callable[[Worker], T]) -> T:
        worker = self._leased(spec)
        reusable = False
        try:
            asked = ask(worker)
            reusable = True
        except Broken as broken:
            if self._halted:
                raise Halted from None
            reusable = broken.alive
            raise
        except UsageError:
            reusable = True
            raise
        finally:
            self._returned(spec, worker, reusable=reusable)
        return asked

    @property
    def _loading(self) -> float:
        return max(self.limit, _LOADING)

    def _described(self, spec: str, description: Described) -> Foreign:
        embeddings = None
        if description.embeddings is not None:
            embeddings = Embeddings(*description.embeddings, connect=_elsewhere)
        capabilities = frozenset(map(Capability, description.capabilities))
        return Foreign(
            description.name,
            description.api,
            capabilities,
            _elsewhere,
            embeddings,
            description.requires,
            Route.PROCESS if description.runs_commands else Route.LOOPBACK,
            _elsewhere if description.owns_loop else None,
            spec=spec,
            workers=self,
        )

    def _leased(self, spec: str) -> Worker:
        with self._lock:
            if self._halted:
                raise Halted
            if self._process != os.getpid():  # a fork: who it comes from goes on with the workers that idle there
                self._process, self._idle = os.getpid(), {}
            idle = self._idle.get(spec)
            worker = idle.pop() if idle else None
            fresh = worker is None
            worker = worker or Worker(self._environment)
            self._busy.add(worker)
        if fresh:
            self._load(worker, spec)
        return worker

    def _load(self, worker: Worker, spec: str) -> None:
        """Load an adapter into one more worker: what fails now did not fail at first, and is this cell's error."""
        loaded = False
        try:
            worker.load(spec, self._loading)
            loaded = True
        except UsageError as error:
            raise Broken(str(error)) from None
        except Broken:
            if self._halted:
                raise Halted from None
            raise
        finally:
            if not loaded:
                self._returned(spec, worker, reusable=False)

    def _returned(self, spec: str, worker: Worker, *, reusable: bool) -> None:
        with self._lock:
            self._busy.discard(worker)
            if reusable and not self._halted:
                self._idle.setdefault(spec, []).append(worker)
                return
        worker.kill()
        worker.close()


def played(
    scenario: Scenario, target: Target, endpoint: Endpoint, begin: Callable[[int], None], variant: Variant = "whole"
) -> Playing:
    """Play a scenario where its adapter is, here or in a worker: see `harness.running.play.play`, `Workers.play`."""
    adapter = target.adapter
    if not isinstance(adapter, Foreign):
        return play(scenario, target, endpoint, begin, variant)
    job = job_of(Cell(scenario, target, variant), adapter, endpoint.base_url, endpoint.api_key)
    return adapter.workers.play(adapter.spec, job, begin, endpoint.processes)


def job_of(cell: Cell, adapter: Foreign, base_url: str, api_key: str) -> Job:
    """A cell as a worker is told of it."""
    target = cell.target
    return Job(
        cell.scenario,
        target.name,
        target.model,
        replace(target.profile, facts=()),  # they judge, and are nine tenths of the message
        target.cassettes,
        cell.variant,
        base_url,
        api_key,
        adapter.workers.limit,
        adapter.workers.offline,
    )


def halt(adapters: Iterable[Adapter]) -> None:
    """End what workers are playing through these adapters, of which nobody awaits the outcome any more."""
    for workers in {adapter.workers for adapter in adapters if isinstance(adapter, Foreign)}:
        workers.halt()
