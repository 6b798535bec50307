"""Where two JSON values differ, by path: for tests that say what may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def differing(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """The paths of what differs. Elements of a list stand under the list's own path."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differing(one.get(key, "absent"), other.get(key, "absent"), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for left, right in zip(one, other, strict=True):
            yield from differing(left, right, path)
    elif one != other:
        yield path
