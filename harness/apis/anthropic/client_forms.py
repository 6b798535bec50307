"""Forms in which clients write a request, and the built-in adapter never does."""

from __future__ import annotations

from collections.abc import Mapping

from harness.apis.api import ClientForm
from harness.contract.model import JSON

REMINDER = "Answer in one sentence."


def _system_turn(body: dict[str, JSON]) -> None:
    """A system turn behind the first message, as coding agents send their reminders (litellm issue 36917)."""
    messages = body.get("messages")
    if isinstance(messages, list):
        messages.insert(1, {"role": "system", "content": REMINDER})


def _system_blocks(body: dict[str, JSON]) -> None:
    """The system prompt in several blocks, the first of them cached."""
    system = body.get("system")
    text = system if isinstance(system, str) else _text(system)
    body["system"] = [
        {"type": "text", "text": text or "You help.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": REMINDER},
    ]


def _text(blocks: JSON) -> str:
    texts = (block.get("text") for block in blocks if isinstance(block, dict)) if isinstance(blocks, list) else ()
    return "".join(text for text in texts if isinstance(text, str))


def _text_before_result(body: dict[str, JSON]) -> None:
    """A text of the user in front of the result in the same message."""
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list) and any(_is_result(block) for block in content):
            content.insert(0, {"type": "text", "text": REMINDER})


def _is_result(block: JSON) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


CLIENT_FORMS: Mapping[str, ClientForm] = {
    "system-turn": _system_turn,
    "system-blocks": _system_blocks,
    "text-before-result": _text_before_result,
}
"""By name."""
