"""Gateways that are none: they pass on what they get, but for what a test has them lose. They run in a thread."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx2

from harness.apis import registry
from harness.apis.fact_files import SHIPPED
from harness.cassettes.loopback_server import serve
from harness.checks.gateway_check import GatewayCheck, gateway_route
from harness.checks.gateway_traffic import GatewayEndpoint, Upstream
from harness.model.http import Delivery, HttpRequest, HttpResponse
from harness.results import RunResult
from harness.runner.served_session import SessionOptions
from harness.scenarios.schema import Scenario, Variant

JsonDict = dict[str, Any]
Edit = Callable[[JsonDict], None]
"""Changes a body in its place."""

_HOP = frozenset({"host", "content-length", "accept-encoding", "connection", "transfer-encoding"})


class Passing:
    """Passes on each request as it came, and each answer. What a fault needs is overridden."""

    upstream = ""

    def __init__(self) -> None:
        self._client = httpx2.Client(verify=False, trust_env=False, timeout=30)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = self.asked(self.request(request))
        return self.response(answer)

    def request(self, request: HttpRequest) -> HttpRequest:
        """What goes to the upstream."""
        return request

    def response(self, response: HttpResponse) -> HttpResponse:
        """What goes back to the client."""
        return response

    def asked(self, request: HttpRequest) -> HttpResponse:
        """Ask the upstream."""
        url = f"{self.upstream}/{request.url.split('/', 3)[3]}"
        headers = {name: value for name, value in request.headers.items() if name not in _HOP}
        body, delivery = b"", Delivery()
        with self._client.stream(request.method, url, content=request.body, headers=headers) as answer:
            try:
                for piece in answer.iter_raw():
                    body += piece
            except httpx2.TransportError:
                delivery = Delivery(ending="cut")
        kept = {name: value for name, value in answer.headers.items() if name not in _HOP}
        return HttpResponse(answer.status_code, kept, body, delivery)

    def close(self) -> None:
        self._client.close()


class Losing(Passing):
    """Changes the JSON of requests and of answers."""

    def __init__(self, sent: Edit | None = None, answered: Edit | None = None) -> None:
        super().__init__()
        self._sent, self._answered = sent, answered

    def request(self, request: HttpRequest) -> HttpRequest:
        return (
            request
            if self._sent is None
            else HttpRequest(request.method, request.url, request.headers, _edited(request.body, self._sent))
        )

    def response(self, response: HttpResponse) -> HttpResponse:
        if self._answered is None or not response.headers.get("content-type", "").startswith("application/json"):
            return response
        return HttpResponse(response.status, response.headers, _edited(response.body, self._answered))


def _edited(body: bytes, edit: Edit) -> bytes:
    value: JsonDict = json.loads(body)
    edit(value)
    return json.dumps(value, ensure_ascii=False).encode()


def free_port() -> int:
    """A port that nobody listens on, below those that the system gives to clients, so that it stays free."""
    while True:
        port = random.randrange(12_000, 30_000)  # noqa: S311 - any will do
        with socket.socket() as listening, suppress(OSError):
            listening.bind(("127.0.0.1", port))
            return port


class Gate:
    """Where a gateway listens: one after the other, since a server takes longer to start than a cell to play."""

    def __init__(self) -> None:
        self.gateway = Passing()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.gateway(request)


@dataclass(frozen=True)
class Ends:
    """Both ends of a gate that listens: `url` is its origin."""

    gate: Gate
    upstream: Upstream
    url: str

    def check(
        self,
        gateway: Passing,
        client: str,
        scenarios: list[Scenario],
        *,
        upstream: str | None = None,
        variants: tuple[Variant, ...] = ("whole", "stream"),
        model: str = "",
    ) -> RunResult:
        """Play scenarios through a gateway, from the API of one target to that of another."""
        gateway.upstream, self.gate.gateway = self.upstream.origin, gateway
        here, there = registry.target_named(client), registry.target_named(upstream or client)
        each = gateway_route(here, there, {}, model or there.model, SHIPPED)
        check = GatewayCheck(GatewayEndpoint(self.url + each.way.client.base_url_ending, "no-key"), self.upstream)
        try:
            return check(check.cells([each], scenarios, variants))
        finally:
            gateway.close()


@contextmanager
def ends() -> Generator[Ends]:
    """A gate that listens, with the reference server behind it."""
    gate, upstream = Gate(), Upstream(SessionOptions(fact_selection=SHIPPED))
    with serve(upstream) as behind, serve(gate) as front:
        upstream.origin = behind.origin
        yield Ends(gate, upstream, front.origin)
