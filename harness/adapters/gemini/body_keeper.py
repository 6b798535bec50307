"""The way past the SDK for the body of a streamed answer."""

from __future__ import annotations

from http import HTTPStatus
from threading import local
from typing import Any

import httpx2


class BodyKeeper(httpx2.Client):
    """The HTTP client that the SDK gets for streamed requests: sends through `http` and keeps the answer.

    The SDK, which has no raw access to streams, loses unknown fields and takes a cut stream for whole
    (gemini-sdk-drops-fields). So it sees an accepted answer without its body, and a refusal as it is, which is its to
    raise. `response` is the accepted answer to the last request of this thread, not read yet; it is set once the SDK
    has sent the request, and the caller's to close.
    """

    def __init__(self, http: httpx2.Client) -> None:
        # Not super().__init__(): `http` builds and sends everything, and a connection pool of its own takes time.
        self._http = http
        self._kept = local()

    @property
    def response(self) -> httpx2.Response:
        """The accepted answer to the last request that this thread has sent."""
        return self._kept.response

    def build_request(self, *args: Any, **options: Any) -> httpx2.Request:
        """As `http` builds it."""
        return self._http.build_request(*args, **options)

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send through `http`."""
        response = self._http.send(request, **options)
        if response.status_code != HTTPStatus.OK:
            return response
        self._kept.response = response
        return httpx2.Response(HTTPStatus.OK, request=request)
