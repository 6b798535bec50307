"""The options that name what owns its tool loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import typer

from harness import catalog
from harness.contract.errors import UsageError

Conversations: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--conversation",
        metavar="module:attribute",
        help="A library that owns its tool loop: a function drive(endpoint, model, conversation), or a harness.Loop "
        "(harness help loops). Repeatable.",
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
        help="The API that is spoken by what does not say so itself: a conversation or an agent (--target says it, "
        "too), a server, a gateway.",
    ),
]


def loops_of(
    conversations: Sequence[str] | None,
    agents: Sequence[str] | None,
    api: str | None,
    targets: Sequence[str] | None,
) -> list[str]:
    """What owns its loop, in the form that the catalog takes.

    Raises:
        UsageError: nobody is there to speak the API, or a target is none.
    """
    if not (conversations or agents):
        if api is not None:
            raise UsageError(
                f"--api {api}: it says what --conversation or --agent-command speaks, and neither is given."
            )
        return []
    return catalog.adapters_of(conversations=conversations or (), agents=agents or (), api=api, targets=targets or ())
