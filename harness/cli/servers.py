"""One check of a server, from the options to the exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast, get_args

import typer

from harness import catalog
from harness.apis.departure import PROMISES
from harness.checking.servers.checks import CHECKS, RULES
from harness.checking.servers.inspection import INTERRUPTED, Asked, Inspection
from harness.checking.servers.line import Line
from harness.checking.servers.price import Price
from harness.checking.servers.rehearsal import rehearsed
from harness.checking.servers.server import NAME, Server
from harness.cli import keywords
from harness.cli.days import edition
from harness.cli.header import headers_of, hidden
from harness.cli.interruption import interruptible
from harness.cli.outputs import presented, with_pipeline
from harness.cli.progress import Progress
from harness.cli.server import LONGEST, ServerOptions
from harness.cli.settings import scope_for, settings
from harness.cli.standing import Standing
from harness.cli.subject import Shared, own
from harness.contract.errors import UnknownName, UsageError
from harness.host import keys
from harness.host.subjects import NamedServer
from harness.kit import factories
from harness.reports._costs import money
from harness.reports._words import count, plain
from harness.results import Spending
from harness.running import expected_failures
from harness.running.costs import price_version
from harness.running.stages.routes import NO_KEY
from harness.scenarios.schema import Variant
from harness.tape.redact import Redactor
from harness.tape.redact.address import shown


def check(typed: ServerOptions, shared: Shared) -> int:
    """Check a server, write the reports, and return the exit code.

    Raises:
        UsageError: an option or a setting is wrong, or nobody answers at the URL as its API does.
    """
    held = _held(typed, shared)
    headers = held.headers()
    redactor = Redactor.of_run([held.url], shaped=True, models=held.models, headers=headers)
    with redactor.raising():
        server, asked, price = held.server(), held.asked(), held.price()
        key = _key(server)
        file = held.expected_failures
        expected = expected_failures.load(Path(file), RULES) if file else []
        scope = scope_for(shared.rules, shared.ignored, settings(), edition(shared.as_of, shared.facts))
        wanted = with_pipeline(shared.reports or ())
        presentation, facts = presented(verbose=shared.verbose, quiet=shared.quiet), tuple(map(str, shared.facts))
        standing = Standing(wanted, "live", presentation, facts=facts)
        _before(server, asked, held.max_requests, price)
        try:
            with (
                interruptible(),
                Line(server.api, key, held.max_requests, headers=headers) as line,
                Progress(sum(1 for _ in asked.cells())) as progress,
            ):
                command = tuple(_command(held))
                shown = any(each.report.wants_conversations for each in wanted)
                inspection = Inspection(
                    server, line, asked, redactor, price, command, expected, facts, scope, shown, held.strict
                )
                result = inspection(progress)
        except BaseException as error:
            standing.stop(error)
            raise
        for output in wanted:
            output.write(result, presentation)
    return 130 if result.stopped == INTERRUPTED else result.exit_code


def validate(name: str) -> None:
    """Whether a server of the project can be checked as its settings say. Raises `UsageError`."""
    held = _held(ServerOptions(name), Shared(command="check"))
    held.server()
    held.asked()
    held.price()


def _held(typed: ServerOptions, shared: Shared) -> Held:
    name = typed.server or ""
    return Held(typed, shared, own("--server", name).servers.get(name))


@dataclass(frozen=True, slots=True)
class Held:
    """What holds of a server: what was typed, or else what the project says of the one that was named."""

    typed: ServerOptions
    shared: Shared
    named: NamedServer | None

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return NAME if self.named is None else self.typed.server or NAME

    @property
    def url(self) -> str:
        """Its base URL, as it was given."""
        return (self.typed.server or "") if self.named is None else self.named.url

    @property
    def max_requests(self) -> int | None:
        """How many requests may be sent."""
        return self.typed.max_requests or (self.named and self.named.max_requests)

    @property
    def expected_failures(self) -> str | Path | None:
        """The file of known failures."""
        return self.shared.expected_failures or (self.named and self.named.expected_failures)

    @property
    def strict(self) -> bool:
        """`True` if warnings fail the check."""
        return bool(self.named and self.named.strict) if self.shared.strict is None else self.shared.strict

    def server(self) -> Server:
        """The server, which nobody has asked yet. Raises `UsageError`."""
        known = sorted(each.name for each in catalog.apis() if each.questions is not None)
        api = self.shared.api or (self.named and self.named.api)
        if api is None:
            raise UsageError(
                f"--server: name the API that it speaks, as in --api openai-chat. Known: {', '.join(known)}."
            )
        if api not in catalog.APIS.names():
            raise UnknownName("API", api, known, self._place("api", self.shared.api))
        if not factories.is_base_url(self.url):
            place = "--server" if self.named is None else self._place("url", None)
            raise UsageError(f"{place}: {factories.NO_BASE_URL}")
        longest = self.typed.max_tokens or (self.named and self.named.max_tokens) or LONGEST
        by = edition(self.shared.as_of, self.shared.facts)
        return replace(Server.of(catalog.api(api), self.model(), self.url, longest, by), name=self.name)

    def asked(self) -> Asked:
        """What of the server is looked at. Raises `UsageError`."""
        given = self.typed.only or (self.named.only if self.named else ())
        only = _checks(given, self._place("only", self.typed.only))
        said = self.shared.variants or (self.named.variants if self.named else ()) or get_args(Variant)
        variants = tuple(dict.fromkeys(said))
        for each in variants:
            if each not in get_args(Variant):
                place = self._place("variants", self.shared.variants).replace("--variants", "--variant")
                raise UnknownName("variant", each, get_args(Variant), place)
        if self.shared.words is not None:
            only = _matching(self.shared.words, only or RULES)
        repeat = self.typed.repeat or (self.named and self.named.repeat) or 1
        asked = Asked(only or None, cast("tuple[Variant, ...]", variants), repeat)
        if not any(asked.cells()):
            raise UsageError("--only, --variant: none of these checks is played in that variant.")
        return asked

    def price(self) -> Price | None:
        """What its tokens cost, if that was said. Raises `UsageError`."""
        text = self.typed.price or (self.named and self.named.price)
        return None if text is None else Price.of(text, self._place("price", self.typed.price))

    @property
    def models(self) -> Sequence[str]:
        """The names of models that were given."""
        return [*(self.shared.models or ()), *([] if self.named is None else [self.named.model])]

    def headers(self) -> dict[str, str]:
        """The headers that each request has. Raises `UsageError`."""
        own: Mapping[str, str] = {} if self.named is None else self.named.headers
        return headers_of(self.typed.headers, own, "" if self.named is None else self.named.place)

    def model(self) -> str:
        """The model that is asked for. Raises `UsageError`: none was named."""
        models = list(self.shared.models or ())
        if not models and self.named is not None:
            return self.named.model
        if len(models) != 1 or "=" in models[0]:
            raise UsageError("--server: name one of its models, as in --model llama-4-8b.")
        return models[0]

    def _place(self, key: str, typed: object) -> str:
        """What names a value in errors."""
        return f"--{key}" if self.named is None or typed else f"{self.named.place}.{key}"


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
    wanted = keywords.parse(words)
    every = (*PROMISES.values(), *CHECKS.values())
    found = frozenset(each.id for each in every if each.id in among and wanted.match(f"{each.id} {each.subject}"))
    if not found:
        raise UsageError(f"-k {words!r} matches none of the checks. 'harness list rules' has them: server-...")
    return found


def _key(server: Server) -> str:
    """The key that is sent. A server of one's own may need none."""
    variables = server.api.key_variables
    found = keys.key(variables)
    if found is None and server.api.is_provider(server.base_url):
        raise UsageError(f"--server: the provider itself wants a key: set {' or '.join(variables)}.")
    return found or NO_KEY


def _before(server: Server, asked: Asked, most: int | None, price: Price | None) -> None:
    """Say what is about to be sent."""
    source = " ".join(part for pair in price_version().items() for part in pair) if price is None else "by --price"
    spending = rehearsed(server, asked, most, price)
    typer.echo(plain(f"To be sent: {_about(spending)}; reasoning comes on top ({source})."), err=True)


def _about(spending: Spending) -> str:
    requests = f"about {count(spending.requests, 'request')}"
    if spending.dollars is None:
        return f"{requests}, at a cost that is not known"
    dollars = money(spending.dollars)
    return f"{requests}, {dollars if dollars.startswith('less') else f'about {dollars}'}"


def _command(held: Held) -> Iterator[str]:
    """The words that ask for the same of the server again."""
    typed, shared = held.typed, held.shared
    if held.named is not None and shared.command == "check":
        yield from ("harness", "check", held.name)
    else:
        yield from ("harness", shared.command, "--server", held.name if held.named is not None else shown(held.url))
    yield from () if shared.api is None else ("--api", shared.api)
    yield from (word for model in shared.models or () for word in ("--model", model))
    yield from hidden(typed.headers)
    yield from ("--strict",) if shared.strict else ()
    yield from () if shared.as_of is None else ("--as-of", shared.as_of)
    yield from (word for file in shared.facts for word in ("--facts", str(file)))
    yield from () if typed.max_tokens is None else ("--max-tokens", str(typed.max_tokens))
    yield from () if typed.repeat is None else ("--repeat", str(typed.repeat))
