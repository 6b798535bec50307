"""Location of the shipped scenarios and cassettes: inside the package in a wheel, next to it in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent.parent

SHIPPED = "shipped"
"""Name of the set of all shipped scenarios, in settings and on the command line."""


def shipped(name: str) -> Path:
    """Return the folder `scenarios` or `cassettes` that ships with the package."""
    packed = _PACKAGE / "_shipped" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name
