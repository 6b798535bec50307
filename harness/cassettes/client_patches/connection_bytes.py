"""Shared types of the client patches, and conversion of responses to and from the bytes of a connection."""

from __future__ import annotations

import http.client
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias, cast

from harness.cassettes.content_encoding import decode
from harness.model.http import Delivery, Ending, HttpRequest, HttpResponse

StoreResponse: TypeAlias = Callable[[HttpResponse], None]
"""Callback that receives the response to a request that was sent."""

RequestHook: TypeAlias = Callable[[HttpRequest], "HttpResponse | StoreResponse | None"]
"""Callback that decides about a request. It may be called from several threads at once.

It returns a response to use instead of sending the request. A `StoreResponse` callback means that the request is sent
and recorded. `None` means that it is sent without recording.
"""


@dataclass(frozen=True, slots=True)
class Patch:
    """A method to replace, and its replacement."""

    owner: Any
    name: str
    replacement: Callable[..., Any]


PLAIN = "identity"
"""`accept-encoding` value during recording. In compressed data, chunk boundaries have no meaning."""


def received_response(status: int, headers: Mapping[str, str], pieces: Sequence[bytes], ending: Ending) -> HttpResponse:
    """Build a response from a body that arrived in `pieces`.

    If the server compressed the body anyway, it is decompressed and becomes one piece. If decompression fails, the body
    and its header are left unchanged.
    """
    plain = {name.lower(): value for name, value in headers.items()}
    body = b"".join(pieces)
    try:
        unpacked = decode(body, plain.get("content-encoding", ""), whole=ending == "complete")
    except ValueError:
        return HttpResponse(status, plain, body, Delivery(ending=ending))
    cuts = tuple(accumulate(len(piece) for piece in pieces if piece))[:-1] if unpacked == body else ()
    without = {name: value for name, value in plain.items() if name != "content-encoding"}
    return HttpResponse(status, without, unpacked, Delivery(cuts, ending=ending))


_FRAMING = frozenset({"connection", "content-encoding", "content-length", "transfer-encoding"})

_WITHOUT_BODY = frozenset({204, 304})

RESET = ConnectionResetError(104, "Connection reset by peer")


def http_client_response(answer: HttpResponse, method: str) -> http.client.HTTPResponse:
    """Return the response as an `http.client` response, parsed from the bytes of a fake connection."""
    read = http.client.HTTPResponse(cast("Any", _FakeSocket(answer, method)), method=method)
    read.begin()
    return read


def response_bytes(response: HttpResponse, method: str) -> Iterator[bytes]:
    """Yield the bytes of a response as sent over a connection. Each piece of the body becomes a chunk. If the delivery
    does not end as `complete`, the end marker is omitted.
    """
    headers = {name: value for name, value in response.headers.items() if name.lower() not in _FRAMING}
    if method == "HEAD" or response.status in _WITHOUT_BODY:
        yield _head(response.status, {**headers, "connection": "close"})
        return
    yield _head(response.status, {**headers, "connection": "close", "transfer-encoding": "chunked"})
    for piece in response.delivery.pieces(response.body):
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    if response.delivery.ending == "complete":
        yield b"0\r\n\r\n"


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    reason = http.client.responses.get(status, "")
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


class _FakeSocket:
    """Minimal socket for `http.client`."""

    def __init__(self, answer: HttpResponse, method: str) -> None:
        self._answer = answer
        self._method = method

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Bytes(self._answer, self._method))


class _Bytes(io.RawIOBase):
    def __init__(self, answer: HttpResponse, method: str) -> None:
        self._pieces = response_bytes(answer, method)
        self._reset = answer.delivery.ending == "reset"
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raise `ConnectionResetError` at the end of a response whose connection was reset."""
        self._left = self._left or next(self._pieces, b"")
        if not self._left and self._reset:
            raise RESET
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)
