"""Checks of servers by their raw answers, and of gateways by the traffic at both ends."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast, get_args

import httpx2
import typer

from harness import plugins
from harness.apis import registry
from harness.apis.fact_files import FactSelection
from harness.apis.prices import price_version
from harness.apis.profiles import ShippedTarget
from harness.apis.response_rules import RESPONSE_RULES
from harness.cassettes.client_patches import is_local
from harness.cassettes.loopback_server import serve
from harness.cassettes.redact import Redactor
from harness.cassettes.redact.secret_patterns import display_url
from harness.checks import gateway_findings, gateway_traffic
from harness.checks.finding_scope import FindingPolicy
from harness.checks.gateway_check import GatewayCheck, GatewayRoute, gateway_route
from harness.checks.gateway_traffic import PACE_SECONDS, GatewayEndpoint, Upstream
from harness.checks.server_check import INTERRUPTED, CheckSelection, ServerCheckRun, estimate, send_first_request
from harness.checks.server_checks import CHECKS, RULES
from harness.checks.server_results import Price
from harness.checks.server_session import NAME, RetryingClient, ServerUnderTest
from harness.cli import check
from harness.cli.check import EndpointOptions, GatewayOptions, ServerOptions
from harness.cli.main import print_error
from harness.cli.outputs import current_checkout, presentation_of, with_pipeline
from harness.cli.progress import PartialReports, Progress, interruptible
from harness.cli.selection import parse_keywords, scenarios_of, searched_text
from harness.cli.settings import fact_files, fact_options, scope_for, settings
from harness.kit import factories
from harness.model.errors import UnknownName, UsageError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.protocols import Route
from harness.platform import environment
from harness.platform.environment import hidden_variables
from harness.platform.project import NamedGateway, NamedServer
from harness.reports.words import count, estimate_text, plain
from harness.results import CellResult, Invocation, Mode, RunResult
from harness.runner import expected_failures
from harness.runner.backends import NO_KEY
from harness.runner.cells import Cell
from harness.runner.live import client_base_url
from harness.runner.served_session import SessionOptions
from harness.runner.suite_run import variants
from harness.runner.verdicts import known_finding_ids
from harness.scenarios.schema import Scenario, Variant

_ANSWER_SECONDS = 60.0
_SETTINGS_ONLY = ("headers", "url", "models", "upstream_models")  # keys whose form differs from the option's
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FRAMING_HEADERS = ("content-length", "transfer-encoding")

T = TypeVar("T", bound=EndpointOptions)


RunCheck: TypeAlias = Callable[[FactSelection, Redactor, FindingPolicy, bool, PartialReports], RunResult]
"""Function that runs a check. It takes the facts, a redactor, a policy for findings, whether to keep the exchanges of
all cells, and the partial reports.
"""


def check_server(args: ServerOptions) -> int:
    """Check a server, write the reports, and return the exit code."""
    options = _completed_server(args)
    result = _run_check(
        options, options.models or (), "live", lambda _by: RULES, partial(_check_server_cells, args, options)
    )
    return 130 if result.stopped == INTERRUPTED else result.exit_code


def check_gateway(args: GatewayOptions) -> int:
    """Check a gateway, write the reports, and return the exit code."""
    options = _completed_gateway(args)
    models = [each.rpartition("=")[2] for each in (*(options.models or ()), *(options.upstream_models or ()))]

    def known_ids(by: FactSelection) -> Collection[str]:
        return known_finding_ids(by) | gateway_findings.RULES

    return _run_check(options, models, "reference", known_ids, partial(_check_gateway_cells, args, options)).exit_code


def _run_check(
    options: EndpointOptions,
    models: Sequence[str],
    mode: Mode,
    known: Callable[[FactSelection], Collection[str]],
    check: RunCheck,
) -> RunResult:
    """Run a check and write its reports. `known` returns the ids that its findings can have."""
    redactor = _redactor(options, models)
    with redactor.redact_exceptions():
        by = fact_options(options.as_of, fact_files(options.facts))
        wanted, presentation, facts = (
            with_pipeline(options.reports or ()),
            presentation_of(options),
            (*map(str, by.files),),
        )
        reports = PartialReports(wanted, mode, presentation, None, facts)
        conversations = any(each.report.wants_conversations for each in wanted)
        try:
            with interruptible():
                file = options.expected_failures
                policy = FindingPolicy(
                    scope_for(options.rules, options.ignored, settings(), by),
                    expected_failures.load(Path(file), known(by)) if file else [],
                    strict=bool(options.strict),
                )
                made = check(by, redactor, policy, conversations, reports)
                shown = replace(made.invocation, show=options.show)
                result = replace(made, facts=facts, checkout=current_checkout(), invocation=shown)
        except BaseException as error:
            reports.stop(error)
            raise
        for output in wanted:
            output.write(result, presentation)
    return result


def _redactor(options: EndpointOptions, models: Sequence[str]) -> Redactor:
    return Redactor.of_run([options.url], shaped=True, models=models, headers=headers_of(options))


def _check_server_cells(  # noqa: PLR0913, PLR0917 - the parts of a check
    args: ServerOptions,
    options: ServerOptions,
    by: FactSelection,
    redactor: Redactor,
    policy: FindingPolicy,
    conversations: bool,
    _reports: PartialReports,
) -> RunResult:
    server, selection, price = _server(options, by), _check_selection(options), _price(options)
    client = _server_client(server, options)
    _print_forecast(server, selection, options.max_requests, price)
    command = (
        *_repeat_words(args, options, "server"),
        *(() if args.max_tokens is None else ("--max-tokens", str(args.max_tokens))),
        *(() if args.repeat is None else ("--repeat", str(args.repeat))),
    )
    with client as line, Progress(sum(1 for _ in selection.cells())) as progress:
        return ServerCheckRun(server, line, selection, redactor, price, command, policy, conversations)(progress)


def _server_client(server: ServerUnderTest, options: ServerOptions) -> RetryingClient:
    return RetryingClient(server.api, _server_key(server), options.max_requests, headers=headers_of(options))


@dataclass(frozen=True, slots=True)
class ServerConnection:
    """A server, a client that sends requests to it, and a redactor for them. `variables` are the environment variables
    of the headers.
    """

    server: ServerUnderTest
    line: RetryingClient
    redactor: Redactor
    variables: Mapping[str, str]


@contextmanager
def server_connection(args: ServerOptions) -> Generator[ServerConnection]:
    """Connect to the server of a check.

    Raises:
        UsageError: see `send_first_request`.
    """
    options = _completed_server(args)
    server = _server(options, fact_options(options.as_of, fact_files(options.facts)))
    redactor = _redactor(options, [server.model])
    with redactor.redact_exceptions(), _server_client(server, options) as line:
        yield ServerConnection(send_first_request(server, line), line, redactor, options.variables)


def validate_server(name: str) -> None:
    """Raise `UsageError` if the settings of a project's server are wrong."""
    options = _completed_server(ServerOptions(url=name))
    _server(options, fact_options(None, ()))
    _check_selection(options)
    _price(options)


def validate_gateway(name: str) -> None:
    """Raise `UsageError` if the settings of a project's gateway are wrong."""
    options = _completed_gateway(GatewayOptions(url=name))
    _pairs(options, fact_options(None, ()))
    variants(options.variants or (), options.place("variants", "variant"))


def _complete(kind: str, args: T) -> tuple[T, NamedServer | NamedGateway | None]:
    """Return the options, completed by the settings of the named server or gateway.

    Raises:
        UnknownName: the project has servers or gateways, and none has this name.
        UsageError: the settings or the URL are wrong.
    """
    own = settings()
    known: Mapping[str, NamedServer | NamedGateway] = own.servers if kind == "server" else own.gateways
    found = known.get(args.url)
    if found is None and known and ":" not in args.url and "/" not in args.url:
        raise UnknownName(kind, args.url, tuple(known), f"check {kind}")
    if not factories.is_base_url(args.url if found is None else found.url):
        at = f"check {kind}" if found is None else f"{found.place}.url"
        raise UsageError(f"{at}: {factories.INVALID_BASE_URL}")
    if found is None:
        return args, None
    values: dict[str, Any] = {
        each.name: getattr(found, each.name)
        for each in fields(args)
        if each.name not in _SETTINGS_ONLY and not getattr(args, each.name) and getattr(found, each.name, None)
    }
    if args.strict is not None:
        values.pop("strict", None)
    origin = {"name": args.url, "table": found.place, "from_table": frozenset(values), "variables": found.headers}
    return replace(args, **values, **origin, url=found.url), found


def headers_of(options: EndpointOptions, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the headers by lower-case name. Headers from the command line replace headers from the settings.

    Raises:
        UsageError: a header cannot be sent, or its variable is not set. The message contains no value.
    """
    found: dict[str, str] = {}
    for name, variable in options.variables.items():
        at = f"{options.table}.headers.{name}"
        if variable not in environ:
            raise UsageError(f"{at}: the variable {variable} is not set.")
        found[_header_name(name, at)] = _header_value(environ[variable], f"{at}: the value of {variable}")
    for each in options.headers or ():
        name, colon, value = each.partition(":")
        if not colon:
            raise UsageError("--header: it must be 'NAME: VALUE', as in 'x-team: search'.")
        found[_header_name(name.strip(), "--header")] = _header_value(value, f"--header {name.strip()}: its value")
    return found


def _header_name(name: str, place: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        raise UsageError(f"{place}: this is not a header name.")
    if name.lower() in _FRAMING_HEADERS:
        raise UsageError(f"{place}: {name} belongs to the request's body and cannot be chosen.")
    return name.lower()


def _header_value(value: str, subject: str) -> str:
    value = value.strip()
    if not value or not value.isascii() or not value.isprintable():
        raise UsageError(f"{subject} must be printable ASCII, and not empty.")
    return value


def _repeat_words(args: EndpointOptions, options: EndpointOptions, kind: str) -> Iterator[str]:
    """Yield the words of a command that repeats this check. Header values are omitted."""
    yield from ("harness", "check", kind, options.name or display_url(options.url))
    yield from () if args.api is None else ("--api", args.api)
    if isinstance(args, GatewayOptions):
        yield from () if args.upstream_port is None else ("--upstream-port", str(args.upstream_port))
        yield from () if args.command is None else ("--command", args.command)
    elif isinstance(args, ServerOptions):
        yield from (word for model in args.models or () for word in ("--model", model))
    for header in args.headers or ():
        yield from ("--header", f"{header.partition(':')[0].strip()}: VALUE")
    yield from ("--strict",) if args.strict else ()
    yield from () if args.as_of is None else ("--as-of", args.as_of)
    yield from (word for file in fact_files(args.facts) for word in ("--facts", str(file)))


def _completed_server(args: ServerOptions) -> ServerOptions:
    options, found = _complete("server", args)
    if isinstance(found, NamedServer) and not args.models:
        options = replace(options, models=[found.model])
    return options


def _server(options: ServerOptions, by: FactSelection) -> ServerUnderTest:
    known = sorted(each.name for each in registry.apis() if each.request_builder is not None)
    if options.api is None:
        raise UsageError(f"check server: name its API, as in --api openai-chat. Known: {', '.join(known)}.")
    if options.api not in registry.APIS.names():
        raise UnknownName("API", options.api, known, options.place("api"))
    models = options.models or ()
    if len(models) != 1 or "=" in models[0]:
        raise UsageError("check server: name one of its models, as in --model llama-4-8b.")
    longest = options.max_tokens or check.DEFAULT_MAX_TOKENS
    made = ServerUnderTest.of(registry.api(options.api), models[0], options.url, longest, by)
    return replace(made, name=options.name or NAME)


def _check_selection(options: ServerOptions) -> CheckSelection:
    place = options.place("only")
    only = frozenset(each for value in options.only or () for each in value.split(",") if each)
    for each in sorted(only - RULES):
        close = difflib.get_close_matches(each, RULES, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        raise UsageError(f"{place}: unknown check {each!r}.{guess} 'harness list rules' lists them: server-...")
    chosen = tuple(dict.fromkeys(options.variants or get_args(Variant)))
    for each in chosen:
        if each not in get_args(Variant):
            raise UnknownName("variant", each, get_args(Variant), options.place("variants", "variant"))
    if options.words is not None:
        only = _matching_checks(options.words, only or RULES)
    selection = CheckSelection(only or None, cast("tuple[Variant, ...]", chosen), options.repeat or 1)
    if not any(selection.cells()):
        raise UsageError("--only, --variant: none of these checks runs in that variant.")
    return selection


def _matching_checks(words: str, among: AbstractSet[str]) -> frozenset[str]:
    wanted = parse_keywords(words)
    every = (*RESPONSE_RULES.values(), *CHECKS.values())
    found = frozenset(each.id for each in every if each.id in among and wanted.match(f"{each.id} {each.subject}"))
    if not found:
        raise UsageError(f"-k {words!r} matches none of the checks. 'harness list rules' lists them: server-...")
    return found


def _price(options: ServerOptions) -> Price | None:
    return None if options.price is None else Price.of(options.price, options.place("price"))


def _server_key(server: ServerUnderTest) -> str:
    """Return the key to send. A local server may not need one."""
    variables = server.api.key_variables
    found = environment.read_key(variables)
    if found is None and server.api.is_provider(server.base_url):
        raise UsageError(f"check server: the provider requires a key: set {' or '.join(variables)}.")
    return found or NO_KEY


def _print_forecast(
    server: ServerUnderTest, selection: CheckSelection, max_requests: int | None, price: Price | None
) -> None:
    source = " ".join(part for pair in price_version().items() for part in pair) if price is None else "by --price"
    spending = estimate(server, selection, max_requests, price)
    if spending.dollars is None and is_local(server.base_url):
        typer.echo(f"To be sent: about {count(spending.requests, 'request')}, to this machine.", err=True)
        return
    typer.echo(plain(f"To be sent: {estimate_text(spending)}; reasoning costs extra ({source})."), err=True)


def _completed_gateway(args: GatewayOptions) -> GatewayOptions:
    """Return the options completed by the settings, with only the models of the selected upstreams."""
    options, found = _complete("gateway", args)
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
    redactor = _redactor(options, [route.target.model, route.upstream.model])
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
    words = tuple(_repeat_words(args, options, "gateway"))
    columns = {
        each.target.name: (
            *("--upstream", each.upstream.name),
            *("--model", each.target.model),
            *("--upstream-model", each.upstream.model),
        )
        for each in pairs
    }
    return Invocation(words, words, words, scenarios=files, targets=columns)


def first_model(url: str) -> str | None:
    """Return the first model that a server lists at `URL/models`, or `None` if it lists none.

    Raises:
        UsageError: no answer from the URL.
    """
    try:
        answer = httpx2.get(f"{url.rstrip('/')}/models", timeout=_MODELS_SECONDS)
        listed: dict[str, Any] = answer.json()
        return str(listed["data"][0]["id"])
    except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.ReadTimeout):  # a gateway may wait for its provider
        return None
    except httpx2.TransportError as error:
        raise UsageError(f"{url}: nothing answers there ({error}).") from None
    except (ValueError, AttributeError, LookupError, TypeError):
        return None


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
        status = httpx2.post(f"{url.rstrip('/')}/chat/completions", json=question, timeout=_MODELS_SECONDS).status_code
    except (httpx2.RemoteProtocolError, httpx2.ReadError):
        return "a closed connection"
    except httpx2.TransportError:
        return ""
    return f"HTTP {status}" if HTTPStatus.BAD_GATEWAY <= status <= HTTPStatus.GATEWAY_TIMEOUT else ""


_MODELS_SECONDS = 5.0
