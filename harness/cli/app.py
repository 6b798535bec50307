"""The commands of `harness`, and the one place where errors become text and exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Container, Sequence
from importlib import import_module
from typing import Annotated

import typer

from harness.cli import streams
from harness.cli.main import COMMANDS, COMPLETING, SUMMARY
from harness.contract import distribution
from harness.contract.errors import HarnessError

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT."""

_USAGE = 2


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - only here

        try:
            typer.echo(f"harness {version(distribution.NAME)}")
        except PackageNotFoundError:
            typer.echo("harness (not installed)")
        raise typer.Exit


def _options(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What stands before a command."""


def app(wanted: Container[str] = COMMANDS) -> typer.Typer:
    """All commands, of which those that are `wanted` can be run: the modules of the others are not imported."""
    made = typer.Typer(name="harness", help=SUMMARY, no_args_is_help=True, pretty_exceptions_enable=False)
    made.callback()(_options)
    for name, summary in COMMANDS.items():
        made.command(name, short_help=summary)(_function(name) if name in wanted else _unwanted)
    return made


def _function(name: str) -> Callable[..., int | None]:
    """What runs a command: it stands in a module of its name, and has that name, or with a line where Python has it."""
    found = vars(import_module(f"harness.cli.{name}"))
    return found[name if name in found else f"{name}_"]


def _unwanted() -> None:
    """Stands in the list of commands for one that no argument names."""


def execute(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code. Raises `OSError`: the system refuses something."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # texts of models and files hold what a terminal may not be able to
            stream.reconfigure(errors="backslashreplace")
    try:
        wanted = COMMANDS if COMPLETING in os.environ else arguments
        code = app(wanted)(args=[*arguments], prog_name="harness", standalone_mode=False)
        sys.stdout.flush()
    except HarnessError as error:
        return _USAGE if _annotated(error) else _failed(str(error))
    except typer.TyperException as error:
        # Without arguments there is no message: the help was shown.
        return _failed(_sentence(error.format_message())) if error.format_message() else _USAGE
    if code == INTERRUPTED:
        kept = " Cassettes that were complete by then are kept." if "record" in arguments[:1] else ""
        _failed(f"interrupted.{kept}")
    return code or 0


def _sentence(message: str) -> str:
    """What typer says about wrong usage, and the way out."""
    said = message.replace("Value error, ", "").rstrip(".")
    return f"{said}{'' if said.endswith('?') else '.'} 'harness --help' shows the usage."


def _annotated(error: HarnessError) -> bool:
    """Whether the error was said to GitHub Actions, in the line of the file that it is about."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return False
    from harness.cli.pipeline import refuse  # noqa: PLC0415 - elsewhere nothing needs it

    return refuse([error])


def _failed(message: str) -> int:
    streams.tell(f"harness: {' '.join(message.split())}")
    return _USAGE
