"""Runs a cell's scenario through an adapter's client and records what happens.

The tool loop is the shipped `Thread.send`, so cells test the same code that applications use.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import astuple, dataclass, replace
from itertools import takewhile

from harness.apis.registry import Target
from harness.kit.client import EmbeddingRecord
from harness.kit.handlers import CollectingHandler
from harness.kit.thread import Later, Thread, failure, trimmed
from harness.model import errors
from harness.model.errors import (
    ChatError,
    HarnessError,
    InvalidValue,
    IterationLimit,
    PluginError,
    ProviderError,
    UsageError,
)
from harness.model.messages import ChatRequest, ChatResponse, Message, Role, StreamEvent, ToolCall, ToolResult
from harness.model.protocols import Adapter, EmbeddingProvider, Endpoint
from harness.platform.exceptions import class_name, exception_text, root_origin, text_with_line, traceback_text
from harness.results import Chat, EmbeddingCall, ToolExecution
from harness.runner.cells import HandedHistory
from harness.scenarios.canonical import (
    MissingResult,
    ToolFailure,
    UnknownTool,
    answer,
    continued_fields,
    event_word,
    history,
    matching_result,
    request_fields,
    settings_of,
    system_of,
    tools,
    user_message,
)
from harness.scenarios.schema import EmbeddingsSpec, QuerySpec, Scenario, TurnSpec, Variant
from harness.stdio.sync_client import ADAPTER_EXCEPTIONS, SyncClient, TrackedObjects
from harness.stdio.workers import ForeignAdapter

_EMBEDDING_EXCEPTIONS = (Exception, SystemExit)


def run_embeddings(
    spec: EmbeddingsSpec, adapter: Adapter, endpoint: Endpoint, begin: Callable[[int], None]
) -> tuple[EmbeddingCall, ...]:
    """Embed the scenario's texts, then each query, with an adapter that sends its requests to `endpoint`.

    `begin(0)` is called before the texts are sent, and `begin(n)` before query n. A failure ends the cell unless the
    scenario expects it.

    Raises:
        PluginError: The adapter declares embeddings but has none.
        UsageError: The adapter cannot be connected.
    """
    if adapter.embeddings is None:
        raise PluginError(
            "adapter", adapter.name, "it declares the capability 'embeddings', and its `embeddings` is None."
        )
    begin(0)
    with closing(adapter.embeddings.connect(endpoint, adapter.embeddings.model, spec.dimensions)) as provider:
        done = [_embed(provider, tuple(spec.texts), lambda: provider.embed(spec.texts))]
        for place, query in enumerate(spec.queries, start=1):
            if done[-1].vectors is None and not done[-1].refuses:
                break
            begin(place)
            done.append(_embed_query(provider, query))
    return tuple(done)


def _embed_query(provider: EmbeddingProvider, query: QuerySpec) -> EmbeddingCall:
    def vectors() -> list[list[float]]:
        record = EmbeddingRecord.of(provider)
        if query.indexed_with is not None:
            record = replace(record, **query.indexed_with.model_dump(exclude_none=True))
        return [record.query(provider, query.text)]

    return replace(_embed(provider, (query.text,), vectors), refuses=query.indexed_with is not None)


def _embed(
    provider: EmbeddingProvider, texts: tuple[str, ...], vectors: Callable[[], list[list[float]]]
) -> EmbeddingCall:
    result = EmbeddingCall(texts, None)
    try:
        provider_name, model, dimensions = astuple(EmbeddingRecord.of(provider))
        result = replace(result, declared=(provider_name, model, dimensions))
        return replace(result, vectors=tuple(tuple(map(float, vector)) for vector in vectors()))
    except UsageError:
        raise
    except HarnessError as error:
        known = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__]
        return replace(result, error=known[0], error_text=exception_text(error))
    except _EMBEDDING_EXCEPTIONS as error:
        failed = replace(result, error=class_name(error), error_text=text_with_line(error), crashed=True)
        return replace(failed, traceback=traceback_text(error))


DEFAULT_MAX_TOKENS = 1024
"""The token limit for scenarios that set none. It is set explicitly because adapters have different defaults."""


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """The result of running a cell's scenario.

    `chats` are its chats and `executions` its tool runs. `handled` are the events that a message handler received in
    each turn. `printed` is the output of an adapter that runs in another process.
    """

    chats: tuple[Chat, ...] = ()
    executions: tuple[ToolExecution, ...] = ()
    handled: tuple[tuple[str, ...], ...] = ()
    printed: str = ""


@dataclass(frozen=True, slots=True)
class EmbeddingRun(ScenarioRun):
    """The result of running an embedding cell. It has no chats."""

    embedded: tuple[EmbeddingCall, ...] = ()


class _ToolLoop:
    def __init__(
        self,
        scenario: Scenario,
        target: Target,
        begin: Callable[[int], None],
        handed: HandedHistory | None,
        *,
        stream: bool,
    ) -> None:
        self.scenario = scenario
        self._earlier = history(scenario) if handed is None else handed.messages
        self._opening = None if handed is None else handed.opening
        self._model = target.model
        self._begin = begin
        self._stream = stream
        self._chats: list[Chat] = []
        self._executions: list[ToolExecution] = []
        self._handled: list[tuple[str, ...]] = []
        self._handed = TrackedObjects()
        self._turn = 0
        self._pending: list[tuple[int, ToolResult]] = []
        """Results of asynchronous tools, each with the turn in which it is sent."""

    def converse(self, client: SyncClient) -> ScenarioRun:
        scenario = self.scenario
        thread = Thread(self._template(0, messages=True), max_iterations=scenario.max_iterations)
        for index, turn in enumerate(scenario.turns):
            thread.template = self._template(index)
            self._turn = index
            asking, handler = _ScriptOrderClient(self, thread, index, client), _EventHandler()
            try:
                opening = self._opening if index == 0 else None
                thread.send(asking, opening or self._user_message(turn), self.run, handler)
                if scenario.trim is not None:
                    thread.messages = trimmed(thread.messages, scenario.trim.tools)
            except IterationLimit as error:
                asking.reorder()
                self._chats[-1] = replace(self._chats[-1], limit_reached=True, error_text=str(error))
            except _CellEnded:
                break
            finally:
                self._handled.append(tuple(map(event_word, handler.events)))
        return ScenarioRun(tuple(self._chats), tuple(self._executions), tuple(self._handled))

    def _user_message(self, turn: TurnSpec) -> Message:
        due = [result for when, result in self._pending if when == self._turn]
        message = user_message(turn)
        return replace(message, parts=(*due, *message.parts)) if due else message

    def _template(self, turn: int, *, messages: bool = False) -> ChatRequest:
        scenario, settings = self.scenario, settings_of(self.scenario, turn)
        copy_for_adapter = self._handed.copy_for_adapter
        return ChatRequest(
            model=self._model,
            messages=tuple(map(copy_for_adapter, self._earlier)) if messages else (),
            system=system_of(scenario, turn),
            tools=tuple(map(copy_for_adapter, tools(scenario, turn))),
            tool_choice=settings.choice(),
            response_format=copy_for_adapter(settings.format()),
            max_tokens=settings.max_tokens or DEFAULT_MAX_TOKENS,
            temperature=settings.temperature,
            top_p=settings.top_p,
            stop=tuple(settings.stop or ()),
            thinking=settings.reasoning(),
            cache=settings.cache,
            provider_metadata=copy_for_adapter(request_fields(scenario, turn)),
        )

    @property
    def previous_id(self) -> str | None:
        """The id that the adapter returned for the last response."""
        last = self._chats[-1].response if self._chats else None
        return last and last.id

    def ask(self, request: ChatRequest, turn: int, step: int, client: SyncClient) -> ChatResponse:
        """Run one chat and record its result. Raises `_CellEnded` if the chat fails."""
        self._begin(len(self._chats))
        handed = self._handed
        original = handed.request(request)
        chat = Chat(turn, step, original)
        events: list[StreamEvent] = []
        try:
            try:
                response = client.stream(request, events.append) if self._stream else client.chat(request)
            finally:
                chat = replace(chat, changes=(*handed.changes(request, original), *client.changes))
        except ChatError as error:
            self._chats.append(_failed_chat(chat, error, events))
            raise _CellEnded from error
        except ADAPTER_EXCEPTIONS as error:
            if isinstance(error, HarnessError) and not isinstance(error, InvalidValue):
                raise
            failed = replace(_failed_chat(chat, error, events), error_text=text_with_line(error), crashed=True)
            self._chats.append(replace(failed, traceback=traceback_text(error)))
            raise _CellEnded from error
        self._chats.append(replace(chat, response=handed.response(response), events=tuple(events)))
        return response

    def run(self, call: ToolCall) -> ToolResult | Later:
        """Run a tool: record the call and return the scenario's result, or `Later` if it is due in a later turn."""
        tool, earlier = self.scenario.tool_named(call.name), [each.call for each in self._executions]
        chosen = matching_result(tool, call, earlier) if tool is not None else None
        execution = self._execution(self._handed.original(call))
        self._executions.append(execution)
        result = self._handed.copy_for_adapter(execution.result)
        if chosen is None or not chosen.turns_later:
            return result
        self._pending.append((self._turn + chosen.turns_later, result))
        return Later()

    def _execution(self, call: ToolCall) -> ToolExecution:
        chat = len(self._chats) - 1
        try:
            return ToolExecution(chat, call, answer(self.scenario, call, [each.call for each in self._executions]))
        except (ToolFailure, UnknownTool, MissingResult) as raised:
            return ToolExecution(chat, call, failure(call, raised), unanswered=isinstance(raised, MissingResult))


class _ScriptOrderClient:
    """The client that the thread uses in one turn. It sorts tool results into the order that the script sets."""

    def __init__(self, conversation: _ToolLoop, thread: Thread, turn: int, client: SyncClient) -> None:
        self._conversation = conversation
        self._thread = thread
        self._turn = turn
        self._client = client
        self._answers = 0

    def chat(self, request: ChatRequest) -> ChatResponse:
        if self.reorder():
            request = replace(request, messages=self._thread.messages)
        if self._conversation.scenario.kept_by_provider:
            fields = continued_fields(request.provider_metadata, self._conversation.previous_id)
            request = replace(request, messages=_since_last_answer(request.messages), provider_metadata=fields)
        response = self._conversation.ask(request, self._turn, self._answers, self._client)
        self._answers += 1
        return response

    def close(self) -> None:
        pass

    def reorder(self) -> bool:
        """Sort the results of the last response into the script's order. Return whether they were sorted."""
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


def _since_last_answer(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    new = takewhile(lambda message: message.role is Role.USER, reversed(messages))
    return tuple(reversed([*new]))


class _EventHandler(CollectingHandler):
    """A handler that receives the exception of the failed chat instead of the internal `_CellEnded`."""

    def on_done(self, error: BaseException | None = None) -> None:
        super().on_done(error.__cause__ if isinstance(error, _CellEnded) else error)


def _failed_chat(chat: Chat, error: BaseException, events: list[StreamEvent]) -> Chat:
    failed = replace(
        chat,
        error=class_name(error),
        error_text=exception_text(error),
        events=tuple(events),
        origin=root_origin(error),
    )
    if isinstance(error, ProviderError):
        failed = replace(failed, status=error.status, retry_after=error.retry_after)
    return failed


class _CellEnded(Exception):  # not an error: a chat has failed, and the cell ends there
    pass


def run_scenario(  # noqa: PLR0913, PLR0917 - the parts of a cell, and its environment
    scenario: Scenario,
    target: Target,
    endpoint: Endpoint,
    begin: Callable[[int], None],
    variant: Variant = "whole",
    handed: HandedHistory | None = None,
) -> ScenarioRun:
    """Run a scenario through a target's adapter, which sends its requests to `endpoint`.

    With `handed`, the conversation continues that history, and its next message replaces the first user message. The
    variant determines whether the client's `chat` or `stream` is used. `begin(n)` is called before chat n sends a
    request. A failed chat ends the cell, and its exception is recorded. An asynchronous client uses one event loop for
    the whole cell. A foreign adapter runs in a worker.

    Raises:
        UsageError: The adapter cannot be connected.
        AdapterBroke: A foreign adapter broke outside a chat, ended its process or exceeded its time limit.
        RunCancelled: The run was cancelled.
    """
    adapter = target.adapter
    if isinstance(adapter, ForeignAdapter):
        with adapter.workers.lease(adapter) as lease:
            outcome = run_scenario(scenario, replace(target, adapter=lease.adapter), endpoint, begin, variant, handed)
        return replace(outcome, printed=lease.printed)
    if scenario.embeddings is not None:
        return EmbeddingRun(embedded=run_embeddings(scenario.embeddings, adapter, endpoint, begin))
    stream = variant == "stream"
    with closing(SyncClient(adapter.connect(endpoint, target.model), stream=stream)) as client:
        return _ToolLoop(scenario, target, begin, handed, stream=stream).converse(client)
