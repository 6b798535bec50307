"""How Python finds the modules of the harness while pytest runs.

pytest rewrites the assertions of whatever is installed with a plug-in, and for that finds and reads every module
itself, and compiles it each time where it may write no bytecode. The harness has no assertions to be explained, and
hundreds of modules.
"""

from __future__ import annotations

from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_PACKAGE = __name__.partition(".")[0] + "."


class Finder:
    """A finder for `sys.meta_path` that has Python find what is in the harness's package, and knows nothing else."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where a module of ours is; `None` for all others."""
        return PathFinder.find_spec(name, path, target) if name.startswith(_PACKAGE) else None
