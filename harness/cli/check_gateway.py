"""`harness check gateway`: a gateway is checked from both of its ends."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from harness import catalog
from harness.apis.fact_files import FactSelection
from harness.apis.targets import ShippedTarget
from harness.checking import gateway_findings, gateway_traffic
from harness.checking.checked_endpoints import client_base_url
from harness.checking.gateway_check import GatewayCheck, GatewayRoute, gateway_route
from harness.checking.gateway_traffic import PACE_SECONDS, GatewayEndpoint, Upstream
from harness.cli import streams
from harness.cli.endpoints import EndpointOptions, headers_of, hidden, named
from harness.cli.options import CellTimeout, Paths, edition, fact_files
from harness.cli.outputs import presented, with_pipeline
from harness.cli.selection import described, parse_keywords, scenarios_of
from harness.cli.settings import scope_for, settings
from harness.cli.standing import Progress, Standing, interruptible
from harness.contract.errors import UnknownName, UsageError
from harness.contract.protocols import Route
from harness.host import credentials
from harness.host.environment import hidden_variables
from harness.host.project import MAX_WAIT_SECONDS, NamedGateway
from harness.results import CellResult, Invocation, RunResult
from harness.running import expected_failures
from harness.running.backends import NO_KEY
from harness.running.cells import Cell
from harness.running.plan import variants
from harness.running.served_session import SessionOptions
from harness.running.verdicts import known_finding_ids
from harness.scenarios.schema import Scenario
from harness.tape.redact import Redactor
from harness.tape.redact.address import shown
from harness.tape.server import serve

_SECONDS = 60.0
"""As long as a gateway may take for one answer, unless --cell-timeout says more."""


_WAIT = 60.0
"""The default of `--wait`."""


@dataclass(frozen=True, kw_only=True)
class GatewayOptions(EndpointOptions):
    """The options of `check gateway`."""

    url: Annotated[
        str,
        typer.Argument(
            metavar="URL|NAME",
            show_default=False,
            help="The gateway's base URL, as the client's SDK takes it, with --api and --upstream; or its name in the "
            "project's settings.",
        ),
    ]
    paths: Paths = None
    everything: Annotated[
        bool, typer.Option("--all", help="The scenarios of the project, or the whole suite, not a sample.")
    ] = False
    upstreams: Annotated[
        list[str] | None,
        typer.Option(
            "--upstream",
            metavar="NAME",
            show_default=False,
            help="What stands behind the gateway: an API, or a target of one. Repeatable.",
        ),
    ] = None
    upstream_port: Annotated[
        int | None,
        typer.Option(
            "--upstream-port",
            min=0,
            max=65535,
            metavar="N",
            show_default=False,
            help="Where the upstream listens on 127.0.0.1. Default: a free port.",
        ),
    ] = None
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="[UPSTREAM=]NAME",
            show_default=False,
            help="The name that the gateway has for the model of an upstream. Repeatable.",
        ),
    ] = None
    upstream_models: Annotated[
        list[str] | None,
        typer.Option(
            "--upstream-model",
            metavar="[UPSTREAM=]NAME",
            show_default=False,
            help="The model that the gateway asks an upstream for. Repeatable.",
        ),
    ] = None
    command: Annotated[
        str | None,
        typer.Option(
            "--command",
            metavar="COMMAND",
            show_default=False,
            help="Runs the gateway while the check takes. HARNESS_UPSTREAM_URL in its environment is the upstream.",
        ),
    ] = None
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait",
            min=0.0,
            max=MAX_WAIT_SECONDS,
            metavar="SECONDS",
            show_default=False,
            help=f"How long the gateway may take to start. Default: {_WAIT:g}.",
        ),
    ] = None
    cell_timeout: CellTimeout = None


def gateway(typed: GatewayOptions) -> int:
    """Check what a gateway makes of what passes it, seen from both ends; the reference server is behind it.

    'harness help gateways' has more. Exit codes as for 'harness run'.
    """
    options = _named(typed)
    by, headers = edition(options.as_of, fact_files(options.facts)), headers_of(options)
    wanted, presentation = with_pipeline(options.reports or ()), presented(options)
    facts = tuple(map(str, by.files))
    models = [each.rpartition("=")[2] for each in (*(options.models or ()), *(options.upstream_models or ()))]
    redactor = Redactor.of_run((options.url,), shaped=True, models=models, headers=headers)
    standing = Standing(wanted, "reference", presentation, None, facts)
    try:
        with interruptible(), redactor.raising():
            shown = any(each.report.wants_conversations for each in wanted)
            result = _played(typed, options, by, standing, redactor, shown=shown)
    except BaseException as error:
        standing.stop(error)
        raise
    result = replace(result, facts=facts)
    for output in wanted:
        output.write(result, presentation)
    return result.exit_code


def validate(name: str) -> None:
    """Raise `UsageError` if a gateway of the project cannot be checked as its settings say."""
    options = _named(GatewayOptions(url=name))
    _pairs(options, edition(None, ()))
    variants(options.variants or (), options.place("variants", "variant"))


def _named(typed: GatewayOptions) -> GatewayOptions:
    """Return the options, completed by the settings. Of the models there, those of upstreams that were typed count."""
    options, found = named("gateway", typed)
    for key in ("models", "upstream_models") if isinstance(found, NamedGateway) else ():
        table: Mapping[str, str] = getattr(found, key)
        chosen = [f"{name}={model}" for name, model in table.items() if not typed.upstreams or name in typed.upstreams]
        if chosen and not getattr(typed, key):
            options = replace(options, **{key: chosen, "from_table": options.from_table | {key}})
    return options


def _played(  # noqa: PLR0913 - what a check is made of
    typed: GatewayOptions,
    options: GatewayOptions,
    by: FactSelection,
    standing: Standing,
    redactor: Redactor,
    *,
    shown: bool,
) -> RunResult:
    pairs = _pairs(options, by)
    played = variants(options.variants or (), options.place("variants", "variant"))
    scenarios, files = _scenarios(options)
    file = options.expected_failures
    expected = expected_failures.load(Path(file), known_finding_ids(by) | gateway_findings.RULES) if file else []
    scope = scope_for(options.rules, options.ignored, settings(), by)
    door = GatewayEndpoint(
        client_base_url(pairs[0].way.client, options.url),
        _key(pairs[0]),
        options.cell_timeout or _SECONDS,
        headers_of(options),
    )
    cells = _chosen(GatewayCheck.cells(pairs, scenarios, played), options.words)
    done: list[CellResult] = []
    standing.begin([cell for _, cell in cells], lambda: tuple(done))
    with _open(options, pairs, by) as upstream, hidden_variables(), Progress(len(cells)) as progress:

        def told(cell: CellResult) -> None:
            done.append(cell)
            progress(cell)

        checked = GatewayCheck(
            door,
            upstream,
            expected=expected,
            redactor=redactor,
            scope=scope,
            conversations=shown,
            strict=bool(options.strict),
        )
        result = checked(cells, told)
    return replace(result, invocation=_invocation(typed, options, pairs, files))


@contextmanager
def _open(options: GatewayOptions, pairs: Sequence[GatewayRoute], by: FactSelection) -> Generator[Upstream]:
    """The upstream, listening, and the gateway in front of it."""
    upstream = Upstream(
        SessionOptions(edition=by, models=tuple(each.upstream.model for each in pairs), pace=PACE_SECONDS)
    )
    with serve(upstream, options.upstream_port or 0) as server:
        upstream.origin = server.origin
        for line in _configuration(options, pairs, server.origin):
            streams.tell(line)
        if options.command is None:
            gateway_traffic.await_listening(options.url, _WAIT if options.wait is None else options.wait)
            yield upstream
            return
        with gateway_traffic.run_command(options.command, {"HARNESS_UPSTREAM_URL": server.origin}) as started:
            gateway_traffic.await_listening(options.url, _WAIT if options.wait is None else options.wait, started.check)
            try:
                yield upstream
            except UsageError as error:
                raise UsageError(f"{error}{started.last_words}") from None


def _configuration(options: GatewayOptions, pairs: Sequence[GatewayRoute], origin: str) -> list[str]:
    """What the gateway has to be told, before it is asked for anything."""
    lines = [f"harness: checking the gateway at {shown(options.url)}, which is spoken to in {pairs[0].target.api}."]
    lines.append("It has to know these models, each with an upstream of this base URL, and any key:")
    for each in pairs:
        base = origin + each.way.upstream.base_url_ending
        lines.append(f"  {each.target.model}: {each.upstream.model} of {each.upstream.api} at {base}")
    return lines


def _pairs(options: GatewayOptions, by: FactSelection) -> list[GatewayRoute]:
    if options.api is None or not options.upstreams:
        raise UsageError(
            "check gateway: name the API in front of it and what is behind it, as in --api openai-chat --upstream "
            "anthropic."
        )
    client = _shipped(options.api, options.place("api"))
    place = options.place("upstreams", "upstream")
    given = list(dict.fromkeys(options.upstreams))
    upstreams = [_shipped(name, place) for name in given]
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
                f"{place}: {' and '.join(same)} would both be asked for as {each.target.model!r}. Say by which "
                f"names the gateway has them, as in --model {same[0]}=NAME."
            )
    return found


def _shipped(name: str, option: str) -> ShippedTarget:
    """The first target of an API, or the target of this name: one that is spoken over HTTP."""
    served = [each for each in catalog.targets() if catalog.api(each.api).provider_url.startswith("http")]
    found = next((each for each in served if each.name == name), None)
    found = found or next((each for each in served if each.api == name), None)
    if found is None:
        known = {each.api for each in served} | {each.name for each in served}
        raise UnknownName("API", name, sorted(known), option)
    if catalog.adapter(found.adapter).route is not Route.CLIENT:
        raise UsageError(
            f"{option} {name}: its adapter opens connections of its own, and a gateway needs one that does not."
        )
    return found


def _by_upstream(values: Sequence[str] | None, option: str, upstreams: Mapping[str, str]) -> dict[str, str]:
    """The models by upstream; one without a name is that of all.

    Raises:
        UsageError: a name is that of no upstream, or two upstreams would be one model.
    """
    found: dict[str, str] = {}
    for value in values or ():
        name, equals, model = value.partition("=")
        if not equals and len(upstreams) > 1:
            raise UsageError(
                f"{option} {value}: say of which upstream, as in {option} {next(iter(upstreams))}={value}."
            )
        if equals and name not in upstreams:
            raise UnknownName("upstream", name, sorted(upstreams), option)
        if not (model if equals else name):
            raise UsageError(f"{option} {value!r}: it needs the name of a model.")
        found[upstreams[name] if equals else next(iter(upstreams.values()))] = model if equals else name
    return found


def _scenarios(options: GatewayOptions) -> tuple[Sequence[Scenario], Mapping[str, str]]:
    """Return the scenarios to play: those that were named, or the sample; with `--all` those of the project, or the
    whole suite with those that only gateways are played."""
    own = {each.id: each for each in gateway_traffic.scenarios()}
    chosen = options.paths or (settings().scenarios if options.everything else ())
    if not chosen and not options.everything:
        return list(own.values()), {}
    others = [each for each in chosen if each not in own]
    found, files = scenarios_of(others) if others or not chosen else ([], {})
    mine = [own[each] for each in chosen if each in own] if chosen else list(own.values())
    every = {each.id: each for each in (*mine, *found)}
    return [each for each in every.values() if each.embeddings is None], files


def _chosen(cells: list[tuple[GatewayRoute, Cell]], words: str | None) -> list[tuple[GatewayRoute, Cell]]:
    """The cells that an expression matches. Raises `UsageError`: it is none, or matches nothing."""
    if words is None:
        return cells
    wanted = parse_keywords(words)
    found = [(each, cell) for each, cell in cells if wanted.match(described(cell))]
    if not found:
        raise UsageError(f"-k {words!r} matches no cell of the chosen scenarios. 'harness list scenarios' shows them.")
    return found


def _key(each: GatewayRoute) -> str:
    """The key that the gateway is sent: the one that the client's API has in the environment, if it has."""
    return credentials.read_key(each.way.client.key_variables) or NO_KEY


def _invocation(
    typed: GatewayOptions, options: GatewayOptions, pairs: Sequence[GatewayRoute], files: Mapping[str, str]
) -> Invocation:
    words = (
        *("harness", "check", "gateway", options.name or shown(options.url)),
        *(() if typed.api is None else ("--api", typed.api)),
        *(() if typed.upstream_port is None else ("--upstream-port", str(typed.upstream_port))),
        *(() if typed.command is None else ("--command", typed.command)),
        *hidden(typed.headers),
        *(("--strict",) if typed.strict else ()),
        *(("--as-of", typed.as_of) if typed.as_of else ()),
        *(word for file in fact_files(typed.facts) for word in ("--facts", str(file))),
    )
    columns = {
        each.target.name: (
            *("--upstream", each.upstream.name),
            *("--model", each.target.model),
            *("--upstream-model", each.upstream.model),
        )
        for each in pairs
    }
    return Invocation(words, words, words, scenarios=files, targets=columns, show=())
