"""A handler that forwards: how adapters that take no HTTP client are recorded, through the loopback server."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

import httpx2

from harness.contract.http import Delivery, HttpRequest, HttpResponse
from harness.tape.tap import Tap
from harness.tape.transport import BROKEN_OFF, TapTransport, ending

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that hold for one connection, or that change with the body's encoding (RFC 9110, section 7.6.1)."""

_SECONDS = 600.0
"""As long as the SDKs wait for an answer."""


class Proxy:
    """Forwards requests under `base_url` to `upstream` and notes them in `tap`; a context manager and a handler.

    Neither redirects nor the environment's proxies are followed: a prompt goes where it was sent, or nowhere.
    """

    def __init__(self, base_url: str, upstream: str, tap: Tap, transport: httpx2.BaseTransport | None = None) -> None:
        self._base = base_url.rstrip("/")
        self._upstream = upstream.rstrip("/")
        inner = transport or httpx2.HTTPTransport(trust_env=False)
        self._client = httpx2.Client(
            transport=TapTransport(inner, tap), trust_env=False, follow_redirects=False, timeout=_SECONDS
        )

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Forward a request. An upstream that does not answer is a 502, and one that breaks off is passed on."""
        url = self._upstream + request.url.removeprefix(self._base)
        headers = _end_to_end(request.headers) | {"accept-encoding": "identity"}
        body, failure = bytearray(), None
        try:
            with self._client.stream(request.method, url, headers=headers, content=request.body) as response:
                try:
                    for part in response.iter_bytes():
                        body += part
                except BROKEN_OFF as error:
                    failure = error
        except httpx2.TransportError as error:
            message = f"harness: the upstream did not answer: {type(error).__name__}"
            return HttpResponse(502, {"content-type": "text/plain"}, message.encode())
        delivery = Delivery(ending=ending(failure))
        return HttpResponse(response.status_code, _end_to_end(response.headers), bytes(body), delivery)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
