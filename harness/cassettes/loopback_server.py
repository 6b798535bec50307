"""HTTP server on the loopback interface, shared by all cells of a process. Each cell has its own path.

It replays and records for adapters that cannot use an injected client, in any language, and it runs the reference
server. It listens on 127.0.0.1 only and uses one thread per connection.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from operator import attrgetter
from select import select
from threading import Lock, Thread

import h11

from harness.cassettes.content_encoding import MAX_BYTES, decode
from harness.cassettes.transport import Handler
from harness.model.errors import UsageError
from harness.model.http import AT_ONCE, HttpRequest, HttpResponse

_log = logging.getLogger(__name__)

_FRAMING = frozenset({"content-length", "transfer-encoding"})

_NO_LINGER = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
"""Value of SO_LINGER that makes closing a connection reset it."""

_MAX_HEAD_BYTES = 1 << 16
_MAX_DISCARDED_BYTES = 4 * MAX_BYTES
"""Maximum number of bytes to read from a request body that is too long. They are read before the response is sent
because clients send their body before they read.
"""

_MAX_IDLE = 100
"""Number of connections above which each new one closes the connection that has been idle longest. Up to this number,
idle connections stay open: their client may be sending a request and would report a disconnect.
"""

_MAX_THREADS = 1000
_BACKLOG = 2048
_SPARE_FILES = 64
"""Number of file descriptors that connections leave free for the rest of the process."""

_GRACE_SECONDS = 1.0
"""Time for sending the last responses when the server ends."""

_numbers = count()
"""Sequence numbers of arrivals, to find the connection that has been idle for longest."""


class LoopbackServer:
    """Running server; `serve` starts one. Mounting is thread-safe. `rest` handles requests to paths without a mounted
    handler.
    """

    def __init__(self, origin: str, rest: Handler | None = None) -> None:
        self.origin = origin
        self._rest = rest
        self._handlers: dict[str, Handler] = {}
        self._mounts = count(1)

    def mount(self, handler: Handler) -> str:
        """Mount a handler at its own path. Return the base URL, without a trailing slash."""
        name = f"cell-{next(self._mounts)}"
        self._handlers[name] = handler
        return f"{self.origin}/{name}"

    def unmount(self, base_url: str) -> None:
        """Unmount a handler. Later requests to its path go to `rest`, or get a 404 if there is none."""
        self._handlers.pop(base_url.rpartition("/")[2], None)

    def answer(self, request: h11.Request, body: bytes | None) -> HttpResponse:
        """Answer a request. `body` is `None` if it is too long."""
        target = request.target.decode("latin-1")
        if not target.startswith("/") or target.startswith("//"):
            return _error(400, "the request target must be a path, as in /a/b")
        if body is None:
            return _error(413, f"the body of a request may have {MAX_BYTES // 2**20} MiB at most")
        handler = self._handlers.get(target.partition("?")[0].split("/")[1], self._rest)
        if handler is None:
            return _error(404, f"nothing is mounted at {target}")
        try:
            return handler(_plain(request, target, body, self.origin))
        except Exception as error:  # noqa: BLE001 - a server outlives whatever its handlers do
            _log.exception("the handler of %s failed", target)
            return _error(500, f"{type(error).__name__}: {error}")


class _Connection:
    """A client connection. Its requests are handled one at a time.

    `is_idle` is set between two requests, `is_waiting` until a request has been read completely.
    """

    def __init__(self, connection: socket.socket, server: LoopbackServer) -> None:
        self.arrival = next(_numbers)
        self.is_idle = False
        self.is_waiting = True
        self.is_closing = False
        self._socket = connection
        self._server = server
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)

    def run(self) -> None:
        """Handle requests until the client disconnects or a response ends the connection."""
        with self._socket, suppress(OSError, h11.ProtocolError):  # the client disconnected, or does not use HTTP
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while self._answer() and self._wire.our_state is self._wire.their_state is h11.DONE:
                self._wire.start_next_cycle()
                self.is_idle = True

    def close(self) -> None:
        """Close the connection, from any thread."""
        self.is_closing = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _answer(self) -> bool:
        """Read a request and send the response. Return whether the response was sent completely."""
        self.is_waiting = True
        try:
            request = self._event()
            if not isinstance(request, h11.Request):
                return False
            body = self._body(request)
        except h11.RemoteProtocolError as error:
            self._send(_error(error.error_status_hint, f"the request is no HTTP: {error}"), b"")
            return False
        self.is_waiting = False
        return self._send(self._server.answer(request, body), request.method)

    def _event(self) -> object:
        while (event := self._wire.next_event()) is h11.NEED_DATA:
            if self._wire.they_are_waiting_for_100_continue:
                self._socket.sendall(self._wire.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            data = self._socket.recv(1 << 16)
            self.arrival, self.is_idle = next(_numbers), False
            self._wire.receive_data(data)
        return event

    def _body(self, request: h11.Request) -> bytes | None:
        """Return the body of a request, or `None` if it is too long. Up to `_MAX_DISCARDED_BYTES` of such a body are
        read and discarded.
        """
        announced = dict(request.headers).get(b"content-length", b"0")
        body, size = bytearray(), 0
        too_long = int(announced) > MAX_BYTES
        while size <= _MAX_DISCARDED_BYTES and isinstance(event := self._event(), h11.Data):
            size += len(event.data)
            too_long = too_long or size > MAX_BYTES
            body = bytearray() if too_long else body + event.data
        return None if too_long else bytes(body)

    def _send(self, answer: HttpResponse, method: bytes) -> bool:
        """Send a response as its `delivery` specifies, and return whether it was sent completely. Responses in pieces
        are sent as chunks, without a content length.
        """
        kept = [(name, value) for name, value in answer.headers.items() if name not in _FRAMING]
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept]
        delivery, has_body = answer.delivery, method != b"HEAD" and answer.status not in (204, 304)
        is_whole = delivery == AT_ONCE
        if is_whole and answer.status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(answer.body)))
        head = self._wire.send(h11.Response(status_code=answer.status, headers=headers)) or b""
        if is_whole:
            body = self._wire.send(h11.Data(answer.body)) or b"" if has_body else b""
            self._socket.sendall(head + body + (self._wire.send(h11.EndOfMessage()) or b""))
            return True
        self._socket.sendall(head)
        for number, piece in enumerate(delivery.pieces(answer.body)):
            if number and delivery.pause and self._is_gone_within(delivery.pause):
                return False
            self._socket.sendall(self._wire.send(h11.Data(piece)) or b"")
        if delivery.ending == "complete":
            self._socket.sendall(self._wire.send(h11.EndOfMessage()) or b"")
        elif delivery.ending == "reset":
            # A reset discards unsent data. A client that has gone acknowledges no more of it.
            while not (self.is_closing or self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
                if not _unsent_bytes(self._socket):
                    break
                time.sleep(0.001)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        return delivery.ending == "complete"

    def _is_gone_within(self, seconds: float) -> bool:
        """Wait for `seconds`. Return early, with `True`, if the client disconnects."""
        begin = time.monotonic()
        if not select([self._socket], [], [], seconds)[0]:
            return False
        if not self._socket.recv(1, socket.MSG_PEEK):
            return True
        time.sleep(max(0.0, begin + seconds - time.monotonic()))  # the client has already sent its next request
        return False


def _unsent_bytes(connection: socket.socket) -> int:
    """Return the number of bytes not yet acknowledged by the peer; 0 if the system does not report it."""
    try:
        import fcntl  # noqa: PLC0415 - not on every system
        import termios  # noqa: PLC0415

        answer = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
    except (ImportError, OSError):
        return 0
    return int.from_bytes(answer, sys.byteorder)


def _plain(request: h11.Request, target: str, body: bytes, origin: str) -> HttpRequest:
    headers: dict[str, str] = {}
    for raw_name, raw_value in request.headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    try:
        body = decode(body, headers.get("content-encoding", ""))
    except ValueError as error:
        _log.warning("%s: %s", target, error)
    return HttpRequest(request.method.decode(), f"{origin}{target}", headers, body)


def _error(status: int, message: str) -> HttpResponse:
    document = {"error": {"type": "harness", "message": f"harness: {message}"}}
    return HttpResponse(status, {"content-type": "application/json"}, json.dumps(document).encode())


@cache
def _max_connections() -> int:
    """Return the number of connections for which this process has files and threads."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return _MAX_THREADS
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return min(max(limit - _SPARE_FILES, limit // 2), _MAX_THREADS)


class _Listener:
    def __init__(self, listening: socket.socket, server: LoopbackServer) -> None:
        self._listening = listening
        self._server = server
        self._is_ending = False
        self._threads: dict[_Connection, Thread] = {}
        self._lock = Lock()
        self._thread = Thread(target=self._accept, name="harness-server", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End the server. Responses that are being sent have `_GRACE_SECONDS` to finish."""
        self._is_ending = True
        try:  # a connection wakes the thread that accepts
            socket.create_connection(self._listening.getsockname(), timeout=_GRACE_SECONDS).close()
        except OSError:  # the server cannot be reached
            with suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        with self._lock:
            left = dict(self._threads)
        for each in left:
            if each.is_waiting:
                each.close()
        until = time.monotonic() + _GRACE_SECONDS
        for each, thread in left.items():
            thread.join(max(0.0, until - time.monotonic()))
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listening.accept()
            except OSError:  # the client has gone, or there are no files left for a moment
                if self._is_ending:
                    return
                time.sleep(0.01)
                continue
            if self._is_ending:
                accepted.close()
                return
            connection = _Connection(accepted, self._server)
            if self._has_room():
                thread = Thread(target=self._run, args=(connection,), name="harness-connection", daemon=True)
                with self._lock:
                    self._threads[connection] = thread
                thread.start()
            else:
                accepted.close()

    def _has_room(self) -> bool:
        """Return whether another connection can be accepted. If there are many connections, close an idle one. If the
        server is full, close one that is waiting for its client.
        """
        with self._lock:
            others = [each for each in self._threads if not each.is_closing]
        if len(others) < min(_MAX_IDLE, _max_connections()):
            return True
        is_full = len(others) >= _max_connections()
        idle = [each for each in others if each.is_idle]
        waiting = [each for each in others if each.is_waiting] if is_full else []
        if idle or waiting:
            min(idle or waiting, key=attrgetter("arrival")).close()
        return bool(idle or waiting) or not is_full

    def _run(self, connection: _Connection) -> None:
        connection.run()
        with self._lock:
            del self._threads[connection]


@contextmanager
def serve(rest: Handler | None = None, port: int = 0) -> Generator[LoopbackServer]:
    """Run a server on 127.0.0.1, in its own threads, until the context exits. Port 0 selects a free port.

    Raises:
        UsageError: the port is in use, or cannot be reached on this machine.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        _bind(listening, port)
        listening.listen(_BACKLOG)
        server = LoopbackServer(f"http://127.0.0.1:{listening.getsockname()[1]}", rest)
        listener = _Listener(listening, server)
        try:
            _check_reachable(listening.getsockname())
            yield server
        finally:
            listener.end()


def _bind(listening: socket.socket, port: int) -> None:
    if port and os.name != "nt":  # reuse a port that is in TIME_WAIT
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(f"port {port}: {error.strerror or error}. Without --port, a free port is used.") from None


def _check_reachable(address: tuple[str, int]) -> None:
    try:
        with socket.create_connection(address, timeout=10) as trial:
            trial.shutdown(socket.SHUT_WR)
            trial.recv(1)
    except OSError as error:
        raise UsageError(
            f"the server of this run cannot be reached on {address[0]}: {error.strerror or error}. Where the network "
            "is shut off, loopback has to stay up, as with 'ip link set lo up'; a replay of the shipped adapters needs "
            "none."
        ) from None
