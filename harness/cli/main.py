"""The command `harness`. Its help takes no longer than Python itself: what a command needs is imported for it alone."""

from __future__ import annotations

import gc
import os
import sys

from harness.cli import streams

SUMMARY = "Record-and-replay conformance harness for LLM tool calling."

COMPLETING = "_HARNESS_COMPLETE"
"""In the environment of whoever asks for completions: `harness completion` prints what does."""

_IMPORTED = 400_000
_THRESHOLD = 20_000
"""How many more objects there are than were thrown away before the collector looks for cycles: at first those that all
SDKs leave behind when they are imported, and from then on. Python's own 700 have it take a sixth of a short run."""

HEADINGS = {
    "Play and record": {
        "run": "Play scenarios and report findings and differences. Offline unless --mode says otherwise.",
        "check": "Check an adapter, a server, a gateway, whatever owns its tool loop: what holds, what breaks.",
        "record": "Record cassettes, from a provider or from the bundled reference server.",
        "show": "Play one cell: its conversation beside what was sent, the findings at their places.",
        "serve": "Serve the reference server to any client, in any language: what breaks in its conversations?",
    },
    "Results": {
        "compare": "Say what has changed from one run to another; exit code 1 if something got worse.",
        "report": "Make any report of a run that was kept: a page for the browser, what changed since an earlier one.",
        "merge": "Make one run of the shards that several machines have played.",
        "accept": "Write what is red in a run into a file of expected failures.",
        "audit": "Audit recorded requests: what do the providers refuse, what breaks the contract?",
    },
    "Knowledge": {
        "explain": "Say what a fact, a limit, a rule or a word of a report means, how it is known, what to do.",
        "list": "List the scenarios, targets, rules, facts, known models, or the cassettes and their state.",
        "probe": "Ask a provider whether facts about it still hold. Says first how many requests and what they cost.",
        "help": "Explain a topic: adapters, ci, findings, recording, scenarios, ... All: harness help.",
    },
    "Set-up": {
        "init": "Write settings, a first scenario and a workflow into a repository; overwrites nothing.",
        "config": "Show which settings hold in this project, and where each comes from.",
        "adopt": "Look through cassettes of vcrpy or pytest-recording: can they be played, are secrets in them?",
        "validate": "Check scenario files: every problem with its place.",
        "schema": "Print the JSON Schema of scenarios, facts, settings, results, or adapters' commands; or its path.",
        "completion": "Print the script by which a shell completes commands, scenarios, targets, models and rules.",
        "providers": "Show SDKs, keys (never a value), embeddings, and what each target can do.",
    },
}

COMMANDS = {name: summary for commands in HEADINGS.values() for name, summary in commands.items()}

MODULES = {
    "accept": "kept",
    "adopt": "audit",
    "agent": "check",
    "adapter": "check",
    "compare": "kept",
    "config": "settings",
    "gateway": "check_gateway",
    "merge": "kept",
    "record": "run",
    "report": "kept",
    "server": "check_server",
    "show": "run",
}
"""The modules of commands that have no module of their name."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code; `arguments` are those of the process unless given."""
    if arguments is None:  # the process is ours: what it imports stays, and need not be looked at again and again
        gc.set_threshold(_IMPORTED)
        gc.callbacks.append(_begun)
    words = sys.argv[1:] if arguments is None else arguments
    streams.open_closed()
    try:
        if (words and list(words) != ["--help"]) or COMPLETING in os.environ:
            from harness.cli.app import execute  # noqa: PLC0415 - typer costs more than all the rest of the help

            return execute(words)
        sys.stdout.write(_help())
        sys.stdout.flush()
    except OSError as error:
        return streams.fail(error)
    return 0 if words else 2


def _begun(phase: str, _info: dict[str, int]) -> None:
    """What is there when the collector has looked for the first time stays."""
    if phase == "stop":
        gc.callbacks.remove(_begun)
        gc.freeze()
        gc.set_threshold(_THRESHOLD)


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
