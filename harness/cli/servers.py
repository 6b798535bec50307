"""`harness check --server`: the options, and one check of a server from them to the exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from harness.contract.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from harness.checking.servers.inspection import Asked
    from harness.checking.servers.price import Price
    from harness.checking.servers.server import Server
    from harness.results import Spending

ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        show_default=False,
        help="Check a server instead of an adapter: its base URL, as SDKs take it (harness help servers). Needs --api "
        "and --model NAME; sends requests, and says first how many.",
    ),
]
Repeat = Annotated[
    int, typer.Option("--repeat", metavar="N", min=1, help="With --server: ask so often, for rates that say more.")
]
MaxRequests = Annotated[
    int | None,
    typer.Option("--max-requests", metavar="N", min=1, show_default=False, help="With --server: send no more."),
]
PriceOf = Annotated[
    str | None,
    typer.Option(
        "--price",
        metavar="IN,OUT",
        show_default=False,
        help="With --server: US dollars for a million tokens, read and written. Default: what is known of the model.",
    ),
]
MaxTokens = Annotated[
    int,
    typer.Option(
        "--max-tokens",
        metavar="N",
        min=64,
        help="With --server: the longest answer, in tokens: more for a model that reasons, less for a slow one.",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="ID[,ID]",
        show_default=False,
        help="With --server: only these checks: 'harness list rules' has their ids, server-... Repeatable.",
    ),
]


LONGEST = 1024
"""The default of `--max-tokens`."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What was typed. Nothing is checked yet."""

    url: str
    api: str | None
    models: Sequence[str] | None
    variants: Sequence[str] | None
    repeat: int
    max_requests: int | None
    max_tokens: int
    price: str | None
    only: Sequence[str] | None
    as_of: str | None
    facts: tuple[Path, ...]
    expected_failures: str | None
    reports: Sequence[str] | None
    verbose: bool


def check(options: ServerOptions) -> int:
    """Check a server, write the reports, and return the exit code.

    Raises:
        UsageError: an option is wrong, or nobody answers at the URL as its API does.
    """
    from harness.checking.servers.inspection import INTERRUPTED, Inspection  # noqa: PLC0415 - `harness --help`
    from harness.checking.servers.line import Line  # noqa: PLC0415 - loads none of what a check needs
    from harness.checking.servers.price import Price  # noqa: PLC0415
    from harness.cli.interruption import interruptible  # noqa: PLC0415
    from harness.cli.outputs import outputs  # noqa: PLC0415
    from harness.cli.progress import Progress  # noqa: PLC0415
    from harness.cli.standing import Standing  # noqa: PLC0415
    from harness.results import Presentation  # noqa: PLC0415
    from harness.running import expected_failures  # noqa: PLC0415
    from harness.tape.redact import Redactor  # noqa: PLC0415

    redactor = Redactor.of_run([options.url], shaped=True)
    with redactor.raising():
        server, asked = _server(options), _asked(options)
        key = _key(server)
        price = None if options.price is None else Price.of(options.price)
        file = options.expected_failures
        expected = expected_failures.load(Path(file), findable()) if file else []
        wanted = outputs(options.reports or ())
        presentation = Presentation(verbose=options.verbose)
        standing = Standing(wanted, "live", presentation, facts=tuple(map(str, options.facts)))
        _before(server, asked, options.max_requests, price)
        try:
            with (
                interruptible(),
                Line(server.api, key, options.max_requests) as line,
                Progress(sum(1 for _ in asked.cells())) as progress,
            ):
                command = tuple(_command(options, server))
                facts = tuple(map(str, options.facts))
                inspection = Inspection(server, line, asked, redactor, price, command, expected, facts)
                result = inspection(progress)
        except BaseException as error:
            standing.stop(error)
            raise
        for output in wanted:
            output.write(result, presentation)
    return 130 if result.stopped == INTERRUPTED else result.exit_code


def findable() -> frozenset[str]:
    """The ids that findings of a check of a server can have."""
    from harness.apis.departure import PROMISES  # noqa: PLC0415 - `harness --help` loads no APIs
    from harness.checking.servers.checks import CHECKS  # noqa: PLC0415 - the same

    return frozenset((*PROMISES, *CHECKS))


def _server(options: ServerOptions) -> Server:
    from harness import catalog  # noqa: PLC0415 - `harness --help` loads no APIs
    from harness.checking.servers.server import Server  # noqa: PLC0415 - the same
    from harness.cli.days import edition  # noqa: PLC0415 - the same
    from harness.kit import factories  # noqa: PLC0415 - the same

    if options.api is None:
        known = ", ".join(sorted(each.name for each in catalog.apis() if each.questions is not None))
        raise UsageError(f"--server: name the API that it speaks, as in --api openai-chat. Known: {known}.")
    models = list(options.models or ())
    if len(models) != 1 or "=" in models[0]:
        raise UsageError("--server: name one of its models, as in --model llama-4-8b.")
    if not factories.is_base_url(options.url):
        raise UsageError(f"--server: {factories.NO_BASE_URL}")
    by = edition(options.as_of, options.facts)
    return Server.of(catalog.api(options.api), models[0], options.url, options.max_tokens, by)


def _asked(options: ServerOptions) -> Asked:
    from harness.checking.servers.inspection import Asked  # noqa: PLC0415 - `harness --help` loads no APIs
    from harness.scenarios.schema import Variant  # noqa: PLC0415 - the same

    named = [each for given in options.only or () for each in given.split(",") if each]
    for each in named:
        if each not in findable():
            close = difflib.get_close_matches(each, findable(), n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"--only: unknown check {each!r}.{guess} 'harness list rules' has them: server-...")
    variants = tuple(dict.fromkeys(options.variants or get_args(Variant)))
    for each in variants:
        if each not in get_args(Variant):
            raise UnknownName("variant", each, get_args(Variant), "--variant")
    asked = Asked(frozenset(named) or None, cast("tuple[Variant, ...]", variants), options.repeat)
    if not any(asked.cells()):
        raise UsageError("--only, --variant: none of these checks is played in that variant.")
    return asked


def _key(server: Server) -> str:
    """The key that is sent. A server of one's own may need none."""
    from harness.host import keys  # noqa: PLC0415 - `harness --help` loads no keys
    from harness.running.stages.routes import NO_KEY  # noqa: PLC0415 - the same

    variables = server.api.key_variables
    found = keys.key(variables)
    if found is None and server.api.is_provider(server.base_url):
        raise UsageError(f"--server: the provider itself wants a key: set {' or '.join(variables)}.")
    return found or NO_KEY


def _before(server: Server, asked: Asked, most: int | None, price: Price | None) -> None:
    """Say what is about to be sent."""
    from harness.checking.servers.rehearsal import rehearsed  # noqa: PLC0415 - `harness --help` loads no APIs
    from harness.reports._words import plain  # noqa: PLC0415 - the same
    from harness.running.costs import price_version  # noqa: PLC0415 - the same

    source = " ".join(part for pair in price_version().items() for part in pair) if price is None else "by --price"
    spending = rehearsed(server, asked, most, price)
    typer.echo(plain(f"To be sent: {_about(spending)}; reasoning comes on top ({source})."), err=True)


def _about(spending: Spending) -> str:
    from harness.reports._costs import money  # noqa: PLC0415 - `harness --help` loads no reports
    from harness.reports._words import count  # noqa: PLC0415 - the same

    requests = f"about {count(spending.requests, 'request')}"
    if spending.dollars is None:
        return f"{requests}, at a cost that is not known"
    dollars = money(spending.dollars)
    return f"{requests}, {dollars if dollars.startswith('less') else f'about {dollars}'}"


def _command(options: ServerOptions, server: Server) -> Iterator[str]:
    """The words that ask for the same of the server again."""
    from harness.tape.redact.address import shown  # noqa: PLC0415 - `harness --help` loads no tape

    yield from ("harness", "check", "--server", shown(options.url), "--api", server.api.name, "--model", server.model)
    yield from () if options.as_of is None else ("--as-of", options.as_of)
    yield from (word for file in options.facts for word in ("--facts", str(file)))
    if options.max_tokens != LONGEST:
        yield from ("--max-tokens", str(options.max_tokens))
    if options.repeat > 1:
        yield from ("--repeat", str(options.repeat))


def refuse_beside(given: Iterable[tuple[str, object]], what: str) -> None:
    """Raises `UsageError`: something was given that means nothing for `what` is checked."""
    for option, value in given:
        if value:
            raise UsageError(f"{option}: it is not for a check of {what}. 'harness check --help' says what is.")
