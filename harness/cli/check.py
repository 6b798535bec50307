"""`harness check`: an adapter or a loop through the reference suite, a server, or a gateway; and its scorecard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from harness.cli import gateway as of_gateway
from harness.cli import server as of_server
from harness.cli.colours import NoColour
from harness.cli.days import AsOf, FactFiles, fact_files
from harness.cli.gateway import GatewayOptions
from harness.cli.header import Headers
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
from harness.cli.server import ServerOptions
from harness.cli.subject import AdapterOptions, Kind, Shared, Subject, named_kind, played
from harness.contract.errors import UsageError

Beginning: TypeAlias = Literal["python", "command", "conversation", "agent"]
"""What there is a file to begin with for."""


def check(  # noqa: PLR0913 - a parameter for each option
    adapter: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|module:attribute",
            show_default=False,
            help="The adapter to check, or a server or gateway that the project's settings name; with --gateway a "
            "scenario, to play it alone.",
        ),
    ] = None,
    *,
    adapter_commands: AdapterCommands = None,
    conversations: Conversations = None,
    agents: AgentCommands = None,
    init: Annotated[
        Beginning | None,
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
    variants: Variants = None,
    jobs: Jobs = None,
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
    api: SpokenApi = None,
    server: of_server.Url = None,
    repeat: of_server.Repeat = None,
    max_requests: of_server.MaxRequests = None,
    max_tokens: of_server.MaxTokens = None,
    price: of_server.PriceOf = None,
    only: of_server.Only = None,
    gateway: of_gateway.Url = None,
    upstreams: of_gateway.Upstreams = None,
    upstream_port: of_gateway.Port = None,
    upstream_models: of_gateway.UpstreamModels = None,
    gateway_command: of_gateway.Command = None,
    gateway_wait: of_gateway.Wait = None,
    headers: Headers = None,
    _: NoColour = False,
) -> int:
    """Check an adapter against the reference server: whole, streamed, cut elsewhere, with faults, as far as declared.
    With --server: a server, by its raw answers. With --gateway: what a gateway makes of what passes it.

    Within a minute, from a sample of the suite. Says what holds, what breaks and by which request, which capabilities
    work though undeclared, and which are declared and do not. Exit codes as for 'harness run'.
    """
    if init is not None:
        return _begun(init)
    if server is None and gateway is None:
        kind = named_kind(adapter)
        server, gateway = (adapter if kind == each else None for each in ("server", "gateway"))
        adapter = adapter if kind == "adapter" else None

    def play() -> int:
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
            jobs=jobs or "auto",
            cassettes=None,
            expected_failures=expected_failures,
            reports=reports,
            verbose=verbose,
            all_differences=False,
            recuts=0 if variants and "stream" not in variants else RECUTS,
            strict=strict,
            cell_timeout=cell_timeout,
            as_of=as_of,
            facts=fact_files(facts),
            quiet=quiet,
            rules=tuple(rules or ()),
            ignored=tuple(ignored or ()),
        )
        return session.check(options, Check(everything, bool(targets)))

    subjects: Mapping[Kind, Subject] = {
        "adapter": AdapterOptions(
            {
                "ADAPTER": adapter,
                "--adapter-command": adapter_commands,
                "--conversation": conversations,
                "--agent-command": agents,
                "--target": targets,
                "--all": everything or None,
                "-n": jobs,
                "--cell-timeout": cell_timeout,
                "--strict": strict,
            },
            play,
        ),
        "server": ServerOptions(server, repeat, max_requests, max_tokens, price, only, headers),
        "gateway": GatewayOptions(
            gateway,
            upstreams,
            upstream_port,
            upstream_models,
            gateway_command,
            gateway_wait,
            cell_timeout,
            [adapter] if adapter else [],
            headers,
        ),
    }
    return played(
        subjects,
        Shared(
            command="check",
            api=api,
            models=models,
            variants=variants,
            expected_failures=expected_failures,
            reports=reports,
            verbose=verbose,
            quiet=quiet,
            strict=strict,
            rules=tuple(rules or ()),
            ignored=tuple(ignored or ()),
            as_of=as_of,
            facts=fact_files(facts),
        ),
    )


def _begun(kind: Beginning) -> int:
    """Write a file to begin with."""
    from harness.checking import starter  # noqa: PLC0415 - `harness --help` loads none of what a check needs

    file, command = starter.write(kind, Path())
    typer.echo(f"{file} is written. Check it: {command}")
    return 0


def _subject(adapter: str | None, commands: Sequence[str] | None, loops: Sequence[str]) -> list[str]:
    from harness.cli.settings import adapters, settings  # noqa: PLC0415 - `harness --help` loads none of what it needs

    named = adapters_of([adapter] if adapter else None, commands, loops)
    chosen = named or adapters(settings())
    if len(chosen) != 1:
        several = f" The project has {len(chosen)}: {', '.join(chosen)}." if chosen and not named else ""
        raise UsageError(
            "name one adapter, as package.module:ADAPTER or by --adapter-command 'node adapter.mjs'; or "
            "what owns its tool loop, by --conversation module:drive or --agent-command './agent'. 'harness help "
            f"adapters' and 'harness help loops' say what these are.{several}"
        )
    return chosen
