"""A response as it comes over a connection, for clients that are given what they would read there (RFC 9112)."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping

from harness.contract.http import HttpResponse

_FRAMING = frozenset({"connection", "content-encoding", "content-length", "transfer-encoding"})

_WITHOUT_BODY = frozenset({204, 304})

RESET = ConnectionResetError(104, "Connection reset by peer")


def spoken(response: HttpResponse, method: str) -> Iterator[bytes]:
    """The bytes of a response, a piece of its body each in a chunk of its own. A body that does not end as it should
    has no end."""
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
