"""ID matching: each call is answered once, by its own id, in its place, with its own result."""

from __future__ import annotations

from harness.rules.id_matching import calls, ids, results

RULES = (*calls.RULES, *ids.RULES, *results.RULES)
