"""Expectation matchers: does what came out of a turn hold against what the scenario expects of any model?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing.exceptions import Unresolvable

from harness.model import JSON, StopReason, ToolCall
from harness.scenarios.schema import CallMatcher, Expectation, TextMatcher


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One expectation that does not hold. `path` is its place in the scenario's `expect`, e.g. `text.contains[1]`."""

    path: str
    actual: JSON
    expected: JSON
    message: str


def mismatches(
    expectation: Expectation,
    *,
    text: str,
    calls: Sequence[ToolCall],
    stop_reason: StopReason | None,
    error: str | None,
) -> list[Mismatch]:
    """Every expectation that does not hold.

    Args:
        expectation: what is expected of the turn.
        text: the text of the turn's last answer.
        calls: all calls of the turn.
        stop_reason: why the last answer stopped; `None` if there was none.
        error: the error that ended the turn, in the words of `Expectation.error`.
    """
    found: list[Mismatch] = []
    if expectation.text is not None:
        found += _text(expectation.text, text)
    for index, matcher in enumerate(expectation.calls or ()):
        found += _call(matcher, f"calls[{index}]", calls)
    if expectation.json_schema is not None:
        found += _json(expectation.json_schema, text)
    if expectation.stop_reason not in (None, stop_reason):
        message = f"the model stopped for {stop_reason or 'no reason'}, not for {expectation.stop_reason}."
        found.append(Mismatch("stop_reason", stop_reason, expectation.stop_reason, message))
    if expectation.error not in (None, error):
        message = f"the turn ended in {error or 'no error'}, not in {expectation.error}."
        found.append(Mismatch("error", error, expectation.error, message))
    return found


def includes(actual: JSON, expected: JSON) -> bool:
    """Whether all of `expected` is in `actual`: keys of objects at any depth; everything else has to be equal.

    Integers are compared exactly, other numbers as doubles; `true` is not `1`; lists have the same length.
    """
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            key in actual and includes(actual[key], value) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(includes, actual, expected))
    if isinstance(actual, bool) or isinstance(expected, bool):
        return actual is expected
    if isinstance(actual, float) and isinstance(expected, int):
        return includes(expected, actual)
    if isinstance(actual, int) and isinstance(expected, float):
        return _as_double(actual) == expected
    return actual == expected


def _as_double(number: int) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def misfits(schema: dict[str, JSON], value: JSON) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Where and why a value does not conform to a JSON Schema (draft 2020-12)."""
    validator = cast("_Validator", Draft202012Validator(schema))
    try:
        for error in validator.iter_errors(value):
            yield tuple(error.absolute_path), error.message
    except (RecursionError, Unresolvable) as error:
        yield (), f"the schema cannot be applied: {error}"


class _Validator(Protocol):
    """What jsonschema's validators have, and their stubs type in part."""

    def iter_errors(self, instance: JSON) -> Iterator[ValidationError]: ...


def _text(matcher: TextMatcher, text: str) -> Iterator[Mismatch]:
    if matcher.equals is not None and text != matcher.equals:
        yield Mismatch("text.equals", text, matcher.equals, "the text is another one.")
    wanted = [matcher.contains] if isinstance(matcher.contains, str) else matcher.contains or []
    for index, part in enumerate(wanted):
        if part not in text:
            path = "text.contains" if isinstance(matcher.contains, str) else f"text.contains[{index}]"
            yield Mismatch(path, text, part, f"the text does not contain {part!r}.")
    if matcher.matches is not None and re.search(matcher.matches, text) is None:
        yield Mismatch("text.matches", text, matcher.matches, f"nothing in the text matches {matcher.matches!r}.")


def _call(matcher: CallMatcher, path: str, calls: Sequence[ToolCall]) -> Iterator[Mismatch]:
    named = [call for call in calls if call.name == matcher.name]
    if not named:
        names: list[JSON] = [call.name for call in calls]
        yield Mismatch(f"{path}.name", names, matcher.name, f"no call of {matcher.name!r}.")
    elif not any(includes(call.arguments, matcher.arguments or {}) for call in named):
        given: list[JSON] = [call.arguments for call in named]
        message = f"no call of {matcher.name!r} has these arguments."
        yield Mismatch(f"{path}.arguments", given, matcher.arguments, message)


def _json(schema: dict[str, JSON], text: str) -> Iterator[Mismatch]:
    try:
        value: JSON = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        yield Mismatch("json_schema", text, schema, f"the text is not JSON: {error}.")
        return
    for path, message in misfits(schema, value):
        yield Mismatch("json_schema", value, schema, f"at /{'/'.join(map(str, path))}: {message}.")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
