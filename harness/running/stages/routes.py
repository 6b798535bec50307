"""How an adapter reaches the far end, by its `Route`, and what runs share that must not leave this machine."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Protocol, Self

import httpx2

from harness import catalog
from harness.apis.targets import Target
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.process import ORIGIN
from harness.contract.protocols import Endpoint, ProcessRunner, Route
from harness.host.environment import isolated
from harness.results import Provenance
from harness.tape.cassette import REFERENCE_URL
from harness.tape.player import Keep, Tap
from harness.tape.redact import Redactor
from harness.tape.transport import Handler, HandlerRunner, HandlerTransport

if TYPE_CHECKING:
    from harness.tape.server import Server


NO_KEY = "not-a-key"
"""What an SDK has to be given where nothing checks it."""

SECONDS = 600.0
"""As long as the SDKs wait for an answer."""


class FarEnd(Protocol):
    """Who answers the requests of one cell, and notes them in a tap: the same, by each of the routes.

    `key` is what it is to be sent as a key. With a `client`, adapters that take one are handed this one, and reach the
    loopback server with it.
    """

    key: str
    client: httpx2.Client | None

    def handler(self, tap: Tap) -> Handler:
        """Answers what arrives at the loopback server."""
        ...

    def transport(self, tap: Tap) -> httpx2.BaseTransport:
        """Answers what an injected client sends."""
        ...

    def runner(self, tap: Tap) -> ProcessRunner:
        """Answers commands."""
        ...


class Answering(FarEnd):
    """A far end in this process: what it answers does not depend on the route."""

    key = NO_KEY
    client: httpx2.Client | None = None

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def handler(self, tap: Tap) -> Handler:  # noqa: ARG002 - what is told again is noted nowhere
        """See `FarEnd.handler`."""
        return self._handler

    def transport(self, tap: Tap) -> httpx2.BaseTransport:
        """See `FarEnd.transport`."""
        return HandlerTransport(self.handler(tap))

    def runner(self, tap: Tap) -> ProcessRunner:
        """See `FarEnd.runner`."""
        return HandlerRunner(self.handler(tap))


class _Later:
    """A handler whose work is known only once it has an address."""

    handler: Handler

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.handler(request)


class Routes:
    """The ways of a run to its far ends; the loopback server is started when a cell first needs it."""

    def __init__(self) -> None:
        self.open = ExitStack()
        self._server: Server | None = None
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._server = None
        self.open.close()

    @contextmanager
    def endpoint(self, target: Target, handler: Handler) -> Generator[Endpoint, None, None]:
        """See `Stages.endpoint`."""
        url = REFERENCE_URL + catalog.api(target.api).base_path
        with self.reached(target, Answering(handler), url) as (endpoint, _):
            yield endpoint

    @contextmanager
    def reached(
        self, target: Target, end: FarEnd, url: str, keep: Keep | None = None
    ) -> Generator[tuple[Endpoint, Tap], None, None]:
        """Where a target's adapter finds `end`, and what goes there. `url` is the base URL that is noted of its
        requests, wherever they really go."""
        route = target.adapter.route
        if route is Route.PROCESS:
            tap = Tap(ORIGIN, ORIGIN, keep)
            yield Endpoint(ORIGIN, NO_KEY, processes=end.runner(tap)), tap
        elif route is Route.CLIENT and end.client is None:
            tap = Tap(url, url, keep)
            with httpx2.Client(transport=end.transport(tap), trust_env=False, timeout=SECONDS) as own:
                yield Endpoint(url, end.key, own), tap
        else:
            later = _Later()
            with self._mounted(later, catalog.api(target.api).base_path) as base:
                tap = Tap(base, url, keep)
                later.handler = end.handler(tap)
                yield Endpoint(base, end.key, end.client if route is Route.CLIENT else None), tap

    @contextmanager
    def _mounted(self, handler: Handler, path: str) -> Generator[str, None, None]:
        """A base URL of the loopback server at which `handler` answers."""
        server = self._loopback()
        base = server.mount(handler)
        try:
            yield base + path
        finally:
            server.unmount(base)

    def _loopback(self) -> Server:
        # A replay with injected clients needs no server, and is spared importing one.
        from harness.tape.server import serve  # noqa: PLC0415

        with self._lock:
            if self._server is None:
                self._server = self.open.enter_context(serve())
            return self._server


class Offline(Routes):
    """A run that must not leave this machine, whatever an adapter reads from its environment."""

    def provenance(self, target: Target) -> Provenance:
        """See `Stages.provenance`."""
        return Provenance("reference", model_requested=target.model)

    def redactor(self) -> Redactor:
        """See `Stages.redactor`: only a provider is sent a key, and without one there is nothing to hide."""
        return Redactor()

    def __enter__(self) -> Self:
        self.open.enter_context(isolated())
        return super().__enter__()
