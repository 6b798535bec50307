"""Use any client as a synchronous one, and check that what it returns is made as the contract says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from harness.contract.model import (
    PART_CLASSES,
    ChatRequest,
    ChatResponse,
    File,
    Finish,
    Image,
    Message,
    Opaque,
    Refusal,
    Role,
    StopReason,
    StreamEvent,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from harness.results import Change

T = TypeVar("T")

BROKEN = (Exception, SystemExit, asyncio.CancelledError)
"""How an adapter can break. One that exits or cancels itself takes its cell with it, not the run and its exit code."""

_FIELDS: Mapping[type, Mapping[str, type]] = {
    Text: {"text": str},
    Image: {"media_type": str},
    File: {"media_type": str},
    ToolCall: {"id": str, "name": str, "arguments": Mapping},
    ToolResult: {"call_id": str, "name": str},
    Thinking: {"text": str},
    Refusal: {"text": str},
    Opaque: {"api": str},
}


def check(response: object) -> ChatResponse:
    """The response, if it is one. Raises `TypeError`, with the field that is none."""
    if not isinstance(response, ChatResponse):
        raise TypeError(f"chat returned a {type(response).__name__}, which is no ChatResponse")
    _expect(response.message, Message, "ChatResponse.message")
    _expect(response.message.role, Role, "Message.role")
    _expect(response.message.parts, (tuple, list), "Message.parts")
    for part in response.message.parts:
        _expect(part, PART_CLASSES, "a part", "part")
        of = next(kind for kind in type(part).__mro__ if kind in _FIELDS)
        for name, kind in _FIELDS[of].items():
            _expect(getattr(part, name), kind, f"{of.__name__}.{name}")
    _expect(response.stop_reason, StopReason, "ChatResponse.stop_reason")
    _expect(response.usage, Usage, "ChatResponse.usage")
    _expect(response.model, (str, type(None)), "ChatResponse.model", "str")
    return response


def _expect(value: object, kind: type | tuple[type, ...], place: str, name: str | None = None) -> None:
    if not isinstance(value, kind):
        wanted = name or (kind if isinstance(kind, type) else cast("tuple[Any, ...]", kind)[0]).__name__
        raise TypeError(f"chat returned a {type(value).__name__} as {place}, which is no {wanted}")


class RemoteClient:
    """A client of an adapter in another process. `changes` are those that it made in place to its last request."""

    changes: tuple[Change, ...] = ()


class Connected:
    """A client of an adapter, synchronous or not. An asynchronous one gets one event loop and is closed inside it.

    Raises:
        TypeError: it is no client.
    """

    def __init__(self, client: Any, *, stream: bool) -> None:
        method = "stream" if stream else "chat"
        if not (callable(getattr(client, method, None)) and callable(getattr(client, "close", None))):
            raise TypeError(f"connect returned a {type(client).__name__}, and a client has to have {method} and close")
        self.client = client
        self._loop = asyncio.Runner()  # which makes its event loop only when something is run

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes that a client in another process has made in place to its last request."""
        return self.client.changes if isinstance(self.client, RemoteClient) else ()

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Ask for a whole answer. Raises what the client raises, and `TypeError`: it is no answer."""
        return check(_settled(self._loop, self.client.chat(request)))

    def stream(self, request: ChatRequest, note: Callable[[StreamEvent], object]) -> ChatResponse:
        """Ask for a streamed answer, and `note` its events as they come: some of them, even if it then breaks off.

        Raises what the client raises, and `TypeError`: it is no answer.
        """
        finish: Finish | None = None

        def arrive(event: StreamEvent) -> None:
            nonlocal finish
            note(event)
            finish = event if isinstance(event, Finish) else finish

        _arrive(self._loop, _settled(self._loop, self.client.stream(request)), arrive)
        if finish is None:
            raise TypeError("the stream ended without Finish, which is its last event")
        return check(finish.response)

    def close(self) -> None:
        """Close the client, and its event loop."""
        try:
            _settled(self._loop, self.client.close())
        finally:
            self._loop.close()


def settled(value: object) -> None:
    """Wait for what an asynchronous function promises, in an event loop of its own."""
    if isinstance(value, Awaitable):
        with asyncio.Runner() as loop:
            _settled(loop, cast("Awaitable[object]", value))


def _arrive(loop: asyncio.Runner, stream: object, note: Callable[[StreamEvent], object]) -> None:
    if isinstance(stream, AsyncIterator):
        promise = cast("AsyncIterator[StreamEvent]", stream)

        async def wait() -> None:
            async for event in promise:
                note(event)

        loop.run(wait())
        return
    if not isinstance(stream, Iterable):
        raise TypeError(f"stream returned a {type(stream).__name__}, which is no iterator of events")
    for event in cast("Iterable[StreamEvent]", stream):
        note(event)


def _settled(loop: asyncio.Runner, value: T | Awaitable[T]) -> T:
    """Return the value, or what an asynchronous client's promise of it gives."""
    if isinstance(value, Awaitable):
        promise = cast("Awaitable[T]", value)

        async def wait() -> T:
            return await promise

        return loop.run(wait())
    return value
