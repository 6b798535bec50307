"""A loopback HTTP server: one for a process, a path of its own for each cell.

It plays and records for adapters that cannot take an injected client, in any language, and carries the reference
server. It listens on 127.0.0.1 only.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from threading import Event, Thread

import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from harness.errors import UsageError
from harness.http import HttpRequest, HttpResponse
from harness.tape.content_encoding import decode
from harness.tape.transport import Handler

_log = logging.getLogger(__name__)


class Server:
    """The server while it runs; `serve` starts one. Mounting is thread-safe."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self._handlers: dict[str, Handler] = {}
        self._numbers = count(1)

    def mount(self, handler: Handler) -> str:
        """Give a handler a path of its own; returns its base URL, without a slash at the end."""
        name = f"cell-{next(self._numbers)}"
        self._handlers[name] = handler
        return f"{self.origin}/{name}"

    def unmount(self, base_url: str) -> None:
        """Take the handler away: what still comes for it gets 404."""
        self._handlers.pop(base_url.rpartition("/")[2], None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI)."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            body = await request.body()
        except ClientDisconnect:
            return
        answer = await self._answer(request, body)
        response = Response(answer.body, answer.status, dict(answer.headers))
        await response(scope, receive, send)

    async def _answer(self, request: Request, body: bytes) -> HttpResponse:
        handler = self._handlers.get(request.url.path.split("/")[1])
        if handler is None:
            return _error(404, f"nothing is mounted at {request.url.path}")
        try:
            return await run_in_threadpool(handler, _plain(request, body, self.origin))
        except Exception as error:  # noqa: BLE001 - a server outlives whatever its handlers do
            _log.exception("the handler of %s failed", request.url.path)
            return _error(500, f"{type(error).__name__}: {error}")


def _plain(request: Request, body: bytes, origin: str) -> HttpRequest:
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    try:
        body = decode(body, headers.get("content-encoding", ""))
    except ValueError as error:
        _log.warning("%s: %s", request.url.path, error)
    # Not `request.url`: that believes the Host header, and spells the path anew.
    path, query = bytes(request.scope["raw_path"]).decode("latin-1"), request.url.query
    return HttpRequest(request.method, f"{origin}{path}{'?' if query else ''}{query}", headers, body)


def _error(status: int, message: str) -> HttpResponse:
    document = {"error": {"type": "harness", "message": f"harness: {message}"}}
    return HttpResponse(status, {"content-type": "application/json"}, json.dumps(document).encode())


class _Listener(uvicorn.Server):
    """Says when it takes connections."""

    def __init__(self, server: Server) -> None:
        config = uvicorn.Config(
            server,
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self.ready = Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@contextmanager
def serve() -> Generator[Server]:
    """Run a server on a free port of 127.0.0.1, in a thread of its own, until the context is left.

    Raises:
        UsageError: this machine does not let it be reached; no adapter is to be blamed for that.
    """
    # asyncio switches Nagle's algorithm off only for sockets that name their protocol; with it every answer takes 40 ms
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        server = Server(f"http://127.0.0.1:{listening.getsockname()[1]}")
        listener = _Listener(server)
        thread = Thread(target=listener.run, args=([listening],), name="harness-server", daemon=True)
        thread.start()
        listener.ready.wait(timeout=10)
        try:
            _check_reachable(listening.getsockname())
            yield server
        finally:
            listener.should_exit = True
            thread.join()


def _check_reachable(address: tuple[str, int]) -> None:
    try:
        socket.create_connection(address, timeout=10).close()
    except OSError as error:
        raise UsageError(
            f"the server of this run cannot be reached on {address[0]}: {error.strerror or error}. Where the network "
            "is shut off, loopback has to stay up, as with 'ip link set lo up'; a replay of the shipped adapters needs "
            "none."
        ) from None
