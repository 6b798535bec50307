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
from urllib.parse import urlsplit

import httpx2

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.registry import Target
from harness.apis.server import waiting_time
from harness.cassettes.player import ExchangeLog, ExchangeStore
from harness.cassettes.redact import Redactor
from harness.cassettes.redact.secret_patterns import display_url, origin
from harness.cassettes.transport import NO_KEEPALIVE, Handler, LoggingRunner, LoggingTransport, Proxy
from harness.kit import factories
from harness.kit.client import LocalRunner
from harness.model.errors import MissingKey, UsageError
from harness.model.protocols import ProcessRunner, Route
from harness.platform import environment
from harness.results import Mode, Provenance
from harness.runner.backends import NO_KEY, Backend, CellEnvironment, Responder
from harness.runner.cells import Cell
from harness.stdio.workers import RunCancelled

V = TypeVar("V")

MAX_TRIES = 5
"""Maximum number of attempts if the provider asks the client to wait. After the last one, the adapter gets the refusal.
"""

MAX_WAIT_SECONDS = 600.0
"""The longest wait that a provider may ask for; a longer one counts as a refusal."""

_WAIT_STATUSES = frozenset({429, 503, 529})
"""Statuses with which a provider can ask the client to wait. They count only if the response also states how long."""

_RATE = re.compile(r"([0-9]{1,6})/(s|min|h)")
_SECONDS_PER_UNIT = {"s": 1.0, "min": 60.0, "h": 3600.0}

_VERSION = r"/v\d+(?:(?:alpha|beta)\d*)?"
_VERSIONS = re.compile(rf"({_VERSION})(?=/)")
_AT_END = re.compile(rf"(?:{_VERSION})+/?$")


@dataclass(frozen=True, slots=True)
class RateOptions:
    """Values of `--rate` and `--concurrency` by target. The key `None` applies to all other targets.

    `interval_seconds` is the time between requests, and `concurrent_cells` the number of cells that run at a time.
    """

    interval_seconds: Mapping[str | None, float] = field(default_factory=dict[str | None, float])
    concurrent_cells: Mapping[str | None, int] = field(default_factory=dict[str | None, int])

    @staticmethod
    def parse(rates: Sequence[str], concurrency: Sequence[str], known: Sequence[str]) -> RateOptions:
        """Parse `--rate` and `--concurrency`: `60/min` or `TARGET=60/min`, `4` or `TARGET=4`.

        Raises:
            UsageError: A value has another form, or names a target that is not in the run.
        """
        return RateOptions(
            _by_target("--rate", rates, _interval_seconds, known, "60/min, 5/s or 1000/h"),
            _by_target("--concurrency", concurrency, _concurrency, known, "4"),
        )


def _by_target(
    option: str, given: Sequence[str], read: Callable[[str], V | None], known: Sequence[str], examples: str
) -> dict[str | None, V]:
    found: dict[str | None, V] = {}
    for each in given:
        target, equals, value = each.rpartition("=")
        name, read_value = target if equals else None, read(value)
        if read_value is None:
            raise UsageError(f"{option} {each!r}: it must be {examples}, alone or after TARGET=.")
        if name is not None and name not in known:
            raise UsageError(f"{option} {each!r}: {name} is not a target of this run: {', '.join(known)}.")
        if name in found:
            raise UsageError(f"{option} {each!r}: it is given twice for {name or 'all targets'}.")
        found[name] = read_value
    return found


def _interval_seconds(value: str) -> float | None:
    rate = _RATE.fullmatch(value)
    return _SECONDS_PER_UNIT[rate[2]] / int(rate[1]) if rate and int(rate[1]) else None


def _concurrency(value: str) -> int | None:
    return int(value) if re.fullmatch(r"[1-9][0-9]{0,3}", value) else None


class RateLimits:
    """The rate limiters of a run, one per target."""

    def __init__(self, options: RateOptions | None = None) -> None:
        self.options = options or RateOptions()
        self._limiters: dict[str, RateLimiter] = {}
        self._ended = Event()
        self._lock = Lock()

    def limiter(self, target: str) -> RateLimiter:
        """Return the rate limiter of a target."""
        interval_seconds = self.options.interval_seconds
        with self._lock:
            return self._limiters.setdefault(
                target, RateLimiter(interval_seconds.get(target, interval_seconds.get(None, 0.0)), self._ended)
            )

    def end(self) -> None:
        """Cancel all waits. No further request is sent."""
        self._ended.set()


class RateLimiter:
    """A limiter that sends at most one request to a target per interval."""

    def __init__(self, interval_seconds: float, ended: Event) -> None:
        self._interval_seconds = interval_seconds
        self._ended = ended
        self._next = self._open = 0.0
        self._lock = Lock()

    def enter(self) -> None:
        """Wait until a request may be sent. Raises `RunCancelled`."""
        with self._lock:
            at = max(time.monotonic(), self._next)
            self._next = at + self._interval_seconds
        while (left := max(at, self._open) - time.monotonic()) > 0:
            if self._ended.wait(left):
                raise RunCancelled

    def pause(self, seconds: float) -> None:
        """Hold back all requests for this many seconds."""
        with self._lock:
            self._open = max(self._open, time.monotonic() + seconds)


class RateLimitedTransport(httpx2.BaseTransport):
    """A transport that sends requests through another one, within a rate limit. If the provider asks the client to
    wait, the request is sent again later. Only the last response reaches the adapter.
    """

    def __init__(self, inner: httpx2.BaseTransport, limiter: RateLimiter) -> None:
        self._inner = inner
        self._limiter = limiter

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request as the rate limiter allows. Raises `RunCancelled` and the exceptions of
        the inner transport.
        """
        for attempt in range(1, MAX_TRIES + 1):
            self._limiter.enter()
            response = self._inner.handle_request(request)
            wait = waiting_time(response.headers) if response.status_code in _WAIT_STATUSES else None
            if wait is None or wait > MAX_WAIT_SECONDS or attempt == MAX_TRIES:
                return response
            response.close()
            self._limiter.pause(wait)
        raise AssertionError  # the last attempt returns

    def close(self) -> None:
        """Close the inner transport."""
        self._inner.close()


class LiveBackend(Backend):
    """Sends requests to providers, within rate limits. `base_urls` maps targets to servers with the same API that
    replace their providers.
    """

    mode: Mode = "live"

    def __init__(self, base_urls: Mapping[str, str], rate_limits: RateLimits | None = None) -> None:
        super().__init__()
        self._rate_limits = rate_limits or RateLimits()
        self._base_urls = base_urls
        self._answered: set[str] = set()

    def key(self, target: Target) -> str:
        """Return the key for a target from the environment. A custom server may need none, and a command may be logged
        in.

        Raises:
            MissingKey: No key is set.
            UsageError: The key does not fit into a header, or `base_urls` has a target that sends no requests.
        """
        if target.adapter.route is Route.PROCESS and target.name in self._base_urls:
            raise UsageError(
                f"the target {target.name!r} runs a command and ignores --base-url: set the environment variable from "
                "which the command reads its address."
            )
        variables = target.key_variables
        found = environment.read_key(variables)
        if found is not None:
            return found
        if target.name in self._base_urls or target.adapter.route is Route.PROCESS:
            return NO_KEY
        raise MissingKey(target.name, variables)

    def check(self, target: Target) -> None:
        """Check that requests can be sent to a target, before anything costs money.

        Raises:
            MissingKey, UsageError: See `key`.
            UsageError: The target's command is not installed, a key does not fit into a header, or a base URL is not
                a URL.
        """
        self.key(target)
        self.address(target)
        if target.adapter.route is Route.PROCESS:  # the command may read any of them
            for name in target.key_variables:
                if os.environ.get(name):
                    environment.check_key(name, os.environ[name])
        needed = target.adapter.requires
        if needed is not None and needed.extra is None and shutil.which(needed.name) is None:
            raise UsageError(
                f"the target {target.name!r} runs the command {needed.name!r}, which is not on PATH: install it, or "
                "add its folder to PATH. Without it: 'harness run' replays recordings, and "
                "'harness run --mode reference' or 'harness record --from reference' the reference server."
            )

    def provenance(self, target: Target) -> Provenance:
        """Return the origin of responses: the provider if the target's address is one of its own, otherwise a server.
        See `Backend.provenance`.
        """
        url = self.address(target)
        if registry.api(target.api).is_provider(url):
            return Provenance("provider", model_requested=target.model)
        return Provenance("server", model_requested=target.model, recorded_from=origin(url))

    def redactor(self) -> Redactor:
        """See `Backend.redactor`."""
        return Redactor.of_run(self._base_urls.values(), shaped=True)

    def address(self, target: Target) -> str:
        """Return the base URL for a target's requests."""
        given = self._base_urls.get(target.name)
        if target.adapter.route is Route.PROCESS:
            given = factories.base_url_for(target.api)
        return given or target.url or registry.api(target.api).provider_url

    @contextmanager
    def open_cell(self, cell: Cell, keep: ExchangeStore | None = None) -> Generator[CellEnvironment, None, None]:
        """See `Backend.open_cell`."""
        target = cell.target
        key, url, provenance = self.key(target), self.address(target).rstrip("/"), self.provenance(target)
        with (
            _ProviderResponder(url, key, self._rate_limits.limiter(target.name)) as end,
            self.connect(target, end, url, keep) as (endpoint, log),
        ):
            yield CellEnvironment(endpoint, log, scripted=False, provenance=provenance)
        if target.adapter.route is not Route.PROCESS:
            self._check_answered(target, log, end.line)

    def _check_answered(self, target: Target, log: ExchangeLog, line: _ProviderTransport) -> None:
        """Stop the run if the first requests of a target show that there is no API at its address.

        Raises:
            UsageError: Nothing responds there, or the server does not know the path.
        """
        if not log.exchanges or target.name in self._answered:
            return
        found = [each.response.status for each in log.exchanges if each.response is not None]
        if any(status not in NO_SUCH_PATH for status in found) or not (found or line.failure):
            self._answered.add(target.name)
            return
        request = log.exchanges[-1].request
        happened = f"was answered with HTTP {found[-1]}" if found else f"was not answered: {line.failure}"
        ending = registry.api(target.api).base_url_ending
        given = self._base_urls.get(target.name)
        raise UsageError(
            f"the target {target.name!r} does not reach its API, so the run was stopped: "
            f"{request.method} {request.url} {happened}. {reach_hint(target.name, given, ending, found)}"
        )


def base_urls_of(given: Mapping[str, str], targets: Sequence[Target]) -> Mapping[str, str]:
    """Return the servers that replace the providers of targets: from options, else from the environment."""
    # A URL of a shipped target applies to every adapter of it. Otherwise its requests would go to the provider.
    shipped = {target.name: given.get(target.cassettes.partition("@")[0]) for target in targets}
    urls = {**{name: url for name, url in shipped.items() if url is not None}, **given}
    unnamed = [each for each in targets if each.name not in urls and each.adapter.route is not Route.PROCESS]
    set_ = {target.name: factories.base_url_for(target.api) for target in unnamed}
    return {**{name: url for name, url in set_.items() if url is not None}, **urls}


NO_SUCH_PATH = frozenset({404, 405})
"""Statuses of a server that does not know the path, or the model in the path."""


def reach_hint(name: str, given: str | None, ending: str, found: Sequence[int]) -> str:
    """Return what to check if a target does not reach its API. `found` are the statuses of the responses, if there were
    any."""
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


def client_base_url(api: Api, base_url: str) -> str:
    """Return the base URL in the form that the client's SDK expects. The user may omit the version
    that the SDK adds.
    """
    root = base_url.rstrip("/")
    is_complete = api.base_path or _AT_END.search(root)
    return root if is_complete else root + api.base_url_ending


def url_suggestion(api: Api, base_url: str, requested: str) -> str:
    """Return a suggested base URL as a sentence that begins with a space. Return an empty string if the requested path
    already has exactly one version.
    """
    count = len(_VERSIONS.findall(urlsplit(requested).path))
    if count == 1 or (count == 0 and not api.base_url_ending):
        return ""
    root = _AT_END.sub("", base_url.rstrip("/"))
    return f" Did you mean {display_url(root + (api.base_path if count else api.base_url_ending))}?"


class _ProviderResponder(Responder):
    """A provider, or another server that speaks its API. Commands run on this machine."""

    def __init__(self, url: str, key: str, limiter: RateLimiter) -> None:
        super().__init__(self._proxy)
        self.key = key
        self.line = _ProviderTransport(trust_env=False, limits=NO_KEEPALIVE)
        self._limiter = limiter
        self._url = url
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()
        self.line.close()

    def _proxy(self, log: ExchangeLog) -> Handler:
        return self._open.enter_context(
            Proxy(log.base_url, self._url, log, RateLimitedTransport(self.line, self._limiter))
        )

    def transport(self, log: ExchangeLog) -> httpx2.BaseTransport:
        return LoggingTransport(RateLimitedTransport(self.line, self._limiter), log)

    def runner(self, log: ExchangeLog) -> ProcessRunner:
        return LoggingRunner(LocalRunner(), log)


class _ProviderTransport(httpx2.HTTPTransport):
    """The connection to a provider. `failure` is the reason why the last attempt to connect failed."""

    failure: str | None = None

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return super().handle_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            self.failure = str(error) or type(error).__name__
            raise
