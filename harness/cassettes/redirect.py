"""Redirection of the HTTP clients in a process from one base URL to another, for clients that take no base URL."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx2

from harness.cassettes.client_patches import intercepted
from harness.cassettes.transport import BROKEN_OFF, ending
from harness.model.http import Delivery, HttpRequest, HttpResponse

_LOCAL = ("127.0.0.1", "localhost", "::1")
_HOP_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "accept-encoding", "connection"})


@contextmanager
def redirected(own: str, base_url: str) -> Generator[None]:
    """Send requests below `own` to `base_url` instead. Reject requests to any other server that is not local."""
    with httpx2.Client(trust_env=False, timeout=None) as client:

        def respond(request: HttpRequest) -> HttpResponse | None:
            if request.url.startswith(own):
                return _forwarded(client, request, base_url + request.url.removeprefix(own))
            return None if is_local(request.url) else _refused(request.url, own)

        with intercepted(respond):
            yield


def is_local(url: str) -> bool:
    """Return whether a URL leads to this machine."""
    return urlsplit(url).hostname in _LOCAL


def _forwarded(client: httpx2.Client, request: HttpRequest, url: str) -> HttpResponse:
    headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_HEADERS}
    pieces: list[bytes] = []
    failure: Exception | None = None
    with client.stream(request.method, url, headers=headers, content=request.body) as response:
        try:
            for piece in response.iter_raw():
                pieces.append(piece)  # noqa: PERF402 - keeps the pieces before a failure
        except BROKEN_OFF as error:
            failure = error
    return HttpResponse(
        response.status_code, dict(response.headers.items()), b"".join(pieces), Delivery(ending=ending(failure))
    )


def _refused(url: str, own: str) -> HttpResponse:
    reason = f"harness redirects only requests to {own}, and refuses this one to {url}"
    body = json.dumps({"error": {"type": "harness", "message": reason}}).encode()
    return HttpResponse(400, {"content-type": "application/json"}, body)
