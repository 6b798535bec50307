"""Plays one cell: the scenario's turns through an adapter's client, noting what happens.

The loop is the one that ships, `Thread.send`: what is judged here is what an application runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar, cast

from harness.apis.targets import Target
from harness.contract.errors import (
    ChatError,
    HarnessError,
    InvalidValue,
    IterationLimit,
    MalformedResponse,
    ProviderError,
)
from harness.contract.model import ChatRequest, ChatResponse, Finish, StreamEvent, ToolCall, ToolResult
from harness.contract.protocols import Endpoint
from harness.host.crash import Origin, located, origin, said, traceback_of
from harness.kit.handlers import CollectingHandler
from harness.kit.thread import Thread, failure
from harness.kit.trimming import trimmed
from harness.results import Chat, Embedded, ToolExecution
from harness.running.answer import check
from harness.running.handed import Handed
from harness.running.indexing import embedded
from harness.running.line import Line
from harness.scenarios.canonical import history, provider_tools, settings_of, system_of, tools, user_message
from harness.scenarios.events import told
from harness.scenarios.match import class_of
from harness.scenarios.schema import Scenario, Variant
from harness.scenarios.tools import ToolFailure, Unanswered, UnknownTool, answer

T = TypeVar("T")

BROKEN = (Exception, SystemExit, asyncio.CancelledError)
"""How an adapter can break. One that exits or cancels itself takes its cell with it, not the run and its exit code."""

DEFAULT_MAX_TOKENS = 1024
"""Bound of every answer that a scenario does not bound itself, so that adapters with defaults of their own agree."""


_Client: TypeAlias = Callable[[ChatRequest, list[StreamEvent]], object]
"""Asks the adapter, notes the events of a streamed answer as they come, and gives back the response."""

Accept: TypeAlias = Callable[[object, list[StreamEvent]], ChatResponse]
"""Takes what an adapter answered, with the events of a stream. Raises `TypeError`: it is no answer."""


@dataclass(frozen=True, slots=True)
class Playing:
    """What came of a cell: its chats, the tools that ran, what a message handler was told of each turn. `printed` is
    what the adapter printed, where it was not the command that got it."""

    chats: tuple[Chat, ...] = ()
    executions: tuple[ToolExecution, ...] = ()
    handled: tuple[tuple[str, ...], ...] = ()
    printed: str = ""


@dataclass(frozen=True, slots=True)
class EmbeddingPlaying(Playing):
    """What came of a cell of embeddings, which has no chats."""

    embedded: tuple[Embedded, ...] = ()


class _Conversation:
    """Plays the turns of a cell, and keeps what comes of them."""

    def __init__(self, scenario: Scenario, target: Target, begin: Callable[[int], None], accept: Accept) -> None:
        self.scenario = scenario
        self._model = target.model
        self._begin = begin
        self._accept = accept
        self._chats: list[Chat] = []
        self._executions: list[ToolExecution] = []
        self._handled: list[tuple[str, ...]] = []
        self._handed = Handed()

    def play(self, client: _Client) -> Playing:
        scenario = self.scenario
        thread = Thread(self._template(0, messages=True), max_iterations=scenario.max_iterations)
        for index, turn in enumerate(scenario.turns):
            thread.template = self._template(index)
            asking, handler = _Asking(self, thread, index, client), _Handler()
            try:
                thread.send(asking, user_message(turn), self.run, handler)
                if scenario.trim is not None:
                    thread.messages = trimmed(thread.messages, scenario.trim.tools)
            except IterationLimit as error:
                asking.reorder()
                self._chats[-1] = replace(self._chats[-1], limit_reached=True, error_text=str(error))
            except _Ended:
                break
            finally:
                self._handled.append(tuple(map(told, handler.events)))
        return Playing(tuple(self._chats), tuple(self._executions), tuple(self._handled))

    def _template(self, turn: int, *, messages: bool = False) -> ChatRequest:
        scenario, settings = self.scenario, settings_of(self.scenario, turn)
        hand = self._handed.hand
        return ChatRequest(
            model=self._model,
            messages=tuple(map(hand, history(scenario))) if messages else (),
            system=system_of(scenario, turn),
            tools=tuple(map(hand, tools(scenario))),
            tool_choice=settings.choice(),
            response_format=hand(settings.format()),
            max_tokens=settings.max_tokens or DEFAULT_MAX_TOKENS,
            temperature=settings.temperature,
            top_p=settings.top_p,
            stop=tuple(settings.stop or ()),
            thinking=settings.reasoning(),
            cache=settings.cache,
            provider_metadata=hand(provider_tools(scenario)),
        )

    def ask(self, request: ChatRequest, turn: int, step: int, client: _Client) -> ChatResponse:
        """One chat, of which is noted what comes of it. Raises `_Ended` if nothing does."""
        self._begin(len(self._chats))
        handed = self._handed
        original = handed.request(request)
        asked = Chat(turn, step, original)
        events: list[StreamEvent] = []
        try:
            try:
                response = self._accept(client(request, events), events)
            finally:
                asked = replace(asked, changes=handed.changes(request, original))
        except ChatError as error:
            self._chats.append(_failed(asked, error, events))
            raise _Ended from error
        except BROKEN as error:
            if isinstance(error, HarnessError) and not isinstance(error, InvalidValue):
                raise
            failed = replace(_failed(asked, error, events), error_text=located(error), crashed=True)
            self._chats.append(replace(failed, traceback=traceback_of(error)))
            raise _Ended from error
        self._chats.append(replace(asked, response=handed.response(response), events=tuple(events)))
        return response

    def run(self, call: ToolCall) -> ToolResult:
        """Run a tool as the scenario has it answer."""
        execution = self._execution(self._handed.original(call))
        self._executions.append(execution)
        return self._handed.hand(execution.result)

    def _execution(self, call: ToolCall) -> ToolExecution:
        chat = len(self._chats) - 1
        try:
            return ToolExecution(chat, call, answer(self.scenario, call, [each.call for each in self._executions]))
        except (ToolFailure, UnknownTool, Unanswered) as raised:
            return ToolExecution(chat, call, failure(call, raised), unanswered=isinstance(raised, Unanswered))


class _Asking:
    """What the thread takes for a client: asks the adapter in one turn, with the results of tools in the order in which
    the script has them answer."""

    def __init__(self, conversation: _Conversation, thread: Thread, turn: int, client: _Client) -> None:
        self._conversation = conversation
        self._thread = thread
        self._turn = turn
        self._client = client
        self._answers = 0

    def chat(self, request: ChatRequest) -> ChatResponse:
        if self.reorder():
            request = replace(request, messages=self._thread.messages)
        response = self._conversation.ask(request, self._turn, self._answers, self._client)
        self._answers += 1
        return response

    def close(self) -> None:
        pass

    def reorder(self) -> bool:
        """Put the results behind the last answer into the order of the script, if that has one."""
        script = self._conversation.scenario.turns[self._turn].model
        order = script[self._answers - 1].answers if 0 < self._answers <= len(script) else None
        if order is None:
            return False
        *before, last = self._thread.messages
        results = last.tool_results
        if len(order) != len(results):
            return False
        self._thread.messages = (*before, replace(last, parts=tuple(results[position] for position in order)))
        return True


class _Handler(CollectingHandler):
    """A handler for one turn, of which all is noted. It is told what a chat raised, not that the cell ends there."""

    def on_done(self, error: BaseException | None = None) -> None:
        super().on_done(error.__cause__ if isinstance(error, _Ended) else error)


def checked(response: object, events: list[StreamEvent]) -> ChatResponse:  # noqa: ARG001 - those of a stream
    """The response, if it is one. Raises `TypeError`."""
    return check(response)


def _failed(asked: Chat, error: BaseException, events: list[StreamEvent]) -> Chat:
    """A chat that raised."""
    failed = replace(asked, error=class_of(error), error_text=said(error), events=tuple(events), origin=_origin(error))
    if isinstance(error, ProviderError):
        failed = replace(failed, status=error.status, retry_after=error.retry_after)
    return failed


def _origin(error: BaseException) -> Origin:
    """The exception of which an adapter made an error of the contract, or that error itself."""
    first = error
    while isinstance(first, ChatError):
        cause = first.__cause__ or (None if first.__suppress_context__ else first.__context__)
        if cause is None:
            break
        first = cause
    found = origin(first)
    return replace(found, text=first.reason) if isinstance(first, MalformedResponse) else found


class _Ended(Exception):  # not an error: a chat has failed, and the cell ends there
    pass


def play(  # noqa: PLR0913 - a cell, where it is played, and who watches
    scenario: Scenario,
    target: Target,
    endpoint: Endpoint,
    begin: Callable[[int], None],
    variant: Variant = "whole",
    *,
    accept: Accept = checked,
) -> Playing:
    """Play a scenario through a target's adapter, which sends to `endpoint`, by its `chat` or its `stream`.

    `begin(n)` is called before chat n sends anything. A chat that fails ends the cell; what it raised is noted. An
    asynchronous client gets one event loop for the cell and is closed inside it.

    Raises:
        harness.contract.errors.UsageError: the adapter cannot be connected.
    """
    if scenario.embeddings is not None:
        return EmbeddingPlaying(embedded=embedded(scenario.embeddings, target.adapter, endpoint, begin))
    with _connected(target, endpoint, variant) as client:
        return _Conversation(scenario, target, begin, accept).play(client)


@contextmanager
def _connected(target: Target, endpoint: Endpoint, variant: Variant) -> Generator[_Client, None, None]:
    client: Any = (
        endpoint.client(target) if isinstance(endpoint, Line) else target.adapter.connect(endpoint, target.model)
    )
    ask = "stream" if variant == "stream" else "chat"
    if not (callable(getattr(client, ask, None)) and callable(getattr(client, "close", None))):
        raise TypeError(f"connect returned a {type(client).__name__}, and a client has to have {ask} and close")
    with closing(asyncio.Runner()) as loop:  # which makes its event loop only when something is run

        def chat(request: ChatRequest, _events: list[StreamEvent]) -> object:
            return _settled(loop, client.chat(request))

        def stream(request: ChatRequest, events: list[StreamEvent]) -> object:
            _arrive(loop, _settled(loop, client.stream(request)), events)
            finished = [event for event in events if isinstance(event, Finish)]
            if not finished:
                raise TypeError("the stream ended without Finish, which is its last event")
            return finished[-1].response

        try:
            yield stream if variant == "stream" else chat
        finally:
            if not isinstance(endpoint, Line):
                _settled(loop, client.close())


def _arrive(loop: asyncio.Runner, stream: object, events: list[StreamEvent]) -> None:
    """Add the events to `events` as they come, of which some are there even if the stream then breaks off."""
    if isinstance(stream, AsyncIterator):
        promise = cast("AsyncIterator[StreamEvent]", stream)

        async def wait() -> None:
            async for event in promise:
                events.append(event)  # noqa: PERF401 - a comprehension would lose those before a failure

        loop.run(wait())
        return
    if not isinstance(stream, Iterable):
        raise TypeError(f"stream returned a {type(stream).__name__}, which is no iterator of events")
    events.extend(cast("Iterable[StreamEvent]", stream))


def settled(value: object) -> None:
    """Wait for what an asynchronous function promises, in an event loop of its own."""
    if isinstance(value, Awaitable):
        with closing(asyncio.Runner()) as loop:
            _settled(loop, cast("Awaitable[object]", value))


def _settled(loop: asyncio.Runner, value: T | Awaitable[T]) -> T:
    """The value, or what an asynchronous client's promise of it gives."""
    if isinstance(value, Awaitable):
        promise = cast("Awaitable[T]", value)

        async def wait() -> T:
            return await promise

        return loop.run(wait())
    return value
