"""Checks of servers: `checks.yaml` describes them, and a function for each sends its requests."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import TypeAdapter

from harness.apis.response_rules import RESPONSE_RULES
from harness.checks.server_checks import answer_checks, conversation_checks
from harness.checks.server_session import ServerCheck
from harness.platform.files import read_shipped_yaml

__all__ = ["CHECKS", "RULES", "answer_checks", "conversation_checks"]

_LISTED = read_shipped_yaml("harness.checks.server_checks", "checks.yaml")

CHECKS: Mapping[str, ServerCheck] = {
    check.id: check for check in TypeAdapter(list[ServerCheck]).validate_json(json.dumps(_LISTED))
}
"""Maps ids to checks, in the order in which they run."""

RULES = frozenset((*RESPONSE_RULES, *CHECKS))
"""Ids of all rules about servers."""
