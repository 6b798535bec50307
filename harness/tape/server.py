"""A loopback HTTP server: one for a process, a path of its own for each cell.

It plays and records for adapters that cannot take an injected client, in any language, and carries the reference
server. It listens on 127.0.0.1 only.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from operator import attrgetter
from threading import Event, Thread
from typing import cast

import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from harness.contract.errors import UsageError
from harness.contract.http import AT_ONCE, HttpRequest, HttpResponse
from harness.tape.content_encoding import MAX_BYTES, decode
from harness.tape.transport import Handler

_log = logging.getLogger(__name__)

_FRAMING = frozenset({"content-length", "transfer-encoding"})

_TRANSPORT = "harness.transport"

_NO_LINGER = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
"""Value of SO_LINGER that makes closing a connection reset it."""


_NEVER = 10**9
"""Seconds after which an idle connection is closed.

A client may send on one in the moment in which it is closed, and takes that for a disconnect: who has been slow, or was
stopped for a while, would be told to have failed. Clients close those that they no longer want, and with their process
all of them.
"""

_MAX_DISCARDED_BYTES = 4 * MAX_BYTES
"""Bytes of a body that is too long that are read before its client is told so."""

_MAX_IDLE = 100
"""Connections above which the one that has been idle for longest is closed all the same when another one comes: of
clients that are dropped and never closed a process would run out of files, on macOS at 256."""

_ACCEPTED_AT_ONCE = 16
"""Connections that asyncio accepts before it looks after them, which is when too many are closed."""

_BACKLOG = 2048
"""Connections that the system holds until they are accepted."""

_SPARE_FILES = 64
"""Files that connections leave to the rest of the process."""

_SOON = 0.002
"""Seconds until it is looked again whether all connections have ended."""


class Server:
    """The server while it runs; `serve` starts one. Mounting is thread-safe. `rest` answers what is for no handler."""

    def __init__(self, origin: str, rest: Handler | None = None) -> None:
        self.origin = origin
        self._rest = rest
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
            answer = await self._received(request, _target(scope))
        except ClientDisconnect:
            return
        if answer.delivery == AT_ONCE:
            response = Response(answer.body, answer.status, dict(answer.headers))
            await response(scope, receive, send)
        else:
            await _deliver(answer, scope, receive, send)

    async def _received(self, request: Request, target: str) -> HttpResponse:
        """Read a request, and answer it."""
        if not target.startswith("/") or target.startswith("//"):
            return _error(400, "the request target must be a path, as in /a/b")
        body = await _body(request)
        if body is None:
            return _error(413, f"the body of a request may have {MAX_BYTES // 2**20} MiB at most")
        handler = self._handlers.get(target.partition("?")[0].split("/")[1], self._rest)
        if handler is None:
            return _error(404, f"nothing is mounted at {target}")
        try:
            return await run_in_threadpool(handler, _plain(request, target, body, self.origin))
        except Exception as error:  # noqa: BLE001 - a server outlives whatever its handlers do
            _log.exception("the handler of %s failed", target)
            return _error(500, f"{type(error).__name__}: {error}")


def _target(scope: Scope) -> str:
    """Path and query of a request as they were sent. Starlette's URL believes the Host header, and spells them anew."""
    path, query = bytes(scope["raw_path"]).decode("latin-1"), bytes(scope["query_string"]).decode("latin-1")
    return f"{path}?{query}" if query else path


async def _body(request: Request) -> bytes | None:
    """The body of a request; `None` if it is too long. Some more is read then, since clients send before they read."""
    announced = request.headers.get("content-length", "")
    body, size = bytearray(), 0
    too_long = announced.isdecimal() and int(announced) > MAX_BYTES
    async for chunk in request.stream():
        size += len(chunk)
        too_long = too_long or size > MAX_BYTES
        if not too_long:
            body += chunk
        else:
            body.clear()
        if size > _MAX_DISCARDED_BYTES:
            break
    return None if too_long else bytes(body)


async def _deliver(answer: HttpResponse, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a response as its `delivery` says, in chunks: with a length announced, a body would end by itself."""
    headers = [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in answer.headers.items()
        if name not in _FRAMING
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    delivery = answer.delivery
    transport: asyncio.Transport = scope["state"][_TRANSPORT]
    gone = asyncio.ensure_future(_gone(receive))
    try:
        for number, piece in enumerate(delivery.pieces(answer.body)):
            if number and delivery.pause:
                await asyncio.wait([gone], timeout=delivery.pause)
            # The transport knows first: `gone` is told only once the loop gets a turn. Of whoever goes on writing
            # asyncio warns, on standard error if the application has not set up logging.
            if gone.done() or transport.is_closing():
                return
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    finally:
        gone.cancel()
    if delivery.ending == "complete":
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    elif delivery.ending == "reset":
        await _reset(transport)
    # uvicorn closes a connection whose response the application leaves without its end, which is a cut.


async def _gone(receive: Receive) -> None:
    """Returns once the client of a request that was read has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _reset(transport: asyncio.Transport) -> None:
    """Reset a connection (TCP RST), behind all that was sent on it."""
    connection = transport.get_extra_info("socket")
    # A reset throws away what still waits to be sent, here or in the system: all of it has to arrive first.
    while not transport.is_closing() and (  # noqa: ASYNC110 - no event tells of what the system has sent
        transport.get_write_buffer_size() or _unsent(connection)
    ):
        await asyncio.sleep(0.001)
    if not transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()


def _unsent(connection: socket.socket) -> int:
    """How many bytes the system has not got to the other side yet; 0 where it does not say."""
    try:
        import fcntl  # noqa: PLC0415 - not on every system
        import termios  # noqa: PLC0415

        answer = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
    except (ImportError, OSError):
        return 0
    return int.from_bytes(answer, sys.byteorder)


def _plain(request: Request, target: str, body: bytes, origin: str) -> HttpRequest:
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    try:
        body = decode(body, headers.get("content-encoding", ""))
    except ValueError as error:
        _log.warning("%s: %s", target, error)
    return HttpRequest(request.method, f"{origin}{target}", headers, body)


def _error(status: int, message: str) -> HttpResponse:
    document = {"error": {"type": "harness", "message": f"harness: {message}"}}
    return HttpResponse(status, {"content-type": "application/json"}, json.dumps(document).encode())


class _Connection(H11Protocol):
    """uvicorn's, but puts the transport into the state of its requests: ASGI has no message that resets a connection.

    `connection_made` is asyncio's, and `state` ASGI's; of uvicorn `app_state` is used, the place of the latter, and of
    each connection `cycle`, its request, and the timer that it has while it is idle.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - as uvicorn has it
        super().connection_made(transport)
        self.app_state = {**self.app_state, _TRANSPORT: transport}
        self.arrival = next(_arrivals)
        every = [each for each in self.connections if isinstance(each, _Connection) and each is not self]
        others = [each for each in every if not each.transport.is_closing()]
        if len(others) < min(_MAX_IDLE, _max_connections()):
            return
        idle = [each for each in others if each.timeout_keep_alive_task]
        is_full = len(others) >= _max_connections()
        waiting = [each for each in others if each.is_waiting] if is_full else []
        if idle or waiting:
            min(idle or waiting, key=attrgetter("arrival")).transport.close()
        elif is_full:
            transport.close()

    def data_received(self, data: bytes) -> None:
        self.arrival = next(_arrivals)
        super().data_received(data)

    @property
    def is_waiting(self) -> bool:
        """Whether the client has sent no request, or a part of one."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # as it is before the first request
        return cycle is None or cycle.more_body


_arrivals = count()
"""Numbers what arrives, to tell which connection has been silent for longest."""


@cache
def _max_connections() -> int:
    """Connections that this process has files for."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return 8192
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(limit - _SPARE_FILES, limit // 2)


class _Listener(uvicorn.Server):
    """Says when it takes connections, and ends when it is told to.

    uvicorn's own looks ten times a second whether it should, and then waits a tenth of a second for connections that
    have ended: longer than most cells take.
    """

    def __init__(self, server: Server) -> None:
        config = uvicorn.Config(
            server,
            http=_Connection,
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            date_header=False,
            timeout_keep_alive=_NEVER,
            timeout_graceful_shutdown=1,
            backlog=_ACCEPTED_AT_ONCE,
        )
        super().__init__(config)
        self.ready = Event()
        self._told = asyncio.Event()

    def end(self) -> None:
        """Have it end; from any thread."""
        self.should_exit = True  # which is looked at once, when it has started
        if self.ready.is_set():
            self._loop.call_soon_threadsafe(self._told.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_BACKLOG)
        self._loop = asyncio.get_running_loop()
        self.ready.set()

    async def main_loop(self) -> None:
        await self._told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in (*self.servers, *(sockets or [])):
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._is_done(), self.config.timeout_graceful_shutdown)
        for task in self.server_state.tasks:
            task.cancel()

    async def _is_done(self) -> None:
        while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110 - uvicorn tells nobody
            await asyncio.sleep(_SOON)


@contextmanager
def serve(rest: Handler | None = None, port: int = 0) -> Generator[Server]:
    """Run a server on 127.0.0.1, in a thread of its own, until the context is left. Port 0 is a free one.

    Raises:
        UsageError: the port is taken, or this machine does not let it be reached; no adapter is to be blamed for that.
    """
    # asyncio switches Nagle's algorithm off only for sockets that name their protocol; with it every answer takes 40 ms
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        _bind(listening, port)
        server = Server(f"http://127.0.0.1:{listening.getsockname()[1]}", rest)
        listener = _Listener(server)
        thread = Thread(target=listener.run, args=([listening],), name="harness-server", daemon=True)
        thread.start()
        listener.ready.wait(timeout=10)
        try:
            _check_reachable(listening.getsockname())
            yield server
        finally:
            listener.end()
            thread.join()


def _bind(listening: socket.socket, port: int) -> None:
    if port and os.name != "nt":  # one that was left a moment ago is free, though the system still waits for stragglers
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(f"port {port}: {error.strerror or error}. Without one a free port is taken.") from None


def _check_reachable(address: tuple[str, int]) -> None:
    try:
        with socket.create_connection(address, timeout=10) as trial:
            trial.shutdown(socket.SHUT_WR)
            trial.recv(1)  # closed there too: asyncio forgets a connection that it takes in the moment it is ended
    except OSError as error:
        raise UsageError(
            f"the server of this run cannot be reached on {address[0]}: {error.strerror or error}. Where the network "
            "is shut off, loopback has to stay up, as with 'ip link set lo up'; a replay of the shipped adapters needs "
            "none."
        ) from None
