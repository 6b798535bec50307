"""A conversation and its tool loop, as one sans-IO generator with a synchronous and an asynchronous driver.

The loop follows the calls that a response holds, not its stop reason, but for one: a model that has paused is asked
again, with what it has said so far. A tool that raises becomes an error result. The history is append-only and kept
whatever happens: however a turn ends, every call of it has its result, so that the conversation can go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from harness.contract.errors import IterationLimit
from harness.contract.model import (
    ChatRequest,
    ChatResponse,
    File,
    Image,
    Message,
    NamedTool,
    Opaque,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from harness.contract.protocols import (
    AsyncChatClient,
    AsyncStatefulToolFunction,
    AsyncToolFunction,
    ChatClient,
    MessageHandler,
    StatefulToolFunction,
    ToolFunction,
)

DEFAULT_MAX_TOKENS = 8192
"""Bound of an answer, in tokens, where the template has none."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The thread wants this request answered. Send it the `ChatResponse`."""

    request: ChatRequest


@dataclass(frozen=True, slots=True)
class RunTool:
    """The thread wants this call run. Send it a `ToolResult`; results go back in the order in which they are sent."""

    call: ToolCall


Turn = Generator[Ask | RunTool, "ChatResponse | ToolResult", ChatResponse]


class Thread:
    """A conversation with one model.

    `template` is the request without its messages (`None`: the client's own model, and nothing set). It may be replaced
    between turns, to change the system prompt or the settings. `messages` is the history, and may be replaced between
    turns too. `max_iterations` bounds the model's answers in one user turn. A `state` that is not `None` is handed to
    the tools, as their second argument.
    """

    def __init__(self, template: ChatRequest | None = None, *, max_iterations: int = 10, state: object = None) -> None:
        template = template or ChatRequest()
        self.template = replace(template, messages=()) if template.messages else template
        self.messages: tuple[Message, ...] = template.messages
        self.max_iterations = max_iterations
        self.state = state

    def turn(self, user: Message, handler: MessageHandler | None = None, *, model: str | None = None) -> Turn:
        """One user turn: yields what it needs, returns the last response, with the usage of all responses of the turn.

        `handler` is told all but `on_done`; one with `on_usage` is told after each answer what the turn has taken.

        `model` is asked in this turn instead of the template's.

        A forced tool choice holds for the first answer only; a model that had to call a tool each time could never
        answer.

        An answer that pauses (Anthropic's `pause_turn`: the provider's own tools have run for long) is no end. It stays
        in the history as it came, as is documented, and the model is asked again; a handler with `on_pause` is told
        (`harness.contract.protocols.PauseHandler`). Whether the API takes a paused answer back in which a call of its
        own tools has no result yet is contested (anthropic-paused-turn-unpaired): its refusal is the caller's, and
        nothing is left out to avoid it. A pause that has said nothing (a response in the background) is handed back,
        for there is nothing to go on from.

        Calls that have no result when the turn is broken off (by the handler, or closed) get an error result.

        Raises:
            IterationLimit: the model still calls tools, or pauses, after `max_iterations` answers.
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
                raise TypeError("an Ask is answered by a ChatResponse")
            self.messages += (response.message,)
            used += response.usage
            yield from self._tools(response, handler, used)
            paused = not response.tool_calls and _goes_on(response)
            if not (response.tool_calls or paused):
                return replace(response, usage=used)
            on_pause = getattr(handler, "on_pause", None) if paused else None
            if on_pause is not None:
                on_pause(response)
            if template.tool_choice == "required" or isinstance(template.tool_choice, NamedTool):
                template = replace(template, tool_choice="auto")
        raise IterationLimit(self.max_iterations, paused=paused)

    def _tools(
        self, response: ChatResponse, handler: MessageHandler | None, used: Usage
    ) -> Generator[RunTool, ChatResponse | ToolResult, None]:
        results: list[ToolResult] = []
        try:
            on_usage = getattr(handler, "on_usage", None)  # `isinstance` of a protocol takes longer than all the rest
            if on_usage is not None:
                on_usage(used)
            if handler and response.text:
                handler.on_text(response.text)
            for call in response.tool_calls:
                if handler:
                    handler.on_tool_use(call)
                result = yield RunTool(call)
                if not isinstance(result, ToolResult):
                    raise TypeError("a RunTool is answered by a ToolResult")
                results.append(result)
                if handler:
                    handler.on_tool_result(result)
        finally:
            results += [_not_run(call) for call in response.tool_calls[len(results) :]]
            if results:
                self.messages += (Message(Role.USER, tuple(results)),)

    def send(
        self,
        client: ChatClient,
        user: str | Message,
        tool: ToolFunction | StatefulToolFunction,
        handler: MessageHandler | None = None,
        *,
        model: str | None = None,
    ) -> ChatResponse:
        """Send a user message and run the tools until the model has answered; `harness.kit.streamed` shows it arrive.

        The response is the last one, with the usage of all answers that the turn took.

        Raises:
            harness.contract.errors.ChatError: a chat failed.
            IterationLimit: see `turn`.
        """
        run = cast("ToolFunction", self._with_state(tool))
        with self._driven(user, handler, model) as turn:
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
        """`send` for an asynchronous client and asynchronous tools."""
        run = cast("AsyncToolFunction", self._with_state(tool))
        with self._driven(user, handler, model) as turn:
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
    def _driven(
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


def ask(  # noqa: PLR0913 - what a thread and its `send` take
    client: ChatClient,
    text: str,
    template: ChatRequest | None = None,
    tool: ToolFunction | StatefulToolFunction | None = None,
    handler: MessageHandler | None = None,
    *,
    state: object = None,
    model: str | None = None,
) -> str:
    """One question, one text: a thread that is made for it and forgotten. See `Thread`, and `Thread.send`.

    Raises:
        harness.contract.errors.ChatError: a chat failed.
        IterationLimit: see `Thread.turn`.
    """
    return Thread(template, state=state).send(client, text, tool or _no_tool, handler, model=model).text


def _no_tool(call: ToolCall, _state: object = None) -> ToolResult:
    raise LookupError(f"there is no tool {call.name!r}")


def run_tool(tool: ToolFunction, call: ToolCall) -> ToolResult:
    """Run a tool; what it raises becomes an error result that carries the exception's text."""
    try:
        return as_result(call, tool(call))
    except Exception as raised:  # noqa: BLE001 - whatever a tool raises is the model's to know
        return failure(call, raised)


async def run_tool_async(tool: AsyncToolFunction, call: ToolCall) -> ToolResult:
    """`run_tool` for an asynchronous tool."""
    try:
        return as_result(call, await tool(call))
    except Exception as raised:  # noqa: BLE001 - whatever a tool raises is the model's to know
        return failure(call, raised)


def as_result(call: ToolCall, answer: object) -> ToolResult:
    """What a tool has returned, as the result of its call: a `ToolResult` as it is, anything else as the content.

    Raises:
        TypeError: it is no JSON value, no part and no list or tuple of parts.
    """
    if isinstance(answer, ToolResult):
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
    """The error result that stands for an exception."""
    return ToolResult(call.id, call.name, str(raised) or type(raised).__name__, is_error=True)


def _goes_on(response: ChatResponse) -> bool:
    """The model has paused, and can be asked to go on from what it has said."""
    return response.stop_reason is StopReason.PAUSE and bool(response.message.parts)


def _not_run(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, "no result: the turn was broken off", is_error=True)
