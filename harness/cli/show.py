"""`harness show`: one cell, played again: what was said, what was sent, and where the findings are."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from harness.cli import completion
from harness.cli.colours import NoColour
from harness.cli.days import AsOf, FactFiles, fact_files
from harness.cli.loops import AgentCommands, Conversations, SpokenApi, loops_of
from harness.cli.options import (
    AdapterCommands,
    Adapters,
    BaseUrls,
    Cassettes,
    CellTimeout,
    Ignored,
    Models,
    Options,
    Rules,
    Strict,
    Targets,
    Variants,
    adapters_of,
)


def show(  # noqa: PLR0913 - a parameter for each option
    cell: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            show_default=False,
            autocompletion=completion.scenarios,
            help="A scenario file, or a shipped scenario's id.",
        ),
    ],
    *,
    adapters: Adapters = None,
    adapter_commands: AdapterCommands = None,
    conversations: Conversations = None,
    agents: AgentCommands = None,
    api: SpokenApi = None,
    targets: Targets = None,
    models: Models = None,
    mode: Annotated[
        Literal["replay", "reference", "live"], typer.Option(help="Where the answers come from, as for 'harness run'.")
    ] = "replay",
    variants: Variants = None,
    cell_timeout: CellTimeout = None,
    cassettes: Cassettes = None,
    base_urls: BaseUrls = None,
    strict: Strict = None,
    rules: Rules = None,
    ignored: Ignored = None,
    as_of: AsOf = None,
    facts: FactFiles = None,
    _: NoColour = False,
) -> int:
    """Play one cell and print its conversation as canonical turns beside the exchanges, with the findings' places.

    Without --variant it is the whole answer, or the stream where that is all there is.

    Exit codes as for 'harness run'.
    """
    from harness.cli import session  # noqa: PLC0415 - `harness --help` loads none of what a run needs

    options = Options(
        [cell],
        adapters_of(adapters, adapter_commands, loops_of(conversations, agents, api, targets)),
        targets,
        models,
        base_urls,
        words=None,
        variants=variants,
        jobs="1",
        cassettes=cassettes,
        expected_failures=None,
        reports=None,
        verbose=True,
        all_differences=False,
        strict=strict,
        cell_timeout=cell_timeout,
        as_of=as_of,
        facts=fact_files(facts),
        rules=tuple(rules or ()),
        ignored=tuple(ignored or ()),
    )
    return session.show(options, mode)
