"""Texts that match a regular expression, made by walking it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import Any

from harness.scenarios.patterns import CostlyPattern, search

_parser: Any = importlib.import_module("re._parser")  # the standard library's own, which has no public name
_LETTERS = "aA0-_ z9.@"
_MORE = 3
"""Repetitions beyond the least that are tried."""


@lru_cache(maxsize=256)
def matching(pattern: str, count: int) -> tuple[str, ...]:
    """Up to `count` texts that match a pattern as JSON Schema searches for it; none for what Python cannot read."""
    try:
        tree = _parser.parse(pattern)
        random = _Random(pattern)
        texts = dict.fromkeys(_sequence(tree, random, {}) for _ in range(count))
        return tuple(text for text in texts if search(pattern, text))
    except (re.error, OverflowError, RecursionError, CostlyPattern):
        return ()


class _Random(Random):
    """Chooses among what a pattern allows, as long as that ends: repeats within repeats multiply."""

    left = 20_000
    """Elements that may still be made."""

    def spend(self) -> None:
        """Count an element. Raises `CostlyPattern`."""
        self.left -= 1
        if self.left < 0:
            raise CostlyPattern("the pattern has too many repeats")


def _sequence(tree: Any, random: _Random, groups: dict[int, str]) -> str:
    return "".join(_element(str(kind), value, random, groups) for kind, value in tree)


def _element(kind: str, value: Any, random: _Random, groups: dict[int, str]) -> str:
    random.spend()
    match kind:
        case "LITERAL":
            return chr(value)
        case "IN":
            return _of_class(value, random)
        case "ANY" | "NOT_LITERAL":
            return next(letter for letter in random.sample(_LETTERS, len(_LETTERS)) if ord(letter) != value)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = value
            times = random.randint(least, max(least, min(int(most), least + _MORE)))
            return "".join(_repeat(inner, times, random, groups))
        case "SUBPATTERN":
            text = _sequence(value[3], random, groups)
            groups[value[0]] = text
            return text
        case "ATOMIC_GROUP":
            return _sequence(value, random, groups)
        case "BRANCH":
            return _sequence(random.choice(value[1]), random, groups)
        case "GROUPREF":
            return groups.get(value, "")
        case _:
            return ""  # anchors and looks around take no room


def _repeat(inner: Any, times: int, random: _Random, groups: dict[int, str]) -> Iterator[str]:
    for _ in range(times):
        random.spend()
        yield _sequence(inner, random, groups)


def _of_class(items: Sequence[Any], random: Random) -> str:
    if str(items[0][0]) == "NEGATE":
        refused = re.compile(f"[{''.join(map(_spelled, items[1:]))}]")
        return next((letter for letter in f"{_LETTERS}\n~é" if not refused.match(letter)), "")
    kind, value = random.choice(items)
    match str(kind):
        case "LITERAL":
            return chr(value)
        case "RANGE":
            return chr(random.randint(*value))
        case _:
            category = re.compile(_spelled((kind, value)))
            return next(letter for letter in f"{_LETTERS}\n" if category.match(letter))


def _spelled(item: Any) -> str:
    kind, value = item
    match str(kind):
        case "LITERAL":
            return re.escape(chr(value))
        case "RANGE":
            return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        case _:
            negated, _, name = str(value).removeprefix("CATEGORY_").rpartition("NOT_")
            letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[name]
            return f"\\{letter.upper() if 'NOT_' in str(value) else letter}" if not negated else "\\w"
