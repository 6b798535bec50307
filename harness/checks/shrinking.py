"""Shrinking of JSON values: scenarios, requests and recordings that show a fault."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator
from typing import TypeVar, cast

from harness.documents.document import Path
from harness.model.messages import JSON

Value = TypeVar("Value", bound=JSON)

MAX_TRIES = 1000
"""Default limit of trials, each of which plays or checks a value."""


def smallest(
    value: Value, fails: Callable[[Value], bool], tries: int = MAX_TRIES, atomic: Container[str | int] = ()
) -> Value:
    """Return a smaller value for which `fails` still holds. No single removal makes it smaller, unless `tries` ran out.

    Members and elements are removed, containers are replaced by one of their elements, texts are cut, and numbers
    become 0 or 1. A member whose name is `atomic` is removed or stays as it is. `fails` must return `False` for values
    that are not valid. It is not called with `value` itself.
    """
    return cast("Value", _Shrinking(value, cast("Callable[[JSON], bool]", fails), tries, atomic).result())


class _Shrinking:
    def __init__(self, value: JSON, fails: Callable[[JSON], bool], tries: int, atomic: Container[str | int]) -> None:
        self._value = value
        self._fails = fails
        self._left = tries
        self._atomic = atomic
        self._tried: set[str] = set()

    def result(self) -> JSON:
        before = ""
        while before != (now := json.dumps(self._value)):
            before = now
            self._shrink(())
        return self._value

    def _shrink(self, path: Path) -> None:
        """Shrink the value at a path, then each value inside it, the last first."""
        while any(self._accepts(_replace_at(self._value, path, each)) for each in _simpler(_at(self._value, path))):
            pass
        for key in reversed(_keys(_at(self._value, path))):
            if key not in self._atomic:
                self._shrink((*path, key))

    def _accepts(self, candidate: JSON) -> bool:
        text = json.dumps(candidate)
        if self._left <= 0 or text in self._tried:
            return False
        self._tried.add(text)
        self._left -= 1
        if not self._fails(candidate):
            return False
        self._value = candidate
        return True


def _keys(value: JSON) -> list[str | int]:
    return [*value] if isinstance(value, dict) else [*range(len(value))] if isinstance(value, list) else []


def _at(value: JSON, path: Path) -> JSON:
    for key in path:
        value = cast("dict[str | int, JSON]", value)[key]
    return value


def _replace_at(value: JSON, path: Path, new: JSON) -> JSON:
    """Return a copy of a value with another value at a path. What is not on the path is shared."""
    if not path:
        return new
    copied = cast("dict[str | int, JSON]", value.copy() if isinstance(value, (dict, list)) else value)
    copied[path[0]] = _replace_at(copied[path[0]], path[1:], new)
    return cast("JSON", copied)


def _simpler(value: JSON) -> Iterator[JSON]:
    """Yield simpler values, the simplest first."""
    match value:
        case bool() | None:
            return
        case dict():
            yield from ({},) if value else ()
            yield from ({name: each for name, each in value.items() if name != left} for left in reversed([*value]))
            yield from (each for each in value.values() if isinstance(each, dict))
        case list():
            yield from _shorter(value)
            yield from (each for each in value if isinstance(each, list))
        case str():
            yield from ("a",) if len(value) > 1 else ()
            yield from _shorter(value)
        case _:
            yield from (simple for simple in (0, 1, int(value)) if _is_simpler(simple, value))


def _is_simpler(number: int, value: float) -> bool:
    return abs(number) < abs(value) or (number == value and isinstance(value, float))


Sequence = TypeVar("Sequence", str, list[JSON])


def _shorter(value: Sequence) -> Iterator[Sequence]:
    """Yield a text or a list without ever smaller pieces. Single characters are removed from short texts alone."""
    size = len(value)
    while size and len(value) < _MAX_PIECES * size:
        yield from (value[:at] + value[at + size :] for at in reversed(range(0, len(value), size)))
        size //= 2


_MAX_PIECES = 64
