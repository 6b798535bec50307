"""Against the providers, or other servers that speak their APIs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Self

import httpx2

from harness import catalog
from harness.apis.targets import Target
from harness.contract.errors import MissingKey, UsageError
from harness.contract.protocols import ProcessRunner, Route
from harness.host import keys
from harness.kit import factories
from harness.kit.processes import LocalRunner
from harness.results import Mode, Provenance
from harness.running.pace import Lane, Pace, Paced
from harness.running.stages.routes import NO_KEY, Routes
from harness.running.stages.stage import Cell, Stage
from harness.tape.player import Keep, Tap
from harness.tape.redact import Redactor
from harness.tape.redact.address import origin
from harness.tape.transport import ALONE, Handler, Proxy, TapRunner, TapTransport


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
        found = keys.key(variables)
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
