"""A backend without sockets, and the shipped scenarios and targets."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from random import Random

from harness.apis import registry
from harness.apis.registry import Target, target_for
from harness.cassettes.cassette import REFERENCE_URL
from harness.cassettes.player import ExchangeLog, ExchangeStore
from harness.cassettes.transport import Handler
from harness.checks.generation import conversation
from harness.model.http import HttpRequest, HttpResponse
from harness.model.protocols import Route
from harness.reference_server.script_session import ScriptSession
from harness.results import Mode
from harness.runner.backends import CellEnvironment, OfflineBackend, Responder
from harness.runner.cells import Cell
from harness.scenarios.load import load_paths
from harness.scenarios.schema import Scenario, Variant
from harness.stdio import adapter_specs

Provider = Callable[[HttpRequest, Handler], HttpResponse]
"""Responds to a request, with the help of the reference session."""


def _faithful(request: HttpRequest, session: Handler) -> HttpResponse:
    return session(request)


def _noting(answer: Handler, log: ExchangeLog) -> Handler:
    """Responds with a provider's responses, and notes them."""

    def handle(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        log.note(request, response)
        return response

    return handle


class InProcess(OfflineBackend):
    """A backend without sockets: a reference session for each cell, changed by `provider`.

    With `scripted=False` the responses count as those of a provider's model, which is free to choose.
    """

    mode: Mode = "reference"

    def __init__(self, provider: Provider = _faithful, *, scripted: bool = True) -> None:
        super().__init__()
        self._provider = provider
        self._scripted = scripted

    @contextmanager
    def open_cell(self, cell: Cell, keep: ExchangeStore | None = None) -> Generator[CellEnvironment, None, None]:
        wire = registry.api(cell.target.api)
        session = ScriptSession(cell.scenario, wire, cell.target.model, cell.target.profile, origin=REFERENCE_URL)
        responder = Responder(partial(_noting, lambda request: self._provider(request, session)))
        with self.connect(cell.target, responder, REFERENCE_URL + wire.base_path, keep) as (endpoint, log):
            yield CellEnvironment(endpoint, log, scripted=self._scripted, provenance=self.provenance(cell.target))


@cache
def shipped_targets() -> dict[str, Target]:
    """The shipped targets that send requests by name, each with its shipped adapter."""
    return {name: each for name, each in every_target().items() if each.adapter.route is not Route.PROCESS}


@cache
def every_target() -> dict[str, Target]:
    """The same with those that run a command."""
    shipped_targets = registry.targets()
    return {each.name: target_for(each, adapter_specs.adapter(each.adapter), {}) for each in shipped_targets}


@cache
def shipped_scenarios() -> dict[str, Scenario]:
    """The shipped scenarios by id."""
    return {scenario.id: scenario for scenario in load_paths([Path(__file__).parent.parent / "scenarios"])}


def generated_cell(target: Target, seed: str, variant: Variant) -> Cell:
    """A generated conversation that a target can play: the first of this seed."""
    random = Random(seed)  # noqa: S311 - no secret
    while (cell := conversation(target, random, variant)) is None:
        pass
    return cell
