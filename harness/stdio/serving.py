"""Serves a Python adapter as JSON lines on standard input and output. The counterpart is `harness.stdio.workers`.

The adapter runs in the main thread, as adapters expect. A second thread reads messages and ends the process when the
run ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from itertools import count
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, cast

import httpx2

from harness.kit.client import EmbeddingRecord
from harness.model.errors import (
    RECOGNISED_CLIENT,
    ChatError,
    ConnectionFailed,
    HarnessError,
    InvalidValue,
    MalformedResponse,
    PluginError,
    ProviderError,
    Unsupported,
    UsageError,
)
from harness.model.http import Command, Completed
from harness.model.messages import JSON, ChatRequest, ChatResponse, Finish, Message, StreamEvent, ToolCall, ToolResult
from harness.model.protocols import (
    Adapter,
    Capability,
    Conversation,
    ConversationTool,
    Drive,
    EmbeddingProvider,
    Embeddings,
    Endpoint,
    Route,
)
from harness.platform.exceptions import (
    class_name,
    exception_summary,
    exception_text,
    origin,
    root_origin,
    source_line,
    traceback_text,
)
from harness.stdio import adapter_specs
from harness.stdio.adapter_process import CUT_OFF_EXIT_CODE, FAULTS_VARIABLE, STACKS_SIGNAL
from harness.stdio.protocol import (
    ChangedParams,
    ChatParams,
    DescribedConversation,
    DescribedEmbeddings,
    Description,
    DriveParams,
    DriveResult,
    EmbeddingSpace,
    EmbedParams,
    ErrorData,
    RunParams,
    ToolParams,
    from_json,
    to_json,
)
from harness.stdio.sync_client import ADAPTER_EXCEPTIONS, SyncClient, TrackedObjects, check_response, run_awaitable

_GRACE_SECONDS = 2.0
"""Time for an idle process to exit before it is killed."""

_SDK_SECONDS = 600.0
"""Timeout of the HTTP client that adapters receive. It equals the default of the SDKs."""


def main() -> None:
    """Serve the adapter named on the command line until standard input is closed."""
    usage = "python -m harness.stdio module:ATTRIBUTE speaks JSON lines: see 'harness help stdio'."
    if len(sys.argv) < 2:
        sys.exit(usage)
    spec, *path = sys.argv[1:]
    sys.path[:] = path or sys.path
    del sys.argv[1:]
    incoming, outgoing = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # output of the adapter's prints is not a message
    faults = int(os.environ.pop(FAULTS_VARIABLE, 2))
    os.set_inheritable(faults, faults == 2)  # a command that the adapter starts must not hold it
    faulthandler.enable(faults)
    faulthandler.register(STACKS_SIGNAL, faults)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    _Server(spec, incoming, outgoing).serve()


class _RunEnded(BaseException):
    """The run has ended and needs no further results. A `BaseException`, so that adapters do not catch it."""


class _AdapterRaised(Exception):
    """Wraps an exception of the adapter. `of_chat` is set if it occurred in a chat or in embeddings, not in a tool
    loop.
    """

    def __init__(self, error: BaseException, *, of_chat: bool = True) -> None:
        super().__init__()
        self.error = error
        self.of_chat = of_chat


class _Server:
    def __init__(self, spec: str, incoming: int, outgoing: int) -> None:
        self._spec = spec
        self._incoming = incoming
        self._outgoing = outgoing
        self._process = os.getpid()
        self._requests: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._answers: dict[str, SimpleQueue[dict[str, Any] | None]] = {}
        self._numbers = count(1)
        self._writing = Lock()
        self._busy = False
        self._request_id: JSON = None
        self._open = ExitStack()
        self._conversation: _ServedConversation | None = None
        self._provider: EmbeddingProvider | None = None

    def serve(self) -> None:
        Thread(target=self._read, name="harness-messages", daemon=True).start()
        while (request := self._requests.get()) is not None:
            self._busy, self._request_id = True, request["id"]
            answer = self._answer(request)
            self._busy = False
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # closed or replaced by the adapter
                    stream.flush()
            try:
                self._write({"id": request["id"], **answer})
            except _RunEnded:
                sys.exit(CUT_OFF_EXIT_CODE)

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), os.fdopen(self._incoming, "rb") as lines:
            for line in lines:
                message = json.loads(line)
                if "method" in message:
                    self._requests.put(message)
                elif waiting := self._answers.pop(message["id"], None):
                    waiting.put(message)
        self._requests.put(None)
        for waiting in [*self._answers.values()]:
            waiting.put(None)
        if not self._busy:
            time.sleep(_GRACE_SECONDS)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # this process, and what the adapter has started
        os._exit(CUT_OFF_EXIT_CODE)

    def _write(self, message: dict[str, JSON]) -> None:
        if os.getpid() != self._process:
            os._exit(0)  # the adapter forked this process; the copy has no requests
        data = memoryview(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        with self._writing:
            try:
                while data:
                    data = data[os.write(self._outgoing, data) :]
            except OSError:
                raise _RunEnded from None

    def _request(self, method: str, params: object) -> Any:
        """Send a request to the run and return the result. Raises `TimeoutError` or `OSError` if
        the run reports one.
        """
        number = f"{method}-{next(self._numbers)}"
        waiting = self._answers[number] = SimpleQueue[dict[str, Any] | None]()
        self._write({"id": number, "method": method, "params": to_json(params)})
        answer = waiting.get()
        if answer is None:
            raise _RunEnded
        if "error" not in answer:
            return answer["result"]
        text: str = answer["error"]["message"]
        data: dict[str, Any] = answer["error"].get("data") or {}
        if data.get("timed_out"):
            raise TimeoutError(text)
        raise OSError(text) if data.get("errno") is None else OSError(data["errno"], text)

    def _answer(self, request: dict[str, Any]) -> dict[str, JSON]:
        methods: dict[str, Callable[[Any], JSON]] = {
            "describe": self._describe,
            "chat": lambda params: self._chat(params, stream=False),
            "stream": lambda params: self._chat(params, stream=True),
            "embed": self._embed,
            "drive": self._drive,
            "close": self._close,
        }
        try:
            return {"result": methods[request["method"]](request.get("params"))}
        except _RunEnded:
            sys.exit(CUT_OFF_EXIT_CODE)
        except _AdapterRaised as raised:
            return _adapter_error(raised.error, outside=False) if raised.of_chat else _loop_error(raised.error)
        except UsageError as error:
            return _error_response(error, "unusable")
        except BaseException as error:  # noqa: BLE001 - what an adapter raises ends its cell, not the run
            return _adapter_error(error, outside=True)

    @cached_property
    def _adapter(self) -> Adapter:
        try:
            return adapter_specs.adapter(self._spec)
        except UsageError:
            raise
        except BaseException as error:  # noqa: BLE001 - a foreign module may fail in any way
            reason = f"importing {self._spec.partition(':')[0]} failed: {exception_summary(error)}."
            raise PluginError("adapter", self._spec, reason) from None

    def _describe(self, _params: JSON) -> JSON:
        adapter = self._adapter
        made = adapter.embeddings
        return to_json(
            Description(
                adapter.name,
                adapter.api,
                tuple(sorted(map(str, adapter.capabilities))),
                None if made is None else DescribedEmbeddings(made.model, made.dimensions),
                adapter.requires,
                adapter.route is Route.PROCESS,
                adapter.drive is not None,
                adapter.final_call,
            )
        )

    def _endpoint(self, params: ChatParams | EmbedParams | DriveParams) -> Endpoint:
        route = self._adapter.route
        return Endpoint(
            params.endpoint.base_url,
            params.endpoint.api_key,
            self._http_client if route is Route.CLIENT else None,
            self if route is Route.PROCESS else None,
            server=params.endpoint.server,
        )

    @cached_property
    def _http_client(self) -> httpx2.Client:
        """The HTTP client for all cells, like that of built-in adapters. It is used only for loopback addresses, so it
        verifies no certificates.
        """
        return httpx2.Client(transport=httpx2.HTTPTransport(verify=False, trust_env=False), timeout=_SDK_SECONDS)

    def _chat(self, params: dict[str, Any], *, stream: bool) -> JSON:
        chat: ChatParams = from_json(ChatParams, params, "params")
        if self._conversation is None:
            client = self._adapter.connect(self._endpoint(chat), chat.model)
            connected = SyncClient(client, stream=stream)
            self._open.callback(connected.close)
            self._conversation = _ServedConversation(connected)
        conversation = self._conversation
        request = conversation.request(chat.request, params["request"])
        original = conversation.handed.request(request)
        try:
            if stream:
                return conversation.response_json(conversation.connected.stream(request, self._event_sender()))
            return conversation.response_json(conversation.connected.chat(request))
        except ADAPTER_EXCEPTIONS as error:
            raise _AdapterRaised(error) from None
        finally:
            if changes := conversation.handed.changes(request, original):
                self._notify("changed", to_json(ChangedParams(cast("int", self._request_id), changes)))

    def _event_sender(self) -> Callable[[StreamEvent], None]:
        """Return a function that sends events as they arrive. The last `Finish` is not sent,
        because it is the result.
        """
        held: list[Finish] = []
        number = count()

        def note(event: StreamEvent) -> None:
            for each in (*held, *(() if isinstance(event, Finish) else (event,))):
                written = to_json(each, f"event {next(number)}")
                self._notify("event", {"id": self._request_id, "event": written})
            held[:] = [event] if isinstance(event, Finish) else []

        return note

    def _notify(self, method: str, params: JSON) -> None:
        self._write({"method": method, "params": params})

    def _embed(self, params: JSON) -> JSON:
        embed: EmbedParams = from_json(EmbedParams, params, "params")
        made = cast("Embeddings", self._adapter.embeddings)
        if self._provider is None:
            self._provider = made.connect(self._endpoint(embed), embed.model, embed.dimensions)
            self._open.callback(self._provider.close)
        try:
            declared = EmbeddingRecord.of(self._provider)
            vectors = self._provider.embed(embed.texts) if embed.texts is not None else []
            floats = tuple(tuple(map(float, vector)) for vector in vectors)
        except ADAPTER_EXCEPTIONS as error:
            raise _AdapterRaised(error) from None
        return to_json(EmbeddingSpace(declared.provider, declared.model, declared.dimensions, floats))

    def _drive(self, params: JSON) -> JSON:
        drive_params: DriveParams = from_json(DriveParams, params, "params")
        drive = cast("Drive", self._adapter.drive)
        over: list[bool] = []

        def run(call: ToolCall) -> ToolResult:
            if over:
                raise RuntimeError(f"the conversation has ended, so its tool {call.name} can no longer run")
            result = self._request("tool", ToolParams(cast("int", self._request_id), call))
            return cast("ToolResult", from_json(ToolResult, result, "the result"))

        answers: object = None
        try:
            answers = run_awaitable(
                drive(self._endpoint(drive_params), drive_params.model, _conversation(drive_params.conversation, run))
            )
        except _RunEnded:
            raise
        except BaseException as error:  # noqa: BLE001 - the same
            if not isinstance(error, SystemExit) or error.code:
                raise _AdapterRaised(error, of_chat=False) from None
        finally:
            over.append(True)
        return _drive_result(answers) if Capability.ANSWERS in self._adapter.capabilities else None

    def run(self, command: Command, timeout: float) -> Completed:
        """See `harness.model.protocols.ProcessRunner`. The harness runs the command or supplies its recorded output."""
        run_params = RunParams(
            cast("int", self._request_id),
            command.argv,
            float(timeout),
            command.stdin,
            command.environment,
            command.inherited,
        )
        completed: Completed = from_json(Completed, self._request("run", run_params), "the result")
        return completed

    def _close(self, _params: JSON) -> JSON:
        self._conversation = self._provider = None
        self._open.close()
        return None


class _ServedConversation:
    """A conversation whose requests arrive as complete JSON documents.

    The adapter receives earlier messages as identical objects, as it would from an application's history.
    """

    def __init__(self, connected: SyncClient) -> None:
        self.connected = connected
        self.handed = TrackedObjects()
        self._known: dict[str, Any] = {}

    def request(self, request: ChatRequest, document: dict[str, Any]) -> ChatRequest:
        """Return the request with known values replaced by the objects that the adapter has already received."""
        return replace(
            request,
            messages=tuple(map(self._same, document.get("messages", []), request.messages)),
            tools=tuple(map(self._same, document.get("tools", []), request.tools)),
            response_format=self._same(document.get("response_format"), request.response_format),
            provider_metadata=self._same(document.get("provider_metadata"), request.provider_metadata),
        )

    def response_json(self, response: ChatResponse) -> JSON:
        """Return the response as JSON, and remember its message for later requests."""
        document = to_json(response, "the response")
        message: Message = self.handed.original(response.message)
        self._known[json.dumps(to_json(message))] = response.message
        return document

    def _same(self, document: JSON, value: Any) -> Any:
        if document is None:  # keep the default
            return value
        key = json.dumps(document)
        if key not in self._known:
            self._known[key] = self.handed.copy_for_adapter(value)
        return self._known[key]


def _drive_result(answers: object) -> JSON:
    """Return the answers of a loop as JSON. Raises `_AdapterRaised` if they are not what a loop returns."""
    if not isinstance(answers, Sequence):
        error = TypeError(f"drive returned a {type(answers).__name__}, not a list of ChatResponse")
        raise _AdapterRaised(error, of_chat=False)
    try:
        checked = [
            None if each is None else check_response(each, "drive") for each in cast("Sequence[object]", answers)
        ]
    except TypeError as error:
        raise _AdapterRaised(error, of_chat=False) from None
    return to_json(DriveResult(tuple(checked)), "the answers")


def _conversation(described: DescribedConversation, run: Callable[[ToolCall], ToolResult]) -> Conversation:
    return Conversation(
        turns=tuple(Message("user", turn.parts) for turn in described.turns),
        tools=tuple(ConversationTool(tool.name, tool.description, tool.parameters, run) for tool in described.tools),
        system=described.system,
        stream=described.stream,
        tool_choice=described.tool_choice,
        response_format=described.response_format,
        max_tokens=described.max_tokens,
        thinking=described.thinking,
        temperature=described.temperature,
        max_answers=described.max_answers,
    )


def _adapter_error(error: BaseException, *, outside: bool) -> dict[str, JSON]:
    match error:
        case Unsupported():
            adapter = RECOGNISED_CLIENT if error.adapter == RECOGNISED_CLIENT else None
            return _error_response(error, "unsupported", error.reason, feature=error.feature, adapter=adapter)
        case ConnectionFailed():
            return _error_response(error, "connection_failed", error.reason)
        case MalformedResponse():
            return _error_response(error, "malformed_response", error.reason, status=error.status)
        case ProviderError():
            known = {"status": error.status, "code": error.code, "retry_after": error.retry_after}
            return _error_response(error, "provider_error", error.message, **known)
        case ChatError():
            return _error_response(error, "chat_error")
        case UsageError() if not outside:
            return _error_response(error, "unusable")
        case _:
            is_outside = outside or (isinstance(error, HarnessError) and not isinstance(error, InvalidValue))
            return _error_response(error, "crash", outside=is_outside)


def _loop_error(error: BaseException) -> dict[str, JSON]:
    if isinstance(error, Unsupported):
        return _adapter_error(error, outside=False)
    return _error_response(error, "crash", origin=origin(error))


def _error_response(error: BaseException, kind: str, message: str | None = None, **more: Any) -> dict[str, JSON]:
    is_crash = kind == "crash"
    details: dict[str, Any] = {"origin": None if kind == "unusable" else root_origin(error), **more}
    failure = ErrorData(
        kind,
        error=class_name(error) if isinstance(error, ProviderError) or is_crash else None,
        where=source_line(error) if is_crash else "",
        traceback=traceback_text(error) if is_crash else "",
        **details,
    )
    try:
        data = to_json(failure)
    except TypeError:  # a field of the error is of another type
        data = to_json(ErrorData("crash", error=class_name(error), traceback=traceback_text(error)))
    text = exception_text(error) if message is None else str(message)
    return {"error": {"code": -32000, "message": text, "data": data}}
