"""The options of a check of a server, and their values as they were typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import typer

from harness.cli.subject import Shared

_PANEL = "A server"

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL|NAME",
        show_default=False,
        rich_help_panel=_PANEL,
        help="A server instead of an adapter: its base URL, as SDKs take it, with --api and --model NAME; or its name "
        "in the project's settings. Sends requests, and says first how many (harness help servers).",
    ),
]
Repeat: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--repeat",
        metavar="N",
        min=1,
        show_default=False,
        rich_help_panel=_PANEL,
        help="Ask so often, for rates that say more.",
    ),
]
MaxRequests: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--max-requests",
        metavar="N",
        min=1,
        show_default=False,
        rich_help_panel=_PANEL,
        help="Send no more than so many requests.",
    ),
]
PriceOf: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--price",
        metavar="IN,OUT",
        show_default=False,
        rich_help_panel=_PANEL,
        help="US dollars for a million tokens, read and written. Default: what is known of the model.",
    ),
]
LONGEST = 1024
"""The default of `--max-tokens`."""

MaxTokens: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        metavar="N",
        min=64,
        show_default=False,
        rich_help_panel=_PANEL,
        help=f"The longest answer, in tokens: more for a model that reasons, less for a slow one. Default: {LONGEST}.",
    ),
]
Only: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="ID[,ID]",
        show_default=False,
        rich_help_panel=_PANEL,
        help="Only these checks: 'harness list rules' has their ids, server-... Repeatable.",
    ),
]


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What was typed of a server. Nothing is checked yet."""

    server: str | None = None
    repeat: int | None = None
    max_requests: int | None = None
    max_tokens: int | None = None
    price: str | None = None
    only: Sequence[str] | None = None
    headers: Sequence[str] | None = None

    @property
    def given(self) -> Mapping[str, object]:
        """The values by option; `None` where none was typed."""
        return {
            "--server": self.server,
            "--repeat": self.repeat,
            "--max-requests": self.max_requests,
            "--max-tokens": self.max_tokens,
            "--price": self.price,
            "--only": self.only,
            "--header": self.headers,
        }

    def play(self, shared: Shared) -> int:
        """Check the server, write the reports, and return the exit code.

        Raises:
            UsageError: an option or a setting is wrong, or nobody answers at the URL as its API does.
        """
        from harness.cli import servers  # noqa: PLC0415 - `harness --help` loads none of what a check needs

        return servers.check(self, shared)
