"""One check of a gateway, from the options to the exit code."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from harness import catalog
from harness.apis.facts import Edition
from harness.apis.targets import Shipped
from harness.checking.gateways import judging, process, sample
from harness.checking.gateways.check import GatewayCheck, Pair, pair
from harness.checking.gateways.playing import Door
from harness.checking.gateways.upstream import PACE, Upstream
from harness.cli import streams
from harness.cli.days import edition
from harness.cli.gateway import Asked
from harness.cli.interruption import interruptible
from harness.cli.outputs import outputs
from harness.cli.progress import Progress
from harness.cli.selection import scenarios_of
from harness.cli.standing import Standing
from harness.contract.errors import UnknownName, UsageError
from harness.contract.protocols import Route
from harness.host import keys
from harness.host.environment import isolated
from harness.kit import factories
from harness.results import CellResult, Invocation, Presentation, RunResult
from harness.running import expected_failures
from harness.running.findable import findable
from harness.running.plan import variants
from harness.running.serving.conversation import Terms
from harness.running.stages.routes import NO_KEY
from harness.scenarios.schema import Scenario
from harness.tape.redact import Redactor
from harness.tape.redact.address import shown
from harness.tape.server import serve

_SECONDS = 60.0
"""As long as a gateway may take for one answer, unless --cell-timeout says more."""


def check(asked: Asked) -> int:
    """Check a gateway, write the reports, and return the exit code.

    Raises:
        UsageError: an option is wrong, or the gateway does not lead to the upstream.
    """
    if not factories.is_base_url(asked.url):
        raise UsageError(f"--gateway: {factories.NO_BASE_URL}")
    by = edition(asked.as_of, asked.facts)
    wanted, presentation = outputs(asked.reports), Presentation(verbose=asked.verbose)
    facts = tuple(map(str, asked.facts))
    redactor = Redactor.of_run((asked.url,), shaped=True)
    standing = Standing(wanted, "reference", presentation, None, facts)
    try:
        with interruptible(), redactor.raising():
            result = _played(asked, by, standing, redactor)
    except BaseException as error:
        standing.stop(error)
        raise
    result = replace(result, facts=facts)
    for output in wanted:
        output.write(result, presentation)
    return result.exit_code


def _played(asked: Asked, by: Edition, standing: Standing, redactor: Redactor) -> RunResult:
    pairs = _pairs(asked, by)
    played = variants(asked.variants, "--variant")
    scenarios, files = _scenarios(asked)
    file = asked.expected_failures
    expected = expected_failures.load(Path(file), findable(by) | judging.RULES) if file else []
    door = Door(asked.url.rstrip("/"), _key(pairs[0]), asked.cell_timeout or _SECONDS)
    cells = GatewayCheck.cells(pairs, scenarios, played)
    standing.begin([cell for _, cell in cells])
    with _open(asked, pairs, by) as upstream, isolated(), Progress(len(cells)) as progress:

        def told(cell: CellResult) -> None:
            standing.add(cell)
            progress(cell)

        result = GatewayCheck(door, upstream, expected=expected, redactor=redactor)(cells, told)
    return replace(result, invocation=_invocation(asked, pairs, files))


@contextmanager
def _open(asked: Asked, pairs: Sequence[Pair], by: Edition) -> Generator[Upstream]:
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


def _configuration(asked: Asked, pairs: Sequence[Pair], origin: str) -> list[str]:
    """What the gateway has to be told, before it is asked for anything."""
    lines = [f"harness: checking the gateway at {shown(asked.url)}, which is spoken to in {pairs[0].target.api}."]
    lines.append("It has to know these models, each with an upstream of this base URL, and any key:")
    for each in pairs:
        base = origin + each.way.upstream.base_url_ending
        lines.append(f"  {each.target.model}: {each.upstream.model} of {each.upstream.api} at {base}")
    return lines


def _pairs(asked: Asked, by: Edition) -> list[Pair]:
    if asked.api is None or not asked.upstreams:
        raise UsageError(
            "--gateway: say what is spoken in front of it and what stands behind it, as in "
            "--api openai-chat --upstream anthropic."
        )
    client = _shipped(asked.api, "--api")
    upstreams = [_shipped(name, "--upstream") for name in dict.fromkeys(asked.upstreams)]
    names = {name: shipped.name for name, shipped in zip(dict.fromkeys(asked.upstreams), upstreams, strict=True)}
    models = _named("--upstream-model", asked.upstream_models, names)
    aliases = _named("--model", asked.models, names)
    found = [
        pair(client, each, models, aliases.get(each.name) or models.get(each.name, each.model), by)
        for each in dict.fromkeys(upstreams)
    ]
    for each in found:
        same = [other.upstream.name for other in found if other.target.model == each.target.model]
        if len(same) > 1:
            raise UsageError(
                f"--upstream: {' and '.join(same)} would both be asked for as {each.target.model!r}. Say by which "
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


def _named(option: str, values: Sequence[str], upstreams: Mapping[str, str]) -> dict[str, str]:
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


def _scenarios(asked: Asked) -> tuple[Sequence[Scenario], Mapping[str, str]]:
    if asked.scenario is None:
        return sample.scenarios(), {}
    own = [each for each in sample.scenarios() if each.id == asked.scenario]
    if own:
        return own, {}
    found, files = scenarios_of([asked.scenario])
    return [each for each in found if each.embeddings is None], files


def _key(each: Pair) -> str:
    """The key that the gateway is sent: the one that the client's API has in the environment, if it has."""
    return keys.key(each.way.client.key_variables) or NO_KEY


def _invocation(asked: Asked, pairs: Sequence[Pair], files: Mapping[str, str]) -> Invocation:
    port = ("--upstream-port", str(asked.port)) if asked.port else ()
    command = ("--gateway-command", asked.command) if asked.command else ()
    law = (
        *(("--as-of", asked.as_of) if asked.as_of else ()),
        *(w for file in asked.facts for w in ("--facts", str(file))),
    )
    words = ("harness", "check", "--gateway", shown(asked.url), "--api", str(asked.api), *port, *command, *law)
    columns = {
        each.target.name: (
            *("--upstream", each.upstream.name),
            *("--model", each.target.model),
            *("--upstream-model", each.upstream.model),
        )
        for each in pairs
    }
    return Invocation(words, words, words, scenarios=files, targets=columns, show=())
