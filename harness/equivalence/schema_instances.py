"""Candidate instances of a schema in normal form: values on both sides of each bound, and seeded random values.

Values near a bound reliably reveal a lost keyword. Candidates need not conform to the schema, so the caller checks
them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import Any

from harness.documents.json_schema import CostlyPattern, search
from harness.equivalence.schema_forms import KINDS, Branch, NormalForm, resolve_cycle
from harness.model.messages import JSON

_parser: Any = importlib.import_module("re._parser")  # the standard library's own, which has no public name
_SAMPLE_CHARACTERS = "aA0-_ z9.@"
_EXTRA_REPEATS = 3


@lru_cache(maxsize=256)
def matching(pattern: str, count: int) -> tuple[str, ...]:
    """Return up to `count` texts that match a pattern of JSON Schema; none if Python cannot parse the pattern."""
    try:
        tree = _parser.parse(pattern)
        random = _Random(pattern)
        texts = dict.fromkeys(_sequence(tree, random, {}) for _ in range(count))
        return tuple(text for text in texts if search(pattern, text))
    except (re.error, OverflowError, RecursionError, CostlyPattern):
        return ()


class _Random(Random):
    """Random choices within a pattern. Their number is limited, because nested repeats multiply."""

    left = 20_000
    """Number of elements that may still be generated."""

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
            return next(
                letter for letter in random.sample(_SAMPLE_CHARACTERS, len(_SAMPLE_CHARACTERS)) if ord(letter) != value
            )
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = value
            times = random.randint(least, max(least, min(int(most), least + _EXTRA_REPEATS)))
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
            return ""  # anchors and lookarounds match no characters


def _repeat(inner: Any, times: int, random: _Random, groups: dict[int, str]) -> Iterator[str]:
    for _ in range(times):
        random.spend()
        yield _sequence(inner, random, groups)


def _of_class(items: Sequence[Any], random: Random) -> str:
    if str(items[0][0]) == "NEGATE":
        refused = re.compile(f"[{''.join(map(_regex_of, items[1:]))}]")
        return next((letter for letter in f"{_SAMPLE_CHARACTERS}\n~é" if not refused.match(letter)), "")
    kind, value = random.choice(items)
    match str(kind):
        case "LITERAL":
            return chr(value)
        case "RANGE":
            return chr(random.randint(*value))
        case _:
            category = re.compile(_regex_of((kind, value)))
            return next(letter for letter in f"{_SAMPLE_CHARACTERS}\n" if category.match(letter))


def _regex_of(item: Any) -> str:
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


_COMMON_VALUES: tuple[JSON, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    0.5,
    "",
    "a",
    "2026-11-22",
    [],
    [0],
    ["a"],
    {},
    {"a": 0},
)
_ORDER = ("string", "number", "boolean", "null", "array", "object")
"""JSON types in the order in which they are tried for an example: types without nesting first."""

_MAX_DEPTH = 12
_MAX_ITEMS = 20_000

_MAX_TEXT_CHARACTERS = 1_100_000
"""Maximum length of a text that tests a length bound. Some schemas limit documents to a mebibyte."""

_LOWER = ("minimum", "exclusiveMinimum")
_UPPER = ("maximum", "exclusiveMaximum")
_SIZE_KEYWORDS = ("minProperties", "maxProperties")


def example(form: NormalForm, above: Sequence[NormalForm]) -> JSON:
    """Return a small value that is usually an instance of the form. Return `None` if the form accepts nothing or is
    nested too deeply.
    """
    form, above = resolve_cycle(form, above)
    if len(above) <= _MAX_DEPTH:
        for kind in _ORDER:
            for case in form.kinds.get(kind, ()):
                return of_case(kind, case, (*above, form))
    return None


def of_case(kind: str, case: Branch, inside: Sequence[NormalForm]) -> JSON:
    """Return a small instance of a branch. `inside` holds the forms that enclose its nested values, ending with the
    form of the branch.
    """
    if "enum" in case.keywords:
        return case.keywords["enum"][0]
    match kind:
        case "array":
            prefix = [example(each, inside) for each in case.keywords.get("prefixItems", ())]
            needed = case.keywords.get("minItems", 1 if "contains" in case.keywords else 0)
            item = case.form("contains") or case.form("items")
            values = [example(item, inside) if item else at for at in range(len(prefix), needed)]
            return [*prefix, *values]
        case "object":
            other = case.form("additionalProperties")
            known = {name: case.properties.get(name, other) for name in sorted(case.required)}
            return {name: example(form, inside) if form else "a" for name, form in known.items()}
        case "string":
            fitting = [text for text in _texts(case) if _has_length(case, text)]
            return fitting[0] if fitting else "a"
        case "number":
            return next((number for number in _numbers(case) if _is_within(case, number)), 0)
        case _:
            return True if kind == "boolean" else None


def candidates(form: NormalForm, above: Sequence[NormalForm], depth: int = 2) -> Iterator[JSON]:
    """Yield common values, and values on both sides of each bound of a form and of nested forms down to `depth`."""
    form, above = resolve_cycle(form, above)
    inside = (*above, form)
    yield from _COMMON_VALUES
    for kind in KINDS:
        for case in form.kinds.get(kind, ()):
            yield of_case(kind, case, inside)
            yield from case.keywords.get("enum", ())
            yield from _boundary_values(kind, case, inside, depth)
            for name in ("not", "if", "then", "else"):
                condition = case.form(name)
                if condition is not None and depth:
                    yield from candidates(condition, above, depth - 1)
            for name in ("oneOf", "allOf"):
                for option in case.keywords.get(name, ()):
                    yield from candidates(option, above, depth) if depth else ()


def _boundary_values(kind: str, case: Branch, inside: Sequence[NormalForm], depth: int) -> Iterator[JSON]:
    match kind:
        case "number":
            yield from _numbers(case)
        case "string":
            yield from _texts(case)
        case "array":
            yield from _arrays(case, inside, depth)
        case "object":
            yield from _objects(case, inside, depth)
        case _:
            yield from ()


def _numbers(case: Branch) -> Iterator[JSON]:
    yield from (0, 1, -1)
    bounds = [case.keywords[name] for name in (*_LOWER, *_UPPER) if name in case.keywords]
    step = case.keywords.get("multipleOf")
    for bound in bounds:
        yield from (bound, bound + 1, bound - 1, bound + 0.5, bound - 0.5)
        if step:
            yield from ((bound // step + times) * step for times in (-1, 0, 1, 2))
    if step:
        yield from (step, 2 * step, step / 2, step + 1)
    yield from (0.5, 10**6, -(10**6))


def _is_within(case: Branch, number: Any) -> bool:
    has = case.keywords
    return (
        ("integer" not in has or float(number).is_integer())
        and number >= has.get("minimum", number)
        and number <= has.get("maximum", number)
        and ("exclusiveMinimum" not in has or number > has["exclusiveMinimum"])
        and ("exclusiveMaximum" not in has or number < has["exclusiveMaximum"])
        and ("multipleOf" not in has or number % has["multipleOf"] == 0)
    )


def _texts(case: Branch) -> Iterator[str]:
    least, most = int(case.keywords.get("minLength", 0)), case.keywords.get("maxLength")
    pattern = case.keywords.get("pattern")
    if pattern is not None:
        found = matching(pattern, 40)
        yield from sorted(found, key=lambda text: not _has_length(case, text))
        yield from (f"{text} " for text in found[:5])
        yield from (text[1:] for text in found[:5])
    yield "a" * min(max(least, 1), _MAX_TEXT_CHARACTERS)
    lengths = {0, 1, least - 1, least, *((int(most) - 1, int(most), int(most) + 1) if most is not None else ())}
    for length in sorted(lengths):
        for letter in "a0A ":
            yield letter * min(max(length, 0), _MAX_TEXT_CHARACTERS)


def _has_length(case: Branch, text: str) -> bool:
    return case.keywords.get("minLength", 0) <= len(text) <= case.keywords.get("maxLength", len(text))


def _arrays(case: Branch, inside: Sequence[NormalForm], depth: int) -> Iterator[JSON]:
    least, most = int(case.keywords.get("minItems", 0)), case.keywords.get("maxItems")
    prefix = [example(each, inside) for each in case.keywords.get("prefixItems", ())]
    items = case.form("items")
    if items is not None and items.takes_nothing:
        items = None
    item = example(items, inside) if items else "a"
    lengths = {0, 1, 2, least - 1, least, *((int(most), int(most) + 1) if most is not None else ())}
    for length in sorted({min(max(length, 0), _MAX_ITEMS) for length in lengths} | {len(prefix), len(prefix) + 1}):
        yield [*prefix, *[item] * (length - len(prefix))][:length]
        yield [*prefix, *range(length - len(prefix))][:length]
    if depth:
        for value in candidates(items, inside, depth - 1) if items else _COMMON_VALUES:
            yield [*prefix, value, *[item] * (least - len(prefix) - 1)]
    for at, form in enumerate(case.keywords.get("prefixItems", ())):
        yield from ([*prefix[:at], value, *prefix[at + 1 :]] for value in candidates(form, inside, 0))


def _objects(case: Branch, inside: Sequence[NormalForm], depth: int) -> Iterator[JSON]:
    base = of_case("object", case, inside)
    if not isinstance(base, dict):
        return
    full = base | {name: example(form, inside) for name, form in case.properties.items() if not form.takes_nothing}
    yield full
    for name in full:
        yield {key: value for key, value in full.items() if key != name}
        yield {key: value for key, value in base.items() if key != name}
    other = case.form("additionalProperties")
    for value in (*_COMMON_VALUES, *([example(other, inside)] if other else [])):
        yield {**base, "another": value}
    yield from _with_names(case, base, inside)
    bounds: list[int] = [int(case.keywords[name]) for name in _SIZE_KEYWORDS if name in case.keywords]
    for bound in bounds:
        for size in (bound - 1, bound, bound + 1):
            yield {f"p{number}": "a" for number in range(min(size, _MAX_ITEMS))}
    if depth:
        for name, form in case.properties.items():
            yield from ({**full, name: value} for value in candidates(form, inside, depth - 1))


def _with_names(case: Branch, base: dict[str, JSON], inside: Sequence[NormalForm]) -> Iterator[JSON]:
    for pattern, form in case.keywords.get("patternProperties", {}).items():
        for name in matching(pattern, 3):
            yield from ({**base, name: value} for value in (*_COMMON_VALUES, example(form, inside)))
    naming = case.form("propertyNames")
    names = candidates(naming, inside, 0) if naming else iter(())
    yield from ({**base, name: "a"} for name in names if isinstance(name, str))


def random_instance(form: NormalForm, above: Sequence[NormalForm], random: Random) -> JSON:
    """Return a random value that satisfies a schema in normal form, or that is just outside one of its bounds."""
    form, above = resolve_cycle(form, above)
    cases = [(kind, case) for kind in KINDS for case in form.kinds.get(kind, ())]
    if not cases or len(above) > _MAX_DEPTH:
        return random.choice(_COMMON_VALUES)
    kind, case = random.choice(cases)
    inside = (*above, form)
    options = [*case.keywords.get("oneOf", ()), *case.keywords.get("allOf", ())]
    if options and random.random() < 0.8:
        values = [random_instance(option, above, random) for option in options]
        if all(isinstance(value, dict) for value in values):
            chosen = random.sample(values, random.randint(1, len(values)))
            return {name: each for value in chosen if isinstance(value, dict) for name, each in value.items()}
        return random.choice(values)
    if kind == "object" and "enum" not in case.keywords:
        wanted = [name for name in case.properties if name in case.required or random.random() < 0.6]
        return {name: random_instance(case.properties[name], inside, random) for name in wanted}
    items = case.form("items")
    if kind == "array" and items is not None and "enum" not in case.keywords:
        return [random_instance(items, inside, random) for _ in range(random.randint(0, 3))]
    return random.choice(
        [*case.keywords.get("enum", ()), *_boundary_values(kind, case, inside, 0), of_case(kind, case, inside)]
    )
