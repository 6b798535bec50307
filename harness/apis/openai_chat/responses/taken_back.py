"""What of an answer has to go back, by the dialect that it is in.

The format has no field for reasoning or state (openai-chat-no-reasoning-field). Compatible servers have added some, and
each names its own differently, so that the name tells the dialect. Whatever else they add (`padding` at Copilot,
`provider_metadata` at a gateway, `annotations` of OpenAI's own) is only shown; who sends it back is refused by strict
servers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from harness.apis.view import CallView, OpaqueView, PartView

_STATE = frozenset({"reasoning_details", "reasoning_opaque", "thinking_blocks", "extra_content"})
"""Fields of a message: OpenRouter's guide to reasoning tokens; Copilot (anomalyco/opencode#8900); LiteLLM's page on
reasoning content; Gemini's compatible endpoint (openai-chat-gemini-signature)."""

_STATE_OF_CALL = frozenset({"extra_content", "provider_specific_fields"})
"""Fields of a call: openai-chat-gemini-signature; LiteLLM's notes on Gemini 3."""

_WANTS_REASONING = re.compile(r"(.*/)?deepseek-v4\b.*", re.IGNORECASE)
"""Models that refuse a turn with calls whose `reasoning_content` did not come back
(openai-chat-deepseek-reasoning-back)."""


def marked(parts: Iterable[PartView], model: str) -> tuple[PartView, ...]:
    """The parts of an answer of this model, each saying whether it goes back."""
    found = tuple(parts)
    state = _STATE
    if _WANTS_REASONING.fullmatch(model) and any(isinstance(part, CallView) for part in found):
        state |= {"reasoning_content"}
    return tuple(_marked(part, state) for part in found)


def _marked(part: PartView, state: frozenset[str]) -> PartView:
    match part:
        case OpaqueView():
            is_field = part.pointer.endswith(f"/message/{part.kind}")
            return replace(part, returns=part.kind in state) if is_field else part
        case CallView(opaque=dict(fields)):
            kept = {key: value for key, value in fields.items() if key in _STATE_OF_CALL}
            return replace(part, opaque=kept or None)
        case _:
            return part
