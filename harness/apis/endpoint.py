"""The limit that all APIs share: a request goes to where the API is."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from harness.apis.api import Api
from harness.apis.limit import Limit, Violation
from harness.contract.http import HttpRequest

PATH_UNKNOWN = Limit(
    "path-unknown",
    "Every request goes to an endpoint of the API.",
    "anthropic-endpoint, openai-chat-endpoint, openai-responses-endpoint, gemini-endpoint",
    remedy="send to the path of the API; check that the base URL has its version once",
)

_VERSIONS = ("/v1", "/v1beta")


def turned_away(
    wire: Api, request: HttpRequest, *, embedded: bool = False, origin: str | None = None
) -> Violation | None:
    """What the provider says to a request before it looks at the body: it is sent where there are no chats, or no
    embeddings, or a header is wrong. A request that was recorded elsewhere may have lost its headers since.

    With a body that would do in place of the request's own, the path alone says whether there is such an endpoint, and
    a body that is no chat is refused for what is wrong with it. With an `origin`, the URL below which the API is, the
    path has to be whole, as `elsewhere` says.
    """
    embeddings = wire.embeddings if embedded else None
    asked = request if embeddings else HttpRequest(request.method, request.url, request.headers, wire.least_body)
    if (embeddings or wire).recognises(asked):
        lost = None if origin is None else elsewhere(wire, request, origin)
        return lost or wire.misheaded(request)
    return _no_endpoint(wire, request)


def elsewhere(wire: Api, request: HttpRequest, origin: str) -> Violation | None:
    """The refusal of a request to a path below `origin` that is not the API's own, such as /v1/v1/messages.

    Readers of an API look at the end of a path alone, since other servers have other base URLs.
    """
    path = _path(request.url).removeprefix(urlsplit(origin).path)
    return None if wire.paths is None or wire.paths.fullmatch(path) else _no_endpoint(wire, request, path)


def missing_version(wire: Api, path: str) -> str | None:
    """The version that a path of the API lacks, `None` if it is wrong in another way."""
    if wire.paths is None:
        return None
    return next((version for version in _VERSIONS if wire.paths.fullmatch(version + path)), None)


def _no_endpoint(wire: Api, request: HttpRequest, path: str | None = None) -> Violation:
    path = _path(request.url) if path is None else path
    first = "/" + path[1:].partition("/")[0]
    missing, hint = missing_version(wire, path), ""
    if missing is not None:
        hint = f" (is {missing} missing at the end of the base URL?)"
    elif path.startswith(first * 2 + "/"):
        hint = f" ({first} is there twice: does the client add it to a base URL that ends in it?)"
    return PATH_UNKNOWN.broken(f"no such endpoint: {request.method} {request.url}{hint}", "", status=404)


def _path(url: str) -> str:
    return re.sub("(?<!:)//+", "/", urlsplit(url).path)
