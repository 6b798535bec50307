"""Texts that match a regular expression, made by walking it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import Any

_parser: Any = importlib.import_module("re._parser")  # the standard library's own, which has no public name
_LETTERS = "aA0-_ z9.@"
_MORE = 3
"""Repetitions beyond the least that are tried."""


@lru_cache(maxsize=256)
def matching(pattern: str, count: int) -> tuple[str, ...]:
    """Up to `count` texts that match a pattern as JSON Schema searches for it; none for what Python cannot read."""
    try:
        expression, tree = re.compile(pattern), _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError):
        return ()
    random = Random(pattern)  # noqa: S311 - nothing secret
    texts = dict.fromkeys(_sequence(tree, random, {}) for _ in range(count))
    return tuple(text for text in texts if expression.search(text))


def _sequence(tree: Any, random: Random, groups: dict[int, str]) -> str:
    return "".join(_element(str(kind), value, random, groups) for kind, value in tree)


def _element(kind: str, value: Any, random: Random, groups: dict[int, str]) -> str:
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
            return "".join(_sequence(inner, random, groups) for _ in range(times))
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
