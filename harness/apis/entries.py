"""Entries of a conversation, each read once: every request repeats all that was said before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from harness.apis.view import TurnView
from harness.contract.model import JSON

Read: TypeAlias = Callable[[Any, str], TurnView]
"""Reads an entry, whose pointer this is: a function of these two alone. Raises `WireError`."""

_MOST = 2048
"""Entries that are remembered: those of some long conversations."""

_LONGEST = 20_000
"""Characters of an entry that is remembered: images would fill the memory."""


def remembered(read: Read) -> Read:
    """`read`, which gives the same view for an entry that says the same, letter for letter, at the same place."""

    @lru_cache(_MOST)
    def by_text(text: str, pointer: str) -> TurnView:
        return read(json.loads(text), pointer)

    def turn(entry: JSON, pointer: str) -> TurnView:
        text = json.dumps(entry)
        return by_text(text, pointer) if len(text) <= _LONGEST else read(entry, pointer)

    return turn
