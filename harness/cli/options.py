"""Command-line options, each declared once, and the groups of options that commands share.

A command takes one dataclass, whose fields are its options and arguments (`harness.cli.app`).

This module must not import anything that slows down shell completion.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from harness.cli import app

ADAPTERS = "Adapters, agents and models"
FINDINGS = "Which findings count"
OUTPUT = "Output"
LIVE = "Live runs, which send requests to providers"
SCALE = "Parallel and partial runs"

ModeName: TypeAlias = Literal["replay", "reference", "live"]

Paths: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH",
        show_default=False,
        autocompletion=app.complete_scenarios,
        help="Scenario files, folders of them, or ids of shipped scenarios. Default: the project's scenarios, or all "
        "shipped ones.",
    ),
]
AdapterCommands: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--adapter-command",
        metavar="COMMAND",
        rich_help_panel=ADAPTERS,
        help="Command of an adapter in any language ('harness help stdio'). Repeatable.",
    ),
]
Targets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="NAME",
        autocompletion=app.complete_targets,
        help="Only this target ('harness list targets'). Repeatable.",
    ),
]
Models: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="TARGET=NAME",
        autocompletion=app.complete_models,
        rich_help_panel=ADAPTERS,
        help="Model to use for a target. Repeatable.",
    ),
]
BaseUrls: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--base-url",
        metavar="TARGET=URL",
        rich_help_panel=LIVE,
        help="Server to use instead of the provider's. Repeatable.",
    ),
]
Words: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "-k", metavar="EXPR", help="Only cells whose scenario, target or subject matches: 'json and not gemini'."
    ),
]
Variants: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="whole|stream",
        show_default=False,
        autocompletion=app.complete_variants,
        rich_help_panel=ADAPTERS,
        help="Only whole or only streamed answers. Default: both.",
    ),
]
Jobs: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "-n",
        metavar="N",
        show_default=False,
        rich_help_panel=SCALE,
        help="Number of cells to run at a time, or auto. Default: 1, or several processes for many offline cells.",
    ),
]
CellTimeout: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--cell-timeout",
        metavar="SECONDS",
        show_default=False,
        rich_help_panel=ADAPTERS,
        help="Time limit of a cell for adapters that are not built in. Default: 60, or 900 in live runs.",
    ),
]
Cassettes: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cassettes",
        metavar="DIR",
        show_default=False,
        rich_help_panel=ADAPTERS,
        help="Folder of cassettes. Default: the project's or ./cassettes, then the shipped ones.",
    ),
]
ExpectedFailures: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--expected-failures",
        metavar="FILE",
        rich_help_panel=FINDINGS,
        help="File of known failures, each with a reason.",
    ),
]
Reports: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="FORMAT[:PATH]",
        rich_help_panel=OUTPUT,
        help="terminal (default), json, junit, xunit, markdown, html, github, gitlab, badge, table, worst or archive "
        "('harness help reports'). Repeatable.",
    ),
]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", rich_help_panel=OUTPUT, help="Each scenario and finding, ungrouped.")
]
MaxAge: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--max-age",
        metavar="AGE",
        show_default=False,
        rich_help_panel=FINDINGS,
        help="Warn about recordings older than this: 90d, 12w. With --strict an error.",
    ),
]
AllDifferences: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--all-differences",
        rich_help_panel=OUTPUT,
        help="Show how the targets differ, and which properties are the same for all.",
    ),
]
AllowedSecrets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-secret",
        metavar="PLACE",
        show_default=False,
        help="Store what looks like a secret in this place, as the error message names it; * matches anything. "
        "Repeatable.",
    ),
]
AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="DAY",
        show_default=False,
        rich_help_panel=FINDINGS,
        help="Use the facts of this day: 2026-07-01, or today. Default: the day of each request.",
    ),
]
FactFiles: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--facts",
        metavar="FILE",
        show_default=False,
        rich_help_panel=FINDINGS,
        help="Facts of your own, in addition to the shipped ones. Repeatable.",
    ),
]
AgentCommands: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--agent-command",
        metavar="COMMAND",
        rich_help_panel=ADAPTERS,
        help="Program that runs its own tool loop ('harness help loops'). Repeatable.",
    ),
]
AgentApi: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--api",
        metavar="NAME",
        show_default=False,
        rich_help_panel=ADAPTERS,
        help="API of a conversation or agent that does not name its own.",
    ),
]
MaxRequests: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-requests", metavar="N", min=1, show_default=False, help="Send at most N requests."),
]

_NO_COLOR = "NO_COLOR"


def _disable_colours(context: typer.Context, wanted: bool) -> None:
    if not wanted:
        return
    before = os.environ.get(_NO_COLOR)
    os.environ[_NO_COLOR] = "1"

    def restore() -> None:
        if before is None:
            del os.environ[_NO_COLOR]
        else:
            os.environ[_NO_COLOR] = before

    context.call_on_close(restore)


NoColour: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--no-color",
        callback=_disable_colours,
        is_eager=True,
        rich_help_panel=OUTPUT,
        help="No colours. NO_COLOR and FORCE_COLOR in the environment work too.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Options of commands that write reports."""

    reports: Reports = None
    verbose: Verbose = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", rich_help_panel=OUTPUT, help="Only failures, and the verdict.")
    ] = False
    no_colour: NoColour = False


@dataclass(frozen=True, kw_only=True)
class FindingOptions:
    """Options that select the facts to apply and the findings to count."""

    rules: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="ID",
            autocompletion=app.complete_rules,
            rich_help_panel=FINDINGS,
            help="Count only findings of this rule ('harness list rules'). May be a glob. Repeatable.",
        ),
    ] = None
    ignored: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="ID",
            autocompletion=app.complete_rules,
            rich_help_panel=FINDINGS,
            help="Ignore findings of this rule. May be a glob. Repeatable.",
        ),
    ] = None
    facts: FactFiles = None


@dataclass(frozen=True, kw_only=True)
class StrictOptions(FindingOptions):
    """Options for strict judgement and for the date at which facts apply."""

    strict: Annotated[
        bool | None,
        typer.Option(
            "--strict/--no-strict",
            show_default=False,
            rich_help_panel=FINDINGS,
            help="Broken conventions fail the run. For a server or gateway, warnings do.",
        ),
    ] = None
    as_of: AsOf = None


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """Targets, models and variants."""

    targets: Targets = None
    models: Models = None
    variants: Variants = None
    cell_timeout: CellTimeout = None


@dataclass(frozen=True, kw_only=True)
class AdapterOptions(TargetOptions):
    """Adapters, their targets, and the servers to which their requests go."""

    adapters: Annotated[
        list[str] | None,
        typer.Option(
            "--adapter",
            metavar="NAME|MODULE:ATTR",
            autocompletion=app.complete_adapters,
            help="Only this adapter. Repeatable.",
        ),
    ] = None
    adapter_commands: AdapterCommands = None
    base_urls: BaseUrls = None
    cassettes: Cassettes = None


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """Libraries and programs that run their own tool loop."""

    conversations: Annotated[
        list[str] | None,
        typer.Option(
            "--conversation",
            metavar="MODULE:ATTR",
            rich_help_panel=ADAPTERS,
            help="Library that runs its own tool loop ('harness help loops'). Repeatable.",
        ),
    ] = None
    agents: AgentCommands = None
    api: AgentApi = None


@dataclass(frozen=True, kw_only=True)
class PlayOptions(AdapterOptions, FindingOptions, ReportOptions):
    """Options shared by `run` and `record`."""

    paths: Paths = None
    words: Words = None
    first_failure: Annotated[bool, typer.Option("-x", help="Stop after the first failed cell.")] = False
    max_fail: Annotated[
        int | None,
        typer.Option("--maxfail", metavar="N", min=1, show_default=False, help="Stop after N failed cells."),
    ] = None
    jobs: Jobs = None
    expected_failures: ExpectedFailures = None
    all_differences: AllDifferences = False
    max_age: MaxAge = None
    rates: Annotated[
        list[str] | None,
        typer.Option(
            "--rate",
            metavar="[TARGET=]N/min",
            rich_help_panel=LIVE,
            help="Request limit of each target, or of one: 60/min, 5/s, 1000/h. Repeatable.",
        ),
    ] = None
    concurrency: Annotated[
        list[str] | None,
        typer.Option(
            "--concurrency",
            metavar="[TARGET=]N",
            rich_help_panel=LIVE,
            help="Cells of each target, or of one, to run at a time. Repeatable.",
        ),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="DOLLARS",
            show_default=False,
            rich_help_panel=LIVE,
            help="Send nothing that may cost more than what is left, by list prices.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunOptions(PlayOptions, StrictOptions, LoopOptions):
    """Options of `run`."""

    mode: Annotated[
        ModeName | None,
        typer.Option(
            metavar="MODE",
            show_default=False,
            help="replay: from cassettes (default); reference: against the bundled reference server; live: against the "
            "providers, with your keys.",
        ),
    ] = None
    last_failed: Annotated[
        bool,
        typer.Option("--last-failed", "--lf", help="Only the cells that failed in the previous run in this mode."),
    ] = False
    watch: Annotated[
        bool, typer.Option("--watch", help="Run again whenever a file of the run is saved, until Ctrl-C.")
    ] = False
    recuts: Annotated[
        int,
        typer.Option(
            "--recut",
            metavar="N",
            min=0,
            show_default=False,
            rich_help_panel=SCALE,
            help="Repeat each streamed cell N times with its bytes split at other places, and compare the results.",
        ),
    ] = 0
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            metavar="I/N",
            show_default=False,
            rich_help_panel=SCALE,
            help="Only part I of N parts of the cells; 'harness merge' joins their JSON reports.",
        ),
    ] = None
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor",
            metavar="URL",
            show_default=False,
            rich_help_panel=SCALE,
            help="Run cells on Dask workers: dask://HOST:PORT, or dask://local?workers=N.",
        ),
    ] = None
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="RUN.json",
            show_default=False,
            rich_help_panel=LIVE,
            help="Keep the finished cells of this live run, and run the others.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RecordOptions(PlayOptions):
    """Options of `record`."""

    origin: Annotated[
        Literal["provider", "reference"],
        typer.Option("--from", metavar="SOURCE", help="provider (needs keys) or reference, the bundled server."),
    ] = "provider"
    missing: Annotated[
        bool, typer.Option("--missing", help="Only cells without a cassette, or with one of an older request.")
    ] = False
    stale: Annotated[
        bool,
        typer.Option("--stale", help="Only cells with a cassette of an older request, or older than --max-age."),
    ] = False
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace live recordings, those of other models, and unreadable ones."),
    ] = False
    max_requests: MaxRequests = None
    cassettes: Annotated[
        str | None,
        typer.Option(
            "--cassettes", metavar="DIR", show_default=False, help="Folder to write to. Default: ./cassettes."
        ),
    ] = None
    jobs: Jobs = "1"
    allowed: AllowedSecrets = None
