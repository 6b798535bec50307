"""Plays one cell: the scenario's turns through an adapter's client, noting what happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from harness.errors import ChatError, HarnessError, IterationLimit
from harness.model import ChatRequest, ChatResponse, ToolCall, ToolResult
from harness.protocols import Endpoint
from harness.results import Chat, ToolExecution
from harness.scenarios.canonical import history, settings_of, system_of, tools, user_message
from harness.scenarios.schema import Scenario
from harness.scenarios.tools import ToolFailure, Unanswered, UnknownTool, answer
from harness.targets import Target
from harness.thread import Ask, Thread, failure

T = TypeVar("T")

BROKEN = (Exception, SystemExit, asyncio.CancelledError)
"""How an adapter can break. One that exits or cancels itself takes its cell with it, not the run and its exit code."""

DEFAULT_MAX_TOKENS = 1024
"""Bound of every answer that a scenario does not bound itself, so that adapters with defaults of their own agree."""


@dataclass(frozen=True, slots=True)
class Playing:
    """What came of a cell: its chats, and the tools that ran."""

    chats: tuple[Chat, ...]
    executions: tuple[ToolExecution, ...]


class _Player:
    def __init__(self, scenario: Scenario, target: Target, begin: Callable[[int], None]) -> None:
        self._scenario = scenario
        self._model = target.model
        self._begin = begin
        self._chats: list[Chat] = []
        self._executions: list[ToolExecution] = []

    def play(self, chat: Callable[[ChatRequest], object]) -> Playing:
        scenario = self._scenario
        thread = Thread(self._template(0, messages=True), max_iterations=scenario.max_iterations)
        for index in range(len(scenario.turns)):
            thread.template = self._template(index)
            try:
                self._play_turn(index, thread, chat)
            except IterationLimit as error:
                self._chats[-1] = replace(self._chats[-1], limit_reached=True, error_text=str(error))
            except _Ended:
                break
        return Playing(tuple(self._chats), tuple(self._executions))

    def _template(self, turn: int, *, messages: bool = False) -> ChatRequest:
        scenario, settings = self._scenario, settings_of(self._scenario, turn)
        return ChatRequest(
            model=self._model,
            messages=history(scenario) if messages else (),
            system=system_of(scenario, turn),
            tools=tools(scenario),
            tool_choice=settings.choice(),
            response_format=settings.format(),
            max_tokens=settings.max_tokens or DEFAULT_MAX_TOKENS,
            temperature=settings.temperature,
            top_p=settings.top_p,
            stop=tuple(settings.stop or ()),
            thinking=settings.reasoning(),
        )

    def _play_turn(self, index: int, thread: Thread, chat: Callable[[ChatRequest], object]) -> None:
        turn = thread.turn(user_message(self._scenario.turns[index]))
        step = next(turn)
        answers = 0
        results: list[ToolResult] = []
        try:
            while True:
                if isinstance(step, Ask):
                    response = self._ask(step.request, index, answers, chat)
                    results = self._run(response.tool_calls, index, answers)
                    answers += 1
                    step = turn.send(response)
                else:
                    step = turn.send(results.pop(0))
        except StopIteration:
            return

    def _ask(self, request: ChatRequest, turn: int, step: int, chat: Callable[[ChatRequest], object]) -> ChatResponse:
        self._begin(len(self._chats))
        asked = Chat(turn, step, request)
        try:
            response = _checked(chat(request))
        except ChatError as error:
            self._chats.append(replace(asked, error=type(error).__name__, error_text=str(error)))
            raise _Ended from error
        except HarnessError:
            raise
        except BROKEN as error:
            self._chats.append(replace(asked, error=type(error).__name__, error_text=str(error), crashed=True))
            raise _Ended from error
        self._chats.append(replace(asked, response=response))
        return response

    def _run(self, calls: tuple[ToolCall, ...], turn: int, step: int) -> list[ToolResult]:
        executions = [self._execution(call) for call in calls]
        self._executions += executions
        results = [execution.result for execution in executions]
        script = self._scenario.turns[turn].model
        order = script[step].answers if step < len(script) else None
        if order is None or len(order) != len(results):
            return results
        return [results[position] for position in order]

    def _execution(self, call: ToolCall) -> ToolExecution:
        chat = len(self._chats) - 1
        try:
            return ToolExecution(chat, call, answer(self._scenario, call))
        except (ToolFailure, UnknownTool, Unanswered) as raised:
            return ToolExecution(chat, call, failure(call, raised), unanswered=isinstance(raised, Unanswered))


def _checked(response: object) -> ChatResponse:
    if not isinstance(response, ChatResponse):
        raise TypeError(f"chat returned a {type(response).__name__}, which is no ChatResponse")
    return response


class _Ended(Exception):  # not an error: a chat has failed, and the cell ends there
    pass


def play(scenario: Scenario, target: Target, endpoint: Endpoint, begin: Callable[[int], None]) -> Playing:
    """Play a scenario through a target's adapter, which sends to `endpoint`.

    `begin(n)` is called before chat n sends anything. A chat that fails ends the cell; what it raised is noted. An
    asynchronous client gets one event loop for the cell and is closed inside it.

    Raises:
        harness.errors.UsageError: the adapter cannot be connected.
    """
    with _chatting(target, endpoint) as chat:
        return _Player(scenario, target, begin).play(chat)


@contextmanager
def _chatting(target: Target, endpoint: Endpoint) -> Generator[Callable[[ChatRequest], object], None, None]:
    client = target.adapter.connect(endpoint, target.model)
    if not (callable(getattr(client, "chat", None)) and callable(getattr(client, "close", None))):
        raise TypeError(f"connect returned a {type(client).__name__}, and a client has to have chat and close")
    with closing(asyncio.Runner()) as loop:  # which makes its event loop only when something is run
        try:
            yield lambda request: _settled(loop, client.chat(request))
        finally:
            _settled(loop, client.close())


def _settled(loop: asyncio.Runner, value: T | Awaitable[T]) -> T:
    """The value, or what an asynchronous client's promise of it gives."""
    if isinstance(value, Awaitable):
        promise = cast("Awaitable[T]", value)

        async def wait() -> T:
            return await promise

        return loop.run(wait())
    return value
