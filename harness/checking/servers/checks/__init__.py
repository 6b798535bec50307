"""The checks, in modules by subject."""

from __future__ import annotations

from collections.abc import Mapping

from harness.apis.departure import PROMISES
from harness.checking.servers.checks import answers, calls, choices, prompts
from harness.checking.servers.talk import Check

_ALL = (
    *answers.CHECKS,
    *calls.CHECKS,
    *choices.CHECKS,
    *choices.FORMATS,
    *prompts.CHECKS,
    *answers.FAILURES,
)
CHECKS: Mapping[str, Check] = {check.id: check for check in _ALL}
"""All of them, in the order in which they are played."""

RULES = frozenset((*PROMISES, *CHECKS))
"""What findings about servers can have as their rule."""
