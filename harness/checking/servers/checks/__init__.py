"""The checks, one module a subject; each exports `CHECKS`."""

from __future__ import annotations

from collections.abc import Mapping

from harness.apis.departure import PROMISES
from harness.checking.servers.check import Check
from harness.checking.servers.checks import answers, calls, choices, failures, formats, prompts

CHECKS: Mapping[str, Check] = {
    check.id: check for module in (answers, calls, choices, formats, prompts, failures) for check in module.CHECKS
}
"""All of them, in the order in which they are played."""

RULES = frozenset((*PROMISES, *CHECKS))
"""What findings about servers can have as their rule."""
