"""The limit that all APIs share: a request goes to where the API is."""

from __future__ import annotations

from harness.apis.api import Api
from harness.apis.limit import Limit, Violation
from harness.contract.http import HttpRequest

PATH_UNKNOWN = Limit(
    "path-unknown",
    "Every request goes to an endpoint of the API.",
    "anthropic-endpoint, openai-chat-endpoint, openai-responses-endpoint, gemini-endpoint",
)


def turned_away(wire: Api, request: HttpRequest, *, embedded: bool = False) -> Violation | None:
    """What the provider says to a request before it looks at the body: it is sent where there are no chats, or no
    embeddings, or a header is wrong. A request that was recorded elsewhere may have lost its headers since.

    With a body that would do in place of the request's own, the path alone says whether there is such an endpoint, and
    a body that is no chat is refused for what is wrong with it.
    """
    embeddings = wire.embeddings if embedded else None
    asked = request if embeddings else HttpRequest(request.method, request.url, request.headers, wire.least_body)
    if (embeddings or wire).recognises(asked):
        return wire.misheaded(request)
    return PATH_UNKNOWN.broken(f"no such endpoint: {request.method} {request.url}", "", status=404)
