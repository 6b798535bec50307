"""Checks of servers, grouped into modules by subject."""

from __future__ import annotations

from collections.abc import Mapping

from harness.apis.response_rules import RESPONSE_RULES
from harness.checks.server_checks import answer_checks, call_checks, choice_checks, prompt_checks
from harness.checks.server_session import ServerCheck

_ALL = (
    *answer_checks.CHECKS,
    *call_checks.CHECKS,
    *choice_checks.CHECKS,
    *choice_checks.FORMATS,
    *prompt_checks.CHECKS,
    *answer_checks.FAILURES,
)
CHECKS: Mapping[str, ServerCheck] = {check.id: check for check in _ALL}
"""Maps ids to checks, in the order in which they run."""

RULES = frozenset((*RESPONSE_RULES, *CHECKS))
"""Ids of all rules about servers."""
