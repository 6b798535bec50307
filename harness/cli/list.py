"""`harness list`: what there is, a line for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import typer


def list_(
    what: Annotated[Literal["scenarios", "targets", "rules"], typer.Argument(show_default=False, help="What to list.")],
) -> None:
    """List the shipped scenarios, the targets, or the rules."""
    rows = {"scenarios": _scenarios, "targets": _targets, "rules": _rules}[what]()
    for line in _aligned(list(rows)):
        typer.echo(line)


def _scenarios() -> Iterator[Sequence[str]]:
    from harness import suite  # noqa: PLC0415 - `harness --help` loads no pydantic
    from harness.scenarios.load import load_paths  # noqa: PLC0415 - the same

    yield "SCENARIO", "COVERS", "REQUIRES", "TITLE"
    for scenario in load_paths([suite.shipped("scenarios")]):
        yield scenario.id, ",".join(scenario.covers), ",".join(scenario.requires) or "-", scenario.title


def _targets() -> Iterator[Sequence[str]]:
    from harness.profiles import profile_for  # noqa: PLC0415 - `harness --help` loads no pydantic
    from harness.targets import SHIPPED  # noqa: PLC0415 - the same
    from harness.wire.apis import wire_format  # noqa: PLC0415 - the same

    yield "TARGET", "ADAPTER", "API", "MODEL", "PROFILE", "KEY"
    for each in SHIPPED:
        keys = " or ".join(wire_format(each.api).key_variables)
        yield each.name, each.adapter, each.api, each.model, profile_for(each.api, each.model).name, keys


def _rules() -> Iterator[Sequence[str]]:
    from harness import catalog  # noqa: PLC0415 - `harness --help` loads no rules

    yield "RULE", "KIND", "SEVERITY", "BLAME", "SOURCE", "REQUIREMENT"
    for rule in catalog.rules():
        yield rule.id, rule.kind, rule.severity, rule.blame, rule.source, rule.requirement


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
