"""Matchers for the expectations of a scenario: compare the outcome of a turn with `expect`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from harness.documents.json_schema import CostlyPattern, misfits, search
from harness.model.messages import JSON, StopReason, ToolCall
from harness.scenarios.schema import CallMatcher, CountMatcher, ErrorMatcher, Expectation, TextMatcher


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An unmet expectation. `path` is its location within `expect`, e.g. `text.contains[1]`."""

    path: str
    actual: JSON
    expected: JSON
    message: str


@dataclass(frozen=True, slots=True)
class TurnError:
    """The error that ended a turn. `name` is a name of `Expectation.error`. `status` and `retry_after` (seconds) are
    set for a `ProviderError`.
    """

    name: str
    status: int | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """Outcome of a turn.

    It has the text and the stop reason of the last response (`None` without a response), all calls, the error, and the
    handler's events as written in `expect.events`.
    """

    text: str = ""
    calls: Sequence[ToolCall] = ()
    stop_reason: StopReason | None = None
    error: TurnError | None = None
    events: Sequence[str] = ()


def error_name(class_name: str) -> str:
    """Return the name that scenarios use for a class of `harness.model.errors`: `rate-limited` for `RateLimited`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", class_name).lower()


def mismatches(expectation: Expectation, outcome: TurnOutcome) -> list[Mismatch]:
    """Return the unmet expectations."""
    found: list[Mismatch] = []
    if expectation.text is not None:
        found += _text(expectation.text, outcome.text)
    for index, matcher in enumerate(expectation.calls or ()):
        found += _call(matcher, f"calls[{index}]", outcome.calls)
    found += _counts(expectation, [call.name for call in outcome.calls])
    if expectation.json_schema is not None:
        found += _json(expectation.json_schema, outcome.text)
    if expectation.stop_reason not in (None, outcome.stop_reason):
        message = f"the model stopped for {outcome.stop_reason or 'no reason'}, not for {expectation.stop_reason}."
        found.append(Mismatch("stop_reason", outcome.stop_reason, expectation.stop_reason, message))
    found += _error(expectation, outcome.error)
    if expectation.events is not None:
        found += _events(expectation.events, outcome.events)
    return found


def includes(actual: JSON, expected: JSON) -> bool:
    """Return whether `actual` includes `expected`. Objects may have more keys, at any depth; other values must be
    equal.

    Integers are compared exactly, other numbers as doubles; `true` is not `1`; lists must have the same length.
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


def _text(matcher: TextMatcher, text: str) -> Iterator[Mismatch]:
    if matcher.equals is not None and text != matcher.equals:
        yield Mismatch("text.equals", text, matcher.equals, "the text differs.")
    for path, part in _each(matcher.contains, "text.contains"):
        if part not in text:
            yield Mismatch(path, text, part, f"the text does not contain {part!r}.")
    for path, part in _each(matcher.not_contains, "text.not_contains"):
        if part in text:
            yield Mismatch(path, text, None, f"the text contains {part!r}.")
    if matcher.matches is not None:
        yield from _matches(matcher.matches, text)


def _matches(pattern: str, text: str) -> Iterator[Mismatch]:
    try:
        found = search(pattern, text)
    except CostlyPattern as error:
        yield Mismatch("text.matches", text, pattern, f"{error}. Write it without nested repeats.")
        return
    if not found:
        yield Mismatch("text.matches", text, pattern, f"nothing in the text matches {pattern!r}.")


def _each(texts: str | Sequence[str] | None, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(texts, str):
        yield path, texts
    else:
        yield from ((f"{path}[{index}]", text) for index, text in enumerate(texts or ()))


def _counts(expectation: Expectation, called: list[str]) -> Iterator[Mismatch]:
    names: list[JSON] = [*called]
    for name, wanted in expectation.counts.items():
        count = called.count(name)
        if not wanted.allows(count):
            due: JSON = dict(wanted.model_dump(exclude_none=True)) if wanted.min != wanted.max else wanted.min
            yield Mismatch(f"called.{name}", names, due, f"{name!r} is called {_times(count)}, {_not(wanted)}.")
    for index, name in enumerate(expectation.not_called or ()):
        if name in called:
            message = f"{name!r} is called {_times(called.count(name))}."
            yield Mismatch(f"not_called[{index}]", names, None, message)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _not(wanted: CountMatcher) -> str:

    if wanted.min == wanted.max:
        return f"not {_times(wanted.min or 0)}"
    bounds = (("at least", wanted.min), ("at most", wanted.max))
    return " and ".join(f"{word} {number}" for word, number in bounds if number is not None) + " expected"


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


def _error(expectation: Expectation, error: TurnError | None) -> Iterator[Mismatch]:
    names, matcher = expectation.errors, expectation.error
    if not names:
        return
    if error is None or error.name not in names:
        path = "error.name" if isinstance(matcher, ErrorMatcher) else "error"
        ended, wanted = error.name if error else None, " or ".join(names)
        yield Mismatch(path, ended, wanted, f"the turn ended in {ended or 'no error'}, not in {wanted}.")
    elif isinstance(matcher, ErrorMatcher):
        if matcher.status not in (None, error.status):
            message = f"the error has {_number_text(error.status, 'status')}, not the status {matcher.status}."
            yield Mismatch("error.status", error.status, matcher.status, message)
        if "retry_after" in matcher.model_fields_set and matcher.retry_after != error.retry_after:
            actual, wanted = (_number_text(seconds, "wait") for seconds in (error.retry_after, matcher.retry_after))
            message = f"the error requests {actual}, not {wanted}."
            yield Mismatch("error.retry_after", error.retry_after, matcher.retry_after, message)


def _events(wanted: Sequence[str], received: Sequence[str]) -> Iterator[Mismatch]:
    for number, (one, other) in enumerate(zip_longest(received, wanted)):
        if one != other:
            found, expected = (f"{word!r}" if word else "nothing" for word in (one, other))
            yield Mismatch("events", [*received], [*wanted], f"event {number} is {found}, not {expected}.")
            return


def _number_text(number: float | None, what: str) -> str:
    return f"no {what}" if number is None else f"the {what} {number:g}"


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
