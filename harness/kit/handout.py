"""A thread whose tools run elsewhere: in a browser, in another process, or by hand.

`send` and `take` return as soon as calls are waiting for their results.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.kit.thread import Ask, Thread, Turn, failure
from harness.model.errors import HarnessError, IterationLimit
from harness.model.messages import ChatResponse, Message, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model.protocols import ChatClient, MessageHandler


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
    """Drives `thread` with `client`, while the caller runs the tools."""

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
        """Send a user message. `None` means that calls are `waiting`; pass their results to `take`.

        Raises:
            HarnessError: calls of the previous turn are still waiting. harness.model.errors.ChatError: a chat failed.
            harness.model.errors.IterationLimit: see `Thread.turn`.
        """
        if self._turn is not None:
            raise HarnessError(f"{len(self.waiting)} calls wait for their results. Take them, or abandon the turn.")
        self._turn = self._thread.turn(Message.user(user) if isinstance(user, str) else user, self._handler)
        return self._go_on(next(self._turn))

    def take(self, *results: ToolResult) -> ChatResponse | None:
        """Accept results, in any order. The conversation continues once every call has its result.

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
        return self._go_on(step)

    def abandon(self) -> None:
        """End the turn. Waiting calls get an error result, so that the conversation can continue."""
        if self._turn is None:
            return
        abandoned = HarnessError("no result: the turn was abandoned")
        with suppress(IterationLimit):
            for call in self._calls:
                self._turn.send(self._results.get(call.id) or failure(call, abandoned))
        self._end(None)

    def _go_on(self, step: object) -> ChatResponse | None:
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
