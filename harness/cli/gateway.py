"""The options of a check of a gateway, and their values as they were typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from harness.contract.errors import UsageError

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--gateway",
        metavar="URL",
        show_default=False,
        help="Check a gateway: its base URL, as the client's SDK takes it. 'harness help gateways' says how.",
    ),
]
Upstreams: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--upstream",
        metavar="NAME",
        show_default=False,
        help="What stands behind the gateway: an API, or a target of one. Repeatable.",
    ),
]
Port: TypeAlias = Annotated[
    int,
    typer.Option(
        "--upstream-port",
        min=0,
        max=65535,
        metavar="N",
        help="Where the upstream listens on 127.0.0.1; 0: a free port.",
    ),
]
UpstreamModels: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--upstream-model",
        metavar="[UPSTREAM=]NAME",
        show_default=False,
        help="The model that the gateway asks an upstream for. Repeatable.",
    ),
]
Command: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--gateway-command",
        metavar="COMMAND",
        show_default=False,
        help="Runs the gateway while the check takes. HARNESS_UPSTREAM_URL in its environment is the upstream.",
    ),
]
Wait: TypeAlias = Annotated[
    float,
    typer.Option(
        "--gateway-wait", min=0.0, max=3600.0, metavar="SECONDS", help="How long the gateway may take to start."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was typed."""

    url: str
    api: str | None
    upstreams: tuple[str, ...]
    port: int
    models: tuple[str, ...]
    upstream_models: tuple[str, ...]
    command: str | None
    wait: float
    scenario: str | None
    variants: tuple[str, ...]
    cell_timeout: float | None
    expected_failures: str | None
    reports: tuple[str, ...]
    verbose: bool
    as_of: str | None
    facts: tuple[Path, ...]


def refuse(given: Mapping[str, object], why: str) -> None:
    """Raises `UsageError` for the first of these options that was given."""
    for option, value in given.items():
        if value:
            raise UsageError(f"{option}: {why}")
