"""What a check says beside the cells that it has played."""

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
class Rate:
    """How often the model of a target did something, of `played` tries: `name` says what, as a sentence goes on. The
    share lies between `low` and `high`, from 0 to 1, with 95 % confidence (Wilson). It is no verdict on anybody."""

    name: str
    target: str
    hits: int
    played: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share of the tries that came out, from 0 to 1."""
        return self.hits / self.played


@dataclass(frozen=True, slots=True)
class Checked:
    """`undeclared` are capabilities that work though the adapter does not declare them, `broken` those that it declares
    and that work in no cell. `not_played` says in sentences what of the suite was left out. `rates` say what a server's
    model did, of which no single answer proves anything. `gateway` says of each fact what became of it on its way
    through a gateway, for each upstream. `model_note` says why another model than the default was used, if it was."""

    undeclared: tuple[Tried, ...] = ()
    broken: tuple[Tried, ...] = ()
    not_played: tuple[str, ...] = ()
    rates: tuple[Rate, ...] = ()
    gateway: tuple[FactFates, ...] = ()
    model_note: str = ""
