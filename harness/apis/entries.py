"""Entries of a conversation, each looked at once: every request repeats all that was said before it, and
`harness.apis.bodies` gives what is repeated as the same objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from harness.contract.model import JSON

T = TypeVar("T")

_MOST = 2048
"""Entries that are remembered: those of some long conversations."""

_LONGEST = 20_000
"""Characters of an entry that is remembered: images would fill the memory."""


def remembered(read: Callable[[Any, str], T]) -> Callable[[Any, str], T]:
    """`read`, which gives the same for an entry that is the same object at the same place: it has to be a function of
    these two alone. What it raises is raised again."""
    kept: dict[tuple[int, str], tuple[JSON, T]] = {}

    def of(entry: JSON, pointer: str) -> T:
        key = id(entry), pointer
        found = kept.get(key)
        if found is not None and found[0] is entry:
            return found[1]
        made = read(entry, pointer)
        if len(json.dumps(entry)) <= _LONGEST:
            if len(kept) >= _MOST:
                kept.clear()
            kept[key] = entry, made
        return made

    return of
