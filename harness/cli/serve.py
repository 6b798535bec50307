"""`harness serve`: the reference server for clients that are not ours, and a verdict on what they did."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.colours import NoColour
from harness.cli.days import AsOf, FactFiles, fact_files
from harness.cli.options import Paths, Reports, Verbose

PortNumber = Annotated[
    int, typer.Option("--port", min=0, max=65535, metavar="N", help="Where to listen on 127.0.0.1; 0: a free port.")
]
Command = Annotated[
    str | None,
    typer.Option(
        "--command",
        metavar="COMMAND",
        show_default=False,
        help="Run this command, and end with it. HARNESS_URL in its environment names the server; with one scenario, "
        "the variables that the SDKs read lead to it.",
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option("--model", metavar="NAME", help="A model that there is, beside those that are known. Repeatable."),
]
Pace = Annotated[
    float,
    typer.Option("--pace", min=0.0, max=60.0, metavar="SECONDS", help="Time between two events of a stream."),
]


Recut = Annotated[
    int,
    typer.Option(
        "--recut",
        metavar="N",
        min=0,
        help="Send each stream of a session in another way: in the chunks of some servers and in N other cuts of its "
        "bytes, in turn.",
    ),
]


def serve(  # noqa: PLR0913 - a parameter for each option
    paths: Paths = None,
    *,
    port: PortNumber = 0,
    command: Command = None,
    models: Names = None,
    pace: Pace = 0.0,
    recut: Recut = 0,
    reports: Reports = None,
    verbose: Verbose = False,
    as_of: AsOf = None,
    facts: FactFiles = None,
    _: NoColour = False,
) -> int:
    """Serve scenarios to any client, in any language, and judge what it sends. 'harness help serve' says how.

    A client's base URL is URL/SCENARIO/SESSION, with what its SDK wants behind it. The first line on standard output is
    JSON with the URL. It ends with its standard input, by SIGTERM or Ctrl-C, or with --command.

    Exit codes: 1 a client broke something, or the command failed; 2 wrong usage, or nobody asked; else 0.
    """
    from harness.cli import serving  # noqa: PLC0415 - `harness --help` loads none of what a server needs

    return serving.serve(
        paths,
        serving.Asked(
            port=port,
            command=command,
            models=tuple(models or ()),
            pace=pace,
            recut=recut,
            reports=tuple(reports or ()),
            verbose=verbose,
            as_of=as_of,
            facts=fact_files(facts),
        ),
    )
