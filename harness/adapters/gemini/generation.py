"""Generations of models, as far as requests differ between them."""

from __future__ import annotations

import re


def generation(model: str) -> int | None:
    """The major version in a model's name, or `None` for a name that does not tell."""
    found = re.match(r"(?:models/)?gemini-(\d+)", model)
    return int(found[1]) if found else None


def is_before_3(model: str) -> bool:
    """Whether the model is known to be older than Gemini 3."""
    major = generation(model)
    return major is not None and major < 3


def is_3_or_later(model: str) -> bool:
    """Whether the model is known to be Gemini 3 or younger."""
    major = generation(model)
    return major is not None and major >= 3
