"""httpx2 transports: answer from a function, or tap another transport. This is how an injected client is played."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeAlias, cast

import httpx2

from harness.http import HttpRequest, HttpResponse
from harness.tape.content_encoding import decode
from harness.tape.player import Player
from harness.tape.tap import Tap

Handler: TypeAlias = Callable[[HttpRequest], HttpResponse]
"""Answers a request. May be called from several threads at once."""


def replaying(player: Player, tap: Tap) -> Handler:
    """A handler that plays a cassette and notes each exchange beside the recorded request."""

    def handle(request: HttpRequest) -> HttpResponse:
        response, recorded = player.answer(tap.public(request))
        tap.note(request, response, recorded)
        return response

    return handle


class HandlerTransport(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Answers from `handler`, without a network; for `httpx2.Client` and `httpx2.AsyncClient` alike.

    The body arrives in pieces of `cut` bytes, or whole if that is `None`.
    """

    def __init__(self, handler: Handler, cut: int | None = None) -> None:
        self._handler = handler
        self._cut = cut

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request."""
        request.read()
        return self._response(request)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request."""
        await request.aread()
        return self._response(request)

    def _response(self, request: httpx2.Request) -> httpx2.Response:
        response = self._handler(plain_request(request))
        stream = _Pieces(response.body, self._cut or max(len(response.body), 1))
        return httpx2.Response(response.status, headers=dict(response.headers), stream=stream)


class TapTransport(httpx2.BaseTransport):
    """Notes in `tap` what goes through `inner`. The response is handed on as it came, once all of it has come."""

    def __init__(self, inner: httpx2.BaseTransport, tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request on. Raises what `inner` raises, and `CassetteError` if the exchange cannot be kept."""
        request.read()
        try:
            response = self._inner.handle_request(request)
            try:
                raw = b"".join(cast("httpx2.SyncByteStream", response.stream))
            finally:
                response.close()
        except httpx2.TransportError:
            self._tap.note(plain_request(request), None)
            raise
        return _noted(self._tap, request, response, raw)

    def close(self) -> None:
        """Close `inner`."""
        self._inner.close()


class AsyncTapTransport(httpx2.AsyncBaseTransport):
    """The same for `httpx2.AsyncClient`."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request on; see `TapTransport.handle_request`."""
        await request.aread()
        try:
            response = await self._inner.handle_async_request(request)
            try:
                raw = b"".join([part async for part in cast("httpx2.AsyncByteStream", response.stream)])
            finally:
                await response.aclose()
        except httpx2.TransportError:
            self._tap.note(plain_request(request), None)
            raise
        return _noted(self._tap, request, response, raw)

    async def aclose(self) -> None:
        """Close `inner`."""
        await self._inner.aclose()


class _Pieces(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    def __init__(self, body: bytes, size: int) -> None:
        self._body = body
        self._size = size

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._body), self._size):
            yield self._body[start : start + self._size]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def _noted(tap: Tap, request: httpx2.Request, response: httpx2.Response, raw: bytes) -> httpx2.Response:
    headers = _headers(response.headers)
    tap.note(plain_request(request), HttpResponse(response.status_code, headers, _decoded(raw, headers)))
    extensions = {key: value for key, value in response.extensions.items() if key != "network_stream"}
    return httpx2.Response(
        response.status_code, headers=response.headers, stream=httpx2.ByteStream(raw), extensions=extensions
    )


def plain_request(request: httpx2.Request) -> HttpRequest:
    """A request whose body has been read, as the harness sees it."""
    headers = _headers(request.headers)
    return HttpRequest(request.method, str(request.url), headers, _decoded(request.content, headers))


def _headers(headers: httpx2.Headers) -> dict[str, str]:
    return dict(headers.items())  # lower case, repeated ones joined; indexing by name would search them all each time


def _decoded(body: bytes, headers: dict[str, str]) -> bytes:
    try:
        return decode(body, headers.get("content-encoding", ""))
    except ValueError:
        return body  # the SDK meets the same damage and says so
