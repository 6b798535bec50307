"""Requests and bodies of httpx and httpx2, which share one interface. Neither library is imported here: this module is
loaded when a program starts.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from harness.cassettes.content_encoding import decode
from harness.model.http import Ending, HttpRequest


class PieceStream:
    """Body that arrives in pieces, with pauses in between, and may end with an exception. It is a mixin for the stream
    classes of httpx and httpx2.
    """

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


def ending(failure: Exception | None, library: Any) -> Ending:
    """Classify how a body ended, by the exception raised while reading it (`None`: the body is complete)."""
    if failure is None:
        return "complete"
    return "cut" if isinstance(failure, library.RemoteProtocolError) else "reset"


def exception_for_ending(ending: Ending, library: Any) -> Any:
    """Return the exception of httpx or httpx2 that corresponds to an ending, or `None` for a complete body."""
    match ending:
        case "complete":
            return None
        case "cut":
            message = "peer closed connection without sending complete message body (incomplete chunked read)"
            return library.RemoteProtocolError(message)
        case "reset":
            return library.ReadError("[Errno 104] Connection reset by peer")


def plain_request(request: Any) -> HttpRequest:
    """Convert a request whose body has already been read."""
    headers = dict(request.headers.items())
    return HttpRequest(request.method, str(request.url), headers, decode_or_keep(request.content, headers))


def decode_or_keep(body: bytes, headers: dict[str, str], *, whole: bool = True) -> bytes:
    """Return a body without its content encoding, or unchanged if it is damaged."""
    try:
        return decode(body, headers.get("content-encoding", ""), whole=whole)
    except ValueError:
        return body  # the SDK reports the same damage
