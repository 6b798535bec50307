"""`harness run`: plays scenarios through adapters and says what is wrong and what differs."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from harness.cli.colours import NoColour
from harness.cli.days import AsOf, FactFiles, fact_files
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
        Literal["replay", "reference", "live"],
        typer.Option(
            help="From cassettes, against the bundled reference server, or against the providers (needs keys)."
        ),
    ] = "replay",
    words: Words = None,
    variants: Variants = None,
    recuts: Annotated[
        int,
        typer.Option(
            "--recut",
            metavar="N",
            min=0,
            help="Play each streamed answer N more times, its bytes cut at other places or spelled otherwise, and "
            "compare what the adapter makes of it. Works from the one cassette of a cell, and for any adapter.",
        ),
    ] = 0,
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
    as_of: AsOf = None,
    facts: FactFiles = None,
    _: NoColour = False,
) -> int:
    """Play scenarios and report findings and differences. Offline from cassettes unless --mode says otherwise.

    Exit codes: 1 not conformant, or an expected failure did not happen;
    2 wrong usage, missing cassettes, or nothing ran; 130 interrupted; else 0.
    """
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
        recuts,
        strict,
        cell_timeout,
        as_of,
        fact_files(facts),
        quiet=quiet,
        rules=tuple(rules or ()),
        ignored=tuple(ignored or ()),
        enough=enough(first_failure, max_fail),
        last_failed=last_failed,
    )
    return session.run(options, mode)
