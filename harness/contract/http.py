"""HTTP as everything here sees it: one request, one response, decoded bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

Ending: TypeAlias = Literal["complete", "cut", "reset"]
"""How a response ends: as HTTP wants it, the connection closed too early, or the connection reset (TCP RST)."""


def _no_headers() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request. Header names are lower case; `body` has its content encoding undone."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=_no_headers)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the bytes of a response arrive.

    `cuts` are offsets into the body, ascending, at which a piece ends; without any all arrives at once. `pause` is the
    time before each further piece, in seconds.
    """

    cuts: tuple[int, ...] = ()
    pause: float = 0.0
    ending: Ending = "complete"

    def pieces(self, body: bytes) -> list[bytes]:
        """The body in its pieces, none of them empty."""
        bounds = [0, *(cut for cut in self.cuts if 0 < cut < len(body)), len(body)]
        return [body[start:end] for start, end in pairwise(bounds) if start < end]


AT_ONCE = Delivery()


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One response. Header names are lower case; `body` has its content encoding undone, and is what arrived."""

    status: int
    headers: Mapping[str, str] = field(default_factory=_no_headers)
    body: bytes = b""
    delivery: Delivery = AT_ONCE


EXHAUSTED = "x-harness-exhausted"
"""Response header of an answer that the harness had to make up: the script or the cassette has nothing left."""


def endpoint(url: str) -> str:
    """What an API calls at a URL: the last two segments of its path, whatever base URL stands in front of them."""
    return "/".join(urlsplit(url).path.rsplit("/", 2)[-2:])
