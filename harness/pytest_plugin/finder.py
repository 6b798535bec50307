"""Import of harness modules without pytest's assertion rewriting.

pytest rewrites assertions in every package with a plug-in. For that it reads all modules itself, and compiles them each
time if it may not write bytecode. The harness has hundreds of modules and no assertions to rewrite.
"""

from __future__ import annotations

from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_PACKAGE = __name__.partition(".")[0] + "."


class Finder:
    """A finder for `sys.meta_path` that finds harness modules with Python's own finder."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a harness module; `None` for all others."""
        return PathFinder.find_spec(name, path, target) if name.startswith(_PACKAGE) else None
