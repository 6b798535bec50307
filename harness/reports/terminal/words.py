"""How much is named where more have the same in common, and how places are called."""

from __future__ import annotations

from harness.reports._groups import Place

CELLS = 3
"""Cells that are named of those with the same in common."""
NAMES = 8
"""Scenarios, or subjects, that are named."""
LESSER = 8
"""Rules whose warnings, or notes, are shown, and entries that speak of no cell."""


def spot(place: Place) -> str:
    """A scenario and the target that played it."""
    return f"{place.name} . {place.target}"
