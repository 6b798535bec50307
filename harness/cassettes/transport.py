"""HTTP transports and process runners that answer from a handler, log exchanges, or forward them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

import httpx2

from harness.cassettes.content_encoding import decode
from harness.cassettes.player import Converter, ExchangeLog, Player
from harness.model.http import Delivery, Ending, HttpRequest, HttpResponse
from harness.model.process import Command, Completed, from_response, to_request, to_response
from harness.model.protocols import ProcessRunner

Handler: TypeAlias = Callable[[HttpRequest], HttpResponse]
"""Answers a request. May be called from several threads at once."""


def replaying(player: Player, tap: ExchangeLog, convert: Converter | None = None) -> Handler:
    """Return a handler that plays a cassette, converts each response with `convert`, and logs each exchange."""

    def handle(request: HttpRequest) -> HttpResponse:
        public = tap.public(request)
        response, recorded = player.answer(public)
        if convert is not None:
            response = convert(public, recorded, response)
        tap.note(request, response, recorded)
        return response

    return handle


class HandlerTransport(httpx2.BaseTransport):
    """Answers from `handler`, without a network.

    The body arrives as the response's `delivery` says, and ends with the error that httpx2 has for such an ending.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request."""
        request.read()
        return _delivered(self._handler(plain_request(request)))


class LoggingTransport(httpx2.BaseTransport):
    """Logs exchanges of `inner` in `tap`. The response is passed on unchanged when it is complete.

    A response that breaks off is logged as far as it came, and breaks off for the adapter as well. A response that
    times out is logged as missing. Requests that an earlier recording has answered are not sent.
    """

    def __init__(self, inner: httpx2.BaseTransport, tap: ExchangeLog) -> None:
        self._inner = inner
        self._tap = tap

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request on. Raises what `inner` raises, and `CassetteError` if the exchange cannot be kept."""
        request.read()
        known = self._tap.taken_up(plain_request(request))
        if known is not None:
            return _delivered(known)
        try:
            response = self._inner.handle_request(request)
            raw, failure = bytearray(), None
            try:
                for part in cast("httpx2.SyncByteStream", response.stream):
                    raw += part
            except BROKEN_OFF as error:
                failure = error
            finally:
                response.close()
        except httpx2.TransportError:
            self._tap.note(plain_request(request), None)
            raise
        headers = dict(response.headers.items())
        body = _decoded(bytes(raw), headers, whole=failure is None)
        kept = HttpResponse(response.status_code, headers, body, Delivery(ending=ending(failure)))
        self._tap.note(plain_request(request), kept)
        extensions = {key: value for key, value in response.extensions.items() if key != "network_stream"}
        stream = _Httpx2Stream([bytes(raw)] if raw else [], 0.0, failure)
        return httpx2.Response(response.status_code, headers=response.headers, stream=stream, extensions=extensions)

    def close(self) -> None:
        """Close `inner`."""
        self._inner.close()


class PieceStream:
    """A body that arrives in pieces, with pauses in between, and may end in a failure. A mixin for the streams of httpx
    and httpx2."""

    def __init__(self, pieces: Sequence[bytes], pause: float, failure: Exception | None) -> None:
        self._pieces = pieces
        self._pause = pause
        self._failure = failure

    def __iter__(self) -> Iterator[bytes]:
        for number, piece in enumerate(self._pieces):
            if number and self._pause:
                time.sleep(self._pause)
            yield piece
        if self._failure is not None:
            raise self._failure

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


class _Httpx2Stream(PieceStream, httpx2.SyncByteStream):
    pass


def _delivered(response: HttpResponse) -> httpx2.Response:
    delivery = response.delivery
    stream = _Httpx2Stream(delivery.pieces(response.body), delivery.pause, breaking(delivery.ending))
    return httpx2.Response(response.status, headers=dict(response.headers), stream=stream)


ALONE = httpx2.Limits(max_keepalive_connections=0)
"""No kept connections to external servers. A kept connection may be closed just as the next request is sent,
which would look like a fault of the adapter."""

BROKEN_OFF = (httpx2.RemoteProtocolError, httpx2.ReadError)
"""httpx2's exceptions for a connection that was closed early or reset within a body."""


def ending(failure: Exception | None, library: Any = httpx2) -> Ending:
    """Return the ending of a body for the exception raised within it."""
    if failure is None:
        return "complete"
    return "cut" if isinstance(failure, library.RemoteProtocolError) else "reset"


def breaking(ending: Ending, library: Any = httpx2) -> Any:
    """Return the exception of httpx2 or httpx for an ending."""
    match ending:
        case "complete":
            return None
        case "cut":
            message = "peer closed connection without sending complete message body (incomplete chunked read)"
            return library.RemoteProtocolError(message)
        case "reset":
            return library.ReadError("[Errno 104] Connection reset by peer")


def plain_request(request: httpx2.Request) -> HttpRequest:
    """Convert a request whose body has been read."""
    headers = dict(request.headers.items())
    return HttpRequest(request.method, str(request.url), headers, _decoded(request.content, headers))


def _decoded(body: bytes, headers: dict[str, str], *, whole: bool = True) -> bytes:
    try:
        return decode(body, headers.get("content-encoding", ""), whole=whole)
    except ValueError:
        return body  # the SDK reports the same damage


_HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that hold for one connection, or that change with the body's encoding (RFC 9110, section 7.6.1)."""

_SECONDS = 600.0
"""Timeout, as in the SDKs."""


class Proxy:
    """Forwards requests under `base_url` to `upstream` and notes them in `tap`; a context manager and a handler.

    Neither redirects nor the environment's proxies are followed: a prompt goes where it was sent, or nowhere.
    """

    def __init__(
        self, base_url: str, upstream: str, tap: ExchangeLog, transport: httpx2.BaseTransport | None = None
    ) -> None:
        self._base = base_url.rstrip("/")
        self._upstream = upstream.rstrip("/")
        inner = transport or httpx2.HTTPTransport(trust_env=False)
        self._client = httpx2.Client(
            transport=LoggingTransport(inner, tap), trust_env=False, follow_redirects=False, timeout=_SECONDS
        )

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Forward a request. An upstream that does not answer is a 502, and one that breaks off is passed on."""
        url = self._upstream + request.url.removeprefix(self._base)
        headers = _end_to_end(request.headers) | {"accept-encoding": "identity"}
        body, failure = bytearray(), None
        try:
            with self._client.stream(request.method, url, headers=headers, content=request.body) as response:
                try:
                    for part in response.iter_bytes():
                        body += part
                except BROKEN_OFF as error:
                    failure = error
        except httpx2.TransportError as error:
            message = f"harness: the upstream did not answer: {type(error).__name__}"
            return HttpResponse(502, {"content-type": "text/plain"}, message.encode())
        delivery = Delivery(ending=ending(failure))
        return HttpResponse(response.status_code, _end_to_end(response.headers), bytes(body), delivery)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


class LoggingRunner:
    """Logs commands of `inner` in `tap`. Commands that an earlier recording has answered are not run."""

    def __init__(self, inner: ProcessRunner, tap: ExchangeLog) -> None:
        self._inner = inner
        self._tap = tap

    def run(self, command: Command, timeout: float) -> Completed:
        """Run a command. Raises what `inner` raises, and `CassetteError` if the exchange cannot be kept."""
        request = to_request(command)
        known = self._tap.taken_up(request)
        if known is not None:
            return from_response(known)
        try:
            completed = self._inner.run(command, timeout)
        except OSError:
            self._tap.note(request, None)
            raise
        self._tap.note(request, to_response(completed))
        return completed


class HandlerRunner:
    """A process runner that asks `handler` instead of starting a process.

    A response that is not a command's result becomes its output, in which the caller finds no result. A reset
    connection becomes an `OSError`.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def run(self, command: Command, timeout: float) -> Completed:  # noqa: ARG002 - an answer takes no time
        """Answer a command; see `harness.model.protocols.ProcessRunner.run`."""
        response = self._handler(to_request(command))
        if response.delivery.ending == "reset":
            raise ConnectionResetError(f"{command.argv[0]} broke off")
        try:
            return from_response(response)
        except ValueError:
            return Completed(int(response.status >= 400), response.body.decode("utf-8", "replace"))
