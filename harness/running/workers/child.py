"""What runs in a worker: one adapter, and the play loop for each cell that comes.

The main thread plays, as an adapter would expect; another reads what the run says, and ends the process when there is
nobody left to say something.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import cached_property
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Lock, Thread

import httpx2

from harness import catalog
from harness.apis.targets import Target
from harness.contract.errors import PluginError, Unsupported, UsageError
from harness.contract.loops import Drive
from harness.contract.model import ChatResponse, StreamEvent, ToolCall, ToolResult
from harness.contract.process import Command, Completed
from harness.contract.protocols import Adapter, Endpoint, Route
from harness.host.crash import located, named, origin, said, traceback_of
from harness.host.environment import isolated
from harness.running.driving.given import given
from harness.running.play import checked, play, settled
from harness.running.serving.order import ReverseOrder
from harness.running.workers.messages import (
    CUT_OFF,
    LARGEST,
    Answer,
    Begin,
    Described,
    Driven,
    Failed,
    Go,
    Job,
    Load,
    NotRun,
    Order,
    Played,
    Ran,
    RunCommand,
    RunTool,
    Stopped,
    ToolAnswered,
    Unusable,
    decode_order,
    encode,
    plain,
)
from harness.stdio.command import BrokenCommand

SHOW_STACKS = signal.SIGUSR2
"""Makes a worker write the stacks of its threads to the pipe for faults, even if it no longer runs any Python."""

_GRACE = 2.0
"""Seconds that an idle worker has for ending in good order."""

_FORSAKEN = 86400.0
"""Seconds above its limit after which a worker ends itself whose adapter holds all of its threads, so that it never
learns that the run is gone. A run that was only stopped has to find it when it goes on."""

_SECONDS = 600.0
"""As long as the SDKs wait for an answer."""


def main(connection: int, faults: int) -> None:
    """Do what the run says, until it says nothing more. The arguments are file descriptors."""
    for descriptor in (connection, faults):
        os.set_inheritable(descriptor, False)  # a command that the adapter starts must not hold them
    del sys.argv[1:]
    faulthandler.enable(faults)
    faulthandler.register(SHOW_STACKS, faults)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    _Worker(Connection(connection), faults).serve()


class _Ended(BaseException):
    """The run wants nothing more of this playing. No adapter catches it by accident."""


class _Worker:
    def __init__(self, connection: Connection, faults: int) -> None:
        self._connection = connection
        self._process = os.getpid()
        self._faults = faults
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        self._asking = Lock()
        self._busy = False
        self._adapter: Adapter | None = None

    def serve(self) -> None:
        Thread(target=self._read, name="harness-orders", daemon=True).start()
        while True:
            order = self._orders.get()
            if order is None:
                return
            self._busy = True
            answer = self._done(order)
            self._busy = False
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # closed or replaced by the adapter
                    stream.flush()
            try:
                self._send(answer)
            except _Ended:
                sys.exit(CUT_OFF)

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._orders.put(decode_order(self._connection.recv_bytes()))
        self._orders.put(None)
        if not self._busy:
            time.sleep(_GRACE)
        os.killpg(0, signal.SIGKILL)  # this process, and what the adapter has started

    def _send(self, answer: Answer) -> None:
        if os.getpid() != self._process:
            os._exit(0)  # a copy that the adapter has made of this process: the run has not asked it anything
        data = encode(answer)
        if len(data) > LARGEST:
            data = encode(Failed(f"what the adapter answered has {len(data)} bytes, and may have {LARGEST}", ""))
        try:
            self._connection.send_bytes(data)
        except OSError:
            raise _Ended from None

    def _asked(self, question: Answer) -> Order:
        """What the run answers; several threads of an adapter may ask."""
        with self._asking:
            self._send(question)
            order = self._orders.get()
        if order is None:
            raise _Ended
        return order

    def _done(self, order: Order) -> Answer:
        match order:
            case Load(spec):
                return self._loaded(spec)
            case Job() if self._adapter is not None:
                faulthandler.dump_traceback_later(order.limit + _FORSAKEN, exit=True, file=self._faults)
                try:
                    return self._played(order, self._adapter)
                finally:
                    faulthandler.cancel_dump_traceback_later()
            case _:
                raise AssertionError(order)

    def _loaded(self, spec: str) -> Answer:
        try:
            self._adapter = catalog.adapter(spec)
            return _described(self._adapter)
        except UsageError as error:
            return Unusable(said(error))
        except BaseException as error:  # noqa: BLE001 - somebody's own module may fail in any way at all
            reason = f"importing {spec.partition(':')[0]} failed: {named(error)}."
            return Unusable(str(PluginError("adapter", spec, reason)))

    def _played(self, job: Job, adapter: Adapter) -> Answer:
        if adapter.drive is not None:
            return self._driven(job, adapter.drive)
        target = Target(job.target, adapter, job.model, job.profile, job.cassettes)
        endpoint = Endpoint(
            job.base_url,
            job.api_key,
            self._http_client if adapter.route is Route.CLIENT else None,
            _Commands(self) if adapter.route is Route.PROCESS else None,
        )
        try:
            with isolated() if job.offline else contextlib.nullcontext():
                playing = play(job.scenario, target, endpoint, self._begin, job.variant, accept=_accept)
            return Played(plain(playing, "playing"))
        except _Ended:
            return Stopped()
        except UsageError as error:
            return Unusable(said(error))
        except BaseException as error:  # noqa: BLE001 - what an adapter raises ends its cell, not the run
            return Failed(f"{type(error).__name__}: {located(error)}", traceback_of(error))

    def _driven(self, job: Job, drive: Drive) -> Answer:
        tools = _Tools(self._asked)
        conversation = given(job.scenario, job.variant, tools.run)
        try:
            with isolated() if job.offline else contextlib.nullcontext(), contextlib.closing(tools):
                settled(drive(Endpoint(job.base_url, job.api_key), job.model, conversation))
        except _Ended:
            return Stopped()
        except Unsupported as declined:
            return Driven(declined=said(declined))
        except BrokenCommand as broken:
            return Driven(said(broken))
        except BaseException as error:  # noqa: BLE001 - what a loop raises ends its cell, not the run
            if isinstance(error, SystemExit) and not error.code:
                return Driven()
            came = origin(error)
            who = came.raiser if came.raiser.startswith("the library ") else "it"
            return Driven(f"{who} raises {came.error}: {came.text}{came.line}", traceback_of(error))
        return Driven()

    @cached_property
    def _http_client(self) -> httpx2.Client:
        """One for all cells, as the run has for adapters in its own process. It sends to loopback only."""
        return httpx2.Client(transport=httpx2.HTTPTransport(verify=False, trust_env=False), timeout=_SECONDS)

    def _begin(self, chat: int) -> None:
        if not isinstance(self._asked(Begin(chat)), Go):
            raise _Ended

    def run_command(self, command: Command, timeout: float) -> Completed:
        match self._asked(RunCommand(plain(command, "the command"), float(timeout))):
            case Ran(completed):
                return completed
            case NotRun(reason, timed_out=True):
                raise TimeoutError(reason)
            case NotRun(reason, errno):
                raise OSError(errno, reason) if errno is not None else OSError(reason)
            case _:
                raise _Ended


class _Tools:
    """Runs the tools of one conversation: the run answers. What the loop has left behind runs none of the next one."""

    def __init__(self, ask: Callable[[Answer], Order]) -> None:
        self._ask = ask
        self._order = ReverseOrder()
        self._over = False
        self._running = Lock()

    def run(self, call: ToolCall) -> ToolResult:
        with self._running:
            if self._over:
                raise RuntimeError(f"the conversation is over, and its tool {call.name} no longer runs")
            match self._ask(RunTool(plain(call, "the call"))):
                case ToolAnswered(result, place):
                    pass
                case _:
                    raise _Ended
        self._order.wait(place)
        return result

    def close(self) -> None:
        with self._running:
            self._over = True


class _Commands:
    """A `harness.contract.protocols.ProcessRunner`: the run runs the commands, or answers in their place."""

    def __init__(self, worker: _Worker) -> None:
        self._worker = worker

    def run(self, command: Command, timeout: float) -> Completed:
        return self._worker.run_command(command, timeout)


def _described(adapter: Adapter) -> Described:
    made = adapter.embeddings
    return Described(
        plain(adapter.name, "its name"),
        plain(adapter.api, "its api"),
        tuple(sorted(map(str, adapter.capabilities))),
        None if made is None else plain((made.model, made.dimensions), "its embeddings"),
        plain(adapter.requires, "its requires"),
        adapter.route is Route.PROCESS,
        adapter.drive is not None,
    )


def _accept(response: object, events: list[StreamEvent]) -> ChatResponse:
    """The response, if it and the events are values that the run can be given. Raises `TypeError`."""
    accepted = checked(response, events)
    try:
        plain(accepted, "the response")
        for index, event in enumerate(events):
            plain(event, f"event {index}")
    except TypeError:
        events.clear()
        raise
    return accepted
