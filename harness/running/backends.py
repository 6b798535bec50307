"""Backends: where the responses of a run come from, and the routes by which adapters reach them."""

from __future__ import annotations

from collections.abc import Container, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Protocol, Self

import httpx2

from harness import catalog
from harness.apis.api import Api
from harness.apis.targets import Target
from harness.contract.errors import CassetteMissing
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.process import ORIGIN
from harness.contract.protocols import Capability, Endpoint, ProcessRunner, Route
from harness.host.environment import isolated
from harness.reference.script_session import ScriptSession
from harness.results import Mode, Provenance
from harness.rules.failures import failed
from harness.running.cells import Cell
from harness.scenarios import suite
from harness.scenarios.load import digest, sent_digest
from harness.scenarios.schema import Scenario
from harness.tape.cassette import REFERENCE_URL, Cassette, Metadata
from harness.tape.library import Library
from harness.tape.player import Keep, Player, Tap, Telling, as_asked
from harness.tape.redact import Redactor
from harness.tape.redact.address import origin
from harness.tape.survey import Outdated
from harness.tape.transport import Handler, HandlerRunner, HandlerTransport, replaying

if TYPE_CHECKING:
    from harness.tape.server import Server


@dataclass(frozen=True, slots=True)
class Stage:
    """What a cell is played on.

    `scripted`: the answers follow the scenario's script. `stale`: what the scenario sends has changed since they were
    recorded. `recorded_by`: the adapter that recorded them. `too_old`: what is to be said if they are older than they
    may be.
    """

    endpoint: Endpoint
    tap: Tap
    scripted: bool
    provenance: Provenance
    player: Player | None = None
    stale: bool = False
    recorded_by: str | None = None
    too_old: str | None = None


class Stages(Protocol):
    """Makes the stage of a cell; a context manager for what all stages of a run share."""

    mode: Mode

    def stage(self, cell: Cell, keep: Keep | None = None) -> AbstractContextManager[Stage]:
        """The stage of one cell. `keep` gets every exchange before its response is handed on, and may have answers
        already.

        Raises:
            CassetteMissing, CassetteError: there is nothing to play, or it cannot be read.
            MissingKey: a provider is to be asked, and there is no key for it.
        """
        ...

    def endpoint(self, target: Target, handler: Handler) -> AbstractContextManager[Endpoint]:
        """An endpoint for a target's adapter at which `handler` answers, whatever the mode: to tell an answer again."""
        ...

    def provenance(self, target: Target) -> Provenance:
        """Where answers for a target come from where they are not played from a cassette, which says so itself."""
        ...

    def redactor(self) -> Redactor:
        """What takes out of recordings and results what must reach no disk."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


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
        session = ScriptSession(cell.scenario, wire, target.model, target.profile, origin=REFERENCE_URL)
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

    def __init__(self, session: ScriptSession, client: httpx2.Client) -> None:
        self.client = client
        self._session = session

    def handler(self, tap: Tap) -> Handler:
        def handle(request: HttpRequest) -> HttpResponse:
            response = self._session(tap.public(request))
            tap.note(request, response)
            return response

        return handle


class Replay(Offline):
    """From cassettes, with the network shut. The first of `libraries` that has a cell's cassette is played.

    Scenarios of one's `own`, by their ids, play no shipped cassette: one that is named like a shipped one is another.
    `outdated` says which cassettes are too old.
    """

    mode: Mode = "replay"

    def __init__(
        self, libraries: Sequence[Library], own: Container[str] = (), outdated: Outdated | None = None
    ) -> None:
        super().__init__()
        self._outdated = outdated
        self._libraries = libraries
        self._own = own
        self._last: tuple[Scenario | None, str] = None, ""
        self._shipped = suite.shipped("cassettes") if len(libraries) > 1 else None  # alone, they were asked for by name

    @contextmanager
    def stage(self, cell: Cell, keep: Keep | None = None) -> Generator[Stage, None, None]:
        """See `Stages.stage`."""
        cassette = self._cassette(cell)
        metadata = cassette.metadata
        assert metadata is not None  # noqa: S101 - Library.load gives no other
        wire = catalog.api(cell.target.api)
        retries = Capability.RETRIES in cell.target.adapter.capabilities and cell.scenario.embeddings is None
        player = Player(cassette, partial(failed, wire) if retries else None)
        unchanged = metadata.scenario_digest == self._digest(cell.scenario)
        stale = not unchanged and not self._is_of(metadata, cell.scenario)
        scripted = metadata.origin == "reference" and (unchanged or stale or _follows_script(cassette, cell))
        url = (REFERENCE_URL if metadata.origin == "reference" else _origin(cassette)) + wire.base_path
        end = _Played(player, as_asked(wire, cell.target.profile, cell.scenario.id))
        with self.reached(cell.target, end, url, keep) as (endpoint, tap):
            yield Stage(
                endpoint,
                tap,
                scripted=scripted,
                provenance=_told_by(cassette, metadata.provenance, wire),
                player=player,
                stale=stale,
                recorded_by=metadata.adapter,
                too_old=self._outdated and self._outdated.too_old(metadata.recorded_at),
            )

    def has(self, cell: Cell) -> bool:
        """Whether there is a cassette of what the scenario sends. Raises `CassetteError`."""
        try:
            metadata = self._cassette(cell).metadata
        except CassetteMissing:
            return False
        return metadata is not None and self._is_of(metadata, cell.scenario)

    def _is_of(self, metadata: Metadata, scenario: Scenario) -> bool:
        return metadata.is_of(self._digest(scenario), sent_digest(scenario))

    def _digest(self, scenario: Scenario) -> str:
        """The digest of a scenario: made once for its cells, which follow each other."""
        known, made = self._last
        if known is not scenario:
            made = digest(scenario)
            self._last = scenario, made
        return made

    def _cassette(self, cell: Cell) -> Cassette:
        missing: CassetteMissing | None = None
        for library in self._libraries:
            if cell.scenario.id in self._own and library.root == self._shipped:
                continue
            try:
                return library.load(cell.target.cassettes, cell.scenario.id, cell.variant)
            except CassetteMissing as error:
                missing = missing or error
        assert missing is not None  # noqa: S101 - there is always a library to look in
        raise missing


class _Played(Answering):
    """A cassette, each answer told as it is asked for."""

    def __init__(self, player: Player, told: Telling) -> None:
        self._player = player
        self._told = told

    def handler(self, tap: Tap) -> Handler:
        return replaying(self._player, tap, self._told)


def _follows_script(cassette: Cassette, cell: Cell) -> bool:
    """Whether the reference server would answer as it did: a scenario may have been edited in what is not sent."""
    session = ScriptSession(cell.scenario, catalog.api(cell.target.api), cell.target.model, cell.target.profile)
    stored = Redactor()
    return all(stored.response(session(each.request)) == each.response for each in cassette.interactions)


def _origin(cassette: Cassette) -> str:
    return origin(cassette.interactions[0].request.url) if cassette.interactions else REFERENCE_URL


def _told_by(cassette: Cassette, provenance: Provenance, wire: Api) -> Provenance:
    """Where a cassette comes from. Those of before `recorded_from` take every server for the provider."""
    address = _origin(cassette)
    if provenance.origin != "provider" or wire.is_provider(address):
        return provenance
    return replace(provenance, origin="server", recorded_from=address)
