"""Immutable HTTP requests and responses with decoded bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

Ending: TypeAlias = Literal["complete", "cut", "reset"]
"""End of a response: complete, the connection closed too early, or the connection was reset (TCP RST)."""


def _no_headers() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """An HTTP request. Header names are lower case; the content encoding of `body` is removed."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=_no_headers)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The pieces and the timing in which the bytes of a response are delivered.

    `cuts` are ascending offsets into the body where a piece ends; without cuts the body is delivered at once. `pause`
    is the delay before each further piece, in seconds.
    """

    cuts: tuple[int, ...] = ()
    pause: float = 0.0
    ending: Ending = "complete"

    def pieces(self, body: bytes) -> list[bytes]:
        """Split a body into its pieces, without empty ones."""
        bounds = [0, *(cut for cut in self.cuts if 0 < cut < len(body)), len(body)]
        return [body[start:end] for start, end in pairwise(bounds) if start < end]


AT_ONCE = Delivery()


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An HTTP response. Header names are lower case; `body` is the received part, with its content encoding removed."""

    status: int
    headers: Mapping[str, str] = field(default_factory=_no_headers)
    body: bytes = b""
    delivery: Delivery = AT_ONCE


EXHAUSTED = "x-harness-exhausted"
"""Header of a response that the harness made itself because the script or the cassette has no response left."""


def endpoint(url: str) -> str:
    """Return the last two segments of a URL's path. They identify the endpoint under any base URL."""
    return "/".join(urlsplit(url).path.rsplit("/", 2)[-2:])
