"""A conversation and its tool loop: a sans-IO generator with a synchronous and an asynchronous driver.

The loop continues while a response has calls, and ignores the stop reason. The exception is a pause: the thread sends
the history again, with the paused response at its end. If a tool raises, its result is an error. The history is
append-only. However a turn ends, every call has a result, so the conversation can continue.

`Handout` is a thread whose tools run elsewhere: in a browser, in another process, or by hand. Its `send` and `take`
return as soon as calls wait for their results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from harness.model.errors import HarnessError, IterationLimit
from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    File,
    Image,
    Message,
    NamedTool,
    Opaque,
    Part,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from harness.model.protocols import (
    AsyncChatClient,
    AsyncStatefulToolFunction,
    AsyncToolFunction,
    ChatClient,
    MessageHandler,
    StatefulToolFunction,
    ToolFunction,
)

DEFAULT_MAX_TOKENS = 8192
"""Limit on the tokens of a response if the template sets none."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to send to the model. Send its `ChatResponse` to the generator."""

    request: ChatRequest


@dataclass(frozen=True, slots=True)
class RunTool:
    """A call to run. Send its `ToolResult` to the generator. The model gets the results in the order in which they
    are sent.
    """

    call: ToolCall


class Later:
    """Placeholder that an asynchronous tool returns instead of a result. The caller sends the `ToolResult` in a later
    user message, on APIs with asynchronous tools.
    """


Turn = Generator[Ask | RunTool, "ChatResponse | ToolResult | Later", ChatResponse]


class Thread:
    """A conversation with one model.

    `template` is the request without its messages; `None` means the client's default model and no settings. `messages`
    is the history. It begins with the messages of the given template. Both may be replaced between turns.
    `max_iterations` limits the responses in one turn. A `state` that is not `None` is passed to the tools as their
    second argument.
    """

    def __init__(self, template: ChatRequest | None = None, *, max_iterations: int = 10, state: object = None) -> None:
        template = template or ChatRequest()
        self.template = replace(template, messages=()) if template.messages else template
        self.messages: tuple[Message, ...] = template.messages
        self.max_iterations = max_iterations
        self.state = state

    def turn(self, user: Message, handler: MessageHandler | None = None, *, model: str | None = None) -> Turn:
        """Run one turn: yield requests and calls, and return the last response with the usage of the whole turn.

        The generator calls all methods of `handler` except `on_done`. `model` replaces the template's model for this
        turn.

        A forced tool choice applies to the first response only; otherwise the model could never stop calling tools.

        A paused response (Anthropic's `pause_turn`, after a long run of the provider's own tools) does not end the
        turn. It stays in the history unchanged, as documented, and the thread sends the history again. The API may
        reject it if a call of the provider's tools has no result yet (anthropic-paused-turn-unpaired, contested); that
        error is passed on to the caller. A paused response without content (a background response) is returned, because
        there is nothing to continue.

        If the handler raises or the generator is closed, calls without a result get an error result.

        Raises:
            IterationLimit: the model still calls tools, or pauses, after `max_iterations` responses.
        """
        self.messages += (user,)
        paused = False
        used = Usage()
        template = self.template
        if not template.max_tokens:
            template = replace(template, max_tokens=DEFAULT_MAX_TOKENS)
        if model is not None:
            template = replace(template, model=model)
        for _ in range(self.max_iterations):
            response = yield Ask(replace(template, messages=self.messages))
            if not isinstance(response, ChatResponse):
                raise TypeError("an Ask expects a ChatResponse")
            self.messages += (response.message,)
            used += response.usage
            answered = yield from self._tools(response, handler, used)
            paused = not response.tool_calls and _is_paused(response)
            if not (answered or paused):
                return replace(response, usage=used)
            on_pause = getattr(handler, "on_pause", None) if paused else None
            if on_pause is not None:
                on_pause(response)
            if template.tool_choice == "required" or isinstance(template.tool_choice, NamedTool):
                template = replace(template, tool_choice="auto")
        raise IterationLimit(self.max_iterations, paused=paused)

    def _tools(
        self, response: ChatResponse, handler: MessageHandler | None, used: Usage
    ) -> Generator[RunTool, ChatResponse | ToolResult | Later, bool]:
        """Yield the calls of a response to run, and append their results to the history. Return whether any call has a
        result.
        """
        results: list[ToolResult] = []
        begun = 0
        try:
            on_usage = getattr(handler, "on_usage", None)  # `isinstance` with a protocol is slow
            if on_usage is not None:
                on_usage(used)
            if handler and response.text:
                handler.on_text(response.text)
            for call in response.tool_calls:
                if handler:
                    handler.on_tool_use(call)
                result = yield RunTool(call)
                if not isinstance(result, ToolResult | Later):
                    raise TypeError("a RunTool expects a ToolResult")
                begun += 1
                if isinstance(result, Later):
                    continue
                results.append(result)
                if handler:
                    handler.on_tool_result(result)
        finally:
            results += [_not_run(call) for call in response.tool_calls[begun:]]
            if results:
                self.messages += (Message(Role.USER, tuple(results)),)
        return bool(results)

    def send(
        self,
        client: ChatClient,
        user: str | Message,
        tool: ToolFunction | StatefulToolFunction,
        handler: MessageHandler | None = None,
        *,
        model: str | None = None,
    ) -> ChatResponse:
        """Send a user message, and run tools until the model has no more calls.

        To display responses while they arrive, wrap the client in `harness.kit.handlers.Streamed`.

        Returns:
            The last response, with the usage of all responses of the turn.

        Raises:
            harness.model.errors.ChatError: a chat failed.
            IterationLimit: see `turn`.
        """
        run = cast("ToolFunction", self._with_state(tool))
        with self._drive(user, handler, model) as turn:
            step = next(turn)
            while True:
                given = client.chat(step.request) if isinstance(step, Ask) else run_tool(run, step.call)
                try:
                    step = turn.send(given)
                except StopIteration as done:
                    return done.value

    async def send_async(
        self,
        client: AsyncChatClient,
        user: str | Message,
        tool: AsyncToolFunction | AsyncStatefulToolFunction,
        handler: MessageHandler | None = None,
        *,
        model: str | None = None,
    ) -> ChatResponse:
        """Send a user message with an asynchronous client and asynchronous tools; see `send`."""
        run = cast("AsyncToolFunction", self._with_state(tool))
        with self._drive(user, handler, model) as turn:
            step = next(turn)
            while True:
                if isinstance(step, Ask):
                    given = await client.chat(step.request)
                else:
                    given = await run_tool_async(run, step.call)
                try:
                    step = turn.send(given)
                except StopIteration as done:
                    return done.value

    def _with_state(self, tool: Callable[..., Any]) -> Callable[[ToolCall], Any]:
        return tool if self.state is None else lambda call: tool(call, self.state)

    @contextmanager
    def _drive(
        self, user: str | Message, handler: MessageHandler | None, model: str | None
    ) -> Generator[Turn, None, None]:
        turn = self.turn(Message.user(user) if isinstance(user, str) else user, handler, model=model)
        error: BaseException | None = None
        try:
            yield turn
        except BaseException as raised:
            error = raised
            raise
        finally:
            turn.close()
            if handler:
                handler.on_done(error)


def ask(  # noqa: PLR0913 - the parameters of a thread and of its `send`
    client: ChatClient,
    text: str,
    template: ChatRequest | None = None,
    tool: ToolFunction | StatefulToolFunction | None = None,
    handler: MessageHandler | None = None,
    *,
    state: object = None,
    model: str | None = None,
) -> str:
    """Send a message in a new thread and return the text of the response. See `Thread.send`.

    Raises:
        harness.model.errors.ChatError: a chat failed.
        IterationLimit: see `Thread.turn`.
    """
    return Thread(template, state=state).send(client, text, tool or _no_tool, handler, model=model).text


def _no_tool(call: ToolCall, _state: object = None) -> ToolResult:
    raise LookupError(f"there is no tool {call.name!r}")


def run_tool(tool: ToolFunction, call: ToolCall) -> ToolResult | Later:
    """Run a tool. An exception becomes an error result with the exception's text."""
    try:
        return as_result(call, tool(call))
    except Exception as raised:  # noqa: BLE001 - the model gets any error of a tool
        return failure(call, raised)


async def run_tool_async(tool: AsyncToolFunction, call: ToolCall) -> ToolResult | Later:
    """Run an asynchronous tool; see `run_tool`."""
    try:
        return as_result(call, await tool(call))
    except Exception as raised:  # noqa: BLE001 - the model gets any error of a tool
        return failure(call, raised)


def as_result(call: ToolCall, answer: object) -> ToolResult | Later:
    """Convert a tool's return value to the result of its call. If the value is neither a `ToolResult` nor `Later`, it
    becomes the content.

    Raises:
        TypeError: the value is neither JSON, nor a part, nor a list or tuple of parts.
    """
    if isinstance(answer, ToolResult | Later):
        return answer
    several: tuple[object, ...] = tuple(cast("Any", answer)) if isinstance(answer, list | tuple) else (answer,)
    parts = tuple(part for part in several if isinstance(part, Text | Image | File | Opaque))
    if parts and len(parts) == len(several):
        return ToolResult(call.id, call.name, parts)
    try:
        content = json.loads(json.dumps(answer, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(cast("object", answer)).__name__
        reason = f"the tool {call.name!r} returned a {kind}, which is neither JSON nor parts: {error}"
        raise TypeError(reason) from error
    return ToolResult(call.id, call.name, content)


def failure(call: ToolCall, raised: Exception) -> ToolResult:
    """Convert an exception to an error result."""
    return ToolResult(call.id, call.name, str(raised) or type(raised).__name__, is_error=True)


def _is_paused(response: ChatResponse) -> bool:
    return response.stop_reason is StopReason.PAUSE and bool(response.message.parts)


def _not_run(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, "no result: the turn was interrupted", is_error=True)


NOTE = "[trimmed: {length} characters that were read in an earlier turn]"
"""Content of a trimmed result."""

MAX_SHORT_CHARACTERS = 200
"""Length up to which results are kept. Notes are shorter, so a result is never trimmed twice."""


def trimmed(messages: Sequence[Message], tools: Collection[str]) -> tuple[Message, ...]:
    """Return the history with the results of `tools` replaced by notes. Error results and short results are kept. Call
    it between two turns.
    """
    return tuple(
        replace(message, parts=tuple(_trimmed_part(part, tools) for part in message.parts))
        if message.role is Role.USER
        else message
        for message in messages
    )


def trimmed_result(result: ToolResult, tools: Collection[str]) -> ToolResult:
    """Return the result as it appears in a trimmed history."""
    length = len(result.text)
    if result.name not in tools or result.is_error or length <= MAX_SHORT_CHARACTERS:
        return result
    return replace(result, content=NOTE.format(length=length))


def _trimmed_part(part: Part, tools: Collection[str]) -> Part:
    return trimmed_result(part, tools) if isinstance(part, ToolResult) else part


@dataclass
class UnknownCall(HarnessError):
    """A result for a call that is not waiting: it does not exist, already has a result, or belongs to a turn that
    has ended.
    """

    call_id: str
    waiting: Sequence[str]

    def __str__(self) -> str:
        waiting = ", ".join(map(repr, self.waiting)) or "none"
        return f"no call {self.call_id!r} waits for a result. Waiting: {waiting}."


class Handout:
    """A conversation whose tools the caller runs. It sends the requests of `thread` to `client`."""

    def __init__(self, thread: Thread, client: ChatClient, handler: MessageHandler | None = None) -> None:
        self._thread = thread
        self._client = client
        self._handler = handler
        self._turn: Turn | None = None
        self._calls: tuple[ToolCall, ...] = ()
        self._results: dict[str, ToolResult] = {}

    @property
    def waiting(self) -> tuple[ToolCall, ...]:
        """Calls without a result, in order."""
        return tuple(call for call in self._calls if call.id not in self._results)

    def send(self, user: str | Message) -> ChatResponse | None:
        """Send a user message and return the last response of the turn. `None` means that calls are `waiting`; pass
        their results to `take`.

        Raises:
            HarnessError: calls of the previous turn are still waiting.
            harness.model.errors.ChatError: a chat failed.
            harness.model.errors.IterationLimit: see `Thread.turn`.
        """
        if self._turn is not None:
            raise HarnessError(f"{len(self.waiting)} calls wait for results. Pass these to `take`, or call `abandon`.")
        self._turn = self._thread.turn(Message.user(user) if isinstance(user, str) else user, self._handler)
        return self._advance(next(self._turn))

    def take(self, *results: ToolResult) -> ChatResponse | None:
        """Accept results, in any order. Once every call has its result, the conversation continues; see `send` for the
        return value.

        Raises:
            UnknownCall: the call of a result is not waiting. None of the results is accepted.
            harness.model.errors.ChatError, harness.model.errors.IterationLimit: see `send`.
        """
        waiting = [call.id for call in self.waiting]
        left = set(waiting)
        for result in results:
            if result.call_id not in left:
                raise UnknownCall(result.call_id, waiting)
            left.remove(result.call_id)
        self._results |= {result.call_id: result for result in results}
        if self._turn is None or self.waiting:
            return None
        calls, taken = self._calls, self._results
        self._calls, self._results = (), {}
        try:
            step = [self._turn.send(taken[call.id]) for call in calls][-1]
        except BaseException as error:
            self._end(error)
            raise
        return self._advance(step)

    def abandon(self) -> None:
        """End the turn. Waiting calls get an error result, so that the conversation can continue."""
        if self._turn is None:
            return
        abandoned = HarnessError("no result: the turn was abandoned")
        with suppress(IterationLimit):
            for call in self._calls:
                self._turn.send(self._results.get(call.id) or failure(call, abandoned))
        self._end(None)

    def _advance(self, step: object) -> ChatResponse | None:
        turn = self._turn
        assert turn is not None  # noqa: S101 - only called with a turn
        try:
            while isinstance(step, Ask):
                response = self._client.chat(step.request)
                self._calls, self._results = response.tool_calls, {}
                step = turn.send(response)
        except StopIteration as done:
            self._end(None)
            return done.value
        except BaseException as error:
            self._end(error)
            raise
        return None

    def _end(self, error: BaseException | None) -> None:
        if self._turn is not None:
            self._turn.close()
        self._turn, self._calls, self._results = None, (), {}
        if self._handler:
            self._handler.on_done(error)
