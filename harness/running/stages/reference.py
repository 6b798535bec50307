"""Against the reference server."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Self

import httpx2

from harness import catalog
from harness.contract.http import HttpRequest, HttpResponse
from harness.reference.session import Session
from harness.results import Mode
from harness.running.stages.routes import Answering, Offline
from harness.running.stages.stage import Cell, Stage
from harness.tape.cassette import REFERENCE_URL
from harness.tape.player import Keep, Tap
from harness.tape.transport import Handler


class Reference(Offline):
    """Against the reference server, over HTTP on loopback; commands it answers in this process."""

    mode: Mode = "reference"

    def __enter__(self) -> Self:
        # One plain client for all cells: an SDK's own costs more to build than a conversation takes.
        transport = _Untimed(verify=False, trust_env=False)
        self._client = self.open.enter_context(httpx2.Client(transport=transport, trust_env=False))
        return super().__enter__()

    @contextmanager
    def stage(self, cell: Cell, keep: Keep | None = None) -> Generator[Stage, None, None]:
        """See `Stages.stage`."""
        target = cell.target
        wire = catalog.api(target.api)
        session = Session(cell.scenario, wire, target.model, target.profile, origin=REFERENCE_URL)
        end = _Served(session, self._client)
        with self.reached(target, end, REFERENCE_URL + wire.base_path, keep) as (endpoint, tap):
            yield Stage(endpoint, tap, scripted=True, provenance=self.provenance(target))


class _Untimed(httpx2.HTTPTransport):
    """Waits for as long as it takes, whatever an SDK says. Who answers is this process: an answer that is late is none
    that got lost, but was asked for before the run was stopped, and the SDK's time ran on."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """See `httpx2.HTTPTransport.handle_request`."""
        request.extensions = {**request.extensions, "timeout": {}}
        return super().handle_request(request)


class _Served(Answering):
    """The reference server. What it says of a URL repeats, wherever it listens."""

    def __init__(self, session: Session, client: httpx2.Client) -> None:
        self.client = client
        self._session = session

    def handler(self, tap: Tap) -> Handler:
        def handle(request: HttpRequest) -> HttpResponse:
            response = self._session(tap.public(request))
            tap.note(request, response)
            return response

        return handle
