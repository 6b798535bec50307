"""Redirection of requests to another server, for clients without a configurable base URL."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager

from harness.cassettes.client_patches import intercept_requests, is_local
from harness.cassettes.player import ExchangeLog
from harness.cassettes.transport import Proxy
from harness.model.http import HttpRequest, HttpResponse


@contextmanager
def redirect_requests(own: str, base_url: str) -> Generator[None]:
    """Send requests below `own` to `base_url` instead. Reject requests to any other server that is not local."""
    with Proxy(own, base_url, ExchangeLog(own, own)) as forward:

        def respond(request: HttpRequest) -> HttpResponse | None:
            if request.url.startswith(own):
                return forward(request)
            return None if is_local(request.url) else _refusal(request.url, own)

        with intercept_requests(respond):
            yield


def _refusal(url: str, own: str) -> HttpResponse:
    reason = f"harness redirects only requests to {own}, and refuses this one to {url}"
    body = json.dumps({"error": {"type": "harness", "message": reason}}).encode()
    return HttpResponse(400, {"content-type": "application/json"}, body)
