"""Name of the distribution. The package is imported as `harness`; the distribution named `harness` is an unrelated
project.
"""

from __future__ import annotations

NAME = "toolcall-harness"


def install(extra: str) -> str:
    """Return the command that installs this package with `extra`."""
    return f"pip install '{NAME}[{extra}]'"
