"""Checks of gateways by the traffic at both ends."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

import httpx2

from harness import plugins
from harness.apis import registry
from harness.apis.fact_files import FactSelection
from harness.apis.profiles import ShippedTarget
from harness.cassettes.loopback_server import serve
from harness.cassettes.redact import Redactor
from harness.cassettes.redact.secret_patterns import display_url
from harness.checks import gateway_findings, gateway_traffic
from harness.checks.finding_scope import FindingPolicy
from harness.checks.gateway_check import GatewayCheck, GatewayRoute, gateway_route
from harness.checks.gateway_traffic import PACE_SECONDS, GatewayEndpoint, Upstream
from harness.cli import check
from harness.cli.check import GatewayOptions
from harness.cli.endpoint_checks import (
    PROBE_SECONDS,
    complete_from_settings,
    headers_of,
    redactor_of,
    repeat_words,
    run_check,
)
from harness.cli.main import print_error
from harness.cli.progress import PartialReports, Progress
from harness.cli.selection import parse_keywords, scenarios_of, searched_text
from harness.cli.settings import fact_files, fact_options, settings
from harness.model.errors import UnknownName, UsageError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.protocols import Route
from harness.platform import environment
from harness.platform.environment import hidden_variables
from harness.platform.project import NamedGateway
from harness.results import CellResult, Invocation, RunResult
from harness.runner.backends import NO_KEY
from harness.runner.cells import Cell
from harness.runner.live import client_base_url
from harness.runner.served_session import SessionOptions
from harness.runner.suite_run import variants
from harness.runner.verdicts import known_finding_ids
from harness.scenarios.schema import Scenario

_ANSWER_SECONDS = 60.0


def check_gateway(args: GatewayOptions) -> int:
    """Check a gateway, write the reports, and return the exit code."""
    options = _completed_gateway(args)
    models = [each.rpartition("=")[2] for each in (*(options.models or ()), *(options.upstream_models or ()))]

    def known_ids(by: FactSelection) -> Collection[str]:
        return known_finding_ids(by) | gateway_findings.RULES

    return run_check(options, models, "reference", known_ids, partial(_check_gateway_cells, args, options)).exit_code


def validate_gateway(name: str) -> None:
    """Raise `UsageError` if the settings of a project's gateway are wrong."""
    options = _completed_gateway(GatewayOptions(url=name))
    _pairs(options, fact_options(None, ()))
    variants(options.variants or (), options.place("variants", "variant"))


def _completed_gateway(args: GatewayOptions) -> GatewayOptions:
    """Return the options completed by the settings, with only the models of the selected upstreams."""
    options, found = complete_from_settings("gateway", args)
    for key in ("models", "upstream_models") if isinstance(found, NamedGateway) else ():
        table: Mapping[str, str] = getattr(found, key)
        chosen = [f"{name}={model}" for name, model in table.items() if not args.upstreams or name in args.upstreams]
        if chosen and not getattr(args, key):
            options = replace(options, **{key: chosen, "from_table": options.from_table | {key}})
    return options


def _check_gateway_cells(  # noqa: PLR0913, PLR0917 - the parts of a check
    args: GatewayOptions,
    options: GatewayOptions,
    by: FactSelection,
    redactor: Redactor,
    policy: FindingPolicy,
    conversations: bool,
    reports: PartialReports,
) -> RunResult:
    pairs = _pairs(options, by)
    played = variants(options.variants or (), options.place("variants", "variant"))
    scenarios, files = _gateway_scenarios(options)
    endpoint = _gateway_endpoint(options, pairs[0])
    cells = _matching_cells(GatewayCheck.cells(pairs, scenarios, played), options.words)
    done: list[CellResult] = []
    reports.begin([cell for _, cell in cells], lambda: tuple(done))
    with _open(options, pairs, by) as upstream, hidden_variables(), Progress(len(cells)) as progress:

        def finished(cell: CellResult) -> None:
            done.append(cell)
            progress(cell)

        result = GatewayCheck(endpoint, upstream, redactor, policy, conversations)(cells, finished)
    return replace(result, invocation=_invocation(args, options, pairs, files))


def _gateway_endpoint(options: GatewayOptions, route: GatewayRoute) -> GatewayEndpoint:
    client = route.way.client
    return GatewayEndpoint(
        client_base_url(client, options.url),
        environment.read_key(client.key_variables) or NO_KEY,
        options.cell_timeout or _ANSWER_SECONDS,
        headers_of(options),
    )


@dataclass(frozen=True, slots=True)
class GatewayConnection:
    """A gateway that is connected to its upstream, the first cell of a check, and a redactor for its requests.
    `variables` are the environment variables of the headers.
    """

    route: GatewayRoute
    cell: Cell
    endpoint: GatewayEndpoint
    upstream: Upstream
    redactor: Redactor
    variables: Mapping[str, str]


@contextmanager
def gateway_connection(args: GatewayOptions) -> Generator[GatewayConnection]:
    """Start the upstream of a gateway's check.

    Raises:
        UsageError: the gateway does not listen.
    """
    options = _completed_gateway(args)
    by = fact_options(options.as_of, fact_files(options.facts))
    pairs = _pairs(options, by)
    scenarios, _ = _gateway_scenarios(options)
    route, cell = GatewayCheck.cells(pairs, scenarios, variants(options.variants or (), "--variant"))[0]
    redactor = redactor_of(options, [route.target.model, route.upstream.model])
    endpoint = _gateway_endpoint(options, route)
    with redactor.redact_exceptions(), _open(options, pairs, by) as upstream, hidden_variables():
        yield GatewayConnection(route, cell, endpoint, upstream, redactor, options.variables)


@contextmanager
def _open(options: GatewayOptions, pairs: Sequence[GatewayRoute], by: FactSelection) -> Generator[Upstream]:
    """Start the upstream. Also start the gateway if a command was given for it."""
    upstream = Upstream(
        SessionOptions(fact_selection=by, models=tuple(each.upstream.model for each in pairs), pace=PACE_SECONDS)
    )
    wait = check.DEFAULT_WAIT_SECONDS if options.wait is None else options.wait
    with serve(upstream, options.upstream_port or 0) as server:
        upstream.origin = server.origin
        for line in _configuration(options, pairs, server.origin):
            print_error(line)
        if options.command is None:
            gateway_traffic.await_listening(options.url, wait)
            yield upstream
            return
        with gateway_traffic.run_command(options.command, {"HARNESS_UPSTREAM_URL": server.origin}) as started:
            gateway_traffic.await_listening(options.url, wait, started.check)
            try:
                yield upstream
            except UsageError as error:
                raise UsageError(f"{error}{started.output_tail}") from None


def _configuration(options: GatewayOptions, pairs: Sequence[GatewayRoute], origin: str) -> list[str]:
    lines = [f"harness: checking the gateway at {display_url(options.url)} with requests of {pairs[0].target.api}."]
    lines.append("Configure these models in it, each with the base URL of its upstream and any key:")
    for each in pairs:
        base = origin + each.way.upstream.base_url_ending
        lines.append(f"  {each.target.model}: {each.upstream.model} of {each.upstream.api} at {base}")
    return lines


def _pairs(options: GatewayOptions, by: FactSelection) -> list[GatewayRoute]:
    if options.api is None or not options.upstreams:
        raise UsageError(
            "check gateway: name the API of its clients and its upstream, as in --api openai-chat --upstream anthropic."
        )
    client = _shipped_target(options.api, options.place("api"))
    place = options.place("upstreams", "upstream")
    given = list(dict.fromkeys(options.upstreams))
    upstreams = [_shipped_target(name, place) for name in given]
    names = {name: shipped.name for name, shipped in zip(given, upstreams, strict=True)}
    models = _by_upstream(options.upstream_models, options.place("upstream-models", "upstream-model"), names)
    aliases = _by_upstream(options.models, options.place("models", "model"), names)
    found = [
        gateway_route(client, each, models, aliases.get(each.name) or models.get(each.name, each.model), by)
        for each in dict.fromkeys(upstreams)
    ]
    for each in found:
        same = [other.upstream.name for other in found if other.target.model == each.target.model]
        if len(same) > 1:
            raise UsageError(
                f"{place}: {' and '.join(same)} would both be requested as {each.target.model!r}. Name the models as "
                f"the gateway does, as in --model {same[0]}=NAME."
            )
    return found


def _shipped_target(name: str, option: str) -> ShippedTarget:
    """Return the target with this name, or the first target of the API with this name. Its API must use HTTP."""
    served = [each for each in registry.targets() if registry.api(each.api).provider_url.startswith("http")]
    found = next((each for each in served if each.name == name), None)
    found = found or next((each for each in served if each.api == name), None)
    if found is None:
        known = {each.api for each in served} | {each.name for each in served}
        raise UnknownName("API", name, sorted(known), option)
    if plugins.adapter(found.adapter).route is not Route.CLIENT:
        raise UsageError(
            f"{option} {name}: its adapter opens connections of its own, and a gateway needs one that does not."
        )
    return found


def _by_upstream(values: Sequence[str] | None, option: str, upstreams: Mapping[str, str]) -> dict[str, str]:
    """Return the models by upstream. A value without a name applies to the only upstream.

    Raises:
        UsageError: a name is not an upstream, a name is missing although there are several upstreams, or a model is
            missing.
    """
    found: dict[str, str] = {}
    for value in values or ():
        name, equals, model = value.partition("=")
        if not equals and len(upstreams) > 1:
            raise UsageError(f"{option} {value}: name its upstream, as in {option} {next(iter(upstreams))}={value}.")
        if equals and name not in upstreams:
            raise UnknownName("upstream", name, sorted(upstreams), option)
        if not (model if equals else name):
            raise UsageError(f"{option} {value!r}: it needs the name of a model.")
        found[upstreams[name] if equals else next(iter(upstreams.values()))] = model if equals else name
    return found


def _gateway_scenarios(options: GatewayOptions) -> tuple[Sequence[Scenario], Mapping[str, str]]:
    """Return the scenarios to run and their files, without scenarios of embeddings.

    If the user names scenarios, only these are run. Otherwise the scenarios for gateways are run. With `--all`, the
    scenarios of the project's settings are run. If the settings name none, the whole suite is run together with the
    scenarios for gateways.
    """
    own = {each.id: each for each in gateway_traffic.scenarios()}
    chosen = options.paths or (settings().scenarios if options.everything else ())
    if not chosen and not options.everything:
        return list(own.values()), {}
    others = [each for each in chosen if each not in own]
    found, files = scenarios_of(others) if others or not chosen else ([], {})
    mine = [own[each] for each in chosen if each in own] if chosen else list(own.values())
    every = {each.id: each for each in (*mine, *found)}
    return [each for each in every.values() if each.embeddings is None], files


def _matching_cells(cells: list[tuple[GatewayRoute, Cell]], words: str | None) -> list[tuple[GatewayRoute, Cell]]:
    if words is None:
        return cells
    wanted = parse_keywords(words)
    found = [(each, cell) for each, cell in cells if wanted.match(searched_text(cell))]
    if not found:
        raise UsageError(f"-k {words!r} matches no cell of the chosen scenarios. 'harness list scenarios' shows them.")
    return found


def _invocation(
    args: GatewayOptions, options: GatewayOptions, pairs: Sequence[GatewayRoute], files: Mapping[str, str]
) -> Invocation:
    words = tuple(repeat_words(args, options, "gateway"))
    columns = {
        each.target.name: (
            *("--upstream", each.upstream.name),
            *("--model", each.target.model),
            *("--upstream-model", each.upstream.model),
        )
        for each in pairs
    }
    return Invocation(words, words, words, scenarios=files, targets=columns)


@dataclass(frozen=True, slots=True)
class GatewayProbe:
    """Result of a short question to a server that may be a gateway.

    `failure` is `HTTP 502`, `HTTP 503`, `HTTP 504` or `a closed connection` if the server seems to be a gateway whose
    provider does not respond. `upstream` and `model` are the API and the model of the request that a gateway sent to
    the probed port.
    """

    failure: str = ""
    upstream: str | None = None
    model: str | None = None


def probe_gateway(url: str, model: str, upstream_port: int) -> GatewayProbe:
    """Send a short question to a server, and listen on the port that may be its upstream."""
    arrived: list[HttpRequest] = []

    def refuse(request: HttpRequest) -> HttpResponse:
        arrived.append(request)
        return HttpResponse(400, {"content-type": "application/json"}, b'{"error": {"message": "a probe"}}')

    with contextlib.ExitStack() as opened:
        with contextlib.suppress(UsageError):  # the port is in use
            opened.enter_context(serve(refuse, upstream_port))
        failure = _gateway_failure(url, model)
    for request, wire in ((each, wire) for each in arrived for wire in registry.apis()):
        if wire.provider_url.startswith("http") and wire.recognises(replace(request, body=wire.least_body)):
            return GatewayProbe("", wire.name, wire.model_of(request))
    return GatewayProbe(failure)


def _gateway_failure(url: str, model: str) -> str:
    """Return the failure of a short question if the server's provider seems not to respond.

    Return an empty string in all other cases, even if the server itself does not respond.
    """
    question = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 16}
    try:
        status = httpx2.post(f"{url.rstrip('/')}/chat/completions", json=question, timeout=PROBE_SECONDS).status_code
    except (httpx2.RemoteProtocolError, httpx2.ReadError):
        return "a closed connection"
    except httpx2.TransportError:
        return ""
    return f"HTTP {status}" if HTTPStatus.BAD_GATEWAY <= status <= HTTPStatus.GATEWAY_TIMEOUT else ""
