"""Typer application: lazy import of commands, their help, shell completion, and exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from importlib import import_module, resources
from importlib.metadata import PackageNotFoundError, version
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from harness.cli.main import COMMANDS, COMPLETING, SUMMARY, print_error
from harness.model import errors
from harness.model.errors import HarnessError

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of SIGINT."""

_USAGE = 2

_MODULES = {
    "accept": "saved_runs",
    "adapter": "check",
    "adopt": "audit",
    "agent": "check",
    "compare": "saved_runs",
    "completion": "app",
    "config": "settings",
    "gateway": "check",
    "help": "explain",
    "merge": "saved_runs",
    "probe": "providers",
    "record": "run",
    "report": "saved_runs",
    "try": "try_command",
    "schema": "list",
    "server": "check",
    "show": "run",
    "shrink": "run",
    "validate": "audit",
}
"""Maps commands to their modules where the names differ."""

_REPLACED = {"--server": "server", "--gateway": "gateway", "--conversation": "agent", "--agent-command": "agent"}
"""Maps options of earlier versions of `run` and `check` to the kind of check that replaced them."""


class GroupedHelpCommand(TyperCommand):
    """Command whose plain-text help groups its options under headings (`rich_help_panel`)."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **{**attributes, "rich_markup_mode": None})

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options by heading. Options without a heading come first."""
        headings: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            is_argument = parameter.param_type_name == "argument"
            heading = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Options"
            if record is not None:
                record = (record[0].partition(" <")[0], record[1]) if is_argument else record
                headings.setdefault(heading, []).append(record)
        for heading, records in headings.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records, col_max=24)


class LazyGroup(TyperGroup):
    """Group that imports each command only when it is called."""

    summaries: Mapping[str, str] = COMMANDS

    def __init__(self, **attributes: Any) -> None:
        attributes["rich_markup_mode"] = None
        super().__init__(**attributes)
        self.commands = dict.fromkeys(self.summaries)  # type: ignore[assignment] - the names alone

    def get_command(self, ctx: object, cmd_name: str) -> Any:  # noqa: ARG002 - typer's signature
        """Return the command, or `None` if the name is unknown."""
        if cmd_name not in self.summaries:
            return None
        module = vars(import_module(f"harness.cli.{_MODULES.get(cmd_name, cmd_name)}"))
        found = module[cmd_name if cmd_name in module else f"{cmd_name}_"]
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        alone = typer.Typer(add_completion=False)
        alone.command(cmd_name, cls=GroupedHelpCommand, short_help=self.summaries[cmd_name])(_with_parameters(found))
        return typer.main.get_command(alone)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's signature
        """Write the command summaries without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))


def _with_parameters(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Return a function with one parameter for each field of the options dataclass that `function` takes."""
    options = get_type_hints(function).get("args")
    if options is None:
        return function
    hints = get_type_hints(options, include_extras=True)

    def call(**values: object) -> int | None:
        return function(options(**values))

    call.__doc__ = function.__doc__
    call.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(
                each.name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if each.default is MISSING else each.default,
                annotation=hints[each.name],
            )
            for each in fields(options)
            if hasattr(hints[each.name], "__metadata__")
        ]
    )
    return call


def _version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"harness {version(errors.DISTRIBUTION)}")
        except PackageNotFoundError:
            typer.echo("harness (not installed)")
        raise typer.Exit


app = typer.Typer(name="harness", cls=LazyGroup, help=SUMMARY, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def _options(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def execute(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code.

    Raises:
        OSError: an operating-system call failed.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # models and files may hold characters that the terminal lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(args=[*arguments], prog_name="harness", standalone_mode=False)
        sys.stdout.flush()
    except HarnessError as error:
        return _USAGE if _annotate(error) else _fail(str(error))
    except typer.TyperException as error:
        # Without arguments there is no message: the help was shown.
        return _fail(_usage_message(error, arguments)) if error.format_message() else _USAGE
    if code == INTERRUPTED:
        kept = " Cassettes that were complete by then are kept." if "record" in arguments[:1] else ""
        _fail(f"interrupted.{kept}")
    return code or 0


def _usage_message(error: Any, arguments: Sequence[str]) -> str:
    """Return the message of a usage error. It mentions the command whose help shows the options."""
    if hasattr(error, "option_name") and arguments[0] in ("run", "check"):
        for option, command in _REPLACED.items():
            if any(word.partition("=")[0] == option for word in arguments):
                return f"{option}: use 'harness check {command}'. 'harness check {command} --help' shows its options."
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "harness"
    return f"{message}{'' if message.endswith('?') else '.'} '{command} --help' shows the usage."


def _annotate(error: HarnessError) -> bool:
    """Report the error as an annotation on the line of its file. Return false outside GitHub Actions."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return False
    from harness.cli.outputs import annotate_errors  # noqa: PLC0415 - reports, which most commands do not need

    return annotate_errors([error])


def _fail(message: str) -> int:
    print_error(f"harness: {' '.join(message.split())}")
    return _USAGE


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish", "powershell"],
        typer.Argument(show_default=False, help="bash, zsh, fish or powershell."),
    ],
) -> None:
    """Print the script that completes commands, options, scenarios, targets, models, rules and topics in a shell.

    In ~/.bashrc: eval "$(harness completion bash)"; in ~/.zshrc, after compinit: eval "$(harness completion zsh)"; for
    fish: harness completion fish >~/.config/fish/completions/harness.fish
    """
    from typer import completion as scripts  # noqa: PLC0415 - only here

    script = scripts.get_completion_script  # pyright: ignore[reportPrivateImportUsage] - it has no other name
    typer.echo(script(prog_name="harness", complete_var=COMPLETING, shell=shell))


def complete_scenarios(incomplete: str) -> list[str]:
    """Return matching ids of built-in scenarios, and matching files and folders."""
    from harness.platform.files import shipped_folder  # noqa: PLC0415 - a key press imports only what completes this value

    ids = (file.stem for file in shipped_folder("scenarios").glob("*.yaml"))
    return [*_matching(ids, incomplete), *_paths(incomplete)]


def _paths(incomplete: str) -> Iterator[str]:
    head, slash, tail = incomplete.rpartition("/")
    try:
        found = sorted(Path(head + slash or ".").iterdir())
    except OSError:
        return
    for path in found:
        if path.name.startswith(tail) and (tail or not path.name.startswith(".")):
            name = f"{head}{slash}{path.name}"
            if path.is_dir():
                yield f"{name}/"
            elif path.suffix in (".yaml", ".yml"):
                yield name


def complete_targets(incomplete: str) -> list[str]:
    """Return matching names of targets."""
    from harness.apis import registry  # noqa: PLC0415 - see `complete_scenarios`

    return _matching((*(each.name for each in registry.all_targets()), registry.ALL_SERVERS), incomplete)


def complete_adapters(incomplete: str) -> list[str]:
    """Return matching names of adapters and wrappers."""
    from harness import plugins, wrappers  # noqa: PLC0415 - see `complete_scenarios`

    return _matching([*plugins.ADAPTERS.names(), *wrappers.names()], incomplete)


def complete_models(incomplete: str) -> list[str]:
    """Return matching `TARGET=NAME` values for the known models of the target's API. Before the equals sign, return
    targets.
    """
    from harness.apis import registry  # noqa: PLC0415 - see `complete_scenarios`
    from harness.runner.costs import models  # noqa: PLC0415 - see `complete_scenarios`

    target, equals, _ = incomplete.partition("=")
    found = {each.name: each.api for each in registry.all_targets()}
    if not equals:
        return _matching((f"{name}=" for name in found), incomplete)
    return _matching((f"{target}={each.id}" for each in models(found[target])), incomplete) if target in found else []


def complete_rules(incomplete: str) -> list[str]:
    """Return matching ids of findings."""
    from harness.runner.verdicts import known_finding_ids  # noqa: PLC0415 - see `complete_scenarios`

    return _matching(known_finding_ids(), incomplete)


def complete_topics(incomplete: str) -> list[str]:
    """Return matching help topics."""
    files = (resources.files("harness.cli") / "topics").iterdir()
    return _matching((file.name.rpartition(".")[0] for file in files), incomplete)


def complete_schemas(incomplete: str) -> list[str]:
    """Return matching names of schemas."""
    from harness.cli.list import SCHEMAS  # noqa: PLC0415 - see `complete_scenarios`

    return _matching(SCHEMAS, incomplete)


def complete_variants(incomplete: str) -> list[str]:
    """Return matching variants."""
    return _matching(("whole", "stream"), incomplete)


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
