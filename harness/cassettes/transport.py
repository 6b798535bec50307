"""HTTP transports and process runners. They get responses from a handler, log exchanges, or forward them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeAlias, cast

import httpx2

from harness.cassettes.httpx_messages import PieceStream, decode_or_keep, ending, exception_for_ending, plain_request
from harness.cassettes.player import Converter, ExchangeLog, Player
from harness.model.http import (
    Command,
    Completed,
    Delivery,
    HttpRequest,
    HttpResponse,
    from_response,
    to_request,
    to_response,
)
from harness.model.protocols import ProcessRunner

Handler: TypeAlias = Callable[[HttpRequest], HttpResponse]
"""Function that returns the response to a request. It may be called from several threads at once."""


def replaying(player: Player, log: ExchangeLog, convert: Converter | None = None) -> Handler:
    """Return a handler that replays a cassette, converts each response with `convert`, and logs each exchange."""

    def handle(request: HttpRequest) -> HttpResponse:
        public = log.public(request)
        response, recorded = player.answer(public)
        if convert is not None:
            response = convert(public, recorded, response)
        log.note(request, response, recorded)
        return response

    return handle


class HandlerTransport(httpx2.BaseTransport):
    """Transport that gets its responses from `handler`, without a network.

    The body arrives as the response's `delivery` specifies. If the delivery is broken off, the body ends with the
    corresponding httpx2 exception.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the handler's response to a request."""
        request.read()
        return _deliver(self._handler(plain_request(request)))


class LoggingTransport(httpx2.BaseTransport):
    """Transport that logs the exchanges of `inner` in `log`. It passes a response on unchanged, once it has arrived
    completely.

    If a response breaks off, the part received is logged, and it breaks off for the adapter as well. If a request times
    out, it is logged without a response. Requests for which an earlier recording has a response are not sent.
    """

    def __init__(self, inner: httpx2.BaseTransport, log: ExchangeLog) -> None:
        self._inner = inner
        self._log = log

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request through `inner`. Raises the exceptions of `inner`, and `CassetteError` if the exchange cannot
        be stored.
        """
        request.read()
        known = self._log.earlier_response(plain_request(request))
        if known is not None:
            return _deliver(known)
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
            self._log.note(plain_request(request), None)
            raise
        headers = dict(response.headers.items())
        body = decode_or_keep(bytes(raw), headers, whole=failure is None)
        kept = HttpResponse(response.status_code, headers, body, Delivery(ending=ending(failure, httpx2)))
        self._log.note(plain_request(request), kept)
        extensions = {key: value for key, value in response.extensions.items() if key != "network_stream"}
        stream = _Httpx2Stream([bytes(raw)] if raw else [], 0.0, failure)
        return httpx2.Response(response.status_code, headers=response.headers, stream=stream, extensions=extensions)

    def close(self) -> None:
        """Close `inner`."""
        self._inner.close()


class _Httpx2Stream(PieceStream, httpx2.SyncByteStream):
    pass


def _deliver(response: HttpResponse) -> httpx2.Response:
    delivery = response.delivery
    stream = _Httpx2Stream(
        delivery.pieces(response.body), delivery.pause, exception_for_ending(delivery.ending, httpx2)
    )
    return httpx2.Response(response.status, headers=dict(response.headers), stream=stream)


NO_KEEPALIVE = httpx2.Limits(max_keepalive_connections=0)
"""Limits without keep-alive for external servers. A kept connection may be closed just as the next request is sent,
which would look like the adapter's fault.
"""

BROKEN_OFF = (httpx2.RemoteProtocolError, httpx2.ReadError)
"""Exceptions of httpx2 for a connection that is closed early or reset while a body is read."""


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
"""Headers that apply to one connection only, or that change with the body's encoding (RFC 9110, section 7.6.1)."""

_TIMEOUT_SECONDS = 600.0
"""Timeout in seconds, the same as in the SDKs."""


class Proxy:
    """Handler and context manager that forwards requests under `base_url` to `upstream` and logs them in `log`.

    It follows no redirects and uses no proxies from the environment, so a prompt is never sent to another server.
    """

    def __init__(
        self, base_url: str, upstream: str, log: ExchangeLog, transport: httpx2.BaseTransport | None = None
    ) -> None:
        self._base = base_url.rstrip("/")
        self._upstream = upstream.rstrip("/")
        inner = transport or httpx2.HTTPTransport(trust_env=False)
        self._client = httpx2.Client(
            transport=LoggingTransport(inner, log), trust_env=False, follow_redirects=False, timeout=_TIMEOUT_SECONDS
        )

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Forward a request. Return a 502 if the upstream does not respond. If the response breaks off, return the part
        received, with that ending.
        """
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
        delivery = Delivery(ending=ending(failure, httpx2))
        return HttpResponse(response.status_code, _end_to_end(response.headers), bytes(body), delivery)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value.strip() for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


class LoggingRunner:
    """Process runner that logs the commands of `inner` in `log`. Commands for which an earlier recording has a result
    are not run.
    """

    def __init__(self, inner: ProcessRunner, log: ExchangeLog) -> None:
        self._inner = inner
        self._log = log

    def run(self, command: Command, timeout: float) -> Completed:
        """Run a command. Raises the exceptions of `inner`, and `CassetteError` if the exchange cannot be stored."""
        request = to_request(command)
        known = self._log.earlier_response(request)
        if known is not None:
            return from_response(known)
        try:
            completed = self._inner.run(command, timeout)
        except OSError:
            self._log.note(request, None)
            raise
        self._log.note(request, to_response(completed))
        return completed


class HandlerRunner:
    """Process runner that calls `handler` instead of starting a process.

    If a response is not the result of a command, its body becomes the command's output. The caller then fails to parse
    it. A reset connection becomes an `OSError`.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def run(self, command: Command, timeout: float) -> Completed:  # noqa: ARG002 - an answer takes no time
        """Return the result of a command from the handler; see `harness.model.protocols.ProcessRunner.run`."""
        response = self._handler(to_request(command))
        if response.delivery.ending == "reset":
            raise ConnectionResetError(f"{command.argv[0]} broke off")
        try:
            return from_response(response)
        except ValueError:
            return Completed(int(response.status >= 400), response.body.decode("utf-8", "replace"))
