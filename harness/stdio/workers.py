"""Adapters of somebody else, each in a process of its own that speaks JSON lines: `harness help stdio`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from threading import Lock
from typing import Any, NoReturn, Self

from harness import catalog
from harness.contract.errors import PluginError, UsageError
from harness.contract.loops import Conversation
from harness.contract.model import JSON, ChatRequest, ChatResponse, Finish, StreamEvent, ToolCall
from harness.contract.process import Command
from harness.contract.protocols import Adapter, Capability, Embeddings, Endpoint, ProcessRunner, Route
from harness.host.environment import leads_out
from harness.stdio.agent import told
from harness.stdio.client import RemoteClient
from harness.stdio.process import Broken, BrokenCommand, Process, Refused
from harness.stdio.protocol import (
    PROTOCOL,
    Address,
    Asked,
    Changed,
    Description,
    Embedding,
    EmbeddingSpace,
    RunCommand,
    RunTool,
    failure,
    from_json,
    to_json,
)

MAX_TOOL_RUNS = 1000
"""How many tools are run in one conversation. A loop without end is answered so fast that it hardly uses its time."""

_MAX_TOOLS_AT_ONCE = 32

_LOADING_SECONDS = 60.0
"""The least time that an import may take: a library may need many seconds, in which no cell is played yet."""

_TIMEOUT = "; --cell-timeout sets the limit (under pytest, harness_cell_timeout)"
_LONGER = "; a longer --cell-timeout allows it more (under pytest, harness_cell_timeout)"


class Halted(BaseException):
    """The run has ended while this cell was played. Nothing is to be said of the cell."""


def _elsewhere(*_: Any) -> NoReturn:
    raise AssertionError("this adapter is connected in its worker")


@dataclass(frozen=True, slots=True)
class Foreign(Adapter):
    """What is known here of an adapter that only its workers have imported. Lease one to play a cell.

    It never has `Route.CLIENT`: another process sends to the loopback server.
    """

    _: KW_ONLY
    spec: str
    workers: Workers


class Lease:
    """A worker while it plays one cell, and the adapter in it. `printed` is there once the cell is over."""

    def __init__(self, process: Process, foreign: Foreign) -> None:
        self.printed = ""
        self.process = process
        self.adapter = Adapter(
            foreign.name,
            foreign.api,
            foreign.capabilities,
            partial(_Client, process, foreign.name),
            _embeddings(foreign.embeddings, process, foreign.name),
            foreign.requires,
            foreign.route,
            None if foreign.drive is None else partial(_drive, process, foreign.name),
        )


class Workers:
    """Starts worker processes when they are needed, and ends them when the context is left.

    `limit` is how long the playing of a cell may take, in seconds; a retelling is a playing of its own. `offline` runs
    hide from the adapter what would lead it elsewhere. A worker belongs to one adapter and to the process that started
    it, plays one cell at a time, and is used again unless it broke.
    """

    def __init__(self, limit: float, *, offline: bool) -> None:
        self.limit = limit
        self._environment = {name: value for name, value in os.environ.items() if not (offline and leads_out(name))}
        self._process = os.getpid()
        self._idle: dict[str, list[Process]] = {}
        self._busy: set[Process] = set()
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
            idle = [process for processes in self._idle.values() for process in processes]
            self._idle.clear()
        for process in idle:
            process.close()

    def halt(self) -> None:
        """Let no cell be played any more: what is under way raises `Halted`."""
        with self._lock:
            self._halted = True
            for process in self._busy:
                process.kill()

    def adapter(self, spec: str) -> Adapter:
        """Return an adapter by its name or its place; one that is not built in is loaded by a worker.

        Raises:
            UsageError: as `harness.catalog.adapter` does.
        """
        if not catalog.is_foreign(spec):
            return catalog.adapter(spec)
        process = self._started(spec)
        try:
            described = self._load(process, spec)
        except Broken as broken:
            process.close()
            raise PluginError("adapter", spec, f"{broken.reason}.{_and_printed(broken.printed)}") from None
        except BaseException:
            process.kill()
            process.close()
            raise
        with self._lock:
            self._idle.setdefault(spec, []).append(process)
        made = described.embeddings
        return catalog.checked(
            spec,
            Foreign(
                described.name,
                described.api,
                frozenset(Capability(name) if name in set(Capability) else name for name in described.capabilities),  # pyright: ignore[reportArgumentType]
                _elsewhere,
                None if made is None else Embeddings(made.model, made.dimensions, _elsewhere),
                described.requires,
                Route.PROCESS if described.runs_commands else Route.LOOPBACK,
                _elsewhere if described.owns_loop else None,
                spec=spec,
                workers=self,
            ),
        )

    @contextmanager
    def lease(self, foreign: Foreign) -> Generator[Lease]:
        """Have a worker play one cell.

        Raises:
            Broken: the adapter broke outside of a chat, ended its process or held it for too long.
            Halted: the run has ended meanwhile.
        """
        process = self._taken(foreign.spec)
        late = "the loop took longer than" if foreign.drive else "the adapter did not come back within"
        process.allow(self.limit, f"{late} {self.limit:g} seconds", _TIMEOUT)
        lease = Lease(process, foreign)
        try:
            yield lease
        except Broken as broken:
            if self._halted:
                raise Halted from None
            broken.printed = process.printed()
            raise
        finally:
            lease.printed = process.printed()
            self._returned(foreign.spec, process, reusable=process.is_idle)

    def _started(self, spec: str) -> Process:
        served = not spec.startswith(catalog.MARK)
        try:
            words = _served(spec) if served else shlex.split(spec.removeprefix(catalog.MARK))
        except ValueError as error:
            raise PluginError("adapter", spec, f"it is no command line: {error}.") from None
        if not words:
            raise PluginError("adapter", spec, "it is an empty command line.")
        try:
            return Process(words, self._environment, shows_stacks=served)
        except OSError as error:
            raise PluginError("adapter", spec, f"it cannot be started: {error.strerror or error}.") from None

    def _load(self, process: Process, spec: str) -> Description:
        """Have a worker load its adapter.

        Raises:
            UsageError: it cannot be used.
            Broken: it ended or held the process.
        """
        seconds = max(self.limit, _LOADING_SECONDS)
        process.allow(seconds, f"importing it took longer than {seconds:g} seconds", _LONGER)
        try:
            described: Description = from_json(
                Description, process.request("describe", {"protocol": PROTOCOL}), "the description"
            )
        except Broken as broken:
            broken.printed = process.printed()
            raise
        except (BrokenCommand, Refused, ValueError) as error:
            unusable = _failure(spec, error) if isinstance(error, Refused) else None
            if isinstance(unusable, UsageError):
                raise unusable from None
            reason = f"asked to describe itself, it did not: {error}.{_and_printed(process.printed())}"
            raise PluginError("adapter", spec, reason) from None
        return described

    def _taken(self, spec: str) -> Process:
        with self._lock:
            if self._halted:
                raise Halted
            if self._process != os.getpid():  # a fork: the workers that idle belong to the process that it comes from
                self._process, self._idle = os.getpid(), {}
            idle = self._idle.get(spec)
            process = idle.pop() if idle else None
            fresh = process is None
            process = process or self._started(spec)
            self._busy.add(process)
        if fresh:
            loaded = False
            try:  # what fails now did not fail at first, and is this cell's error
                self._load(process, spec)
                loaded = True
            except UsageError as error:
                raise Broken(str(error)) from None
            except Broken:
                if self._halted:
                    raise Halted from None
                raise
            finally:
                if not loaded:
                    self._returned(spec, process, reusable=False)
        return process

    def _returned(self, spec: str, process: Process, *, reusable: bool) -> None:
        with self._lock:
            self._busy.discard(process)
            if reusable and not self._halted:
                self._idle.setdefault(spec, []).append(process)
                return
        process.kill()
        process.close()


class _Client(RemoteClient):
    """The client of an adapter in a worker."""

    def __init__(self, process: Process, name: str, endpoint: Endpoint, model: str) -> None:
        self._worker = _Worker(process, name, endpoint.processes)
        self._process = process
        self._address = Address(endpoint.base_url, endpoint.api_key)
        self._model = model

    def chat(self, request: ChatRequest) -> ChatResponse:
        """See `harness.contract.protocols.ChatClient.chat`."""
        *events, finish = self._ask("chat", request)
        if events:
            raise BrokenCommand("the command sent events for 'chat', which is not streamed")
        return finish.response

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """See `harness.contract.protocols.StreamingChatClient.stream`."""
        return self._ask("stream", request)

    def close(self) -> None:
        """Let the worker forget the conversation; it goes on running for the next."""
        if self._process.is_idle:
            self._worker.result("close", {})

    def _ask(self, method: str, request: ChatRequest) -> Iterator[Any]:
        self.changes = ()
        asked = to_json(Asked(self._address, self._model, request))
        for kind, message in self._worker.messages(method, asked):
            if kind == "event":
                yield _read(StreamEvent, message["event"], "the event", "what is no event")
            elif kind == "changed":
                self.changes += _read(Changed, message, "the changes", "what are no changes").changes
            else:
                yield Finish(_read(ChatResponse, message, "the response", "what is no response"))


class _Provider:
    """The embedding provider of an adapter in a worker."""

    def __init__(self, process: Process, name: str, endpoint: Endpoint, model: str, dimensions: int) -> None:
        self._worker = _Worker(process, name, endpoint.processes)
        self._process = process
        self._address = Address(endpoint.base_url, endpoint.api_key)
        self._asked = model, dimensions
        self._space: EmbeddingSpace | None = None

    @property
    def provider(self) -> str:
        """See `harness.contract.protocols.EmbeddingProvider.provider`."""
        return self._declared.provider

    @property
    def model(self) -> str:
        """See `harness.contract.protocols.EmbeddingProvider.model`."""
        return self._declared.model

    @property
    def dimensions(self) -> int:
        """See `harness.contract.protocols.EmbeddingProvider.dimensions`."""
        return self._declared.dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See `harness.contract.protocols.EmbeddingProvider.embed`."""
        return [[*vector] for vector in self._embedded(tuple(texts)).vectors]

    def close(self) -> None:
        """Let the worker forget the provider."""
        if self._process.is_idle:
            self._worker.result("close", {})

    @property
    def _declared(self) -> EmbeddingSpace:
        self._space = self._space or self._embedded(None)
        return self._space

    def _embedded(self, texts: tuple[str, ...] | None) -> EmbeddingSpace:
        asked = to_json(Embedding(self._address, *self._asked, texts))
        return _read(EmbeddingSpace, self._worker.result("embed", asked), "the embeddings", "what are no embeddings")


def _embeddings(known: Embeddings | None, process: Process, name: str) -> Embeddings | None:
    return known and Embeddings(known.model, known.dimensions, partial(_Provider, process, name))


def _drive(process: Process, name: str, endpoint: Endpoint, model: str, conversation: Conversation) -> None:
    """Have a loop in a worker play a conversation: a `harness.contract.loops.Drive`. Its tools run here."""
    tools = {tool.name: tool.run for tool in conversation.tools}
    address: JSON = to_json(Address(endpoint.base_url, endpoint.api_key))
    asked: JSON = {"endpoint": address, "model": model, "conversation": told(conversation)}
    runs = 0

    def answer(number: JSON, call: ToolCall) -> None:
        try:
            run = tools.get(call.name, next(iter(tools.values())))  # which knows a tool that there is not
            process.answer(number, to_json(run(call)))
        except BaseException:
            process.kill()  # which would wait for the result
            raise

    with ThreadPoolExecutor(_MAX_TOOLS_AT_ONCE, thread_name_prefix="harness-tool") as pool:
        for kind, message in _Worker(process, name, None).messages("drive", asked):
            if kind == "tool":
                runs += 1
                if runs > MAX_TOOL_RUNS:
                    process.kill()
                    raise Broken(f"the loop was stopped: it ran more than {MAX_TOOL_RUNS} tools in one conversation")
                call = _read(RunTool, message["params"], "the call", "what is no call").call
                pool.submit(answer, message["id"], call)


class _Worker:
    """Sends requests to a worker, and runs the commands that it requests."""

    def __init__(self, process: Process, name: str, processes: ProcessRunner | None) -> None:
        self._process = process
        self._name = name
        self._processes = processes

    def result(self, method: str, params: JSON) -> JSON:
        """Return the result of a request. Raises as `messages` does."""
        return next(message for kind, message in self.messages(method, params) if kind == "result")

    def messages(self, method: str, params: JSON) -> Iterator[tuple[str, Any]]:
        """Send a request and yield what the worker sends for it: the parameters of notifications, requests to run a
        tool, and last of all the result.

        Raises:
            ChatError, UsageError, Relayed: the adapter did.
            Broken, BrokenCommand: it broke, or cannot be understood.
        """
        try:
            for message in self._process.messages(method, params):
                match message.get("method"):
                    case None:
                        yield "result", message["result"]
                    case "run":
                        self._run(message)
                    case "tool":
                        yield "tool", message
                    case "event" | "changed" as kind:
                        yield kind, message["params"]
                    case other:
                        raise BrokenCommand(f"the command sent {other!r}, which is no message of the protocol")
        except Refused as refused:
            error = _failure(self._name, refused)
            raise error from error.__cause__

    def _run(self, message: Mapping[str, JSON]) -> None:
        asked = _read(RunCommand, message["params"], "the command", "what is no command")
        number = message["id"]
        if self._processes is None:
            self._process.answer(number, error={"code": -1, "message": "no commands are run here"})
            return
        command = Command(asked.argv, asked.stdin, asked.environment, asked.inherited)
        try:
            with self._process.waiting(asked.timeout) as seconds:
                completed = self._processes.run(command, seconds)
        except TimeoutError as error:
            self._process.answer(number, error={"code": -1, "message": str(error), "data": {"timed_out": True}})
        except OSError as error:
            text = error.strerror or str(error)
            self._process.answer(number, error={"code": -1, "message": text, "data": {"errno": error.errno}})
        else:
            self._process.answer(number, to_json(completed))


def _read(kind: Any, document: JSON, place: str, wrong: str) -> Any:
    try:
        return from_json(kind, document, place)
    except ValueError as error:
        raise BrokenCommand(f"the command answered with {wrong}: {error}") from None


def _failure(name: str, refused: Refused) -> BaseException:
    try:
        return failure(name, str(refused), refused.data)
    except ValueError as error:
        return BrokenCommand(f"the command answered with an error that cannot be read: {error}")


def _and_printed(text: str) -> str:
    words = " ".join(text.split())
    return f" It printed: {words}" if words else ""


def _served(spec: str) -> list[str]:
    """Return the command that serves a Python adapter with this process's module search path."""
    return [sys.executable, "-P", "-m", "harness.stdio", spec, *sys.path]
