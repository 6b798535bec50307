"""Patches for aiohttp's connector, which opens connections.

During playback the session gets a connection that returns the recorded bytes. aiohttp itself handles redirects,
cookies, encodings and middlewares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from harness.cassettes.client_patches.connection_bytes import (
    PLAIN,
    RESET,
    Patch,
    RequestHook,
    StoreResponse,
    received_response,
    response_bytes,
)
from harness.model.http import Ending, HttpRequest, HttpResponse

_MIN_BUFFER_BYTES = 1 << 16
"""Minimum buffer size of an aiohttp stream."""


def patches(library: Any, hook: RequestHook) -> Iterator[Patch]:
    """Yield the patches for aiohttp."""
    connecting, starting = library.BaseConnector.connect, library.ClientResponse.start
    waiting: WeakKeyDictionary[Any, StoreResponse] = WeakKeyDictionary()

    async def connect(self: Any, req: Any, *rest: Any, **named: Any) -> Any:
        request = await _plain(req)
        found = hook(request)
        if isinstance(found, HttpResponse):
            loop = asyncio.get_running_loop()
            return library.connector.Connection(
                self, req.connection_key, _to_client_response(library, found, req, loop), loop
            )
        if found is None:
            return await connecting(self, req, *rest, **named)
        req.headers["Accept-Encoding"] = PLAIN
        connection = await connecting(self, req, *rest, **named)
        waiting[connection] = found
        return connection

    async def start(self: Any, connection: Any) -> Any:
        response = await starting(self, connection)
        keep = waiting.pop(connection, None)
        if keep is not None:
            await _keep(library, response, keep)
        return response

    yield Patch(library.BaseConnector, "connect", connect)
    yield Patch(library.ClientResponse, "start", start)


async def _plain(request: Any) -> HttpRequest:
    body = request.body
    if not isinstance(body, bytes):
        body = await body.as_bytes()
    headers = {str(name).lower(): str(value) for name, value in request.headers.items()}
    return HttpRequest(request.method.upper(), str(request.url), headers, body)


async def _keep(library: Any, response: Any, keep: StoreResponse) -> None:
    pieces: list[bytes] = []
    ending: Ending = "complete"
    failure: Exception | None = None
    try:
        async for piece in response.content.iter_any():
            pieces.append(piece)  # noqa: PERF401 - keeps the pieces before a failure
    except (library.ClientPayloadError, library.ClientConnectionError) as error:
        ending, failure = "reset" if isinstance(error.__cause__, ConnectionError) else "cut", error
    headers = {name: value for name, value in response.headers.items() if name.lower() != "content-encoding"}
    keep(received_response(response.status, headers, pieces, ending))  # aiohttp has decoded the body
    response.content = _replayed_stream(library, pieces, failure)


def _replayed_stream(library: Any, pieces: Sequence[bytes], failure: Exception | None) -> Any:
    loop = asyncio.get_running_loop()
    limit = max([_MIN_BUFFER_BYTES, *map(len, pieces)])
    protocol = library.base_protocol.BaseProtocol(loop=loop)
    protocol.connection_made(asyncio.Transport())  # without a transport, aiohttp reports a lost connection
    stream = library.StreamReader(protocol, limit, loop=loop)
    left = iter(pieces)

    def feed() -> None:
        piece = next(left, None)
        if piece is not None:
            stream.feed_data(piece)
            loop.call_soon(feed)
        elif failure is None:
            stream.feed_eof()
        else:
            stream.set_exception(failure)

    feed()
    return stream


def _to_client_response(library: Any, answer: HttpResponse, request: Any, loop: asyncio.AbstractEventLoop) -> Any:
    protocol = library.client_proto.ResponseHandler(loop=loop)
    protocol.connection_made(_FakeConnection(protocol, answer, request.method.upper(), loop))
    return protocol


class _FakeConnection(asyncio.Transport):
    """A connection that ignores the request's bytes and returns the recorded response piece by piece."""

    def __init__(self, protocol: Any, answer: HttpResponse, method: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._protocol = protocol
        self._pieces = response_bytes(answer, method)
        self._ending = answer.delivery.ending
        self._loop = loop
        self._begun = False
        self._closing = False
        self._paused = False

    def write(self, data: Any) -> None:  # noqa: ARG002 - what is sent was read before
        """Start the response."""
        if not self._begun:
            self._begun = True
            self._loop.call_soon(self._next)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Start the response."""
        self.write(list_of_data)

    def pause_reading(self) -> None:
        """Pause the response."""
        self._paused = True

    def resume_reading(self) -> None:
        """Continue the response."""
        if self._paused:
            self._paused = False
            self._loop.call_soon(self._next)

    def is_closing(self) -> bool:
        """Return whether the connection was closed."""
        return self._closing

    def close(self) -> None:
        """Close the connection."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        """Close the connection."""
        self.close()

    def _next(self) -> None:
        if self._closing or self._paused:
            return
        piece = next(self._pieces, None)
        if piece is not None:
            self._protocol.data_received(piece)
            self._loop.call_soon(self._next)
        elif self._ending != "complete":
            self._closing = True
            self._protocol.connection_lost(RESET if self._ending == "reset" else None)
