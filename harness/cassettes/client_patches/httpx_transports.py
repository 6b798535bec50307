"""Patches of the network transports of httpx and httpx2, which share one interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from harness.cassettes.client_patches.connection_bytes import (
    PLAIN,
    Patch,
    RequestHook,
    StoreResponse,
    received_response,
)
from harness.cassettes.httpx_messages import PieceStream, ending, exception_for_ending, plain_request
from harness.model.http import HttpResponse


def patches(library: Any, hook: RequestHook) -> Iterator[Patch]:
    """Yield the patches for httpx or httpx2."""
    answers = _HttpxResponses(library)
    whole, awaited = library.HTTPTransport, library.AsyncHTTPTransport
    yield Patch(whole, "handle_request", _sending(whole.handle_request, hook, answers))
    yield Patch(awaited, "handle_async_request", _sending_async(awaited.handle_async_request, hook, answers))


def _sending(send: Callable[..., Any], hook: RequestHook, answers: _HttpxResponses) -> Callable[..., Any]:
    def handle_request(self: Any, request: Any) -> Any:
        request.read()
        found = hook(plain_request(request))
        if found is None:
            return send(self, request)
        if isinstance(found, HttpResponse):
            return answers.to_library(found)
        request.headers["accept-encoding"] = PLAIN
        response = send(self, request)
        pieces: list[bytes] = []
        broken = None
        try:
            for piece in response.stream:
                pieces.append(piece)  # noqa: PERF402 - keeps the pieces before a failure
        except answers.broken as error:
            broken = error
        finally:
            response.close()
        return answers.keep_response(found, response, pieces, broken)

    return handle_request


def _sending_async(send: Callable[..., Any], hook: RequestHook, answers: _HttpxResponses) -> Callable[..., Any]:
    async def handle_async_request(self: Any, request: Any) -> Any:
        await request.aread()
        found = hook(plain_request(request))
        if found is None:
            return await send(self, request)
        if isinstance(found, HttpResponse):
            return answers.to_library(found)
        request.headers["accept-encoding"] = PLAIN
        response = await send(self, request)
        pieces: list[bytes] = []
        broken = None
        try:
            async for piece in response.stream:
                pieces.append(piece)  # noqa: PERF401 - keeps the pieces before a failure
        except answers.broken as error:
            broken = error
        finally:
            await response.aclose()
        return answers.keep_response(found, response, pieces, broken)

    return handle_async_request


class _HttpxResponses:
    def __init__(self, library: Any) -> None:
        self._library = library
        self._stream: Any = type("PieceStream", (PieceStream, library.SyncByteStream, library.AsyncByteStream), {})
        self.broken = (library.RemoteProtocolError, library.ReadError)

    def to_library(self, response: HttpResponse) -> Any:
        """Convert a recorded response to a response of the library."""
        broken = exception_for_ending(response.delivery.ending, self._library)
        stream = self._stream(response.delivery.pieces(response.body), 0.0, broken)
        return self._library.Response(response.status, headers=dict(response.headers), stream=stream)

    def keep_response(self, keep: StoreResponse, response: Any, pieces: list[bytes], broken: Exception | None) -> Any:
        """Pass a received response to `keep`, and return an equivalent response for the client."""
        headers = dict(response.headers.items())
        keep(received_response(response.status_code, headers, pieces, ending(broken, self._library)))
        extensions = {key: value for key, value in response.extensions.items() if key != "network_stream"}
        stream = self._stream(pieces, 0.0, broken)
        return self._library.Response(
            response.status_code, headers=response.headers, stream=stream, extensions=extensions
        )
