"""The options of a check of a gateway, and their values as they were typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import typer

from harness.cli.subject import Shared
from harness.host.subjects import LONGEST_WAIT

_PANEL = "A gateway"

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--gateway",
        metavar="URL|NAME",
        show_default=False,
        rich_help_panel=_PANEL,
        help="A gateway instead of an adapter: its base URL, as the client's SDK takes it, with --api and --upstream; "
        "or its name in the project's settings (harness help gateways).",
    ),
]
Upstreams: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--upstream",
        metavar="NAME",
        show_default=False,
        rich_help_panel=_PANEL,
        help="What stands behind the gateway: an API, or a target of one. Repeatable.",
    ),
]
Port: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--upstream-port",
        min=0,
        max=65535,
        metavar="N",
        show_default=False,
        rich_help_panel=_PANEL,
        help="Where the upstream listens on 127.0.0.1. Default: a free port.",
    ),
]
UpstreamModels: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--upstream-model",
        metavar="[UPSTREAM=]NAME",
        show_default=False,
        rich_help_panel=_PANEL,
        help="The model that the gateway asks an upstream for. Repeatable.",
    ),
]
Command: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--gateway-command",
        metavar="COMMAND",
        show_default=False,
        rich_help_panel=_PANEL,
        help="Runs the gateway while the check takes. HARNESS_UPSTREAM_URL in its environment is the upstream.",
    ),
]
WAIT = 60.0
"""The default of `--gateway-wait`."""

Wait: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--gateway-wait",
        min=0.0,
        max=LONGEST_WAIT,
        metavar="SECONDS",
        show_default=False,
        rich_help_panel=_PANEL,
        help=f"How long the gateway may take to start. Default: {WAIT:g}.",
    ),
]


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """What was typed of a gateway. Nothing is checked yet. `scenarios` are files, folders and ids, as for a run."""

    gateway: str | None = None
    upstreams: Sequence[str] | None = None
    port: int | None = None
    upstream_models: Sequence[str] | None = None
    command: str | None = None
    wait: float | None = None
    cell_timeout: float | None = None
    scenarios: Sequence[str] = ()
    headers: Sequence[str] | None = None

    @property
    def given(self) -> Mapping[str, object]:
        """The values by option that only a gateway has; `None` where none was typed."""
        return {
            "--gateway": self.gateway,
            "--upstream": self.upstreams,
            "--upstream-port": self.port,
            "--upstream-model": self.upstream_models,
            "--gateway-command": self.command,
            "--gateway-wait": self.wait,
            "--header": self.headers,
        }

    def play(self, shared: Shared) -> int:
        """Check the gateway, write the reports, and return the exit code.

        Raises:
            UsageError: an option or a setting is wrong, or the gateway does not lead to the upstream.
        """
        from harness.cli import gateways  # noqa: PLC0415 - `harness --help` loads none of what a check needs

        return gateways.check(self, shared)
