"""One check of a gateway, from the options to the exit code."""

from __future__ import annotations

from collections.abc import Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness import catalog
from harness.apis.facts import Edition
from harness.apis.targets import Shipped
from harness.checking.addresses import client_base_url
from harness.checking.gateways import judging, playing, process
from harness.checking.gateways.check import GatewayCheck, Pair, pair
from harness.checking.gateways.playing import PACE, Door, Upstream
from harness.cli import keywords, streams
from harness.cli.days import edition
from harness.cli.gateway import WAIT, GatewayOptions
from harness.cli.header import headers_of, hidden
from harness.cli.interruption import interruptible
from harness.cli.outputs import presented, with_pipeline
from harness.cli.progress import Progress
from harness.cli.selection import described, scenarios_of
from harness.cli.settings import scope_for, settings
from harness.cli.standing import Standing
from harness.cli.subject import Shared, own
from harness.contract.errors import UnknownName, UsageError
from harness.contract.protocols import Route
from harness.host import keys
from harness.host.environment import isolated
from harness.host.project import Project
from harness.host.subjects import NamedGateway
from harness.kit import factories
from harness.results import CellResult, Invocation, RunResult
from harness.running import expected_failures
from harness.running.findable import findable
from harness.running.plan import variants
from harness.running.serving.conversation import Terms
from harness.running.stages import Cell
from harness.running.stages.routes import NO_KEY
from harness.scenarios.schema import Scenario
from harness.tape.redact import Redactor
from harness.tape.redact.address import shown
from harness.tape.server import serve

_SECONDS = 60.0
"""As long as a gateway may take for one answer, unless --cell-timeout says more."""


@dataclass(frozen=True, slots=True)
class Held:
    """What holds of a gateway: what was typed, or else what the project says of the one that was named."""

    typed: GatewayOptions
    shared: Shared
    named: NamedGateway | None
    project: Project

    @property
    def url(self) -> str:
        """Its base URL, as it was given."""
        return (self.typed.gateway or "") if self.named is None else self.named.url

    @property
    def api(self) -> str | None:
        """What is spoken in front of it."""
        return self.shared.api or (self.named and self.named.api)

    @property
    def upstreams(self) -> Sequence[str]:
        """What stands behind it."""
        return tuple(dict.fromkeys(self.typed.upstreams or (self.named.upstreams if self.named else ())))

    @property
    def port(self) -> int:
        """Where its upstream listens; 0: where there is room."""
        if self.typed.port is not None:
            return self.typed.port
        return (self.named.upstream_port if self.named else None) or 0

    @property
    def command(self) -> str | None:
        """What runs it."""
        return self.typed.command or (self.named and self.named.command)

    @property
    def wait(self) -> float:
        """Seconds that it may take to start."""
        if self.typed.wait is not None:
            return self.typed.wait
        return WAIT if self.named is None or self.named.wait is None else self.named.wait

    @property
    def variants(self) -> Sequence[str]:
        """The variants that are played, as they were given."""
        return self.shared.variants or (self.named.variants if self.named else ())

    @property
    def expected_failures(self) -> str | Path | None:
        """The file of known losses."""
        return self.shared.expected_failures or (self.named and self.named.expected_failures)

    @property
    def strict(self) -> bool:
        """`True` if warnings fail the check."""
        return bool(self.named and self.named.strict) if self.shared.strict is None else self.shared.strict

    def headers(self) -> dict[str, str]:
        """The headers that each request has. Raises `UsageError`."""
        own: Mapping[str, str] = {} if self.named is None else self.named.headers
        return headers_of(self.typed.headers, own, "" if self.named is None else self.named.place)

    def models(self) -> tuple[Sequence[str], str]:
        """The names of models that the gateway has, as options write them, and what names these in errors."""
        typed = self.shared.models
        own = _written(self.named.models, self.typed.upstreams) if self.named is not None else []
        return typed or own, self.place("model", typed)

    def upstream_models(self) -> tuple[Sequence[str], str]:
        """The models of the upstreams, as options write them, and what names these in errors."""
        typed = self.typed.upstream_models
        own = _written(self.named.upstream_models, self.typed.upstreams) if self.named is not None else []
        return typed or own, self.place("upstream-model", typed)

    def place(self, option: str, typed: object) -> str:
        """What names a value in errors: the option, or the key of the settings."""
        if self.named is None or typed:
            return f"--{option}"
        return f"{self.named.place}.{_KEYS.get(option, option)}"


_KEYS = {"upstream": "upstreams", "model": "models", "upstream-model": "upstream-models", "variant": "variants"}
"""How settings call what options name one of."""


def _written(models: Mapping[str, str], upstreams: Container[str] | None) -> list[str]:
    """What settings say of models, as options write it; of these upstreams, if some were typed."""
    return [f"{name}={model}" for name, model in models.items() if upstreams is None or name in upstreams]


def check(typed: GatewayOptions, shared: Shared) -> int:
    """Check a gateway, write the reports, and return the exit code.

    Raises:
        UsageError: an option or a setting is wrong, or the gateway does not lead to the upstream.
    """
    asked, by = _held(typed, shared), edition(shared.as_of, shared.facts)
    wanted, presentation = with_pipeline(shared.reports or ()), presented(verbose=shared.verbose, quiet=shared.quiet)
    facts = tuple(map(str, shared.facts))
    models = [each.rpartition("=")[2] for given, _ in (asked.models(), asked.upstream_models()) for each in given]
    redactor = Redactor.of_run((asked.url,), shaped=True, models=models, headers=asked.headers())
    standing = Standing(wanted, "reference", presentation, None, facts)
    try:
        with interruptible(), redactor.raising():
            shown = any(each.report.wants_conversations for each in wanted)
            result = _played(asked, by, standing, redactor, shown=shown)
    except BaseException as error:
        standing.stop(error)
        raise
    result = replace(result, facts=facts)
    for output in wanted:
        output.write(result, presentation)
    return result.exit_code


def validate(name: str) -> None:
    """Whether a gateway of the project can be checked as its settings say. Raises `UsageError`."""
    asked = _held(GatewayOptions(name), Shared(command="check"))
    _pairs(asked, edition(None, ()))
    variants(asked.variants, asked.place("variant", None))


def _held(typed: GatewayOptions, shared: Shared) -> Held:
    """What holds of the gateway that was typed. Raises `UsageError`: there is none of this name or at this URL."""
    name = typed.gateway or ""
    project = own("--gateway", name)
    asked = Held(typed, shared, project.gateways.get(name), project)
    if not factories.is_base_url(asked.url):
        place = "--gateway" if asked.named is None else asked.place("url", None)
        raise UsageError(f"{place}: {factories.NO_BASE_URL}")
    return asked


def _played(asked: Held, by: Edition, standing: Standing, redactor: Redactor, *, shown: bool) -> RunResult:
    pairs = _pairs(asked, by)
    played = variants(asked.variants, asked.place("variant", asked.shared.variants))
    scenarios, files = _scenarios(asked)
    file = asked.expected_failures
    expected = expected_failures.load(Path(file), findable(by) | judging.RULES) if file else []
    scope = scope_for(asked.shared.rules, asked.shared.ignored, settings(), by)
    door = Door(
        client_base_url(pairs[0].way.client, asked.url),
        _key(pairs[0]),
        asked.typed.cell_timeout or _SECONDS,
        asked.headers(),
    )
    cells = _chosen(GatewayCheck.cells(pairs, scenarios, played), asked.shared.words)
    done: list[CellResult] = []
    standing.begin([cell for _, cell in cells], lambda: tuple(done))
    with _open(asked, pairs, by) as upstream, isolated(), Progress(len(cells)) as progress:

        def told(cell: CellResult) -> None:
            done.append(cell)
            progress(cell)

        gateway = GatewayCheck(
            door,
            upstream,
            expected=expected,
            redactor=redactor,
            scope=scope,
            conversations=shown,
            strict=asked.strict,
        )
        result = gateway(cells, told)
    return replace(result, invocation=_invocation(asked, pairs, files))


@contextmanager
def _open(asked: Held, pairs: Sequence[Pair], by: Edition) -> Generator[Upstream]:
    """The upstream, listening, and the gateway in front of it."""
    upstream = Upstream(Terms(edition=by, models=tuple(each.upstream.model for each in pairs), pace=PACE))
    with serve(upstream, asked.port) as server:
        upstream.origin = server.origin
        for line in _configuration(asked, pairs, server.origin):
            streams.tell(line)
        if asked.command is None:
            process.await_listening(asked.url, asked.wait)
            yield upstream
            return
        with process.running(asked.command, {"HARNESS_UPSTREAM_URL": server.origin}) as gateway:
            process.await_listening(asked.url, asked.wait, gateway.check)
            try:
                yield upstream
            except UsageError as error:
                raise UsageError(f"{error}{gateway.last_words}") from None


def _configuration(asked: Held, pairs: Sequence[Pair], origin: str) -> list[str]:
    """What the gateway has to be told, before it is asked for anything."""
    lines = [f"harness: checking the gateway at {shown(asked.url)}, which is spoken to in {pairs[0].target.api}."]
    lines.append("It has to know these models, each with an upstream of this base URL, and any key:")
    for each in pairs:
        base = origin + each.way.upstream.base_url_ending
        lines.append(f"  {each.target.model}: {each.upstream.model} of {each.upstream.api} at {base}")
    return lines


def _pairs(asked: Held, by: Edition) -> list[Pair]:
    if asked.api is None or not asked.upstreams:
        raise UsageError(
            "--gateway: say what is spoken in front of it and what stands behind it, as in "
            "--api openai-chat --upstream anthropic."
        )
    client = _shipped(asked.api, asked.place("api", asked.shared.api))
    place = asked.place("upstream", asked.typed.upstreams)
    upstreams = [_shipped(name, place) for name in asked.upstreams]
    names = {name: shipped.name for name, shipped in zip(asked.upstreams, upstreams, strict=True)}
    models, aliases = _named(*asked.upstream_models(), names), _named(*asked.models(), names)
    found = [
        pair(client, each, models, aliases.get(each.name) or models.get(each.name, each.model), by)
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


def _shipped(name: str, option: str) -> Shipped:
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


def _named(values: Sequence[str], option: str, upstreams: Mapping[str, str]) -> dict[str, str]:
    """The models by upstream; one without a name is that of all.

    Raises:
        UsageError: a name is that of no upstream, or two upstreams would be one model.
    """
    found: dict[str, str] = {}
    for value in values:
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


def _scenarios(asked: Held) -> tuple[Sequence[Scenario], Mapping[str, str]]:
    """What is played: what was named, and else, by a check, its sample; by a run, the scenarios of the project, or the
    whole suite with what only gateways are played."""
    own, is_run = {each.id: each for each in playing.scenarios()}, asked.shared.command == "run"
    named = asked.typed.scenarios or (asked.project.scenarios if is_run else ())
    if not named and not is_run:
        return list(own.values()), {}
    others = [each for each in named if each not in own]
    found, files = scenarios_of(others) if others or not named else ([], {})
    mine = [own[each] for each in named if each in own] if named else list(own.values())
    every = {each.id: each for each in (*mine, *found)}
    return [each for each in every.values() if each.embeddings is None], files


def _chosen(cells: list[tuple[Pair, Cell]], words: str | None) -> list[tuple[Pair, Cell]]:
    """The cells that an expression matches. Raises `UsageError`: it is none, or matches nothing."""
    if words is None:
        return cells
    wanted = keywords.parse(words)
    found = [(each, cell) for each, cell in cells if wanted.match(described(cell))]
    if not found:
        raise UsageError(f"-k {words!r} matches no cell of the chosen scenarios. 'harness list scenarios' shows them.")
    return found


def _key(each: Pair) -> str:
    """The key that the gateway is sent: the one that the client's API has in the environment, if it has."""
    return keys.key(each.way.client.key_variables) or NO_KEY


def _invocation(asked: Held, pairs: Sequence[Pair], files: Mapping[str, str]) -> Invocation:
    typed, shared = asked.typed, asked.shared
    port = () if typed.port is None else ("--upstream-port", str(typed.port))
    command = () if typed.command is None else ("--gateway-command", typed.command)
    api = () if shared.api is None else ("--api", shared.api)
    law = (
        *(("--as-of", shared.as_of) if shared.as_of else ()),
        *(w for file in shared.facts for w in ("--facts", str(file))),
    )
    which = shown(asked.url) if asked.named is None else str(typed.gateway)
    strict = ("--strict",) if shared.strict else ()
    words = (
        "harness",
        shared.command,
        "--gateway",
        which,
        *api,
        *port,
        *command,
        *hidden(typed.headers),
        *strict,
        *law,
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
