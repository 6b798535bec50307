"""HTTP as everything here sees it: one request, one response, decoded bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit


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
class HttpResponse:
    """One response. Header names are lower case; `body` has its content encoding undone."""

    status: int
    headers: Mapping[str, str] = field(default_factory=_no_headers)
    body: bytes = b""


EXHAUSTED = "x-harness-exhausted"
"""Response header of an answer that the harness had to make up: the script or the cassette has nothing left."""


def endpoint(url: str) -> str:
    """What an API calls at a URL: the last two segments of its path, whatever base URL stands in front of them."""
    return "/".join(urlsplit(url).path.rsplit("/", 2)[-2:])
