"""The options of all commands, each declared once, and the groups of options that commands share.

A command takes one dataclass, whose fields are its options and arguments (`harness.cli.app`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from harness import catalog
from harness.apis.fact_files import FactSelection, parse_day
from harness.cli import completion
from harness.contract.errors import UsageError
from harness.host.project import project
from harness.rules.scope import EVERYTHING, Scope
from harness.tape.survey import Outdated

Paths: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH",
        show_default=False,
        autocompletion=completion.scenarios,
        help="Scenario files, folders of them, or ids of shipped scenarios. None: the project's, or all shipped ones.",
    ),
]
AdapterCommands: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--adapter-command",
        metavar="COMMAND",
        help="An adapter in any language: a command that answers JSON-RPC on its standard input and output (harness "
        "help stdio). Repeatable.",
    ),
]
Targets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="NAME",
        autocompletion=completion.targets,
        help="A target to play: 'harness list targets'. Repeatable.",
    ),
]
Models: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="TARGET=NAME",
        autocompletion=completion.models,
        help="Another model for a target. Repeatable.",
    ),
]
BaseUrls: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--base-url", metavar="TARGET=URL", help="Another server than the provider's, spoken to live. Repeatable."
    ),
]
Words: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "-k", metavar="EXPR", help="Only cells whose scenario, target or subjects match: 'json and not gemini'."
    ),
]
Variants: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="whole|stream",
        show_default=False,
        autocompletion=completion.variants,
        help="Answers as whole bodies, or streamed. Repeatable. Default: both, where the adapter can stream.",
    ),
]
Jobs: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "-n",
        metavar="N",
        show_default=False,
        help="Cells played at a time, or auto. Default: 1; but many offline cells of shipped adapters are shared "
        "by processes.",
    ),
]
CellTimeout: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--cell-timeout",
        metavar="SECONDS",
        show_default=False,
        help="How long an adapter that is not shipped may take for a cell, and again for each retelling of it. "
        "Default: 60, or 900 where a provider answers.",
    ),
]
Cassettes: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cassettes",
        metavar="DIR",
        show_default=False,
        help="Folder of cassettes. Default: the project's or ./cassettes, then, for shipped scenarios, the shipped.",
    ),
]
ExpectedFailures: TypeAlias = Annotated[
    str | None, typer.Option("--expected-failures", metavar="FILE", help="Known failures, each with a reason.")
]
Reports: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="FORMAT[:PATH]",
        help="terminal, json, junit, xunit, markdown, html, github, gitlab, badge, table, or archive (json with each "
        "cell's conversation), to a file or the screen. Repeatable. If none goes there, the terminal report does.",
    ),
]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", help="Each scenario and each finding, not groups of them.")
]
MaxAge: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--max-age",
        metavar="AGE",
        show_default=False,
        help="How old a recording may be, as 90d or 12w: what is older is a warning, with --strict an error.",
    ),
]
AllDifferences: TypeAlias = Annotated[
    bool,
    typer.Option("--all-differences", help="How the targets differ, with the properties that are the same for all."),
]


AllowedSecrets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-secret",
        metavar="PLACE",
        show_default=False,
        help="Store what looks like a secret in this place, as the refusal names it; * is anything. Repeatable.",
    ),
]

AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="DAY",
        show_default=False,
        help="Judge by the facts of this day: 2026-07-01, or today. Else it is the day on which a request was made.",
    ),
]
FactFiles: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--facts",
        metavar="FILE",
        show_default=False,
        help="Facts of your own, which join the shipped ones, or change those of the same id. Repeatable; those of "
        r"\[tool.harness] in pyproject.toml come before.",
    ),
]
AgentCommands: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--agent-command",
        metavar="COMMAND",
        help="A program that owns its tool loop: it gets the conversation on its standard input, as JSON (harness help "
        "loops). Repeatable.",
    ),
]
SpokenApi: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--api",
        metavar="NAME",
        show_default=False,
        help="The API of a conversation or an agent that does not name its own; --target says it, too.",
    ),
]


_PANEL = "What is sent live"

_VARIABLE = "NO_COLOR"


def _without(context: typer.Context, wanted: bool) -> None:
    if not wanted:
        return
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = "1"

    def restore() -> None:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before

    context.call_on_close(restore)


NoColour: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--no-color",
        callback=_without,
        is_eager=True,
        help="No colours, as with NO_COLOR in the environment; FORCE_COLOR asks for them where no terminal is.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Reported:
    """The options of a command that writes reports."""

    reports: Reports = None
    verbose: Verbose = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only what fails, and the verdict.")] = False
    no_colour: NoColour = False


@dataclass(frozen=True, kw_only=True)
class Scoped:
    """Which findings count, and by which facts."""

    rules: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="ID",
            autocompletion=completion.rules,
            help="Only findings of this rule count: 'harness list rules'. A glob. Repeatable.",
        ),
    ] = None
    ignored: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="ID",
            autocompletion=completion.rules,
            help="Findings of this rule do not count; the report says how many that hides. A glob. Repeatable.",
        ),
    ] = None
    facts: FactFiles = None


@dataclass(frozen=True, kw_only=True)
class Judged(Scoped):
    """How strictly requests are judged, and by the facts of which day."""

    strict: Annotated[
        bool | None,
        typer.Option(
            "--strict/--no-strict",
            show_default=False,
            help="What breaks a convention of ours fails its cell; otherwise it is a note. Of a server or a gateway "
            "each warning fails its cell.",
        ),
    ] = None
    as_of: AsOf = None


@dataclass(frozen=True, kw_only=True)
class Targeted:
    """What cells are made of, beside scenarios and adapters."""

    targets: Targets = None
    models: Models = None
    variants: Variants = None
    cell_timeout: CellTimeout = None


@dataclass(frozen=True, kw_only=True)
class Adapted(Targeted):
    """Adapters, their targets, and where their requests go."""

    adapters: Annotated[
        list[str] | None,
        typer.Option(
            "--adapter",
            metavar="NAME|module:attribute",
            autocompletion=completion.adapters,
            help="An adapter to play. Repeatable.",
        ),
    ] = None
    adapter_commands: AdapterCommands = None
    base_urls: BaseUrls = None
    cassettes: Cassettes = None


@dataclass(frozen=True, kw_only=True)
class Looped:
    """Libraries and programs that own their tool loop."""

    conversations: Annotated[
        list[str] | None,
        typer.Option(
            "--conversation",
            metavar="module:attribute",
            help="A library that owns its tool loop: a function drive(endpoint, model, conversation), or a "
            "harness.Loop (harness help loops). Repeatable.",
        ),
    ] = None
    agents: AgentCommands = None
    api: SpokenApi = None


@dataclass(frozen=True, kw_only=True)
class Played(Reported, Scoped, Adapted):
    """The options that `run` and `record` share."""

    paths: Paths = None
    words: Words = None
    jobs: Jobs = None
    expected_failures: ExpectedFailures = None
    all_differences: AllDifferences = False
    first_failure: Annotated[
        bool, typer.Option("-x", help="Play no other cell once one has failed, as --maxfail 1.")
    ] = False
    max_fail: Annotated[
        int | None,
        typer.Option(
            "--maxfail", metavar="N", min=1, show_default=False, help="Play no other cell once N have failed."
        ),
    ] = None
    max_age: MaxAge = None
    rates: Annotated[
        list[str] | None,
        typer.Option(
            "--rate",
            metavar="[TARGET=]N/min",
            rich_help_panel=_PANEL,
            help="At most so many requests of each target, or of one, in a time: 60/min, 5/s, 1000/h. Repeatable.",
        ),
    ] = None
    concurrency: Annotated[
        list[str] | None,
        typer.Option(
            "--concurrency",
            metavar="[TARGET=]N",
            rich_help_panel=_PANEL,
            help="So many cells of each target, or of one, at a time; -n counts those of all targets. Repeatable.",
        ),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="DOLLARS",
            show_default=False,
            rich_help_panel=_PANEL,
            help="Send nothing that could cost more than what is left of it, by list prices.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Options(Played, Judged, Looped):
    """The options of `run`, and of all that plays cells; `combined` and `settings.completed` add the other fields.

    `default_models` are the project's, by target, which need not be played. `left_out` is what of the project cannot be
    played, with the reason. `folder` has the user's own cassettes where `cassettes` names no other. `enough` failed
    cells end the run. `scope` and `outdated` are what `rules`, `ignored` and `max_age` mean.
    """

    mode: Annotated[
        Literal["replay", "reference", "live"] | None,
        typer.Option(
            show_default=False,
            help="From cassettes, against the bundled reference server, or against the providers (needs keys). "
            "Default: replay.",
        ),
    ] = None
    recuts: Annotated[
        int,
        typer.Option(
            "--recut",
            metavar="N",
            min=0,
            show_default=False,
            help="Play each streamed answer N more times, its bytes cut at other places or spelled otherwise, and "
            "compare what the adapter makes of it. Works from the one cassette of a cell, and for any adapter.",
        ),
    ] = 0
    last_failed: Annotated[
        bool,
        typer.Option(
            "--last-failed",
            "--lf",
            help="Only the cells that failed when they were last played here in this mode; all, if none did.",
        ),
    ] = False
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Play again whenever a scenario, a cassette, the adapter or the settings are saved; Ctrl-C ends.",
        ),
    ] = False
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            metavar="I/N",
            show_default=False,
            help="Only the I-th of N parts of the cells, as on one of N machines: 'harness merge' makes one run of the "
            "JSON of all parts.",
        ),
    ] = None
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor",
            metavar="URL",
            show_default=False,
            help="Cells are played by Dask's workers: dask://HOST:PORT, or dask://local?workers=N for some of this "
            "machine.",
        ),
    ] = None
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="RUN.json",
            show_default=False,
            rich_help_panel=_PANEL,
            help="Keep the cells that this live run has finished, and play only the others.",
        ),
    ] = None
    enough: int | None = None
    scope: Scope = EVERYTHING
    outdated: Outdated | None = None
    folder: str = "cassettes"
    default_models: Mapping[str, str] = field(default_factory=dict[str, str])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def sending(self) -> dict[str, object]:
        """The options that only a live run takes, with their values."""
        return {
            "--rate": self.rates,
            "--concurrency": self.concurrency,
            "--budget": self.budget,
            "--resume": self.resume,
        }


def combined(typed: object, **changes: Any) -> Options:
    """Return the options of a command as a run takes them; `changes` replace or add fields.

    Adapters, commands and loops become one list in the form that the catalog takes.

    Raises:
        UsageError: two options contradict each other, or the project's settings are wrong.
    """
    given = {each.name: getattr(typed, each.name) for each in fields(Options) if hasattr(typed, each.name)}
    options = Options(**{**given, **changes})
    if options.first_failure and options.max_fail is not None:
        raise UsageError(
            f"-x: it is --maxfail 1, and --maxfail {options.max_fail} is given as well. Leave one of them out."
        )
    return replace(
        options,
        adapters=_adapters(options) or None,
        facts=fact_files(options.facts),
        enough=1 if options.first_failure else options.max_fail,
    )


def _adapters(options: Options) -> list[str]:
    named = catalog.adapter_specs(options.adapters or (), options.adapter_commands or ())
    if options.conversations or options.agents:
        named += catalog.adapter_specs(
            conversations=options.conversations or (),
            agents=options.agents or (),
            api=options.api,
            targets=options.targets or (),
        )
    elif options.api is not None:
        raise UsageError(
            f"--api {options.api}: it says what --conversation or --agent-command speaks, and neither is given."
        )
    return named


def fact_files(given: Sequence[Path] | None) -> list[Path]:
    """Return the project's files of facts, then those that were given. Raises `UsageError`: the settings are wrong."""
    return list(dict.fromkeys((*project(Path()).facts, *(given or ()))))


def edition(as_of: str | None, files: Sequence[Path] | None) -> FactSelection:
    """Return the edition of the facts that was asked for. Raises `UsageError`: no such day, or an unreadable file."""
    made = FactSelection(None if as_of is None else parse_day(as_of, "--as-of"), tuple(files or ()))
    made.check(catalog.APIS.names())
    return made


def named_values(option: str, values: Sequence[str] | None, what: str) -> Mapping[str, str]:
    """The values of an option of the form `TARGET=…`.

    Raises:
        UsageError: one has another form, or names its target twice.
    """
    found: dict[str, str] = {}
    for given in values or ():
        target, equals, value = given.partition("=")
        said = option if what == "URL" else f"{option} {given!r}"  # there may be a password in it
        if not (target and equals and value) or "://" in target:
            raise UsageError(f"{said}: it has to have the form TARGET={what}, as in {option} {_EXAMPLES[what]}.")
        if target in found:
            raise UsageError(f"{said}: {target!r} is given twice. Each target has one {what}.")
        found[target] = value
    return found


_EXAMPLES = {"NAME": "gemini-3=gemini-3.6-pro", "URL": "openai-chat=http://127.0.0.1:8000/v1"}
