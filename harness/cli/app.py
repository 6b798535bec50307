"""The commands of `harness`, and the one place where errors become text and exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from harness.cli import streams
from harness.cli.accept import accept
from harness.cli.adopt import adopt
from harness.cli.audit import audit
from harness.cli.check import check
from harness.cli.compare import compare
from harness.cli.completion import completion
from harness.cli.config import config
from harness.cli.explain import explain
from harness.cli.help import help_
from harness.cli.init import init
from harness.cli.list import list_
from harness.cli.main import COMMANDS, SUMMARY
from harness.cli.merge import merge
from harness.cli.probe import probe
from harness.cli.providers import providers
from harness.cli.record import record
from harness.cli.report import report
from harness.cli.run import run
from harness.cli.schema import schema
from harness.cli.serve import serve
from harness.cli.show import show
from harness.cli.validate import validate
from harness.contract import distribution
from harness.contract.errors import HarnessError

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT."""

_USAGE = 2

app = typer.Typer(
    name="harness",
    help=SUMMARY,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_FUNCTIONS = {
    "run": run,
    "check": check,
    "show": show,
    "record": record,
    "serve": serve,
    "list": list_,
    "explain": explain,
    "providers": providers,
    "validate": validate,
    "schema": schema,
    "completion": completion,
    "init": init,
    "config": config,
    "adopt": adopt,
    "probe": probe,
    "audit": audit,
    "compare": compare,
    "report": report,
    "merge": merge,
    "accept": accept,
    "help": help_,
}
for _name, _function in _FUNCTIONS.items():
    app.command(_name, short_help=COMMANDS[_name])(_function)


def _version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"harness {version(distribution.NAME)}")
        except PackageNotFoundError:
            typer.echo("harness (not installed)")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What stands before a command."""


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
