"""Where the shipped scenarios and cassettes are: in a wheel inside the package, in a checkout beside it."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent.parent

SHIPPED = "shipped"
"""The name of all shipped scenarios, in settings and on the command line."""


def shipped(name: str) -> Path:
    """The folder `scenarios` or `cassettes` that ships with the package, wherever it is installed."""
    packed = _PACKAGE / "_shipped" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name
