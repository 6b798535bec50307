"""Matching of untrusted regular expressions within limits on time and memory.

Most patterns are matched in linear time by pydantic's engine, Rust's `regex`. It has no lookaround and no
backreferences. Patterns that need them are matched by Python's `re`, if the number of steps is small enough.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

_parser: Any = importlib.import_module("re._parser")  # the standard library's own, which has no public name

_MAX_STEPS = 10**7
"""Limit on the steps of `re`, which take a fraction of a second."""

_FLAGS = re.compile(r"\(\?([aimsux]+)\)")

_MAX_SMALL_REPEAT = 10
"""Largest repetition count that is treated as fixed-length text."""


class CostlyPattern(Exception):
    """A pattern that cannot be matched against this text within the limits."""


def search(pattern: str, text: str) -> bool:
    """Return whether a pattern matches anywhere in a text.

    Raises:
        CostlyPattern: the limits do not allow a decision.
        re.error, OverflowError, RecursionError: the pattern is not a regular expression.
    """
    validator = _linear(pattern)
    if validator is not None:
        try:
            validator.validate_python(text.encode("utf-8", "replace").decode())  # no lone surrogates
        except ValidationError:
            return False
        return True
    expression, power = _backtracking(pattern)
    if power is None or (len(text) + 1) ** power > _MAX_STEPS:
        raise CostlyPattern(f"the pattern {_shortened(pattern)} may take too long on a text of {len(text)} characters")
    return expression.search(text) is not None


def covers(pattern: str, text: str) -> bool:
    """Return whether a pattern matches the whole text; `.` also matches line breaks. A pattern that is too costly never
    matches.
    """
    flags = _FLAGS.match(pattern)  # Python accepts flags only at the beginning
    letters, rest = (flags[1], pattern[flags.end() :]) if flags else ("", pattern)
    try:
        return search(f"(?s{letters.replace('s', '')})^(?:{rest})$", text)
    except CostlyPattern:
        return False


@lru_cache(maxsize=512)
def _linear(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return None


@lru_cache(maxsize=512)
def _backtracking(pattern: str) -> tuple[re.Pattern[str], int | None]:
    """Return the compiled pattern and the exponent k for which len(text)**k bounds its steps; `None` if unbounded."""
    expression, tree = re.compile(pattern), _parser.parse(pattern)
    elements = [*tree]
    anchored = bool(elements) and str(elements[0][1]) == "AT_BEGINNING" and not expression.flags & re.MULTILINE
    rest = elements[1:] if anchored else elements
    parts: list[list[int]] = []
    while rest and str(rest[0][0]).startswith("ASSERT"):  # lookaheads at the start are matched one after the other
        parts.append([*_repeats(rest[0], 0)])
        rest = rest[1:]
    parts.append([*_repeats(rest, 0)])
    if any(depth for part in parts for depth in part):
        return expression, None
    return expression, max(map(len, parts)) + (not anchored)


def _repeats(node: Any, depth: int) -> Iterator[int]:
    """Yield the nesting depth of each repeat.

    An alternation inside a repeat is treated as one more repeat, because its branches may overlap and cause
    backtracking. So is a back-reference.
    """
    if isinstance(node, tuple):
        parts = cast("tuple[Any, ...]", node)
        kind = str(parts[0])
        if kind.endswith("_REPEAT"):
            if int(parts[1][1]) > _MAX_SMALL_REPEAT or depth:
                yield depth
            yield from _repeats(parts[1][2], depth + 1)
            return
        if kind.startswith("GROUPREF") or (kind == "BRANCH" and depth):
            yield depth + 1
        node = [*parts]
    if isinstance(node, _parser.SubPattern | list):
        for each in cast("list[Any]", node):
            yield from _repeats(each, depth)


def _shortened(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else f"{pattern[:60]}…")
