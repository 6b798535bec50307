"""What holds for a model, by its name."""

from __future__ import annotations

import re


def is_reasoning(model: str) -> bool:
    """The model reasons: it has the role `developer` and encrypted reasoning to give, and refuses sampling parameters
    (openai-chat-system-anywhere, openai-chat-max-completion-tokens, openai-responses-reasoning-back)."""
    return re.match(r"(gpt-[56]|o\d)(?!.*-chat)", model) is not None


def is_of_mistral(model: str) -> bool:
    """Mistral makes the model: it knows `max_tokens` only (openai-chat-mistral-max-completion-tokens-refused)."""
    return re.match(r"(mistral|ministral|magistral|codestral|devstral|pixtral)-", model) is not None
