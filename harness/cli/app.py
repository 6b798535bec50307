"""The commands of `harness`, imported when they are called, and the one place where errors become exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from inspect import Parameter, Signature
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from harness.cli import streams
from harness.cli.main import COMMANDS, MODULES, SUMMARY
from harness.contract import distribution
from harness.contract.errors import HarnessError

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT."""

_USAGE = 2

_MOVED = {"--server": "server", "--gateway": "gateway", "--conversation": "agent", "--agent-command": "agent"}
"""Options of earlier versions of `run` and `check`, and the command that has taken their place."""


class LazyGroup(TyperGroup):
    """Commands by name, with their summaries. Each is imported when it is called."""

    summaries: Mapping[str, str] = COMMANDS

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(self.summaries)  # type: ignore[assignment] - the names alone

    def get_command(self, ctx: object, cmd_name: str) -> Any:  # noqa: ARG002 - typer's signature
        """Return the command; `None` if there is none of this name."""
        if cmd_name not in self.summaries:
            return None
        module = vars(import_module(f"harness.cli.{MODULES.get(cmd_name, cmd_name)}"))
        found = module[cmd_name if cmd_name in module else f"{cmd_name}_"]
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        alone = typer.Typer(add_completion=False)
        alone.command(cmd_name, short_help=self.summaries[cmd_name])(_with_parameters(found))
        return typer.main.get_command(alone)


def _with_parameters(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Return a function with a parameter for each option of the dataclass that `function` takes, as typer reads it."""
    options = get_type_hints(function).get("typed")
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
            typer.echo(f"harness {version(distribution.NAME)}")
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
    """The options before a command."""


def execute(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code. Raises `OSError`: the system refuses something."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # texts of models and files hold what a terminal may not be able to
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(args=[*arguments], prog_name="harness", standalone_mode=False)
        sys.stdout.flush()
    except HarnessError as error:
        return _USAGE if _annotated(error) else _failed(str(error))
    except typer.TyperException as error:
        # Without arguments there is no message: the help was shown.
        return _failed(_sentence(error, arguments)) if error.format_message() else _USAGE
    if code == INTERRUPTED:
        kept = " Cassettes that were complete by then are kept." if "record" in arguments[:1] else ""
        _failed(f"interrupted.{kept}")
    return code or 0


def _sentence(error: typer.TyperException, arguments: Sequence[str]) -> str:
    """Return what typer says about wrong usage, and the way out."""
    if hasattr(error, "option_name") and arguments[0] in ("run", "check"):
        for option, command in _MOVED.items():
            if any(word.partition("=")[0] == option for word in arguments):
                return f"{option}: use 'harness check {command}'. 'harness check {command} --help' shows its options."
    said = error.format_message().replace("Value error, ", "").rstrip(".")
    return f"{said}{'' if said.endswith('?') else '.'} 'harness --help' shows the usage."


def _annotated(error: HarnessError) -> bool:
    """Report the error to GitHub Actions, in the line of the file that it is about; false elsewhere."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return False
    from harness.cli.outputs import refuse  # noqa: PLC0415 - reports, which most commands do not need

    return refuse([error])


def _failed(message: str) -> int:
    streams.tell(f"harness: {' '.join(message.split())}")
    return _USAGE
