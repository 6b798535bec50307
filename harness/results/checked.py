"""What a check says of adapters beside the cells that it has played."""

from __future__ import annotations

from dataclasses import dataclass

from harness.results.passing import FactFates


@dataclass(frozen=True, slots=True)
class Tried:
    """A capability, and how many of the cells that need it passed through the adapter of a target."""

    target: str
    capability: str
    worked: int
    played: int


@dataclass(frozen=True, slots=True)
class Checked:
    """`undeclared` are capabilities that work though the adapter does not declare them, `broken` those that it declares
    and that work in no cell. `not_played` says in sentences what of the suite was left out. `gateway` says of each fact
    what became of it on its way through a gateway, for each upstream."""

    undeclared: tuple[Tried, ...] = ()
    broken: tuple[Tried, ...] = ()
    not_played: tuple[str, ...] = ()
    gateway: tuple[FactFates, ...] = ()
