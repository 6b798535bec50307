"""What becomes of what is said on its way through a gateway."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Fate(StrEnum):
    """What becomes of a fact that one end has said, best first."""

    PRESERVED = "preserved"
    """The other end is told the same."""
    TRANSLATED = "translated"
    """It is told in another form that means the same."""
    REFUSED = "refused"
    """Whoever asked was told no."""
    LOST = "lost"
    """The other end is told something else, or nothing, and nobody is told of it."""


@dataclass(frozen=True, slots=True)
class FactFates:
    """What became of one fact between a client's API and an upstream: in how many cells it was preserved, translated,
    refused or lost; a cell counts once, by the worst. `of_answer`: the upstream says it, not the client."""

    client: str
    upstream: str
    fact: str
    of_answer: bool
    preserved: int = 0
    translated: int = 0
    refused: int = 0
    lost: int = 0
