"""`harness check`: one adapter, or one loop, through the reference suite, and its scorecard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli import gateway as of_gateway
from harness.cli import servers
from harness.cli.colours import NoColour
from harness.cli.days import AsOf, FactFiles, fact_files
from harness.cli.loops import AgentCommands, Conversations, SpokenApi, loops_of
from harness.cli.options import (
    AdapterCommands,
    CellTimeout,
    ExpectedFailures,
    Ignored,
    Jobs,
    Models,
    Options,
    Quiet,
    Reports,
    Rules,
    Strict,
    Targets,
    Variants,
    Verbose,
    adapters_of,
)
from harness.contract.errors import UsageError


def check(  # noqa: PLR0913 - a parameter for each option
    adapter: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|module:attribute",
            show_default=False,
            help="The adapter to check; with --gateway a scenario, to play it alone.",
        ),
    ] = None,
    *,
    adapter_commands: AdapterCommands = None,
    conversations: Conversations = None,
    agents: AgentCommands = None,
    init: Annotated[
        Literal["python", "command", "conversation", "agent"] | None,
        typer.Option(
            help="Write a file to begin with, my_adapter.py, my_adapter.mjs, my_loop.py or my_agent.py, and check "
            "nothing.",
            show_default=False,
        ),
    ] = None,
    targets: Targets = None,
    models: Models = None,
    everything: Annotated[
        bool, typer.Option("--all", help="The whole suite, and every target of the API; takes minutes.")
    ] = False,
    gateway: of_gateway.Url = None,
    api: SpokenApi = None,
    upstreams: of_gateway.Upstreams = None,
    upstream_port: of_gateway.Port = 0,
    upstream_models: of_gateway.UpstreamModels = None,
    gateway_command: of_gateway.Command = None,
    gateway_wait: of_gateway.Wait = 60.0,
    variants: Variants = None,
    jobs: Jobs = "auto",
    cell_timeout: CellTimeout = None,
    expected_failures: ExpectedFailures = None,
    strict: Strict = None,
    reports: Reports = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
    rules: Rules = None,
    ignored: Ignored = None,
    as_of: AsOf = None,
    facts: FactFiles = None,
    server: servers.ServerUrl = None,
    repeat: servers.Repeat = 1,
    max_requests: servers.MaxRequests = None,
    max_tokens: servers.MaxTokens = servers.LONGEST,
    price: servers.PriceOf = None,
    only: servers.Only = None,
    _: NoColour = False,
) -> int:
    """Check an adapter against the reference server: whole, streamed, cut elsewhere, with faults, as far as declared.
    With --server: a server, by its raw answers. With --gateway: what a gateway makes of what passes it.

    Within a minute, from a sample of the suite. Says what holds, what breaks and by which request, which capabilities
    work though undeclared, and which are declared and do not. Exit codes as for 'harness run'.
    """
    if init is not None:
        from harness.checking import starter  # noqa: PLC0415 - `harness --help` loads none of what a check needs

        file, command = starter.write(init, Path())
        typer.echo(f"{file} is written. Check it: {command}")
        return 0
    loops = {"--conversation": conversations, "--agent-command": agents}
    if server is not None:
        beside = {"ADAPTER": adapter, "--adapter-command": adapter_commands, "--target": targets, "--all": everything}
        beside |= {"--strict": strict, "-n": jobs != "auto", "--cell-timeout": cell_timeout, "--gateway": gateway}
        beside |= loops
        servers.refuse_beside(beside.items(), "a server")
        bounds = (repeat, max_requests, max_tokens, price, only)
        judged = (as_of, fact_files(facts), expected_failures)
        return servers.check(servers.ServerOptions(server, api, models, variants, *bounds, *judged, reports, verbose))
    beside = {"--repeat": repeat > 1, "--max-requests": max_requests, "--price": price, "--only": only}
    beside |= {"--max-tokens": max_tokens != servers.LONGEST}
    if gateway is not None:
        others = {"--adapter-command": adapter_commands, "--target": targets, "--all": everything, "--strict": strict}
        of_gateway.refuse(
            {**loops, **others}, "it is for an adapter, and --gateway checks a gateway. Leave one of them out."
        )
        servers.refuse_beside(beside.items(), "a gateway, only with --server")
        from harness.cli import gateways  # noqa: PLC0415 - `harness --help` loads none of what a check needs

        return gateways.check(
            of_gateway.Asked(
                url=gateway,
                api=api,
                upstreams=tuple(upstreams or ()),
                port=upstream_port,
                models=tuple(models or ()),
                upstream_models=tuple(upstream_models or ()),
                command=gateway_command,
                wait=gateway_wait,
                scenario=adapter,
                variants=tuple(variants or ()),
                cell_timeout=cell_timeout,
                expected_failures=expected_failures,
                reports=tuple(reports or ()),
                verbose=verbose,
                as_of=as_of,
                facts=fact_files(facts),
            )
        )
    servers.refuse_beside(beside.items(), "an adapter, only with --server")
    its = {"--upstream": upstreams, "--upstream-port": upstream_port, "--upstream-model": upstream_models}
    of_gateway.refuse({**its, "--gateway-command": gateway_command}, "it is for a gateway: add --gateway URL.")
    from harness.checking.check import Check  # noqa: PLC0415 - `harness --help` loads none of what a run needs
    from harness.checking.sample import RECUTS  # noqa: PLC0415 - the same
    from harness.cli import session  # noqa: PLC0415 - the same

    options = Options(
        None,
        _subject(adapter, adapter_commands, loops_of(conversations, agents, api, targets)),
        targets,
        models,
        base_urls=None,
        words=None,
        variants=variants,
        jobs=jobs,
        cassettes=None,
        expected_failures=expected_failures,
        reports=reports,
        verbose=verbose,
        all_differences=False,
        recuts=RECUTS,
        strict=strict,
        cell_timeout=cell_timeout,
        as_of=as_of,
        facts=fact_files(facts),
        quiet=quiet,
        rules=tuple(rules or ()),
        ignored=tuple(ignored or ()),
    )
    return session.check(options, Check(everything, bool(targets)))


def _subject(adapter: str | None, commands: Sequence[str] | None, loops: Sequence[str]) -> list[str]:
    from harness.cli.settings import adapters, settings  # noqa: PLC0415 - `harness --help` loads none of what it needs

    named = adapters_of([adapter] if adapter else None, commands, loops)
    chosen = named or adapters(settings())
    if len(chosen) != 1:
        several = f" The project has {len(chosen)}: {', '.join(chosen)}." if chosen and not named else ""
        raise UsageError(
            "harness check: name one adapter, as package.module:ADAPTER or by --adapter-command 'node adapter.mjs'; or "
            "what owns its tool loop, by --conversation module:drive or --agent-command './agent'. 'harness help "
            f"adapters' and 'harness help loops' say what these are.{several}"
        )
    return chosen
