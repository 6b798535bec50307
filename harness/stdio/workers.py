"""Runs foreign adapters, each in its own process that exchanges JSON lines. See `harness help stdio`."""

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

from harness import plugins
from harness.model.errors import PluginError, UsageError
from harness.model.http import Command
from harness.model.messages import JSON, ChatRequest, ChatResponse, Finish, StreamEvent, ToolCall
from harness.model.protocols import Adapter, Capability, Conversation, Embeddings, Endpoint, ProcessRunner, Route
from harness.platform.environment import is_hidden
from harness.stdio import adapter_specs
from harness.stdio.adapter_process import AdapterBroke, AdapterProcess, BrokenCommand, ErrorResponse
from harness.stdio.agent_program import conversation_json
from harness.stdio.protocol import (
    PROTOCOL,
    ChangedParams,
    ChatParams,
    Description,
    DriveResult,
    EmbeddingSpace,
    EmbedParams,
    EndpointAddress,
    RunParams,
    ToolParams,
    exception_for,
    from_json,
    to_json,
)
from harness.stdio.sync_client import RemoteClient

MAX_TOOL_RUNS = 1000
"""Maximum number of tool runs in one conversation. It stops an endless loop before the time limit does."""

_MAX_TOOLS_AT_ONCE = 32

_LOADING_SECONDS = 60.0
"""Minimum time limit for importing an adapter, because some libraries take many seconds."""

TIMEOUT_HINT = "; --cell-timeout sets the limit (under pytest, harness_cell_timeout)"
"""End of every message about a cell that reached its time limit."""

_LONGER_HINT = "; a longer --cell-timeout allows it more (under pytest, harness_cell_timeout)"


class RunCancelled(BaseException):
    """The run was cancelled during this cell, so the cell has no result."""


def _not_connected_here(*_: Any) -> NoReturn:
    raise AssertionError("this adapter is connected in its worker")


@dataclass(frozen=True, slots=True)
class ForeignAdapter(Adapter):
    """Describes an adapter that only workers import. Lease a worker to run a cell.

    Its route is never `Route.CLIENT`, because the worker sends its requests to the loopback server.
    """

    _: KW_ONLY
    spec: str
    workers: WorkerPool


class WorkerLease:
    """A worker that is leased for one cell, and the adapter that runs in it. `printed` is set after the cell."""

    def __init__(self, process: AdapterProcess, foreign: ForeignAdapter) -> None:
        self.printed = ""
        self.process = process
        self.adapter = Adapter(
            foreign.name,
            foreign.api,
            foreign.capabilities,
            partial(_WorkerClient, process, foreign.name),
            _embeddings(foreign.embeddings, process, foreign.name),
            foreign.requires,
            foreign.route,
            None if foreign.drive is None else partial(_drive, process, foreign.name),
        )


class WorkerPool:
    """Starts worker processes on demand and ends them when the context exits.

    `limit` is the time limit for one run of a cell, in seconds. In `offline` runs, variables that could lead to other
    servers are hidden from adapters. A worker belongs to one adapter and to the process that started it. It runs one
    cell at a time and is reused unless it breaks.
    """

    def __init__(self, limit: float, *, offline: bool) -> None:
        self.limit = limit
        self._environment = {name: value for name, value in os.environ.items() if not (offline and is_hidden(name))}
        self._process = os.getpid()
        self._adapters: dict[str, Adapter] = {}
        self._idle: dict[str, list[AdapterProcess]] = {}
        self._busy: set[AdapterProcess] = set()
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
        """Start no more cells. Cells that are running raise `RunCancelled`."""
        with self._lock:
            self._halted = True
            for process in self._busy:
                process.kill()

    @property
    def is_halted(self) -> bool:
        """Return whether `halt` was called."""
        return self._halted

    def adapter(self, spec: str) -> Adapter:
        """Return an adapter by its spec. The first call starts a worker that loads it, unless it is built in.

        Raises:
            UsageError: See `harness.stdio.adapter_specs.adapter`.
        """
        if not adapter_specs.is_foreign(spec):
            return plugins.adapter(spec)
        if spec not in self._adapters:
            self._adapters[spec] = self._foreign(spec)
        return self._adapters[spec]

    def _foreign(self, spec: str) -> Adapter:
        process = self._start(spec)
        try:
            described = self._load(process, spec)
        except AdapterBroke as broken:
            process.close()
            raise PluginError("adapter", spec, f"{broken.reason}.{_printed_note(broken.printed)}") from None
        except BaseException:
            process.kill()
            process.close()
            raise
        with self._lock:
            self._idle.setdefault(spec, []).append(process)
        made = described.embeddings
        return plugins.check_adapter(
            spec,
            ForeignAdapter(
                described.name,
                described.api,
                frozenset(Capability(name) if name in set(Capability) else name for name in described.capabilities),  # pyright: ignore[reportArgumentType]
                _not_connected_here,
                None if made is None else Embeddings(made.model, made.dimensions, _not_connected_here),
                described.requires,
                Route.PROCESS if described.runs_commands else Route.LOOPBACK,
                _not_connected_here if described.owns_loop else None,
                described.final_call,
                spec=spec,
                workers=self,
            ),
        )

    @contextmanager
    def lease(self, foreign: ForeignAdapter) -> Generator[WorkerLease]:
        """Lease a worker for one cell.

        Raises:
            AdapterBroke: The adapter broke outside a chat, ended its process or exceeded its time limit.
            RunCancelled: The run was cancelled.
        """
        process = self._idle_or_new(foreign.spec)
        late = "the loop took longer than" if foreign.drive else "the adapter did not come back within"
        process.allow(self.limit, f"{late} {self.limit:g} seconds", TIMEOUT_HINT)
        lease = WorkerLease(process, foreign)
        try:
            yield lease
        except AdapterBroke as broken:
            if self._halted:
                raise RunCancelled from None
            broken.printed = process.take_output()
            raise
        finally:
            lease.printed = process.take_output()
            self._return(foreign.spec, process, reusable=process.is_idle)

    def _start(self, spec: str) -> AdapterProcess:
        served = not spec.startswith(adapter_specs.COMMAND_PREFIX)
        try:
            words = _serve_command(spec) if served else shlex.split(spec.removeprefix(adapter_specs.COMMAND_PREFIX))
        except ValueError as error:
            raise PluginError("adapter", spec, f"not a command line: {error}.") from None
        if not words:
            raise PluginError("adapter", spec, "it is an empty command line.")
        try:
            return AdapterProcess(words, self._environment, shows_stacks=served)
        except OSError as error:
            raise PluginError("adapter", spec, f"it cannot be started: {error.strerror or error}.") from None

    def _load(self, process: AdapterProcess, spec: str) -> Description:
        seconds = max(self.limit, _LOADING_SECONDS)
        process.allow(seconds, f"importing it took longer than {seconds:g} seconds", _LONGER_HINT)
        try:
            described: Description = from_json(
                Description, process.request("describe", {"protocol": PROTOCOL}), "the description"
            )
        except AdapterBroke as broken:
            broken.printed = process.take_output()
            raise
        except (BrokenCommand, ErrorResponse, ValueError) as error:
            unusable = _exception_for(spec, error) if isinstance(error, ErrorResponse) else None
            if isinstance(unusable, UsageError):
                raise unusable from None
            reason = f"it did not answer 'describe': {error}.{_printed_note(process.take_output())}"
            raise PluginError("adapter", spec, reason) from None
        return described

    def _idle_or_new(self, spec: str) -> AdapterProcess:
        with self._lock:
            if self._halted:
                raise RunCancelled
            if self._process != os.getpid():  # a fork: idle workers belong to the parent process
                self._process, self._idle = os.getpid(), {}
            idle = self._idle.get(spec)
            process = idle.pop() if idle else None
            fresh = process is None
            process = process or self._start(spec)
            self._busy.add(process)
        if fresh:
            loaded = False
            try:  # a failure now is the error of this cell, not of the start
                self._load(process, spec)
                loaded = True
            except UsageError as error:
                raise AdapterBroke(str(error)) from None
            except AdapterBroke:
                if self._halted:
                    raise RunCancelled from None
                raise
            finally:
                if not loaded:
                    self._return(spec, process, reusable=False)
        return process

    def _return(self, spec: str, process: AdapterProcess, *, reusable: bool) -> None:
        with self._lock:
            self._busy.discard(process)
            if reusable and not self._halted:
                self._idle.setdefault(spec, []).append(process)
                return
        process.kill()
        process.close()


class _WorkerClient(RemoteClient):
    """The client of an adapter in a worker."""

    def __init__(self, process: AdapterProcess, name: str, endpoint: Endpoint, model: str) -> None:
        self._worker = _WorkerMessages(process, name, endpoint.processes)
        self._process = process
        self._address = EndpointAddress(endpoint.base_url, endpoint.api_key, endpoint.server)
        self._model = model

    def chat(self, request: ChatRequest) -> ChatResponse:
        """See `harness.model.protocols.ChatClient.chat`."""
        *events, finish = self._ask("chat", request)
        if events:
            raise BrokenCommand("the command sent events for 'chat', which is not streamed")
        return finish.response

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """See `harness.model.protocols.StreamingChatClient.stream`."""
        return self._ask("stream", request)

    def close(self) -> None:
        """End the conversation. The worker keeps running and can be reused."""
        if self._process.is_idle:
            self._worker.result("close", {})

    def _ask(self, method: str, request: ChatRequest) -> Iterator[Any]:
        self.changes = ()
        params = to_json(ChatParams(self._address, self._model, request))
        for kind, message in self._worker.messages(method, params):
            if kind == "event":
                yield _read(StreamEvent, message["event"], "the event", "what is no event")
            elif kind == "changed":
                self.changes += _read(ChangedParams, message, "the changes", "what are no changes").changes
            else:
                yield Finish(_read(ChatResponse, message, "the response", "what is no response"))


class _WorkerEmbeddings:
    """The embedding provider of an adapter in a worker."""

    def __init__(self, process: AdapterProcess, name: str, endpoint: Endpoint, model: str, dimensions: int) -> None:
        self._worker = _WorkerMessages(process, name, endpoint.processes)
        self._process = process
        self._address = EndpointAddress(endpoint.base_url, endpoint.api_key, endpoint.server)
        self._embedding_space = model, dimensions
        self._space: EmbeddingSpace | None = None

    @property
    def provider(self) -> str:
        """See `harness.model.protocols.EmbeddingProvider.provider`."""
        return self._declared.provider

    @property
    def model(self) -> str:
        """See `harness.model.protocols.EmbeddingProvider.model`."""
        return self._declared.model

    @property
    def dimensions(self) -> int:
        """See `harness.model.protocols.EmbeddingProvider.dimensions`."""
        return self._declared.dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See `harness.model.protocols.EmbeddingProvider.embed`."""
        return [[*vector] for vector in self._embed(tuple(texts)).vectors]

    def close(self) -> None:
        """Close the provider. The worker keeps running and can be reused."""
        if self._process.is_idle:
            self._worker.result("close", {})

    @property
    def _declared(self) -> EmbeddingSpace:
        self._space = self._space or self._embed(None)
        return self._space

    def _embed(self, texts: tuple[str, ...] | None) -> EmbeddingSpace:
        params = to_json(EmbedParams(self._address, *self._embedding_space, texts))
        return _read(EmbeddingSpace, self._worker.result("embed", params), "the embeddings", "what are no embeddings")


def _embeddings(known: Embeddings | None, process: AdapterProcess, name: str) -> Embeddings | None:
    return known and Embeddings(known.model, known.dimensions, partial(_WorkerEmbeddings, process, name))


def _drive(
    process: AdapterProcess, name: str, endpoint: Endpoint, model: str, conversation: Conversation
) -> tuple[ChatResponse | None, ...]:
    """Implements `Drive` for a loop in a worker. The conversation's tools run in this process."""
    tools = {tool.name: tool.run for tool in conversation.tools}
    address: JSON = to_json(EndpointAddress(endpoint.base_url, endpoint.api_key, endpoint.server))
    params: JSON = {"endpoint": address, "model": model, "conversation": conversation_json(conversation)}
    runs = 0

    def answer(number: JSON, call: ToolCall) -> None:
        try:
            run = tools.get(call.name, next(iter(tools.values())))  # a tool reports an unknown name itself
            process.answer(number, to_json(run(call)))
        except BaseException:
            process.kill()  # closing it would wait for the result
            raise

    with ThreadPoolExecutor(_MAX_TOOLS_AT_ONCE, thread_name_prefix="harness-tool") as pool:
        for kind, message in _WorkerMessages(process, name, None).messages("drive", params):
            if kind == "tool":
                runs += 1
                if runs > MAX_TOOL_RUNS:
                    process.kill()
                    raise AdapterBroke(
                        f"the loop was stopped: it ran more than {MAX_TOOL_RUNS} tools in one conversation"
                    )
                call = _read(ToolParams, message["params"], "the call", "what is no call").call
                pool.submit(answer, message["id"], call)
            elif kind == "result" and message is not None:
                driven: DriveResult = _read(DriveResult, message, "the answers", "what are no answers")
                return driven.answers
    return ()


class _WorkerMessages:
    """Sends requests to a worker and runs the commands that the worker requests."""

    def __init__(self, process: AdapterProcess, name: str, processes: ProcessRunner | None) -> None:
        self._process = process
        self._name = name
        self._processes = processes

    def result(self, method: str, params: JSON) -> JSON:
        """Send a request and return its result. See `messages` for exceptions."""
        return next(message for kind, message in self.messages(method, params) if kind == "result")

    def messages(self, method: str, params: JSON) -> Iterator[tuple[str, Any]]:
        """Send a request. Yield notifications and tool requests, then the result.

        Raises:
            ChatError, UsageError, RelayedException: The adapter raised this exception.
            AdapterBroke: The worker broke, ended or exceeded its time limit.
            BrokenCommand: The worker sent an invalid message.
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
                        raise BrokenCommand(f"the command sent {other!r}, which is not a message of the protocol")
        except ErrorResponse as refused:
            error = _exception_for(self._name, refused)
            raise error from error.__cause__

    def _run(self, message: Mapping[str, JSON]) -> None:
        params = _read(RunParams, message["params"], "the command", "what is no command")
        number = message["id"]
        if self._processes is None:
            self._process.answer(number, error={"code": -1, "message": "no commands are run here"})
            return
        command = Command(params.argv, params.stdin, params.environment, params.inherited)
        try:
            with self._process.waiting(params.timeout) as seconds:
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


def _exception_for(name: str, refused: ErrorResponse) -> BaseException:
    try:
        return exception_for(name, str(refused), refused.data)
    except ValueError as error:
        return BrokenCommand(f"the command answered with an error that cannot be read: {error}")


def _printed_note(text: str) -> str:
    words = " ".join(text.split())
    return f" It printed: {words}" if words else ""


def _serve_command(spec: str) -> list[str]:
    return [sys.executable, "-P", "-m", "harness.stdio", spec, *sys.path]
