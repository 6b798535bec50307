"""Gives synchronous access to adapters' clients, checks their responses, and detects in-place changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar, cast

from harness.model.messages import (
    JSON,
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
from harness.results import InPlaceChange

_IMMUTABLE = (str, int, float, bool, type(None), bytes, Enum)


class TrackedObjects:
    """Tracks the objects that an adapter received. For each one it keeps a copy that the adapter cannot change."""

    def __init__(self) -> None:
        self._originals: dict[int, tuple[object, Any]] = {}  # with the object itself, whose id must stay its own
        self._reported: set[str] = set()

    def copy_for_adapter(self, value: T) -> T:
        """Return a copy to pass to the adapter. The scenario's own object then cannot be changed."""
        handed = cast("T", _copy(value))
        self._originals[id(handed)] = handed, value
        return handed

    def original(self, value: T) -> T:
        """Return a value as it was when the adapter first received it or returned it."""
        if isinstance(value, _IMMUTABLE):
            return value
        known = self._originals.get(id(value))
        if known is None:
            known = self._originals[id(value)] = value, _rebuild(value, self.original)
        return known[1]

    def request(self, request: ChatRequest) -> ChatRequest:
        """Return the request with all objects in their original state."""
        return replace(
            request,
            messages=tuple(map(self.original, request.messages)),
            tools=tuple(map(self.original, request.tools)),
            response_format=self.original(request.response_format),
            provider_metadata=self.original(request.provider_metadata),
        )

    def response(self, response: ChatResponse) -> ChatResponse:
        """Return the response with its message in its original state."""
        return replace(response, message=self.original(response.message))

    def changes(self, request: ChatRequest, original: ChatRequest) -> tuple[InPlaceChange, ...]:
        """Return the adapter's in-place changes to a request. Each place is reported only once per conversation."""
        found = [
            *_find_changes(request.messages, original.messages, "messages"),
            *_find_changes(request.tools, original.tools, "tools"),
            *_find_changes(request.response_format, original.response_format, "response_format"),
            *_find_changes(request.provider_metadata, original.provider_metadata, "provider_metadata"),
        ]
        new = [change for change in found if change.place not in self._reported]
        self._reported.update(change.place for change in new)
        return tuple(new)


def _copy(value: object) -> Any:
    return value if isinstance(value, _IMMUTABLE) else _rebuild(value, _copy)


def _rebuild(value: object, each: Callable[[Any], Any]) -> Any:
    """Return a copy of a value. `each` copies the members of tuples and dataclasses; lists and dictionaries are copied
    recursively. Objects of other classes are returned unchanged, without a copy.
    """
    kind, inside = type(value), cast("Any", value)
    try:
        if kind is dict:
            return {key: _copy(member) for key, member in inside.items()}
        if kind is list:
            return [_copy(member) for member in inside]
        if kind is tuple:
            return tuple(map(each, inside))
        if not is_dataclass(kind):
            return value
        made = object.__new__(kind)
        for field in fields(kind):
            object.__setattr__(made, field.name, each(getattr(value, field.name)))
    except RecursionError:
        return value
    return made


def _find_changes(now: Any, before: Any, place: str) -> Iterator[InPlaceChange]:
    if now is before or now == before:
        return
    if _are_instances(Mapping, now, before):
        for key in dict.fromkeys((*before, *now)):
            yield from _find_changes(now.get(key, _ABSENT), before.get(key, _ABSENT), f"{place}.{key}")
    elif _are_instances((list, tuple), now, before) and len(now) == len(before):
        for index, (member, original) in enumerate(zip(now, before, strict=True)):
            yield from _find_changes(member, original, f"{place}[{index}]")
    elif is_dataclass(before) and _are_instances(type(before), now, before):
        for field in fields(before):
            yield from _find_changes(getattr(now, field.name), getattr(before, field.name), f"{place}.{field.name}")
    else:
        yield InPlaceChange(place, _to_json(before), _to_json(now))


def _are_instances(kind: type | tuple[type, ...], *values: object) -> bool:
    return all(isinstance(value, kind) for value in values)


_ABSENT = object()


def _to_json(value: object) -> JSON:
    """Return a value as JSON, or its `repr` if it cannot be written as JSON."""
    if value is _ABSENT:
        return None
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return repr(value)


T = TypeVar("T")

ADAPTER_EXCEPTIONS = (Exception, SystemExit, asyncio.CancelledError)
"""Exceptions of an adapter that end the cell but not the run."""

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


def check_response(response: object, method: str = "chat") -> ChatResponse:
    """Return the response if all its fields have the right type. Raises `TypeError` that names the wrong field."""
    if not isinstance(response, ChatResponse):
        raise TypeError(f"{method} returned a {type(response).__name__}, not a ChatResponse")
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
        raise TypeError(f"chat returned a {type(value).__name__} as {place}, expected {wanted}")


class RemoteClient:
    """Base class for clients of adapters in other processes. `changes` are the adapter's in-place changes to the last
    request.
    """

    changes: tuple[InPlaceChange, ...] = ()


class SyncClient:
    """Wraps an adapter's client with synchronous methods. An asynchronous client runs in a single event loop and is
    closed in it.

    Raises:
        TypeError: The object is not a client.
    """

    def __init__(self, client: Any, *, stream: bool) -> None:
        method = "stream" if stream else "chat"
        if not (callable(getattr(client, method, None)) and callable(getattr(client, "close", None))):
            raise TypeError(f"connect returned a {type(client).__name__}, and a client has to have {method} and close")
        self.client = client
        self._loop = asyncio.Runner()  # the event loop is created when it is first used

    @property
    def changes(self) -> tuple[InPlaceChange, ...]:
        """In-place changes to the last request that a client in another process reported."""
        return self.client.changes if isinstance(self.client, RemoteClient) else ()

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Request a whole response. Raises the client's exceptions, and `TypeError` if the result is not a valid
        response.
        """
        return check_response(_result_of(self._loop, self.client.chat(request)))

    def stream(self, request: ChatRequest, note: Callable[[StreamEvent], object]) -> ChatResponse:
        """Request a streamed response and call `note` with each event as it arrives.

        Raises the client's exceptions, and `TypeError` if the result is not a valid response.
        """
        finish: Finish | None = None

        def arrive(event: StreamEvent) -> None:
            nonlocal finish
            note(event)
            finish = event if isinstance(event, Finish) else finish

        _iterate(self._loop, _result_of(self._loop, self.client.stream(request)), arrive)
        if finish is None:
            raise TypeError("the stream ended without Finish, which is its last event")
        return check_response(finish.response)

    def close(self) -> None:
        """Close the client and its event loop."""
        try:
            _result_of(self._loop, self.client.close())
        finally:
            self._loop.close()


def run_awaitable(value: object) -> object:
    """Run an awaitable in a new event loop and return its result. Other values are returned unchanged."""
    if not isinstance(value, Awaitable):
        return value
    with asyncio.Runner() as loop:
        return _result_of(loop, cast("Awaitable[object]", value))


def _iterate(loop: asyncio.Runner, stream: object, note: Callable[[StreamEvent], object]) -> None:
    if isinstance(stream, AsyncIterator):
        promise = cast("AsyncIterator[StreamEvent]", stream)

        async def wait() -> None:
            async for event in promise:
                note(event)

        loop.run(wait())
        return
    if not isinstance(stream, Iterable):
        raise TypeError(f"stream returned a {type(stream).__name__}, not an iterator of events")
    for event in cast("Iterable[StreamEvent]", stream):
        note(event)


def _result_of(loop: asyncio.Runner, value: T | Awaitable[T]) -> T:
    if isinstance(value, Awaitable):
        promise = cast("Awaitable[T]", value)

        async def wait() -> T:
            return await promise

        return loop.run(wait())
    return value
