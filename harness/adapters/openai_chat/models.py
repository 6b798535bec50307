"""What holds for a model, by its name."""

from __future__ import annotations

import re


def is_reasoning(model: str) -> bool:
    """The model reasons: it has the role `developer` and refuses sampling parameters (OC-9, OC-10)."""
    return re.match(r"(gpt-[56]|o\d)(?!.*-chat)", model) is not None


def refuses_tools_with_reasoning(model: str) -> bool:
    """Function tools need `reasoning_effort: "none"`, and its absence means another effort (OC-0)."""
    return re.match(r"gpt-(5\.([4-9]|\d\d)|6)", model) is not None
