"""Registry of rules: the built-in ones and those of other packages."""

from __future__ import annotations

import importlib

from harness import plugins
from harness.model.errors import PluginError
from harness.rules.rule import Rule


def all_rules() -> list[Rule]:
    """Return all rules: the `RULES` of the modules in `harness.rules`, and the rules of entry points.

    Raises:
        PluginError: A rule module of another package cannot be used, or two rules have the same id.
    """
    found: list[Rule] = []
    for module in plugins.built_in_modules("harness.rules").values():
        found.extend(getattr(importlib.import_module(module), "RULES", ()))
    for point in sorted(plugins.entry_points_of("harness.rules")):
        value = plugins.load_entry_point("rule module", point)
        for rule in value if isinstance(value, list | tuple) else (value,):  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(rule, Rule):
                raise PluginError("rule module", point.name, f"it holds {rule!r}, which is no Rule.")
            if any(rule.id == other.id for other in found):
                raise PluginError("rule module", point.name, f"its rule {rule.id!r} exists already; rename it.")
            found.append(rule)
    return found
