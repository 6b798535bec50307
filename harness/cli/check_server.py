"""Checks of servers by their raw answers."""

from __future__ import annotations

import difflib
from collections.abc import Generator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast, get_args

import httpx2
import typer

from harness.apis import registry
from harness.apis.fact_files import FactSelection
from harness.apis.prices import price_version
from harness.apis.response_rules import RESPONSE_RULES
from harness.cassettes.client_patches import is_local
from harness.cassettes.redact import Redactor
from harness.checks.finding_scope import FindingPolicy
from harness.checks.server_check import INTERRUPTED, CheckSelection, ServerCheckRun, estimate, send_first_request
from harness.checks.server_checks import CHECKS, RULES
from harness.checks.server_results import Price
from harness.checks.server_session import NAME, RetryingClient, ServerUnderTest
from harness.cli import check
from harness.cli.check import ServerOptions
from harness.cli.endpoint_checks import (
    PROBE_SECONDS,
    complete_from_settings,
    headers_of,
    redactor_of,
    repeat_words,
    run_check,
)
from harness.cli.progress import PartialReports, Progress
from harness.cli.selection import parse_keywords
from harness.cli.settings import fact_files, fact_options
from harness.model.errors import UnknownName, UsageError
from harness.platform import environment
from harness.platform.project import NamedServer
from harness.reports.words import count, estimate_text, plain
from harness.results import RunResult
from harness.runner.backends import NO_KEY
from harness.scenarios.schema import Variant


def check_server(args: ServerOptions) -> int:
    """Check a server, write the reports, and return the exit code."""
    options = _completed_server(args)
    result = run_check(
        options, options.models or (), "live", lambda _by: RULES, partial(_check_server_cells, args, options)
    )
    return 130 if result.stopped == INTERRUPTED else result.exit_code


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
        *repeat_words(args, options, "server"),
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
    redactor = redactor_of(options, [server.model])
    with redactor.redact_exceptions(), _server_client(server, options) as line:
        yield ServerConnection(send_first_request(server, line), line, redactor, options.variables)


def validate_server(name: str) -> None:
    """Raise `UsageError` if the settings of a project's server are wrong."""
    options = _completed_server(ServerOptions(url=name))
    _server(options, fact_options(None, ()))
    _check_selection(options)
    _price(options)


def _completed_server(args: ServerOptions) -> ServerOptions:
    options, found = complete_from_settings("server", args)
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


def first_model(url: str) -> str | None:
    """Return the first model that a server lists at `URL/models`, or `None` if it lists none.

    Raises:
        UsageError: no answer from the URL.
    """
    try:
        answer = httpx2.get(f"{url.rstrip('/')}/models", timeout=PROBE_SECONDS)
        listed: dict[str, Any] = answer.json()
        return str(listed["data"][0]["id"])
    except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.ReadTimeout):  # a gateway may wait for its provider
        return None
    except httpx2.TransportError as error:
        raise UsageError(f"{url}: nothing answers there ({error}).") from None
    except (ValueError, AttributeError, LookupError, TypeError):
        return None
