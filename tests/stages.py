"""A stage without sockets: the reference server's session answers the adapter's own HTTP client in this process."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Self

import httpx2

from harness import catalog
from harness.apis.targets import Target, target
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.process import ORIGIN
from harness.contract.protocols import Endpoint, Route
from harness.reference.script_session import ScriptSession
from harness.results import Mode, Provenance
from harness.running.backends import Stage
from harness.running.cells import Cell
from harness.scenarios.load import load_paths
from harness.scenarios.schema import Scenario
from harness.tape.cassette import REFERENCE_URL
from harness.tape.player import Keep, Tap
from harness.tape.redact import Redactor
from harness.tape.transport import Handler, HandlerRunner, HandlerTransport

Provider = Callable[[HttpRequest, Handler], HttpResponse]
"""Answers a request, with the reference session at hand: a provider that fails, or departs from its API."""


def _faithful(request: HttpRequest, session: Handler) -> HttpResponse:
    return session(request)


class InProcess:
    """Every cell is played against a reference session of its own, behind `provider`.

    With `scripted=False` the answers count as those of a provider's model, which is free to choose.
    """

    mode: Mode = "reference"

    def __init__(self, provider: Provider = _faithful, *, scripted: bool = True) -> None:
        self._provider = provider
        self._scripted = scripted

    @contextmanager
    def stage(self, cell: Cell, keep: Keep | None = None) -> Generator[Stage, None, None]:
        wire = catalog.api(cell.target.api)
        runs = cell.target.adapter.route is Route.PROCESS
        base = ORIGIN if runs else REFERENCE_URL + wire.base_path
        session = ScriptSession(cell.scenario, wire, cell.target.model, cell.target.profile, origin=REFERENCE_URL)
        tap = Tap(base, base, keep)

        def handle(request: HttpRequest) -> HttpResponse:
            response = self._provider(request, session)
            tap.note(request, response)
            return response

        with httpx2.Client(transport=HandlerTransport(handle), trust_env=False) as client:
            provenance = self.provenance(cell.target)
            endpoint = Endpoint(base, "not-a-key", client, HandlerRunner(handle))
            yield Stage(endpoint, tap, scripted=self._scripted, provenance=provenance)

    @contextmanager
    def endpoint(self, target: Target, handler: Handler) -> Generator[Endpoint, None, None]:
        with httpx2.Client(transport=HandlerTransport(handler), trust_env=False) as client:
            yield Endpoint(REFERENCE_URL + catalog.api(target.api).base_path, "not-a-key", client)

    def provenance(self, target: Target) -> Provenance:
        return Provenance("reference", model_requested=target.model)

    def redactor(self) -> Redactor:
        return Redactor()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


@cache
def shipped_targets() -> dict[str, Target]:
    """The shipped targets that send requests by name, each with its shipped adapter."""
    return {name: each for name, each in every_target().items() if each.adapter.route is not Route.PROCESS}


@cache
def every_target() -> dict[str, Target]:
    """The same with those that run a command."""
    return {shipped.name: target(shipped, catalog.adapter(shipped.adapter), {}) for shipped in catalog.targets()}


@cache
def shipped_scenarios() -> dict[str, Scenario]:
    """The shipped scenarios by id."""
    return {scenario.id: scenario for scenario in load_paths([Path(__file__).parent.parent / "scenarios"])}
