"""`harness record`: plays scenarios against the providers and keeps the exchanges as cassettes."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from harness.cli.colours import NoColour
from harness.cli.days import FactFiles, fact_files
from harness.cli.options import (
    AdapterCommands,
    Adapters,
    AllDifferences,
    AllowedSecrets,
    BaseUrls,
    CellTimeout,
    ExpectedFailures,
    FirstFailure,
    Ignored,
    Jobs,
    MaxAge,
    MaxFail,
    Models,
    Options,
    Paths,
    Quiet,
    Reports,
    Rules,
    Targets,
    Variants,
    Verbose,
    Words,
    adapters_of,
    enough,
)
from harness.cli.sending import Budget, Concurrency, Rates, sending
from harness.contract.errors import UsageError


def record(  # noqa: PLR0913 - a parameter for each option
    paths: Paths = None,
    *,
    adapters: Adapters = None,
    adapter_commands: AdapterCommands = None,
    targets: Targets = None,
    models: Models = None,
    origin: Annotated[
        Literal["provider", "reference"],
        typer.Option("--from", help="From the providers (needs keys), or from the bundled reference server."),
    ] = "provider",
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace what was recorded live, with another model, or cannot be read."),
    ] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Only the cells that have no cassette, or one of what was sent before.")
    ] = False,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale",
            help="Only the cells that have a cassette of what was sent before, or, with --max-age, an older one; it is "
            "replaced, whoever recorded it.",
        ),
    ] = False,
    max_age: MaxAge = None,
    max_requests: Annotated[
        int | None, typer.Option("--max-requests", metavar="N", min=1, help="Send no more than so many requests.")
    ] = None,
    words: Words = None,
    variants: Variants = None,
    jobs: Jobs = "1",
    cell_timeout: CellTimeout = None,
    cassettes: Annotated[
        str | None,
        typer.Option(
            "--cassettes", metavar="DIR", show_default=False, help="Folder to write to. Default: ./cassettes."
        ),
    ] = None,
    expected_failures: ExpectedFailures = None,
    reports: Reports = None,
    base_urls: BaseUrls = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
    all_differences: AllDifferences = False,
    rules: Rules = None,
    ignored: Ignored = None,
    first_failure: FirstFailure = False,
    max_fail: MaxFail = None,
    rates: Rates = None,
    concurrency: Concurrency = None,
    budget: Budget = None,
    facts: FactFiles = None,
    allowed: AllowedSecrets = None,
    _: NoColour = False,
) -> int:
    """Record cassettes. A cell's cassette is replaced only when the new one is complete.

    What was answered is kept: the same command, or the one with --missing, goes on where a recording has stopped.

    From providers it says before anything is sent about how much it will cost, and after it how much it was.

    Exit codes as for `harness run`.
    """
    from harness.cli import session  # noqa: PLC0415 - `harness --help` loads none of what a run needs

    options = Options(
        paths,
        adapters_of(adapters, adapter_commands),
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
        cell_timeout=cell_timeout,
        facts=fact_files(facts),
        quiet=quiet,
        rules=tuple(rules or ()),
        ignored=tuple(ignored or ()),
        enough=enough(first_failure, max_fail),
        max_age=max_age,
        sending=sending(rates, concurrency, budget),
    )
    if stale and missing:
        raise UsageError("--stale: it is for cells that have a cassette, and --missing for the others. Leave one out.")
    if max_age is not None and not stale:
        raise UsageError(f"--max-age {max_age}: it says which cassettes are stale: add --stale.")
    which = "stale" if stale else "missing" if missing else "all"
    return session.record(
        options, origin, force=force, which=which, max_requests=max_requests, allowed=tuple(allowed or ())
    )
