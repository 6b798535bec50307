"""Import of harness modules without pytest's assertion rewriting.

pytest rewrites assertions in every package that contains a plug-in. To do so, it loads all modules itself, and it
recompiles them in every run if it cannot write bytecode. harness has hundreds of modules and no assertions to rewrite.
"""

from __future__ import annotations

from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_PACKAGE = __name__.partition(".")[0] + "."


class Finder:
    """Finder for `sys.meta_path` that uses Python's own finder for harness modules."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a harness module, or `None` for any other module."""
        return PathFinder.find_spec(name, path, target) if name.startswith(_PACKAGE) else None
