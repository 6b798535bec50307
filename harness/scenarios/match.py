"""Expectation matchers: does what came out of a turn hold against what the scenario expects of any model?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from harness.contract.model import JSON, StopReason, ToolCall
from harness.scenarios.json_schema import UndecidedSchema, Validator
from harness.scenarios.patterns import CostlyPattern, search
from harness.scenarios.schema import CallMatcher, CountMatcher, ErrorMatcher, Expectation, TextMatcher


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One expectation that does not hold. `path` is its place in the scenario's `expect`, e.g. `text.contains[1]`."""

    path: str
    actual: JSON
    expected: JSON
    message: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The error in which a turn ended. `name` is in the words of `Expectation.error`; `status` and `retry_after`, in
    seconds, are those of a `ProviderError`."""

    name: str
    status: int | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of a turn: the text of its last answer, all its calls, why the last answer stopped (`None`: there
    was none), the error that ended it, and what a handler was told, in the words of `harness.scenarios.events`."""

    text: str = ""
    calls: Sequence[ToolCall] = ()
    stop_reason: StopReason | None = None
    error: Failure | None = None
    events: Sequence[str] = ()


def error_name(class_name: str) -> str:
    """The name that scenarios have for a class of `harness.contract.errors`: `RateLimited` is rate-limited."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", class_name).lower()


def mismatches(expectation: Expectation, outcome: Outcome) -> list[Mismatch]:
    """Every expectation that does not hold of a turn."""
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
    if _conforms(schema, value):
        return
    try:
        yield from Validator(schema).errors(value)
    except UndecidedSchema as error:
        yield (), f"the schema cannot be applied: {error}"


def _conforms(schema: JSON, value: JSON) -> bool:
    """Whether it can be told without jsonschema, which takes long to import, that a value conforms. Most do, to schemas
    that are simple; where this says no, nothing is known yet."""
    return isinstance(schema, dict) and all(_keeps(keyword, schema, value) for keyword in schema)


def _keeps(keyword: str, schema: dict[str, JSON], value: JSON) -> bool:
    wanted = schema[keyword]
    match keyword, wanted, value:
        case "description" | "title", _, _:
            return True
        case "type", str(), _:
            return any(wanted == name and type(value) is kind for name, kind in _PLAIN)
        case "properties", dict(), dict():
            return all(_conforms(inner, value[name]) for name, inner in wanted.items() if name in value)
        case "required", list(), dict():
            return all(name in value for name in wanted)
        case "additionalProperties", bool(), dict():
            declared = schema.get("properties", {})
            return wanted or (isinstance(declared, dict) and value.keys() <= declared.keys())
        case "maxProperties", int(), dict():
            return len(value) <= wanted
        case "items", dict(), list():
            return all(_conforms(wanted, each) for each in value)
        case "enum", list(), str():
            return value in wanted
        case _:
            return False


_PLAIN = (
    ("object", dict),
    ("string", str),
    ("array", list),
    ("boolean", bool),
    ("null", type(None)),
    ("integer", int),
    ("number", int),
    ("number", float),
)
"""Values that are certainly of a type. A whole number with a fraction is an integer as well."""


def _text(matcher: TextMatcher, text: str) -> Iterator[Mismatch]:
    if matcher.equals is not None and text != matcher.equals:
        yield Mismatch("text.equals", text, matcher.equals, "the text is another one.")
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
    """Bounds behind the number that they do not allow."""
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


def _error(expectation: Expectation, error: Failure | None) -> Iterator[Mismatch]:
    names, matcher = expectation.errors, expectation.error
    if not names:
        return
    if error is None or error.name not in names:
        path = "error.name" if isinstance(matcher, ErrorMatcher) else "error"
        ended, wanted = error.name if error else None, " or ".join(names)
        yield Mismatch(path, ended, wanted, f"the turn ended in {ended or 'no error'}, not in {wanted}.")
    elif isinstance(matcher, ErrorMatcher):
        if matcher.status not in (None, error.status):
            message = f"the error has {_or_no(error.status, 'status')}, not the status {matcher.status}."
            yield Mismatch("error.status", error.status, matcher.status, message)
        if "retry_after" in matcher.model_fields_set and matcher.retry_after != error.retry_after:
            asked, wanted = (_or_no(seconds, "wait") for seconds in (error.retry_after, matcher.retry_after))
            message = f"the error asks for {asked}, not for {wanted}."
            yield Mismatch("error.retry_after", error.retry_after, matcher.retry_after, message)


def _events(wanted: Sequence[str], told: Sequence[str]) -> Iterator[Mismatch]:
    for place, (came, due) in enumerate(zip_longest(told, wanted)):
        if came != due:
            found, expected = (f"{word!r}" if word else "nothing" for word in (came, due))
            yield Mismatch("events", [*told], [*wanted], f"event {place} is {found}, not {expected}.")
            return


def _or_no(number: float | None, what: str) -> str:
    return f"no {what}" if number is None else f"the {what} {number:g}"


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
