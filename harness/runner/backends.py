"""Backends, which supply the responses of a run, and the routes by which adapters reach them.

A backend opens an environment for each cell. The responses come from cassettes, from the reference server or, in
`harness.runner.live`, from a provider.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import httpx2

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.registry import Target
from harness.cassettes.cassette import REFERENCE_URL, Cassette, Metadata
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.player import ExchangeLog, ExchangeStore, Player, stream_converter
from harness.cassettes.preflight import OutdatedFilter
from harness.cassettes.redact import Redactor
from harness.cassettes.redact.secret_patterns import origin
from harness.cassettes.transport import Handler, HandlerRunner, HandlerTransport, replaying
from harness.model.errors import CassetteMissing
from harness.model.http import COMMAND_ORIGIN, HttpRequest, HttpResponse
from harness.model.protocols import Capability, Endpoint, ProcessRunner, Route
from harness.platform.environment import hidden_variables
from harness.platform.files import shipped_folder
from harness.reference_server.script_session import ScriptSession
from harness.results import Mode, Provenance
from harness.rules.chat_endings import is_retriable_response
from harness.runner.cells import Cell
from harness.scenarios.load import digest, sent_digest
from harness.scenarios.schema import Scenario
from harness.stdio.adapter_process import AdapterBroke

if TYPE_CHECKING:
    from harness.cassettes.loopback_server import LoopbackServer


@dataclass(frozen=True, slots=True)
class CellEnvironment:
    """The environment in which one cell runs.

    `scripted` is set if the responses follow the scenario's script. `stale` is set if the scenario's requests changed
    after the recording. `recorded_by` is the adapter that made the recording. `too_old` is an error message if the
    recording exceeds its maximum age, else `None`.
    """

    endpoint: Endpoint
    log: ExchangeLog
    scripted: bool
    provenance: Provenance
    player: Player | None = None
    stale: bool = False
    recorded_by: str | None = None
    too_old: str | None = None


NO_KEY = "not-a-key"
"""Placeholder key for SDKs that require a key, where the server does not check it."""

TIMEOUT_SECONDS = 600.0

MAX_REQUESTS = 1000
"""Maximum number of requests of an adapter in this process in one cell. Adapters in workers have a time limit."""

TOO_MANY_REQUESTS = f"the adapter sent more than {MAX_REQUESTS} requests in one conversation"


class Responder:
    """Responds to the requests of one cell in this process, by any route.

    `handler` takes an `ExchangeLog` and returns a handler that logs its exchanges there. `client` is passed to adapters
    that accept a client. They use it to reach the loopback server. `key` is the key that adapters send.
    """

    key = NO_KEY

    def __init__(self, handler: Callable[[ExchangeLog], Handler], client: httpx2.Client | None = None) -> None:
        self.handler = handler
        self.client = client

    def transport(self, log: ExchangeLog) -> httpx2.BaseTransport:
        """Return the transport of an injected client. An adapter that retries forever breaks at `MAX_REQUESTS`."""
        handler = self.handler(log)

        def handle(request: HttpRequest) -> HttpResponse:
            if len(log.exchanges) >= MAX_REQUESTS:
                raise AdapterBroke(TOO_MANY_REQUESTS)
            return handler(request)

        return HandlerTransport(handle)

    def runner(self, log: ExchangeLog) -> ProcessRunner:
        """Return the runner for commands."""
        return HandlerRunner(self.handler(log))


class LateBoundHandler:
    """A handler that is set once its address is known."""

    handler: Handler

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Handle a request."""
        return self.handler(request)


class Backend(ABC):
    """Opens the environment of each cell. As a context manager, it holds the resources that all cells of a run share.

    The loopback server starts when a cell first needs it.
    """

    mode: Mode

    def __init__(self) -> None:
        self._resources = ExitStack()
        self._server: LoopbackServer | None = None
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._server = None
        self._resources.close()

    @abstractmethod
    def open_cell(self, cell: Cell, keep: ExchangeStore | None = None) -> AbstractContextManager[CellEnvironment]:
        """Open the environment of one cell.

        `keep` stores every exchange before its response is passed on. It may already have responses of an unfinished
        recording.

        Raises:
            CassetteMissing: The cassette does not exist.
            CassetteError: The cassette cannot be read.
            MissingKey: The provider needs a key, and none is set.
        """

    @abstractmethod
    def provenance(self, target: Target) -> Provenance:
        """Return the provenance of responses for a target. A cassette has its own provenance, which
        takes precedence.
        """

    @abstractmethod
    def redactor(self) -> Redactor:
        """Return the redactor for recordings and results."""

    @contextmanager
    def endpoint(self, target: Target, handler: Handler) -> Generator[Endpoint, None, None]:
        """Open an endpoint for a target's adapter at which `handler` responds, regardless of the mode.

        It is used when the responses do not come from the backend, for example when they are repeated.
        """
        url = REFERENCE_URL + registry.api(target.api).base_path
        with self.connect(target, Responder(lambda _log: handler), url) as (endpoint, _):
            yield endpoint

    @contextmanager
    def connect(
        self, target: Target, end: Responder, url: str, keep: ExchangeStore | None = None
    ) -> Generator[tuple[Endpoint, ExchangeLog], None, None]:
        """Connect a target's adapter to a responder. Yield the endpoint for the adapter and the log of its exchanges.

        `url` is the base URL under which exchanges are recorded, regardless of where requests are sent.
        """
        route = target.adapter.route
        if route is Route.PROCESS:
            log = ExchangeLog(COMMAND_ORIGIN, COMMAND_ORIGIN, keep)
            yield Endpoint(COMMAND_ORIGIN, NO_KEY, processes=end.runner(log), server=target.service), log
        elif route is Route.CLIENT and end.client is None:
            log = ExchangeLog(url, url, keep)
            with httpx2.Client(transport=end.transport(log), trust_env=False, timeout=TIMEOUT_SECONDS) as own:
                yield Endpoint(url, end.key, own, server=target.service), log
        else:
            later = LateBoundHandler()
            with self._mount(later, registry.api(target.api).base_path) as base:
                log = ExchangeLog(base, url, keep)
                later.handler = end.handler(log)
                client = end.client if route is Route.CLIENT else None
                yield Endpoint(base, end.key, client, server=target.service), log

    @contextmanager
    def _mount(self, handler: Handler, path: str) -> Generator[str, None, None]:
        server = self._loopback()
        base = server.mount(handler)
        try:
            yield base + path
        finally:
            server.unmount(base)

    def _loopback(self) -> LoopbackServer:
        # A replay with injected clients needs no server, and is spared importing one.
        from harness.cassettes.loopback_server import serve  # noqa: PLC0415

        with self._lock:
            if self._server is None:
                self._server = self._resources.enter_context(serve())
            return self._server


class OfflineBackend(Backend):
    """A backend that never contacts other machines. It hides environment variables that could make an adapter do so."""

    def provenance(self, target: Target) -> Provenance:
        """See `Backend.provenance`."""
        return Provenance("reference", model_requested=target.model)

    def redactor(self) -> Redactor:
        """See `Backend.redactor`: only providers get keys, so there is nothing to redact."""
        return Redactor()

    def __enter__(self) -> Self:
        self._resources.enter_context(hidden_variables())
        return super().__enter__()

    @contextmanager
    def reference_environment(
        self, cell: Cell, keep: ExchangeStore | None, client: httpx2.Client | None = None
    ) -> Generator[CellEnvironment, None, None]:
        """Open the environment of a cell whose responses come from the reference server."""
        target = cell.target
        wire = registry.api(target.api)
        session = ScriptSession(cell.scenario, wire, target.model, target.profile, origin=REFERENCE_URL)
        end = Responder(partial(_handler_of, session, target.model), client)
        with self.connect(target, end, REFERENCE_URL + wire.base_path, keep) as (endpoint, log):
            yield CellEnvironment(endpoint, log, scripted=True, provenance=self.provenance(target))


class ReferenceBackend(OfflineBackend):
    """The reference server, reached over HTTP on loopback. Commands are answered directly in this process."""

    mode: Mode = "reference"

    def __enter__(self) -> Self:
        # One plain client for all cells: an SDK's own costs more to build than a conversation takes.
        transport = _UntimedTransport(verify=False, trust_env=False)
        self._client = self._resources.enter_context(httpx2.Client(transport=transport, trust_env=False))
        return super().__enter__()

    @contextmanager
    def open_cell(self, cell: Cell, keep: ExchangeStore | None = None) -> Generator[CellEnvironment, None, None]:
        """See `Backend.open_cell`."""
        with self.reference_environment(cell, keep, self._client) as environment:
            yield environment


class GeneratedBackend(OfflineBackend):
    """The reference server in this process, for many short conversations. Injected clients need no socket."""

    mode: Mode = "reference"

    @contextmanager
    def open_cell(self, cell: Cell, keep: ExchangeStore | None = None) -> Generator[CellEnvironment, None, None]:
        """See `Backend.open_cell`."""
        with self.reference_environment(cell, keep) as environment:
            yield environment


class _UntimedTransport(httpx2.HTTPTransport):
    """A transport that ignores the SDK's timeout. A late response means that this process was stopped for a while."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """See `httpx2.HTTPTransport.handle_request`."""
        request.extensions = {**request.extensions, "timeout": {}}
        return super().handle_request(request)


def _handler_of(session: ScriptSession, model: str, log: ExchangeLog) -> Handler:
    """Return a handler for the reference server. URLs in its responses do not depend on its address.

    A request for a token count or for models is no part of the conversation, so it is not logged.
    """

    def handle(request: HttpRequest) -> HttpResponse:
        public = log.public(request)
        if (information := _information_response(public, model)) is not None:
            return information
        response = session(public)
        log.note(request, response)
        return response

    return handle


def _information_response(request: HttpRequest, model: str) -> HttpResponse | None:
    """Return the response to a request for a token count or for models, in any of the APIs. A client may count tokens
    with another API than the one of its conversation. The only listed model is that of the conversation.
    """
    if _ASKS_FOR_INFORMATION.search(urlsplit(request.url).path) is None:
        return None
    responses = (
        wire.server_endpoints.respond(request, (model,))
        for wire in registry.apis()
        if wire.provider_url.startswith("http")
    )
    return next((each for each in responses if each is not None), None)


_ASKS_FOR_INFORMATION = re.compile(r"tokens$|/models\b(?!.*:(?!countTokens$))", re.IGNORECASE)
"""End of the paths of such requests. Gemini's paths of conversations name a model, and end in another action."""


class ReplayBackend(OfflineBackend):
    """Replays cassettes, without a network. A cell's cassette comes from the first of `libraries` that has it.

    `own` has the ids of the user's scenarios. They never use shipped cassettes, because a shipped scenario may have the
    same id. `outdated` is the maximum age of cassettes.
    """

    mode: Mode = "replay"

    def __init__(
        self, libraries: Sequence[CassetteLibrary], own: Container[str] = (), outdated: OutdatedFilter | None = None
    ) -> None:
        super().__init__()
        self._outdated = outdated
        self._libraries = libraries
        self._own = own
        self._last: tuple[Scenario | None, str] = None, ""
        self._shipped = (
            shipped_folder("cassettes") if len(libraries) > 1 else None
        )  # a single library was named by the user

    @contextmanager
    def open_cell(self, cell: Cell, keep: ExchangeStore | None = None) -> Generator[CellEnvironment, None, None]:
        """See `Backend.open_cell`."""
        try:
            cassette = self._cassette(cell)
        except CassetteMissing:
            if cell.target.service is None:
                raise
            with self.reference_environment(
                cell, keep
            ) as environment:  # no recordings of compatible servers are shipped
                yield environment
            return
        metadata = cassette.metadata
        assert metadata is not None  # noqa: S101 - Library.load gives no other
        wire = registry.api(cell.target.api)
        retries = Capability.RETRIES in cell.target.adapter.capabilities and cell.scenario.embeddings is None
        player = Player(cassette, partial(is_retriable_response, wire) if retries else None)
        unchanged = metadata.scenario_digest == self._digest(cell.scenario)
        stale = not unchanged and not self._is_of(metadata, cell.scenario)
        scripted = metadata.origin == "reference" and (unchanged or stale or _follows_script(cassette, cell))
        url = (REFERENCE_URL if metadata.origin == "reference" else _origin(cassette)) + wire.base_path
        adapt = stream_converter(wire, cell.target.profile, cell.scenario.id)
        end = Responder(lambda log: replaying(player, log, adapt))
        with self.connect(cell.target, end, url, keep) as (endpoint, log):
            yield CellEnvironment(
                endpoint,
                log,
                scripted=scripted,
                provenance=_actual_provenance(cassette, metadata.provenance, wire),
                player=player,
                stale=stale,
                recorded_by=metadata.adapter,
                too_old=self._outdated and self._outdated.too_old(metadata.recorded_at),
            )

    def has(self, cell: Cell) -> bool:
        """Return whether the cell has a cassette for the scenario's current requests. Raises `CassetteError`."""
        try:
            metadata = self._cassette(cell).metadata
        except CassetteMissing:
            return False
        return metadata is not None and self._is_of(metadata, cell.scenario)

    def _is_of(self, metadata: Metadata, scenario: Scenario) -> bool:
        return metadata.is_of(self._digest(scenario), sent_digest(scenario))

    def _digest(self, scenario: Scenario) -> str:
        """Return the digest of a scenario. The last is cached, because cells of one scenario follow each other."""
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


def _follows_script(cassette: Cassette, cell: Cell) -> bool:
    """Return whether the reference server still gives the recorded responses. Not every edit of a scenario changes
    them.
    """
    session = ScriptSession(cell.scenario, registry.api(cell.target.api), cell.target.model, cell.target.profile)
    stored = Redactor()
    return all(stored.response(session(each.request)) == each.response for each in cassette.interactions)


def _origin(cassette: Cassette) -> str:
    return origin(cassette.interactions[0].request.url) if cassette.interactions else REFERENCE_URL


def _actual_provenance(cassette: Cassette, provenance: Provenance, wire: Api) -> Provenance:
    """Return the provenance of a cassette.

    Old cassettes lack `recorded_from` and give every server the origin `provider`, which is corrected here.
    """
    address = _origin(cassette)
    if provenance.origin != "provider" or wire.is_provider(address):
        return provenance
    return replace(provenance, origin="server", recorded_from=address)
