"""Entry point of `harness`, its top-level help, and its standard streams.

`harness --help` imports neither typer nor any command.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
import time
from contextvars import ContextVar

STARTED = ContextVar[float]("STARTED")
"""Monotonic time at which the command started, before the imports."""

SUMMARY = "Record-and-replay conformance harness for LLM tool calling."

COMPLETING = "_HARNESS_COMPLETE"
"""Environment variable that the script from `harness completion` sets."""

_FIRST_GC_THRESHOLD_OBJECTS = 400_000
_GC_THRESHOLD_OBJECTS = 20_000

HEADINGS = {
    "Run and record": {
        "try": "Find the worst defects of a client, a library, a loop or a server within seconds.",
        "run": "Run scenarios and report findings and differences. Offline unless --mode live is given.",
        "check": "Check an adapter, an agent, a server or a gateway, and print a scorecard.",
        "record": "Record cassettes, from a provider or from the bundled reference server.",
        "show": "Run one cell and print its conversation, its HTTP exchanges and its findings.",
        "shrink": "Shrink a failing conversation to the smallest scenario that still fails.",
        "reproduce": "Write a stand-alone script that shows a finding, and the text of an issue to report it.",
        "serve": "Run the reference server for a client in any language, and judge its requests.",
    },
    "Results": {
        "compare": "Show what changed between two runs; exit code 1 if something got worse.",
        "report": "Write any report of a saved run, such as an HTML page.",
        "merge": "Combine the results of several machines (shards) into one run.",
        "accept": "Write the failures of a run into a file of expected failures.",
        "audit": "Check recorded requests for what providers refuse, and for lost or changed data.",
    },
    "Knowledge": {
        "explain": "Explain a fact, a limit, a rule or a term of a report, with its evidence and remedy.",
        "list": "List scenarios, targets, rules, facts, models, wrappers, or cassettes and their state.",
        "probe": "Ask a provider whether facts about it still hold. Prints the cost before it starts.",
        "help": "Show a topic: adapters, ci, findings, recording, scenarios, ... All: harness help.",
    },
    "Set-up": {
        "init": "Write settings, a first scenario and a workflow into a repository. Overwrites nothing.",
        "config": "Show the settings of this project, and where each comes from.",
        "adopt": "Check whether vcrpy or pytest-recording cassettes can be replayed and contain no secrets.",
        "validate": "Check scenario files and print every problem with file, line and column.",
        "schema": "Print the JSON Schema of scenarios, facts, settings, results or adapter commands.",
        "completion": "Print the shell script that completes commands, scenarios, targets, models and rules.",
        "providers": "Show installed SDKs, which keys are set (never a value), and what each target can do.",
    },
}

COMMANDS = {name: summary for commands in HEADINGS.values() for name, summary in commands.items()}


def main(arguments: list[str] | tuple[str, ...] | None = None) -> int:
    """Run the command line and return its exit code. `arguments` defaults to the arguments of the process."""
    if arguments is None:  # imports leave many objects that stay; collecting them takes a sixth of a short run
        gc.set_threshold(_FIRST_GC_THRESHOLD_OBJECTS)
        gc.callbacks.append(_freeze_after_first_collection)
    words = sys.argv[1:] if arguments is None else arguments
    STARTED.set(time.monotonic())
    open_closed_streams()
    try:
        if (words and list(words) != ["--help"]) or COMPLETING in os.environ:
            from harness.cli.app import execute  # noqa: PLC0415 - typer costs more than all the rest of the help

            return execute(words)
        sys.stdout.write(_help())
        sys.stdout.flush()
    except OSError as error:
        return report_os_error(error)
    return 0 if words else 2


def _freeze_after_first_collection(phase: str, _info: dict[str, int]) -> None:
    if phase == "stop":
        gc.callbacks.remove(_freeze_after_first_collection)
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD_OBJECTS)


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(
        f"{heading}:\n" + "".join(f"  {name:{width}}  {summary}\n" for name, summary in commands.items())
        for heading, commands in HEADINGS.items()
    )
    return (
        f"Usage: harness COMMAND [OPTIONS]\n\n{SUMMARY}\n\n{commands}\n"
        "'harness COMMAND --help' shows the options of a command, 'harness --version' the version.\n"
    )


_OUTPUT_ERRORS = frozenset(
    {
        errno.EBADF,
        errno.ECONNRESET,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EINVAL,
        errno.EIO,
        errno.ENOSPC,
        errno.ENXIO,
        errno.EPIPE,
    }
)
"""Error numbers of failed writes. Other errors without a file name come from the system, such as a lack of file
descriptors.
"""

_USAGE = 2


def open_closed_streams() -> None:
    """Open the null device for each standard stream that was closed before this process started, as with `>&-`.

    Without this, the next opened file would get the stream's descriptor and receive the printed output.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest number that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            null = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - without pathlib, and to the end
            setattr(sys, name, null)


def print_error(line: str) -> None:
    """Write a line to standard error, if it is writable."""
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        _discard_output(sys.stderr.fileno())


def report_os_error(error: OSError) -> int:
    """Print an operating system error and return the exit code."""
    if error.filename is not None:
        print_error(f"harness: {error.filename}: {error.strerror}.")
        return _USAGE
    if error.errno not in _OUTPUT_ERRORS:
        print_error(f"harness: the system refuses to go on: {error.strerror or error}.")
        return _USAGE
    _discard_output(sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # the reader has closed the pipe, as `head` does
        return 1
    print_error(f"harness: standard output cannot be written: {error.strerror}.")
    return _USAGE


def _discard_output(descriptor: int) -> None:
    """Discard the buffered data of a stream. Without this, Python would fail to flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
