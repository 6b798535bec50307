"""Plays one cell: the scenario's turns through an adapter's client, noting what happens.

The loop is the one that ships, `Thread.send`: what is judged here is what an application runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import astuple, dataclass, replace

from harness.apis.targets import Target
from harness.contract import errors
from harness.contract.errors import (
    ChatError,
    HarnessError,
    InvalidValue,
    IterationLimit,
    PluginError,
    ProviderError,
    UsageError,
)
from harness.contract.model import ChatRequest, ChatResponse, StreamEvent, ToolCall, ToolResult
from harness.contract.protocols import Adapter, EmbeddingProvider, Endpoint
from harness.host.exceptions import class_of, located, root_origin, said, traceback_of
from harness.kit.embeddings import EmbeddingRecord
from harness.kit.handlers import CollectingHandler
from harness.kit.thread import Thread, failure
from harness.kit.trimming import trimmed
from harness.results import Chat, Embedded, ToolExecution
from harness.scenarios.canonical import (
    MissingResult,
    ToolFailure,
    UnknownTool,
    answer,
    event_word,
    history,
    provider_tools,
    settings_of,
    system_of,
    tools,
    user_message,
)
from harness.scenarios.schema import EmbeddingsSpec, QuerySpec, Scenario, Variant
from harness.stdio.client import BROKEN, Connected, Handed
from harness.stdio.workers import Foreign

_BROKEN = (Exception, SystemExit)
"""How an adapter can break, which takes its cell with it, not the run."""


def embedded(
    spec: EmbeddingsSpec, adapter: Adapter, endpoint: Endpoint, begin: Callable[[int], None]
) -> tuple[Embedded, ...]:
    """The texts of a scenario and then each query, embedded by an adapter that sends to `endpoint`.

    `begin(n)` is called before the n-th of these sends anything. One that fails ends the cell, unless the scenario has
    it refused; what it raised is noted.

    Raises:
        PluginError: the adapter declares embeddings and has none.
        harness.contract.errors.UsageError: it cannot be connected.
    """
    if adapter.embeddings is None:
        raise PluginError(
            "adapter", adapter.name, "it declares the capability 'embeddings', and its `embeddings` is None."
        )
    begin(0)
    with closing(adapter.embeddings.connect(endpoint, adapter.embeddings.model, spec.dimensions)) as provider:
        done = [_embedded(provider, tuple(spec.texts), lambda: provider.embed(spec.texts))]
        for place, query in enumerate(spec.queries, start=1):
            if done[-1].vectors is None and not done[-1].refuses:
                break
            begin(place)
            done.append(_queried(provider, query))
    return tuple(done)


def _queried(provider: EmbeddingProvider, query: QuerySpec) -> Embedded:
    def vectors() -> list[list[float]]:
        record = EmbeddingRecord.of(provider)
        if query.indexed_with is not None:
            record = replace(record, **query.indexed_with.model_dump(exclude_none=True))
        return [record.query(provider, query.text)]

    return replace(_embedded(provider, (query.text,), vectors), refuses=query.indexed_with is not None)


def _embedded(
    provider: EmbeddingProvider, texts: tuple[str, ...], vectors: Callable[[], list[list[float]]]
) -> Embedded:
    result = Embedded(texts, None)
    try:
        provider_name, model, dimensions = astuple(EmbeddingRecord.of(provider))
        result = replace(result, declared=(provider_name, model, dimensions))
        return replace(result, vectors=tuple(tuple(map(float, vector)) for vector in vectors()))
    except UsageError:
        raise
    except HarnessError as error:
        known = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__]
        return replace(result, error=known[0], error_text=said(error))
    except _BROKEN as error:
        failed = replace(result, error=class_of(error), error_text=located(error), crashed=True)
        return replace(failed, traceback=traceback_of(error))


DEFAULT_MAX_TOKENS = 1024
"""Bound of every answer that a scenario does not bound itself, so that adapters with defaults of their own agree."""


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

    def __init__(self, scenario: Scenario, target: Target, begin: Callable[[int], None], *, stream: bool) -> None:
        self.scenario = scenario
        self._model = target.model
        self._begin = begin
        self._stream = stream
        self._chats: list[Chat] = []
        self._executions: list[ToolExecution] = []
        self._handled: list[tuple[str, ...]] = []
        self._handed = Handed()

    def play(self, client: Connected) -> Playing:
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
                self._handled.append(tuple(map(event_word, handler.events)))
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

    def ask(self, request: ChatRequest, turn: int, step: int, client: Connected) -> ChatResponse:
        """One chat, of which is noted what comes of it. Raises `_Ended` if nothing does."""
        self._begin(len(self._chats))
        handed = self._handed
        original = handed.request(request)
        asked = Chat(turn, step, original)
        events: list[StreamEvent] = []
        try:
            try:
                response = client.stream(request, events.append) if self._stream else client.chat(request)
            finally:
                asked = replace(asked, changes=(*handed.changes(request, original), *client.changes))
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
        except (ToolFailure, UnknownTool, MissingResult) as raised:
            return ToolExecution(chat, call, failure(call, raised), unanswered=isinstance(raised, MissingResult))


class _Asking:
    """What the thread takes for a client: asks the adapter in one turn, with the results of tools in the order in which
    the script has them answer."""

    def __init__(self, conversation: _Conversation, thread: Thread, turn: int, client: Connected) -> None:
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


def _failed(asked: Chat, error: BaseException, events: list[StreamEvent]) -> Chat:
    """A chat that raised."""
    failed = replace(
        asked, error=class_of(error), error_text=said(error), events=tuple(events), origin=root_origin(error)
    )
    if isinstance(error, ProviderError):
        failed = replace(failed, status=error.status, retry_after=error.retry_after)
    return failed


class _Ended(Exception):  # not an error: a chat has failed, and the cell ends there
    pass


def play(
    scenario: Scenario, target: Target, endpoint: Endpoint, begin: Callable[[int], None], variant: Variant = "whole"
) -> Playing:
    """Play a scenario through a target's adapter, which sends to `endpoint`, by its `chat` or its `stream`.

    `begin(n)` is called before chat n sends anything. A chat that fails ends the cell; what it raised is noted. An
    asynchronous client gets one event loop for the cell and is closed inside it. A foreign adapter plays in a worker.

    Raises:
        harness.contract.errors.UsageError: the adapter cannot be connected.
        harness.stdio.process.Broken: a foreign adapter broke outside of a chat, ended its process or held it too long.
        harness.stdio.workers.Halted: the run has ended meanwhile.
    """
    adapter = target.adapter
    if isinstance(adapter, Foreign):
        with adapter.workers.lease(adapter) as lease:
            playing = play(scenario, replace(target, adapter=lease.adapter), endpoint, begin, variant)
        return replace(playing, printed=lease.printed)
    if scenario.embeddings is not None:
        return EmbeddingPlaying(embedded=embedded(scenario.embeddings, adapter, endpoint, begin))
    stream = variant == "stream"
    with closing(Connected(adapter.connect(endpoint, target.model), stream=stream)) as client:
        return _Conversation(scenario, target, begin, stream=stream).play(client)
