"""The name that this package is installed by. It is imported and called as `harness`, but the distribution of that name
belongs to somebody else: whoever is told what to install is told this one."""

from __future__ import annotations

NAME = "toolcall-harness"


def install(extra: str) -> str:
    """The command that installs this package with `extra`."""
    return f"pip install '{NAME}[{extra}]'"
