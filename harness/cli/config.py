"""`harness config`: which settings hold, and where each comes from."""

from __future__ import annotations

import typer


def config() -> None:
    """Show what `[tool.harness]` in `pyproject.toml` says, what holds where it says nothing, and which of it is which.

    Options of a command take the place of what stands there. 'harness help config' has all keys.
    """
    from harness.cli import gateways, servers  # noqa: PLC0415 - `harness --help` loads none of it
    from harness.cli.settings import settings, told  # noqa: PLC0415 - the same
    from harness.cli.table import aligned  # noqa: PLC0415 - the same

    own = settings()
    for name in own.servers:
        servers.validate(name)
    for name in own.gateways:
        gateways.validate(name)
    rows = [(each.key, each.value, each.origin) for each in told(own)]
    for line in aligned([("KEY", "VALUE", "FROM"), *rows]):
        typer.echo(line)
