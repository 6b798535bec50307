"""Forms in which clients write a request, and the built-in adapter never does."""

from __future__ import annotations

from collections.abc import Mapping

from harness.apis.api import ClientForm
from harness.contract.model import JSON

REMINDER = "Answer in one sentence."


def _system_turn(body: dict[str, JSON]) -> None:
    """A system message behind the first message of the user (openai-chat-system-anywhere)."""
    messages = body.get("messages")
    roles = [each.get("role") for each in messages if isinstance(each, dict)] if isinstance(messages, list) else []
    if isinstance(messages, list) and "user" in roles:
        messages.insert(roles.index("user") + 1, {"role": "system", "content": REMINDER})


def _system_blocks(body: dict[str, JSON]) -> None:
    """Two system messages at the beginning, the second of them in parts."""
    messages = body.get("messages")
    if isinstance(messages, list):
        first = messages[0] if messages else None
        has_one = isinstance(first, dict) and first.get("role") in ("system", "developer")
        messages.insert(1 if has_one else 0, {"role": "system", "content": [{"type": "text", "text": REMINDER}]})


CLIENT_FORMS: Mapping[str, ClientForm] = {"system-turn": _system_turn, "system-blocks": _system_blocks}
"""By name."""
