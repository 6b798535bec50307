"""The live backend: providers, or other servers that speak their APIs, within rate limits."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Self, TypeVar

import httpx2

from harness import catalog
from harness.apis.server import waiting_time
from harness.apis.targets import Target
from harness.contract.errors import MissingKey, UsageError
from harness.contract.protocols import ProcessRunner, Route
from harness.host import credentials
from harness.kit import factories
from harness.kit.processes import LocalRunner
from harness.results import Mode, Provenance
from harness.running.backends import NO_KEY, Routes, Stage
from harness.running.cells import Cell
from harness.stdio.workers import Halted
from harness.tape.player import Keep, Tap
from harness.tape.redact import Redactor
from harness.tape.redact.address import origin
from harness.tape.transport import ALONE, Handler, Proxy, TapRunner, TapTransport

V = TypeVar("V")

TRIES = 5
"""How often a request is sent that a provider asks to send later, before the refusal counts as its answer."""

LONGEST = 600.0
"""Seconds that a provider may ask to wait; who asks for more has refused."""

_LATER = frozenset({429, 503, 529})
"""The statuses by which a provider asks to wait, if it says how long."""

_RATE = re.compile(r"([0-9]{1,6})/(s|min|h)")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Tempo:
    """What was asked for, by target; `None` is any other target. `apart` are seconds from one request to the next, and
    `at_once` how many cells are under way."""

    apart: Mapping[str | None, float] = field(default_factory=dict[str | None, float])
    at_once: Mapping[str | None, int] = field(default_factory=dict[str | None, int])

    @staticmethod
    def parsed(rates: Sequence[str], concurrency: Sequence[str], known: Sequence[str]) -> Tempo:
        """The values of `--rate` and `--concurrency`: `60/min` or `TARGET=60/min`, `4` or `TARGET=4`.

        Raises:
            UsageError: one has another form, or names no target of the run.
        """
        return Tempo(
            _by_target("--rate", rates, _apart, known, "60/min, 5/s or 1000/h"),
            _by_target("--concurrency", concurrency, _number, known, "4"),
        )


def _by_target(
    option: str, given: Sequence[str], read: Callable[[str], V | None], known: Sequence[str], examples: str
) -> dict[str | None, V]:
    found: dict[str | None, V] = {}
    for each in given:
        target, equals, value = each.rpartition("=")
        name, read_value = target if equals else None, read(value)
        if read_value is None:
            raise UsageError(f"{option} {each!r}: it has to be {examples}, or TARGET= and that.")
        if name is not None and name not in known:
            raise UsageError(f"{option} {each!r}: {name} is no target of this run: {', '.join(known)}.")
        if name in found:
            raise UsageError(f"{option} {each!r}: it is given twice for {name or 'all targets'}.")
        found[name] = read_value
    return found


def _apart(value: str) -> float | None:
    rate = _RATE.fullmatch(value)
    return _SECONDS[rate[2]] / int(rate[1]) if rate and int(rate[1]) else None


def _number(value: str) -> int | None:
    return int(value) if re.fullmatch(r"[1-9][0-9]{0,3}", value) else None


class Pace:
    """The lanes of a run: one for each target."""

    def __init__(self, tempo: Tempo | None = None) -> None:
        self.tempo = tempo or Tempo()
        self._lanes: dict[str, Lane] = {}
        self._ended = Event()
        self._lock = Lock()

    def lane(self, target: str) -> Lane:
        """The one of a target."""
        apart = self.tempo.apart
        with self._lock:
            return self._lanes.setdefault(target, Lane(apart.get(target, apart.get(None, 0.0)), self._ended))

    def end(self) -> None:
        """The run has ended: nobody waits any more, and nothing more is sent."""
        self._ended.set()


class Lane:
    """The requests of one target, `apart` seconds from one to the next."""

    def __init__(self, apart: float, ended: Event) -> None:
        self._apart = apart
        self._ended = ended
        self._next = self._open = 0.0
        self._lock = Lock()

    def enter(self) -> None:
        """Wait until a request may be sent. Raises `Halted`: the run has ended meanwhile."""
        with self._lock:
            at = max(time.monotonic(), self._next)
            self._next = at + self._apart
        while (left := max(at, self._open) - time.monotonic()) > 0:
            if self._ended.wait(left):
                raise Halted

    def pause(self, seconds: float) -> None:
        """Let no request be sent for so long."""
        with self._lock:
            self._open = max(self._open, time.monotonic() + seconds)


class Paced(httpx2.BaseTransport):
    """Sends requests through another transport as a lane allows. What a provider asks to send later is sent later, and
    only its answer is handed on: to be asked for patience is no fault of an adapter."""

    def __init__(self, inner: httpx2.BaseTransport, lane: Lane) -> None:
        self._inner = inner
        self._lane = lane

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises what the other one raises, and `Halted`: the run has ended meanwhile."""
        for attempt in range(1, TRIES + 1):
            self._lane.enter()
            response = self._inner.handle_request(request)
            wait = waiting_time(response.headers) if response.status_code in _LATER else None
            if wait is None or wait > LONGEST or attempt == TRIES:
                return response
            response.close()
            self._lane.pause(wait)
        raise AssertionError  # the last attempt returns

    def close(self) -> None:
        """Close the other one."""
        self._inner.close()


class Live(Routes):
    """Against the providers, at a `pace`. `base_urls` replaces a target's provider by another server that speaks its
    API."""

    mode: Mode = "live"

    def __init__(self, base_urls: Mapping[str, str], pace: Pace | None = None) -> None:
        super().__init__()
        self._pace = pace or Pace()
        self._base_urls = base_urls
        self._answered: set[str] = set()

    def key(self, target: Target) -> str:
        """The key for a target, from the environment.

        A server of one's own may need none, and a command may have logged in by itself.

        Raises:
            MissingKey: there is none.
            UsageError: no header takes it, or another server is given for a target that sends no request.
        """
        if target.adapter.route is Route.PROCESS and target.name in self._base_urls:
            raise UsageError(
                f"the target {target.name!r} runs a command, and takes no --base-url: "
                "set the environment variable by which the command is sent elsewhere."
            )
        variables = catalog.api(target.api).key_variables
        found = credentials.key(variables)
        if found is not None:
            return found
        if target.name in self._base_urls or target.adapter.route is Route.PROCESS:
            return NO_KEY
        raise MissingKey(target.name, variables)

    def check(self, target: Target) -> None:
        """Whether a target can be asked from here. Better known before anything is paid for.

        Raises:
            MissingKey, UsageError: see `key`.
            UsageError: it runs a command that is not installed, or that would be given a key that no header takes, or
                that is sent to something that is no URL.
        """
        self.key(target)
        self.address(target)
        if target.adapter.route is Route.PROCESS:  # which chooses among its variables by itself
            for name in catalog.api(target.api).key_variables:
                if os.environ.get(name):
                    credentials.check(name, os.environ[name])
        needed = target.adapter.requires
        if needed is not None and needed.extra is None and shutil.which(needed.name) is None:
            raise UsageError(
                f"the target {target.name!r} runs the command {needed.name!r}, which is not on the path: install it, "
                "or add its folder to PATH. Without it: 'harness run' plays recordings, and "
                "'harness run --mode reference' or 'harness record --from reference' the reference server."
            )

    def provenance(self, target: Target) -> Provenance:
        """See `Stages.provenance`: the provider is who answers at an address of its own."""
        url = self.address(target)
        if catalog.api(target.api).is_provider(url):
            return Provenance("provider", model_requested=target.model)
        return Provenance("server", model_requested=target.model, recorded_from=origin(url))

    def redactor(self) -> Redactor:
        """See `Stages.redactor`."""
        return Redactor.of_run(self._base_urls.values(), shaped=True)

    def address(self, target: Target) -> str:
        """The base URL to which a target's requests go."""
        given = self._base_urls.get(target.name)
        if target.adapter.route is Route.PROCESS:
            given = factories.base_url_for(target.api)
        return given or catalog.api(target.api).provider_url

    @contextmanager
    def stage(self, cell: Cell, keep: Keep | None = None) -> Generator[Stage, None, None]:
        """See `Stages.stage`."""
        target = cell.target
        key, url, provenance = self.key(target), self.address(target).rstrip("/"), self.provenance(target)
        with (
            _Upstream(url, key, self._pace.lane(target.name)) as end,
            self.reached(target, end, url, keep) as (endpoint, tap),
        ):
            yield Stage(endpoint, tap, scripted=False, provenance=provenance)
        if target.adapter.route is not Route.PROCESS:
            self._check_answered(target, tap, end.line)

    def _check_answered(self, target: Target, tap: Tap, line: _Line) -> None:
        """Whether there is an API where a target sends its requests, seen by its first ones. The rest of the run would
        end like them, one cell after the other.

        Raises:
            UsageError: nobody answers there, or the server does not know the path.
        """
        if not tap.exchanges or target.name in self._answered:
            return
        found = [each.response.status for each in tap.exchanges if each.response is not None]
        if any(status not in NO_SUCH_PATH for status in found) or not (found or line.failure):
            self._answered.add(target.name)
            return
        asked = tap.exchanges[-1].request
        happened = f"was answered with HTTP {found[-1]}" if found else f"was not answered: {line.failure}"
        ending = catalog.api(target.api).base_url_ending
        given = self._base_urls.get(target.name)
        raise UsageError(
            f"the target {target.name!r} does not reach its API, so the run was stopped: {asked.method} {asked.url} "
            f"{happened}. {way_out(target.name, given, ending, found)}"
        )


def base_urls_of(given: Mapping[str, str], targets: Sequence[Target]) -> Mapping[str, str]:
    """The servers in place of the providers of these targets: as given, or by the environment."""
    # Given for a shipped target, it holds for whoever plays it: else what is meant for there would go to the provider.
    shipped = {target.name: given.get(target.cassettes.partition("@")[0]) for target in targets}
    urls = {**{name: url for name, url in shipped.items() if url is not None}, **given}
    asked = [each for each in targets if each.name not in urls and each.adapter.route is not Route.PROCESS]
    set_ = {target.name: factories.base_url_for(target.api) for target in asked}
    return {**{name: url for name, url in set_.items() if url is not None}, **urls}


NO_SUCH_PATH = frozenset({404, 405})
"""What a server answers that does not have what was asked for: the path, or the model that stands in it."""


def way_out(name: str, given: str | None, ending: str, found: Sequence[int]) -> str:
    """What to look at where a target does not reach its API, which was answered with these statuses, or not at all."""
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


class _Upstream:
    """A provider, or another server that speaks its API: a `FarEnd`. Commands are run on this machine."""

    client: httpx2.Client | None = None

    def __init__(self, url: str, key: str, lane: Lane) -> None:
        self.key = key
        self.line = _Line(trust_env=False, limits=ALONE)
        self._lane = lane
        self._url = url
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()
        self.line.close()

    def handler(self, tap: Tap) -> Handler:
        return self._open.enter_context(Proxy(tap.base_url, self._url, tap, Paced(self.line, self._lane)))

    def transport(self, tap: Tap) -> httpx2.BaseTransport:
        return TapTransport(Paced(self.line, self._lane), tap)

    def runner(self, tap: Tap) -> ProcessRunner:
        return TapRunner(LocalRunner(), tap)


class _Line(httpx2.HTTPTransport):
    """The way to a provider. `failure` says why the last connection was not made."""

    failure: str | None = None

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return super().handle_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            self.failure = str(error) or type(error).__name__
            raise
