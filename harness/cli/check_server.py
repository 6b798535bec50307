"""`harness check server`: a server is checked by its raw answers."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from harness import catalog
from harness.apis.fact_files import FactSelection
from harness.apis.response_rules import RESPONSE_RULES
from harness.checking.server_check import INTERRUPTED, CheckSelection, ServerCheckRun, estimate
from harness.checking.server_checks import CHECKS, RULES
from harness.checking.server_results import Price
from harness.checking.server_session import NAME, RetryingClient, ServerUnderTest
from harness.cli.endpoints import EndpointOptions, headers_of, hidden, named
from harness.cli.options import edition, fact_files
from harness.cli.outputs import presented, with_pipeline
from harness.cli.selection import parse_keywords
from harness.cli.settings import scope_for, settings
from harness.cli.standing import Progress, Standing, interruptible
from harness.contract.errors import UnknownName, UsageError
from harness.host import credentials
from harness.host.project import NamedServer
from harness.reports.words import count, money, plain
from harness.results import Spending
from harness.running import expected_failures
from harness.running.backends import NO_KEY
from harness.running.costs import price_version
from harness.scenarios.schema import Variant
from harness.tape.redact import Redactor
from harness.tape.redact.address import shown

_MAX_TOKENS = 1024
"""The default of `--max-tokens`."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions(EndpointOptions):
    """The options of `check server`."""

    url: Annotated[
        str,
        typer.Argument(
            metavar="URL|NAME",
            show_default=False,
            help="The server's base URL, as SDKs take it, with --api and --model; or its name in the settings.",
        ),
    ]
    models: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME", show_default=False, help="The model that is asked for."),
    ] = None
    repeat: Annotated[
        int | None,
        typer.Option(
            "--repeat",
            metavar="N",
            min=1,
            show_default=False,
            help="Ask so often, for rates that say more.",
        ),
    ] = None
    max_requests: Annotated[
        int | None,
        typer.Option(
            "--max-requests",
            metavar="N",
            min=1,
            show_default=False,
            help="Send no more than so many requests.",
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            metavar="N",
            min=64,
            show_default=False,
            help="The longest answer, in tokens: more for a model that reasons, less for a slow one. "
            f"Default: {_MAX_TOKENS}.",
        ),
    ] = None
    price: Annotated[
        str | None,
        typer.Option(
            "--price",
            metavar="IN,OUT",
            show_default=False,
            help="US dollars for a million tokens, read and written. Default: what is known of the model.",
        ),
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="ID[,ID]",
            show_default=False,
            help="Only these checks: 'harness list rules' has their ids, server-... Repeatable.",
        ),
    ] = None


def server(typed: ServerOptions) -> int:
    """Check a server by its raw answers. Sends requests, and says first how many and what they cost.

    'harness help servers' has more. Exit codes as for 'harness run'.
    """
    options = _named(typed)
    headers = headers_of(options)
    redactor = Redactor.of_run([options.url], shaped=True, models=options.models or (), headers=headers)
    with redactor.raising():
        by = edition(options.as_of, fact_files(options.facts))
        server, asked, price = _server(options, by), _asked(options), _price(options)
        key = _key(server)
        file = options.expected_failures
        expected = expected_failures.load(Path(file), RULES) if file else []
        scope = scope_for(options.rules, options.ignored, settings(), by)
        wanted = with_pipeline(options.reports or ())
        presentation, facts = presented(options), tuple(map(str, by.files))
        standing = Standing(wanted, "live", presentation, facts=facts)
        _before(server, asked, options.max_requests, price)
        try:
            with (
                interruptible(),
                RetryingClient(server.api, key, options.max_requests, headers=headers) as line,
                Progress(sum(1 for _ in asked.cells())) as progress,
            ):
                command = tuple(_command(typed, options))
                shown = any(each.report.wants_conversations for each in wanted)
                strict = bool(options.strict)
                inspection = ServerCheckRun(
                    server, line, asked, redactor, price, command, expected, facts, scope, shown, strict
                )
                result = inspection(progress)
        except BaseException as error:
            standing.stop(error)
            raise
        for output in wanted:
            output.write(result, presentation)
    return 130 if result.stopped == INTERRUPTED else result.exit_code


def validate(name: str) -> None:
    """Raise `UsageError` if a server of the project cannot be checked as its settings say."""
    options = _named(ServerOptions(url=name))
    _server(options, edition(None, ()))
    _asked(options)
    _price(options)


def _named(typed: ServerOptions) -> ServerOptions:
    options, found = named("server", typed)
    if isinstance(found, NamedServer) and not typed.models:
        options = replace(options, models=[found.model])
    return options


def _server(options: ServerOptions, by: FactSelection) -> ServerUnderTest:
    """Return the server, which nobody has asked yet. Raises `UsageError`."""
    known = sorted(each.name for each in catalog.apis() if each.request_builder is not None)
    if options.api is None:
        raise UsageError(
            f"check server: name the API that it speaks, as in --api openai-chat. Known: {', '.join(known)}."
        )
    if options.api not in catalog.APIS.names():
        raise UnknownName("API", options.api, known, options.place("api"))
    models = options.models or ()
    if len(models) != 1 or "=" in models[0]:
        raise UsageError("check server: name one of its models, as in --model llama-4-8b.")
    longest = options.max_tokens or _MAX_TOKENS
    made = ServerUnderTest.of(catalog.api(options.api), models[0], options.url, longest, by)
    return replace(made, name=options.name or NAME)


def _asked(options: ServerOptions) -> CheckSelection:
    """Return what of the server is looked at. Raises `UsageError`."""
    only = _checks(options.only or (), options.place("only"))
    variants = tuple(dict.fromkeys(options.variants or get_args(Variant)))
    for each in variants:
        if each not in get_args(Variant):
            raise UnknownName("variant", each, get_args(Variant), options.place("variants", "variant"))
    if options.words is not None:
        only = _matching(options.words, only or RULES)
    asked = CheckSelection(only or None, cast("tuple[Variant, ...]", variants), options.repeat or 1)
    if not any(asked.cells()):
        raise UsageError("--only, --variant: none of these checks is played in that variant.")
    return asked


def _price(options: ServerOptions) -> Price | None:
    """Return what its tokens cost, if that was said. Raises `UsageError`."""
    return None if options.price is None else Price.of(options.price, options.place("price"))


def _checks(given: Sequence[str], place: str) -> frozenset[str]:
    """The ids of checks, each value one or several. Raises `UsageError`: one is none."""
    ids = [each for value in given for each in value.split(",") if each]
    for each in ids:
        if each not in RULES:
            close = difflib.get_close_matches(each, RULES, n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"{place}: unknown check {each!r}.{guess} 'harness list rules' has them: server-...")
    return frozenset(ids)


def _matching(words: str, among: AbstractSet[str]) -> frozenset[str]:
    """The checks and promises that an expression matches. Raises `UsageError`: it is none, or matches none of them."""
    wanted = parse_keywords(words)
    every = (*RESPONSE_RULES.values(), *CHECKS.values())
    found = frozenset(each.id for each in every if each.id in among and wanted.match(f"{each.id} {each.subject}"))
    if not found:
        raise UsageError(f"-k {words!r} matches none of the checks. 'harness list rules' has them: server-...")
    return found


def _key(server: ServerUnderTest) -> str:
    """The key that is sent. A server of one's own may need none."""
    variables = server.api.key_variables
    found = credentials.read_key(variables)
    if found is None and server.api.is_provider(server.base_url):
        raise UsageError(f"check server: the provider itself wants a key: set {' or '.join(variables)}.")
    return found or NO_KEY


def _before(server: ServerUnderTest, asked: CheckSelection, most: int | None, price: Price | None) -> None:
    """Say what is about to be sent."""
    source = " ".join(part for pair in price_version().items() for part in pair) if price is None else "by --price"
    spending = estimate(server, asked, most, price)
    typer.echo(plain(f"To be sent: {_about(spending)}; reasoning comes on top ({source})."), err=True)


def _about(spending: Spending) -> str:
    requests = f"about {count(spending.requests, 'request')}"
    if spending.dollars is None:
        return f"{requests}, at a cost that is not known"
    dollars = money(spending.dollars)
    return f"{requests}, {dollars if dollars.startswith('less') else f'about {dollars}'}"


def _command(typed: ServerOptions, options: ServerOptions) -> Iterator[str]:
    """Yield the words that ask for the same of the server again."""
    yield from ("harness", "check", "server", options.name or shown(options.url))
    yield from () if typed.api is None else ("--api", typed.api)
    yield from (word for model in typed.models or () for word in ("--model", model))
    yield from hidden(typed.headers)
    yield from ("--strict",) if typed.strict else ()
    yield from () if typed.as_of is None else ("--as-of", typed.as_of)
    yield from (word for file in fact_files(typed.facts) for word in ("--facts", str(file)))
    yield from () if typed.max_tokens is None else ("--max-tokens", str(typed.max_tokens))
    yield from () if typed.repeat is None else ("--repeat", str(typed.repeat))
