"""Command-line options, each declared once, and the groups of options that commands share.

A command takes one dataclass, whose fields are its options and arguments (`harness.cli.app`).

This module must not import anything that slows down shell completion.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from harness.cli import app

ADAPTERS = "Adapters, agents and models"
FINDINGS = "Findings and facts"
OUTPUT = "Output"
LIVE = "Live runs, which send requests to providers"
SCALE = "Parallel and partial runs"


def option(form: str, text: str, panel: str | None = None, **more: Any) -> Any:
    """Return a typer option. `form` has its names and its metavar: `--model TARGET=NAME`, `--verbose -v`. `panel` is
    its heading in the help.
    """
    words = form.split()
    names = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(names) :]) or None
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, **more)


def argument(metavar: str, text: str, **more: Any) -> Any:
    """Return a typer argument. Without a `metavar`, the help shows the name of the parameter."""
    return typer.Argument(metavar=metavar or None, help=text, **more)


ModeName: TypeAlias = Literal["replay", "reference", "live"]

Paths: TypeAlias = Annotated[
    list[str] | None,
    argument(
        "PATH",
        "Scenario files, folders of them, or ids of shipped scenarios. Default: the project's scenarios, or all "
        "shipped ones.",
        autocompletion=app.complete_scenarios,
    ),
]
AdapterCommands: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--adapter-command COMMAND",
        "Command that runs an adapter in any language ('harness help stdio'). Repeatable.",
        ADAPTERS,
    ),
]
Targets: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--target NAME",
        "Only this target ('harness list targets'); all-servers: each compatible server. Repeatable.",
        autocompletion=app.complete_targets,
    ),
]
Models: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--model TARGET=NAME", "Model to use for a target. Repeatable.", ADAPTERS, autocompletion=app.complete_models
    ),
]
BaseUrls: TypeAlias = Annotated[
    list[str] | None, option("--base-url TARGET=URL", "Server to use instead of the provider's. Repeatable.", LIVE)
]
Words: TypeAlias = Annotated[
    str | None, option("-k EXPR", "Only cells whose scenario, target or feature matches: 'json and not gemini'.")
]
Variants: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--variant whole|stream",
        "Only whole or only streamed answers. Default: both.",
        ADAPTERS,
        autocompletion=app.complete_variants,
    ),
]
TargetOfCell: TypeAlias = Annotated[
    list[str] | None,
    option("--target NAME", "The target to run ('harness list targets').", autocompletion=app.complete_targets),
]
AdapterOfCell: TypeAlias = Annotated[
    list[str] | None,
    option("--adapter NAME|MODULE:ATTR", "The adapter to run.", autocompletion=app.complete_adapters),
]
VariantOfCell: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--variant whole|stream",
        "Run the cell with whole or with streamed answers. Default: whole, if the scenario allows it.",
        ADAPTERS,
        autocompletion=app.complete_variants,
    ),
]
Jobs: TypeAlias = Annotated[
    str | None,
    option(
        "-n N",
        "Cells to run at a time, or auto. Default: 1; auto for checks and many offline cells.",
        SCALE,
        show_default=False,
    ),
]
CellTimeout: TypeAlias = Annotated[
    float | None,
    option(
        "--cell-timeout SECONDS",
        "Time limit per cell for third-party adapters. Default: 60, or 900 in live runs.",
        ADAPTERS,
    ),
]
OfflineCellTimeout: TypeAlias = Annotated[
    float | None,
    option("--cell-timeout SECONDS", "Time limit per cell, except for shipped adapters. Default: 60.", ADAPTERS),
]
Cassettes: TypeAlias = Annotated[
    str | None,
    option(
        "--cassettes DIR",
        "Folder to read cassettes from. Default: the folder in the settings, else ./cassettes; then the shipped "
        "cassettes.",
        ADAPTERS,
    ),
]
ExpectedFailures: TypeAlias = Annotated[
    str | None, option("--expected-failures FILE", "File of known failures, each with a reason.", FINDINGS)
]
Reports: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--report FORMAT[:PATH]",
        "terminal (default), json, junit, xunit, markdown, html, github, gitlab, badge, table, worst or archive "
        "('harness help reports'). Repeatable.",
        OUTPUT,
    ),
]
Verbose: TypeAlias = Annotated[
    bool, option("--verbose -v", "Show each scenario, finding or change separately.", OUTPUT)
]
MaxAge: TypeAlias = Annotated[
    str | None,
    option(
        "--max-age AGE",
        "Warn about recordings older than this: 90d, 12w. With --strict they fail the run.",
        FINDINGS,
    ),
]
AllDifferences: TypeAlias = Annotated[
    bool, option("--all-differences", "Show how the targets differ, and which properties are the same for all.", OUTPUT)
]
AllowedSecrets: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--allow-secret PLACE",
        "Allow text that looks like a secret at this place, named as in the error message; * matches anything. "
        "Repeatable.",
    ),
]
AsOf: TypeAlias = Annotated[
    str | None,
    option(
        "--as-of DAY",
        "Apply the facts of this day: 2026-07-01, or the word today. Default: for each request, the day on which it "
        "was made.",
        FINDINGS,
    ),
]
FactFiles: TypeAlias = Annotated[
    list[Path] | None,
    option("--facts FILE", "Facts of your own, in addition to the shipped ones. Repeatable.", FINDINGS),
]
AgentCommands: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--agent-command COMMAND", "Program that runs its own tool loop ('harness help loops'). Repeatable.", ADAPTERS
    ),
]
AgentApi: TypeAlias = Annotated[
    str | None, option("--api NAME", "API that the loop or agent uses, unless it names one itself.", ADAPTERS)
]
HandsOver: TypeAlias = Annotated[bool, option("--hand-over", "Hand each conversation over to another target.")]
MaxRequests: TypeAlias = Annotated[int | None, option("--max-requests N", "Send at most N requests.", min=1)]

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
    option(
        "--no-color",
        "No colours. The environment variables NO_COLOR and FORCE_COLOR are respected.",
        OUTPUT,
        callback=_disable_colours,
        is_eager=True,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Options of commands that write reports."""

    reports: Reports = None
    verbose: Verbose = False
    quiet: Annotated[bool, option("--quiet -q", "Show only failures and the verdict.", OUTPUT)] = False
    no_colour: NoColour = False


@dataclass(frozen=True, kw_only=True)
class FindingOptions:
    """Options that select the facts to apply and the findings to count."""

    rules: Annotated[
        list[str] | None,
        option(
            "--rule ID",
            "Count only findings of this rule ('harness list rules'). May be a glob. Repeatable.",
            FINDINGS,
            autocompletion=app.complete_rules,
        ),
    ] = None
    ignored: Annotated[
        list[str] | None,
        option(
            "--ignore ID",
            "Ignore findings of this rule. May be a glob. Repeatable.",
            FINDINGS,
            autocompletion=app.complete_rules,
        ),
    ] = None
    facts: FactFiles = None


@dataclass(frozen=True, kw_only=True)
class StrictOptions(FindingOptions):
    """Options for strict judgement and for the date at which facts apply."""

    strict: Annotated[
        bool | None,
        option(
            "--strict/--no-strict",
            "Broken conventions fail the run, too.",
            FINDINGS,
        ),
    ] = None
    as_of: AsOf = None


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """Targets, models and variants."""

    targets: Targets = None
    models: Models = None
    variants: Variants = None
    cell_timeout: OfflineCellTimeout = None


@dataclass(frozen=True, kw_only=True)
class AdapterOptions(TargetOptions):
    """Adapters and their targets."""

    adapters: Annotated[
        list[str] | None,
        option("--adapter NAME|MODULE:ATTR", "Only this adapter. Repeatable.", autocompletion=app.complete_adapters),
    ] = None
    adapter_commands: AdapterCommands = None


@dataclass(frozen=True, kw_only=True)
class CellOptions(AdapterOptions):
    """Adapter, target and variant of a command that runs one cell."""

    targets: TargetOfCell = None
    adapters: AdapterOfCell = None
    variants: VariantOfCell = None


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """Libraries and programs that run their own tool loop."""

    conversations: Annotated[
        list[str] | None,
        option(
            "--conversation MODULE:ATTR",
            "Python function or harness.Loop with its own tool loop ('harness help loops'). Repeatable.",
            ADAPTERS,
        ),
    ] = None
    agents: AgentCommands = None
    api: AgentApi = None


@dataclass(frozen=True, kw_only=True)
class SharedRunOptions(AdapterOptions, FindingOptions, ReportOptions):
    """Options shared by `run` and `record`."""

    paths: Paths = None
    base_urls: BaseUrls = None
    cassettes: Cassettes = None
    cell_timeout: CellTimeout = None
    words: Words = None
    first_failure: Annotated[bool, option("-x", "Stop after the first failed cell.")] = False
    max_fail: Annotated[int | None, option("--maxfail N", "Stop after N failed cells.", min=1)] = None
    jobs: Jobs = None
    expected_failures: ExpectedFailures = None
    all_differences: AllDifferences = False
    max_age: MaxAge = None
    rates: Annotated[
        list[str] | None,
        option(
            "--rate [TARGET=]N/min", "Request limit of each target, or of one: 60/min, 5/s, 1000/h. Repeatable.", LIVE
        ),
    ] = None
    concurrency: Annotated[
        list[str] | None,
        option(
            "--concurrency [TARGET=]N",
            "Number of cells to run at a time, for each target or for one. Repeatable.",
            LIVE,
        ),
    ] = None
    budget: Annotated[
        str | None,
        option(
            "--budget DOLLARS", "Send no request that could take the total cost over this amount, at list prices.", LIVE
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class GenerateOptions:
    """Options of commands that can run generated conversations."""

    generate: Annotated[int | None, option("--generate N", "Run N generated conversations instead.", min=1)] = None
    seed: Annotated[int | None, option("--seed S", "Seed of the generated conversations. Default: 0.")] = None
    save: Annotated[
        str | None,
        option("--save DIR", "Folder for the smallest generated conversations that fail. Default: generated."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunOptions(GenerateOptions, SharedRunOptions, StrictOptions, LoopOptions):
    """Options of `run`."""

    hand_over: HandsOver = False
    mode: Annotated[
        ModeName | None,
        option(
            "--mode MODE",
            "replay: from cassettes (default); reference: against the bundled reference server; live: against the "
            "providers, with your keys.",
        ),
    ] = None
    last_failed: Annotated[
        bool, option("--last-failed --lf", "Only the cells that failed in the previous run in this mode.")
    ] = False
    watch: Annotated[bool, option("--watch", "Run again whenever a file that the run uses is saved, until Ctrl-C.")] = (
        False
    )
    recuts: Annotated[
        int,
        option(
            "--recut N",
            "Repeat each streamed cell N times with its bytes split at other places, and compare the results.",
            SCALE,
            min=0,
            show_default=False,
        ),
    ] = 0
    shard: Annotated[
        str | None,
        option("--shard I/N", "Only part I of N parts of the cells; 'harness merge' joins their JSON reports.", SCALE),
    ] = None
    executor: Annotated[
        str | None,
        option("--executor URL", "Run cells on Dask workers.", SCALE, hidden=True),
    ] = None
    resume: Annotated[
        Path | None,
        option("--resume RUN.json", "Keep the finished cells of an interrupted live run, and run the others.", LIVE),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RecordOptions(SharedRunOptions):
    """Options of `record`."""

    origin: Annotated[
        Literal["provider", "reference"],
        option("--from SOURCE", "provider (needs keys) or reference, the bundled server."),
    ] = "provider"
    missing: Annotated[
        bool,
        option(
            "--missing",
            "Only cells without a cassette, or with a stale one. A stale live recording also needs --force.",
        ),
    ] = False
    stale: Annotated[bool, option("--stale", "Only cells whose cassette is stale, or older than --max-age.")] = False
    force: Annotated[
        bool, option("--force", "Also replace live recordings, recordings of other models, and unreadable cassettes.")
    ] = False
    max_requests: MaxRequests = None
    max_age: Annotated[
        str | None,
        option("--max-age AGE", "With --stale, the age from which a cassette is old, such as 90d or 12w.", FINDINGS),
    ] = None
    cassettes: Annotated[str | None, option("--cassettes DIR", "Folder to write to. Default: ./cassettes.")] = None
    jobs: Annotated[str | None, option("-n N", "Number of cells to run at a time, or auto.", SCALE)] = "1"
    allowed: AllowedSecrets = None
