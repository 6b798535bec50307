"""The options that `run` and `record` share, and their values as they were typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from harness.cli import completion
from harness.cli.sending import NOTHING_SAID, Sending
from harness.contract.errors import UsageError
from harness.rules.scope import EVERYTHING, Scope

if TYPE_CHECKING:
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
Adapters: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--adapter",
        metavar="NAME|module:attribute",
        autocompletion=completion.adapters,
        help="An adapter to play. Repeatable.",
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
Jobs: TypeAlias = Annotated[str | None, typer.Option("-n", metavar="N", help="Cells played at a time, or auto.")]
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
Strict: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--strict/--no-strict",
        show_default=False,
        help="What breaks a convention of ours fails its cell; otherwise it is a note. Of a server or a gateway each "
        "warning fails its cell.",
    ),
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
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Only what fails, and the verdict.")]
Rules: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="ID",
        autocompletion=completion.rules,
        help="Only findings of this rule count: 'harness list rules'. A glob. Repeatable.",
    ),
]
Ignored: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="ID",
        autocompletion=completion.rules,
        help="Findings of this rule do not count; the report says how many that hides. A glob. Repeatable.",
    ),
]
FirstFailure: TypeAlias = Annotated[
    bool, typer.Option("-x", help="Play no other cell once one has failed, as --maxfail 1.")
]
MaxFail: TypeAlias = Annotated[
    int | None,
    typer.Option("--maxfail", metavar="N", min=1, show_default=False, help="Play no other cell once N have failed."),
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
    bool, typer.Option("--all-differences", help="Also the facts that are the same for all targets.")
]


@dataclass(frozen=True, slots=True)
class Options:
    """What was typed. Nothing is checked yet. `default_models` are the project's, by target, which need not be played.
    `left_out` is what of the project cannot be played, with the reason. `folder` is that of one's own cassettes, where
    `cassettes` names none; `enough` how many cells may fail before no other is played; `scope` is what `rules` and
    `ignored` come to, and `outdated` what `max_age` does."""

    paths: Sequence[str] | None
    adapters: Sequence[str] | None
    targets: Sequence[str] | None
    models: Sequence[str] | None
    base_urls: Sequence[str] | None
    words: str | None
    variants: Sequence[str] | None
    jobs: str | None
    cassettes: str | None
    expected_failures: str | None
    reports: Sequence[str] | None
    verbose: bool
    all_differences: bool
    recuts: int = 0
    strict: bool | None = None
    cell_timeout: float | None = None
    as_of: str | None = None
    facts: Sequence[Path] = ()
    folder: str = "cassettes"
    quiet: bool = False
    rules: Sequence[str] = ()
    ignored: Sequence[str] = ()
    scope: Scope = EVERYTHING
    enough: int | None = None
    last_failed: bool = False
    max_age: str | None = None
    outdated: Outdated | None = None
    shard: str | None = None
    executor: str | None = None
    sending: Sending = NOTHING_SAID
    default_models: Mapping[str, str] = field(default_factory=dict[str, str])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])


def asked(*, cassettes: str | None = None, max_age: str | None = None) -> Options:
    """The options of a command that plays nothing, and takes the cells that a plain run would play."""
    return Options(None, None, None, None, None, None, None, None, cassettes, None, None, False, False, max_age=max_age)


def enough(first_failure: bool, max_fail: int | None) -> int | None:
    """How many cells may fail, by `-x` and `--maxfail`. Raises `UsageError`: both are given."""
    if first_failure and max_fail is not None:
        raise UsageError(f"-x: it is --maxfail 1, and --maxfail {max_fail} is given as well. Leave one of them out.")
    return 1 if first_failure else max_fail


def adapters_of(
    names: Sequence[str] | None, commands: Sequence[str] | None, loops: Sequence[str] = ()
) -> list[str] | None:
    """The adapters that are asked for, by name, by command, or as what owns its loop; none, if none is."""
    from harness import catalog  # noqa: PLC0415 - `harness list rules` needs the options, and no APIs

    return [*catalog.adapters_of(names or (), commands or ()), *loops] or None


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

AllowedSecrets = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-secret",
        metavar="PLACE",
        show_default=False,
        help="Store what looks like a secret in this place, as the refusal names it; * is anything. Repeatable.",
    ),
]
