"""The way to a server under test: requests as they are, and the bytes that come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Self

from harness.apis.api import Api
from harness.apis.failure import waiting_time
from harness.contract.http import AT_ONCE, Delivery, HttpRequest, HttpResponse

if TYPE_CHECKING:
    import httpx2

_TRIES = 3
"""How often a request is sent that the server was too busy for."""

BUSY = frozenset({429, 503, 529})

_LONGEST_WAIT = 60.0
"""Seconds; who asks to wait longer is not waited for."""

Send = Callable[[HttpRequest], HttpResponse]


class Enough(Exception):
    """No more requests may be sent: `--max-requests` is reached."""


class Unanswered(Exception):
    """No answer came at all; the text says why."""


@dataclass
class Line:
    """Sends requests with the key and the `headers`, as often as a server that is busy wants, and never more than
    `most` of them.

    `send` replaces HTTP, for a server inside this process. `sent` counts the requests.
    """

    api: Api
    key: str
    most: int | None = None
    _: KW_ONLY
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    send: Send | None = None
    wait: Callable[[float], None] = time.sleep
    sent: int = field(default=0, init=False)
    _client: httpx2.Client | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._client is not None:
            self._client.close()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """The answer to a request, once the server is not too busy.

        Raises:
            Enough: it may not be sent.
            Unanswered: none came.
        """
        authorized = self.api.smallest.authorized(request, self.key) if self.api.smallest else request
        own = {name: value for name, value in authorized.headers.items() if name.lower() not in self.headers}
        authorized = replace(authorized, headers={**own, **self.headers})
        send = self.send or self._over_http
        for tries in range(1, _TRIES + 1):
            if self.sent == self.most:
                raise Enough
            self.sent += 1
            response = send(authorized)
            asked = waiting_time(response.headers)
            pause = float(2**tries) if asked is None else asked
            if response.status not in BUSY or tries == _TRIES or pause > _LONGEST_WAIT:
                return response
            self.wait(pause)
        raise AssertionError("the last try returns")

    def _over_http(self, request: HttpRequest) -> HttpResponse:
        import httpx2  # noqa: PLC0415 - the checks are listed without a way to any server

        from harness.running.stages.routes import SECONDS  # noqa: PLC0415 - the same
        from harness.tape.transport import ALONE  # noqa: PLC0415 - the same

        if self._client is None:
            transport = httpx2.HTTPTransport(trust_env=False, limits=ALONE)
            self._client = httpx2.Client(transport=transport, trust_env=False, timeout=SECONDS)
        pieces: list[bytes] = []
        delivery = AT_ONCE
        try:
            with self._client.stream(
                request.method, request.url, headers=dict(request.headers), content=request.body
            ) as got:
                try:
                    pieces.extend(got.iter_bytes())
                except httpx2.TransportError:  # what came by then is judged
                    delivery = Delivery(ending="cut")
        except httpx2.TransportError as error:
            raise Unanswered(str(error) or type(error).__name__) from None
        return HttpResponse(got.status_code, dict(got.headers.items()), b"".join(pieces), delivery)
