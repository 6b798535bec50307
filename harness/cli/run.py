"""`harness run`: plays scenarios through adapters and says what is wrong and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

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
    Adapters,
    AllDifferences,
    BaseUrls,
    Cassettes,
    CellTimeout,
    ExpectedFailures,
    FirstFailure,
    Ignored,
    MaxAge,
    MaxFail,
    Models,
    Options,
    Paths,
    Quiet,
    Reports,
    Rules,
    Strict,
    Targets,
    Variants,
    Verbose,
    Words,
    adapters_of,
    enough,
)
from harness.cli.sending import Budget, Concurrency, Rates, Resume, sending
from harness.cli.server import ServerOptions
from harness.cli.subject import AdapterOptions, Kind, Shared, Subject, played


def run(  # noqa: PLR0913 - a parameter for each option
    paths: Paths = None,
    *,
    adapters: Adapters = None,
    adapter_commands: AdapterCommands = None,
    conversations: Conversations = None,
    agents: AgentCommands = None,
    api: SpokenApi = None,
    targets: Targets = None,
    models: Models = None,
    mode: Annotated[
        Literal["replay", "reference", "live"] | None,
        typer.Option(
            show_default=False,
            help="From cassettes, against the bundled reference server, or against the providers (needs keys). "
            "Default: replay.",
        ),
    ] = None,
    words: Words = None,
    variants: Variants = None,
    recuts: Annotated[
        int | None,
        typer.Option(
            "--recut",
            metavar="N",
            min=0,
            show_default=False,
            help="Play each streamed answer N more times, its bytes cut at other places or spelled otherwise, and "
            "compare what the adapter makes of it. Works from the one cassette of a cell, and for any adapter.",
        ),
    ] = None,
    jobs: Annotated[
        str | None,
        typer.Option(
            "-n",
            metavar="N",
            show_default=False,
            help="Cells played at a time, or auto. Default: 1; but many cells that adapters of ours play offline are "
            "shared by processes, one for each processor.",
        ),
    ] = None,
    cell_timeout: CellTimeout = None,
    cassettes: Cassettes = None,
    expected_failures: ExpectedFailures = None,
    strict: Strict = None,
    reports: Reports = None,
    base_urls: BaseUrls = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
    all_differences: AllDifferences = False,
    rules: Rules = None,
    ignored: Ignored = None,
    first_failure: FirstFailure = False,
    max_fail: MaxFail = None,
    last_failed: Annotated[
        bool,
        typer.Option(
            "--last-failed",
            "--lf",
            help="Only the cells that failed when they were last played here in this mode; all, if none did.",
        ),
    ] = False,
    max_age: MaxAge = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Play again whenever a scenario, a cassette, the adapter or the settings are saved; Ctrl-C ends.",
        ),
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            metavar="I/N",
            show_default=False,
            help="Only the I-th of N parts of the cells, as on one of N machines: 'harness merge' makes one run of the "
            "JSON of all parts.",
        ),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor",
            metavar="URL",
            show_default=False,
            help="Cells are played by Dask's workers: dask://HOST:PORT, or dask://local?workers=N for some of this "
            "machine.",
        ),
    ] = None,
    rates: Rates = None,
    concurrency: Concurrency = None,
    budget: Budget = None,
    resume: Resume = None,
    as_of: AsOf = None,
    facts: FactFiles = None,
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
    """Play scenarios and report findings and differences. Offline from cassettes unless --mode says otherwise.
    With --server: the checks of a server. With --gateway: scenarios through a gateway, seen from both ends.

    Exit codes: 1 not conformant, or an expected failure did not happen;
    2 wrong usage, missing cassettes, or nothing ran; 130 interrupted; else 0.
    """

    def play() -> int:
        from harness.cli import session  # noqa: PLC0415 - `harness --help` loads none of what a run needs

        options = Options(
            paths,
            adapters_of(adapters, adapter_commands, loops_of(conversations, agents, api, targets)),
            targets,
            models,
            base_urls,
            words,
            variants,
            jobs,
            cassettes,
            expected_failures,
            reports,
            verbose,
            all_differences,
            recuts or 0,
            strict,
            cell_timeout,
            as_of,
            fact_files(facts),
            quiet=quiet,
            rules=tuple(rules or ()),
            ignored=tuple(ignored or ()),
            enough=enough(first_failure, max_fail),
            last_failed=last_failed,
            max_age=max_age,
            shard=shard,
            executor=executor,
            sending=sending(rates, concurrency, budget, resume),
        )
        if watch:
            from harness.cli.watch import watch as again  # noqa: PLC0415 - the same

            return again(options, mode or "replay")
        return session.run(options, mode or "replay")

    subjects: Mapping[Kind, Subject] = {
        "adapter": AdapterOptions(
            {
                "PATH": paths,
                "--adapter": adapters,
                "--adapter-command": adapter_commands,
                "--conversation": conversations,
                "--agent-command": agents,
                "--target": targets,
                "--mode": mode,
                "--recut": recuts,
                "-n": jobs,
                "--cell-timeout": cell_timeout,
                "--cassettes": cassettes,
                "--strict": strict,
                "--base-url": base_urls,
                "--all-differences": all_differences or None,
                "-x": first_failure or None,
                "--maxfail": max_fail,
                "--last-failed": last_failed or None,
                "--max-age": max_age,
                "--watch": watch or None,
                "--shard": shard,
                "--executor": executor,
                **sending(rates, concurrency, budget, resume).given,
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
            paths or (),
            headers,
        ),
    }
    return played(
        subjects,
        Shared(
            command="run",
            api=api,
            models=models,
            words=words,
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
