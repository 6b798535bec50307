"""Where a cell's requests go: a cassette, the reference server, a provider. One class per mode, one stage per cell."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Protocol, Self

import httpx2

from harness import catalog
from harness.apis.api import Api
from harness.apis.targets import Target
from harness.contract.errors import CassetteMissing, MissingKey, UsageError
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.process import ORIGIN
from harness.contract.protocols import Capability, Endpoint, ProcessRunner
from harness.host import keys
from harness.host.environment import isolated
from harness.kit.processes import LocalRunner
from harness.reference.session import Session
from harness.results import Mode, Provenance
from harness.scenarios.load import digest, sent_digest
from harness.scenarios.schema import Scenario, Variant
from harness.tape.cassette import REFERENCE_URL, Cassette
from harness.tape.library import Library
from harness.tape.player import Player
from harness.tape.processes import HandlerRunner, TapRunner
from harness.tape.proxy import Proxy
from harness.tape.redact import Redactor
from harness.tape.redact.address import origin
from harness.tape.tap import Keep, Tap
from harness.tape.telling import as_asked
from harness.tape.transport import Handler, HandlerTransport, TapTransport, replaying

if TYPE_CHECKING:
    from harness.tape.server import Server

_SECONDS = 600.0
"""As long as the SDKs wait for an answer."""

_NO_KEY = "not-a-key"  # what an SDK has to be given where nothing checks it


@dataclass(frozen=True, slots=True)
class Cell:
    """One thing to play: a scenario, a target, whole or streamed."""

    scenario: Scenario
    target: Target
    variant: Variant


@dataclass(frozen=True, slots=True)
class Stage:
    """What a cell is played on.

    `scripted`: the answers follow the scenario's script. `stale`: what the scenario sends has changed since they were
    recorded.
    `recorded_by`: the adapter that recorded them.
    """

    endpoint: Endpoint
    tap: Tap
    scripted: bool
    provenance: Provenance
    player: Player | None = None
    stale: bool = False
    recorded_by: str | None = None


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

    def answered(self, target: Target, handler: Handler) -> AbstractContextManager[Endpoint]:
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


class _Shared:
    """The loopback server of a run, started when a cell first needs it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._server: Server | None = None
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._server = None
        self._stack.close()

    def server(self) -> Server:
        # A replay with injected clients needs no server, and is spared importing one.
        from harness.tape.server import serve  # noqa: PLC0415

        with self._lock:
            if self._server is None:
                self._server = self._stack.enter_context(serve())
            return self._server

    def redactor(self) -> Redactor:
        """See `Stages.redactor`: only a provider is sent a key, and without one there is nothing to hide."""
        return Redactor()

    @contextmanager
    def answered(self, target: Target, handler: Handler) -> Generator[Endpoint, None, None]:
        """See `Stages.answered`."""
        if _runs_commands(target):
            yield _running(HandlerRunner(handler))
            return
        path = catalog.api(target.api).base_path
        if Capability.HTTP_CLIENT in target.adapter.capabilities:
            with httpx2.Client(transport=HandlerTransport(handler), trust_env=False) as client:
                yield Endpoint(REFERENCE_URL + path, _NO_KEY, client)
            return
        with self.mounted(handler, path) as base:
            yield Endpoint(base, _NO_KEY)

    @contextmanager
    def mounted(self, handler: Handler, path: str) -> Generator[str, None, None]:
        """A base URL of the server at which `handler` answers."""
        server = self.server()
        base = server.mount(handler)
        try:
            yield base + path
        finally:
            server.unmount(base)


class _Offline(_Shared):
    """A run that must not leave this machine, whatever an adapter reads from its environment."""

    def provenance(self, target: Target) -> Provenance:
        """See `Stages.provenance`."""
        return Provenance("reference", model_requested=target.model)

    def __enter__(self) -> Self:
        self._stack.enter_context(isolated())
        return super().__enter__()


class Replay(_Offline):
    """From cassettes, with the network shut. The first of `libraries` that has a cell's cassette is played."""

    mode: Mode = "replay"

    def __init__(self, libraries: Sequence[Library]) -> None:
        super().__init__()
        self._libraries = libraries

    @contextmanager
    def stage(self, cell: Cell, keep: Keep | None = None) -> Generator[Stage, None, None]:
        """See `Stages.stage`."""
        cassette = self._cassette(cell)
        metadata = cassette.metadata
        assert metadata is not None  # noqa: S101 - Library.load gives no other
        wire = catalog.api(cell.target.api)
        player = Player(cassette)
        told = as_asked(wire, cell.target.profile, cell.scenario.id)
        whole_digest = digest(cell.scenario)
        stale = not metadata.is_of(whole_digest, sent_digest(cell.scenario))
        scripted = metadata.origin == "reference" and (
            stale or metadata.scenario_digest == whole_digest or _follows_script(cassette, cell)
        )
        public = (REFERENCE_URL if metadata.origin == "reference" else _origin(cassette)) + wire.base_path

        def made(endpoint: Endpoint, tap: Tap) -> Stage:
            return Stage(
                endpoint,
                tap,
                scripted=scripted,
                provenance=_told_by(cassette, metadata.provenance, wire),
                player=player,
                stale=stale,
                recorded_by=metadata.adapter,
            )

        if _runs_commands(cell.target):
            tap = Tap(ORIGIN, ORIGIN, keep)
            yield made(_running(HandlerRunner(replaying(player, tap, told))), tap)
            return
        if Capability.HTTP_CLIENT in cell.target.adapter.capabilities:
            tap = Tap(public, public, keep)
            with httpx2.Client(transport=HandlerTransport(replaying(player, tap, told)), trust_env=False) as client:
                yield made(Endpoint(public, _NO_KEY, client), tap)
            return
        later = _Later()
        with self.mounted(later, wire.base_path) as base:
            tap = Tap(base, public, keep)
            later.handler = replaying(player, tap, told)
            yield made(Endpoint(base, _NO_KEY), tap)

    def _cassette(self, cell: Cell) -> Cassette:
        missing: CassetteMissing | None = None
        for library in self._libraries:
            try:
                return library.load(cell.target.cassettes, cell.scenario.id, cell.variant)
            except CassetteMissing as error:
                missing = missing or error
        assert missing is not None  # noqa: S101 - there is always a library to look in
        raise missing


class Reference(_Offline):
    """Against the reference server, over HTTP on loopback; commands it answers in this process."""

    mode: Mode = "reference"

    def __enter__(self) -> Self:
        # One plain client for all cells: an SDK's own costs more to build than a conversation takes.
        self._client = self._stack.enter_context(
            httpx2.Client(
                transport=httpx2.HTTPTransport(verify=False, trust_env=False), trust_env=False, timeout=_SECONDS
            )
        )
        return super().__enter__()

    @contextmanager
    def stage(self, cell: Cell, keep: Keep | None = None) -> Generator[Stage, None, None]:
        """See `Stages.stage`."""
        target = cell.target
        wire = catalog.api(target.api)
        session = Session(cell.scenario, wire, target.model, target.profile)
        provenance = self.provenance(target)

        def noting(tap: Tap) -> Handler:
            def handle(request: HttpRequest) -> HttpResponse:
                response = session(tap.public(request))  # what it says of a URL repeats, wherever it listens
                tap.note(request, response)
                return response

            return handle

        if _runs_commands(target):
            tap = Tap(ORIGIN, ORIGIN, keep)
            yield Stage(_running(HandlerRunner(noting(tap))), tap, scripted=True, provenance=provenance)
            return
        later = _Later()
        with self.mounted(later, wire.base_path) as base:
            tap = Tap(base, REFERENCE_URL + wire.base_path, keep)
            later.handler = noting(tap)
            shares = Capability.HTTP_CLIENT in target.adapter.capabilities
            endpoint = Endpoint(base, _NO_KEY, self._client if shares else None)
            yield Stage(endpoint, tap, scripted=True, provenance=provenance)


class Live(_Shared):
    """Against the providers. `base_urls` replaces a target's provider by another server that speaks its API."""

    mode: Mode = "live"

    def __init__(self, base_urls: Mapping[str, str]) -> None:
        super().__init__()
        self._base_urls = base_urls
        self._answered: set[str] = set()

    def key(self, target: Target) -> str:
        """The key for a target, from the environment.

        A server of one's own may need none, and a command may have logged in by itself.

        Raises:
            MissingKey: there is none.
            UsageError: no header takes it, or another server is given for a target that sends no request.
        """
        if _runs_commands(target) and target.name in self._base_urls:
            raise UsageError(
                f"the target {target.name!r} runs a command, and takes no --base-url: "
                "set the environment variable by which the command is sent elsewhere."
            )
        variables = catalog.api(target.api).key_variables
        found = keys.key(variables)
        if found is not None:
            return found
        if target.name in self._base_urls or _runs_commands(target):
            return _NO_KEY
        raise MissingKey(target.name, variables)

    def check(self, target: Target) -> None:
        """Whether a target can be asked from here. Better known before anything is paid for.

        Raises:
            MissingKey, UsageError: see `key`.
            UsageError: it runs a command that is not installed, or that would be given a key that no header takes.
        """
        self.key(target)
        if _runs_commands(target):  # which chooses among its variables by itself
            for name in catalog.api(target.api).key_variables:
                if os.environ.get(name):
                    keys.check(name, os.environ[name])
        needed = target.adapter.requires
        if needed is not None and needed.extra is None and shutil.which(needed.name) is None:
            raise UsageError(
                f"the target {target.name!r} runs the command {needed.name!r}, which is not on the path: install it, "
                "or add its folder to PATH. Without it: 'harness run' plays recordings, and "
                "'harness run --mode reference' or 'harness record --from reference' the reference server."
            )

    def provenance(self, target: Target) -> Provenance:
        """See `Stages.provenance`: the provider is who answers at an address of its own."""
        url = self._address(target)
        if catalog.api(target.api).is_provider(url):
            return Provenance("provider", model_requested=target.model)
        return Provenance("server", model_requested=target.model, recorded_from=origin(url))

    def redactor(self) -> Redactor:
        """See `Stages.redactor`."""
        return Redactor.of_run(self._base_urls.values(), shaped=True)

    def _address(self, target: Target) -> str:
        wire = catalog.api(target.api)
        elsewhere = os.environ.get(wire.address_variable) if wire.address_variable is not None else None
        return self._base_urls.get(target.name) or elsewhere or wire.provider_url

    @contextmanager
    def stage(self, cell: Cell, keep: Keep | None = None) -> Generator[Stage, None, None]:
        """See `Stages.stage`."""
        target = cell.target
        wire = catalog.api(target.api)
        key = self.key(target)
        upstream = self._address(target).rstrip("/")
        provenance = self.provenance(target)
        if _runs_commands(target):
            tap = Tap(ORIGIN, ORIGIN, keep)
            yield Stage(_running(TapRunner(LocalRunner(), tap)), tap, scripted=False, provenance=provenance)
            return
        tap = Tap(upstream, upstream, keep)
        line = _Line(trust_env=False)
        if Capability.HTTP_CLIENT in target.adapter.capabilities:
            with httpx2.Client(transport=TapTransport(line, tap), trust_env=False, timeout=_SECONDS) as client:
                yield Stage(Endpoint(upstream, key, client), tap, scripted=False, provenance=provenance)
            self._check_answered(target, tap, line)
            return
        later = _Later()
        with self.mounted(later, wire.base_path) as base:
            with Proxy(base, upstream, tap, line) as proxy:
                later.handler = proxy
                yield Stage(Endpoint(base, key), tap, scripted=False, provenance=provenance)
            self._check_answered(target, tap, line)

    def _check_answered(self, target: Target, tap: Tap, line: _Line) -> None:
        """Whether there is an API where a target sends its requests, seen by its first ones. The rest of the run would
        end like them, one cell after the other.

        Raises:
            UsageError: nobody answers there, or the server does not know the path.
        """
        if not tap.exchanges or target.name in self._answered:
            return
        found = [each.response.status for each in tap.exchanges if each.response is not None]
        if any(status not in _NO_SUCH_PATH for status in found) or not (found or line.failure):
            self._answered.add(target.name)
            return
        asked = tap.exchanges[-1].request
        happened = f"was answered with HTTP {found[-1]}" if found else f"was not answered: {line.failure}"
        ending = catalog.api(target.api).base_url_ending
        given = self._base_urls.get(target.name)
        raise UsageError(
            f"the target {target.name!r} does not reach its API, so the run was stopped: {asked.method} {asked.url} "
            f"{happened}. {_way_out(target.name, given, ending, found)}"
        )


_NO_SUCH_PATH = frozenset({404, 405})
"""What a server answers that does not have what was asked for: the path, or the model that stands in it."""


def _way_out(name: str, given: str | None, ending: str, found: Sequence[int]) -> str:
    path = "" if given is None else httpx2.URL(given).path.rstrip("/")
    version = re.search(r"/v\d\w*$", path)
    asking = [] if found else ["Is the server up?"]
    if given is not None and not path.endswith(ending):
        asking.append(f"Its base URL has to end in {ending}, as in --base-url {name}=http://127.0.0.1:4000{ending}.")
    elif version is not None and not ending:
        asking.append(f"Its base URL must not end in {version[0]}, which is added to it.")
    elif found:
        asking.append("Does the server have this path, and the model?")
    return " ".join([*asking, f"--base-url {name}=URL and --model {name}=NAME name others."])


class _Line(httpx2.HTTPTransport):
    """The way to a provider. `failure` says why the last connection was not made."""

    failure: str | None = None

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return super().handle_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            self.failure = str(error) or type(error).__name__
            raise


class _Later:
    """A handler whose work is known only once it has an address."""

    handler: Handler

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.handler(request)


def _follows_script(cassette: Cassette, cell: Cell) -> bool:
    """Whether the reference server would answer as it did: a scenario may have been edited in what is not sent."""
    session = Session(cell.scenario, catalog.api(cell.target.api), cell.target.model, cell.target.profile)
    stored = Redactor()
    return all(stored.response(session(each.request)) == each.response for each in cassette.interactions)


def _runs_commands(target: Target) -> bool:
    return Capability.PROCESS in target.adapter.capabilities


def _running(processes: ProcessRunner) -> Endpoint:
    return Endpoint(ORIGIN, _NO_KEY, processes=processes)


def _origin(cassette: Cassette) -> str:
    return origin(cassette.interactions[0].request.url) if cassette.interactions else REFERENCE_URL


def _told_by(cassette: Cassette, provenance: Provenance, wire: Api) -> Provenance:
    """Where a cassette comes from. Those of before `recorded_from` take every server for the provider."""
    address = _origin(cassette)
    if provenance.origin != "provider" or wire.is_provider(address):
        return provenance
    return replace(provenance, origin="server", recorded_from=address)
