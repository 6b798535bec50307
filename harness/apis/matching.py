"""Matching of requests against the conditions of a fact.

A condition names a place by a path of keys, such as `thinking.type`.

- `tools[].name` is the name of some tool. All conditions of a fact that contain the same `[]` refer to the same
  element, and conditions on schemas refer to the same schema.
- `tools[*].name` is also the name of some tool, but each condition chooses its own element.
- `messages[-1]` is a single element, and `messages[1:]` is any element but the first.
- `messages[next]` is the element after the one chosen by `messages[]`, and `messages[later]` is any element after it.
- `args.**` is `args` and everything inside it.
- `$` is the whole body.

An absent value meets only `there: false`, `not_in`, `only` and `empty`. Keys in camelCase also match keys in
snake_case, because Gemini accepts both.

A `null` in a body counts as an absent field, as in all four APIs, unless the condition names `null` (`kind: "null"`,
`is: null`). In a JSON schema, `null` is a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from itertools import chain
from typing import Literal, TypeAlias

from harness.apis.condition import Condition, Predicate, comparison
from harness.apis.jsonvalue import as_object, cached_per_element, equal, join, resolve
from harness.apis.schemas import resolve_reference, schema_depth, subschemas
from harness.model.messages import JSON

_SEGMENT = re.compile(r"([^\[\]]*)((?:\[[^\]]*\])*)")
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


class _Absent:
    pass


_ABSENT = _Absent()

_Chosen: TypeAlias = "Mapping[str, str]"
"""Pointers of the list elements and schemas chosen so far, by group.

A group is a list path such as `.messages[]`, or `_ROOT` or `_INSIDE` for schemas. Conditions that share a group must
use the same element or schema.
"""

_ROOT, _INSIDE = "#", "#/"
"""Names of the groups for conditions on schemas: the root schema, and a schema at any depth inside it."""

_Found: TypeAlias = "tuple[str, JSON | _Absent, _Chosen]"

_Element: TypeAlias = "int | tuple[int] | Literal['next', 'later'] | None"
"""Index in a path: one element, all elements from a position on, elements after the chosen one, or any element
(`None`).
"""

_EVERYTHING = "**"

_TestPath: TypeAlias = "tuple[tuple[PathStep, ...], frozenset[str]]"
"""A path, and the groups in it that several conditions share."""


@dataclass(frozen=True, slots=True)
class SchemaPlaces:
    """Places of JSON schemas in an API's requests: in tools, which may be `strict`, and in the response format.

    `tool` is the smallest tool that the API accepts. `closed` is set if objects may have `additionalProperties: false`,
    which strict schemas require.
    """

    tools: tuple[str, ...] = ()
    response: tuple[str, ...] = ()
    tool: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    closed: bool = True


@dataclass(frozen=True, slots=True)
class RequestData:
    """Parts of a request that conditions read: the body, the headers by lower-case name, and the places of schemas."""

    body: JSON
    headers: Mapping[str, str]
    schemas: SchemaPlaces
    _walked: dict[str, list[tuple[str, dict[str, JSON]]]] = field(
        default_factory=dict[str, list[tuple[str, dict[str, JSON]]]]
    )
    _reached: dict[_TestPath, list[_Found]] = field(default_factory=dict["_TestPath", "list[_Found]"])

    def at(self, steps: tuple[PathStep, ...], shared: frozenset[str]) -> list[_Found]:
        """Return all values at the end of a path, cached by path."""
        if not steps:
            return [("", self.body, {})]
        way = steps, shared
        if way not in self._reached:
            self._reached[way] = _walk(self.at(steps[:-1], shared), steps[-1:], shared)
        return self._reached[way]

    def inside(self, pointer: str, root: JSON) -> list[tuple[str, dict[str, JSON]]]:
        """Return a schema and all schemas inside it, cached by pointer."""
        if pointer not in self._walked:
            self._walked[pointer] = [*subschemas(root, pointer)]
        return self._walked[pointer]


class Conditions:
    """The conditions of a fact, compiled."""

    __slots__ = ("_conditions", "_first", "_possible", "_shared", "_without", "tests")

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = conditions
        tests = [ConditionTest(each) for each in conditions]
        self._first = tests[0] if tests else None
        # Tests of present values come first, since they choose the element. Relative and common ones come later.
        self.tests = sorted(tests, key=lambda test: (test.wants_nothing, test.is_relative, test.is_common))
        needed = [test for test in tests if test.steps and not test.wants_nothing and not test.condition.every]
        self._possible = [[_may_hold(test.steps[number:], test.holds) for test in needed] for number in (0, 1)]
        self._without = len([test for test in tests if test.goes_through_elements]) < 2
        self._shared: tuple[SchemaPlaces, frozenset[str]] | None = None

    def __reduce__(self) -> tuple[type[Conditions], tuple[Sequence[Condition]]]:
        """Pickle the conditions only; a worker process compiles them again."""
        return Conditions, (self._conditions,)

    def only_list(self, schemas: SchemaPlaces) -> str | None:
        """Return the key of a list in the body if all conditions are about one element of it, otherwise `None`."""
        paths = [steps for test in self.tests for steps in test.all_steps(schemas)]
        keys = {steps[0].spellings[0] if steps and any(steps[0].groups[:1]) else None for steps in paths}
        is_local = len(keys) == 1 and all(test.is_about_an_element for test in self.tests)
        return keys.pop() if is_local and not self.tests[0].wants_nothing else None

    def required_keys(self, schemas: SchemaPlaces) -> frozenset[frozenset[str]]:
        """Return sets of top-level keys, in snake_case. A body that meets the conditions has at least one key from each
        set.
        """
        paths = [test.all_steps(schemas) for test in self.tests if not test.wants_nothing and not test.condition.header]
        return frozenset(frozenset(steps[0].spellings[1] for steps in each) for each in paths if all(each))

    def is_possible(self, value: JSON, steps: int = 0) -> bool:
        """Return whether `value` could meet the conditions that require a value, each checked alone. This is a quick
        pre-check: if it succeeds, the conditions may still not be met.

        `steps` is the number of path steps that already led to `value`: 0 for a body, 1 for an element of the list that
        `only_list` names.
        """
        for may_hold in self._possible[steps]:  # noqa: SIM110 - a generator takes twice the time
            if not may_hold(value):
                return False
        return True

    def first_match(self, data: RequestData) -> str | None:
        """Return the pointer at which a request meets the first condition. Return `None` if it does not meet all
        conditions.
        """
        return next(self.places(data), None)

    def places(self, data: RequestData) -> Iterator[str]:
        """Yield every place that meets the first condition, if the request meets all conditions."""
        if self._first is None or not isinstance(data.body, dict) or not self.is_possible(data.body):
            return
        shared = frozenset[str]() if self._without else self._shared_among(data.schemas)
        seen: set[str] = set()
        for pointer in self._rest(0, data, shared, {}, ""):
            if pointer not in seen:
                seen.add(pointer)
                yield pointer

    def _rest(
        self, number: int, data: RequestData, shared: frozenset[str], chosen: _Chosen, pointer: str
    ) -> Iterator[str]:
        """Yield the place of the first condition for each combination of elements that passes the tests from index
        `number` on.

        `chosen` contains the elements chosen so far. `pointer` is the place of the first condition, if it is already
        known.
        """
        if number == len(self.tests):
            yield pointer
            return
        test = self.tests[number]
        for place, then in test.matching_places(data, shared, chosen):
            found = False
            for found_at in self._rest(number + 1, data, shared, then, place if test is self._first else pointer):
                found = True
                yield found_at
            if then is chosen and not (found and test is self._first):
                return  # with the same choice, all further places would end the same way

    def _shared_among(self, schemas: SchemaPlaces) -> frozenset[str]:
        if self._shared is None or self._shared[0] is not schemas:
            through = [test.through(schemas) for test in self.tests]
            often = (each for one in through for each in one if sum(each in other for other in through) > 1)
            self._shared = schemas, frozenset(often)
        return self._shared[1]


class ConditionFilter:
    """Pre-filter for the conditions of facts. It selects those that a request may meet.

    Conditions about one element of a list are tested on each element separately. The result is cached by element,
    because each request of a conversation repeats the previous ones. All other conditions only get a quick pre-check,
    and only if the body has the keys that they require.
    """

    def __init__(self, conditions: Sequence[Conditions], schemas: SchemaPlaces) -> None:
        keys = [each.only_list(schemas) for each in conditions]
        self._others: dict[frozenset[frozenset[str]], dict[int, Conditions]] = {}
        for number, key in enumerate(keys):
            if key is None:
                each = conditions[number]
                self._others.setdefault(each.required_keys(schemas), {})[number] = each
        self._met: dict[str, Callable[[object, str], Sequence[list[int]]]] = {}
        for key in {*keys} - {None}:
            held = {number: each for number, each in enumerate(conditions) if keys[number] == key}
            self._met[key or ""] = cached_per_element(partial(_met_by, held, key or "", schemas))

    def select(self, data: RequestData) -> list[int]:
        """Return the numbers of the conditions that a request may meet, in order."""
        body = as_object(data.body)
        present = {*map(_in_snake_case, body)}
        found = {
            number
            for required, others in self._others.items()
            if not any(map(present.isdisjoint, required))
            for number, each in others.items()
            if each.is_possible(body)
        }
        for key, met in self._met.items():
            for _, elements, _ in data.at(steps_of(key), frozenset()):
                found.update(*met(elements, ""))
        return sorted(found)


def _met_by(held: Mapping[int, Conditions], key: str, schemas: SchemaPlaces, element: JSON, _pointer: str) -> list[int]:
    possible = {number: each for number, each in held.items() if each.is_possible(element, 1)}
    alone = RequestData({key: [element]}, {}, schemas)
    return [number for number, each in possible.items() if each.first_match(alone) is not None]


def _may_hold(steps: Sequence[PathStep], holds: Predicate) -> Predicate:
    """Return a predicate that checks whether any value at the end of a path could pass `holds`."""
    if not steps:
        return holds
    if steps[0].is_everything:
        return lambda _: True
    one, other = steps[0].spellings
    then = _may_hold(steps[1:], holds)
    for _ in steps[0].indexes:
        then = _some_element(then)

    def may_hold(value: JSON) -> bool:
        if not isinstance(value, dict):
            return False
        if one in value:
            return then(value[one])
        return other in value and then(value[other])

    return may_hold


def _some_element(holds: Predicate) -> Predicate:
    return lambda value: isinstance(value, list) and any(map(holds, value))


@dataclass(frozen=True, slots=True, eq=False)
class PathStep:
    """A step of a path: a key in its two spellings, followed by indexes. Paths with the same prefix share their step
    objects.

    `groups` has one entry per index: the path of the list, such as `.messages[]`. `next` and `later` have the same
    entry as the element that they follow. The entry is empty for an index that conditions cannot share, such as `[*]`
    or `[-1]`.
    """

    spellings: tuple[str, str]
    indexes: tuple[_Element, ...]
    groups: tuple[str, ...]

    @property
    def is_everything(self) -> bool:
        """Return whether the step is `**`."""
        return self.spellings[0] == _EVERYTHING


@cache
def steps_of(path: str) -> tuple[PathStep, ...]:
    """Return the steps of a path."""
    before, _, segment = path.rpartition(".")
    if path in ("", "$"):
        return ()
    matched = _SEGMENT.fullmatch(segment)
    key, given = (matched[1], re.findall(r"\[([^\]]*)\]", matched[2])) if matched else (segment, [])
    place = f".{before}.{key}" if before else f".{key}"
    indexes: list[_Element] = []
    groups: list[str] = []
    for each in given:
        indexes.append(_element(each))
        groups.append(f"{place}[]" if each in ("", "next", "later") else "")
        place += f"[{each}]"
    return *steps_of(before), PathStep((key, _in_snake_case(key)), tuple(indexes), tuple(groups))


@lru_cache(1024)
def _in_snake_case(key: str) -> str:
    return _CAPITAL.sub(lambda found: f"_{found[1].lower()}", key)


def _element(text: str) -> _Element:
    match text:
        case "" | "*":
            return None
        case "next" | "later":
            return text
        case _:
            return (int(text[:-1]),) if text.endswith(":") else int(text)


class ConditionTest:
    """A compiled condition. `holds` tests a present value and `_fits` tests its surroundings. `wants_nothing` is set if
    an absent value may pass.
    """

    __slots__ = ("_fits", "condition", "holds", "is_relative", "steps", "wants_nothing")

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.holds = comparison(condition)
        self.steps = steps_of(condition.at or "")
        self.wants_nothing = condition.there is False or condition.operator in ("not_in", "only", "empty")
        self.is_relative = any(index in ("next", "later") for step in self.steps for index in step.indexes)
        self._fits = _context(condition, self.steps)

    @property
    def is_common(self) -> bool:
        """Return whether most elements pass the test."""
        return self.condition.operator in ("there", "kind", "not_kind", "out")

    @property
    def is_about_an_element(self) -> bool:
        """Return whether the test depends only on the chosen element, and not on other elements."""
        condition = self.condition
        compares = condition.every is not None or condition.repeated or (condition.outside and condition.at)
        return not (self.is_relative or compares or condition.header)

    @property
    def goes_through_elements(self) -> bool:
        """Return whether the test may choose an element or a schema for other conditions."""
        return self.condition.schemas is not None or any(group for step in self.steps for group in step.groups)

    def through(self, schemas: SchemaPlaces) -> set[str]:
        """Return the groups that the test may share."""
        found = {group for step in self.steps for group in step.groups if group}
        for path in self.paths(schemas):
            found |= {group for step in steps_of(path) for group in step.groups if group}
            found |= {_ROOT} if self.condition.root else {_ROOT, _INSIDE}
        return found

    def matching_places(
        self, data: RequestData, shared: frozenset[str], chosen: _Chosen
    ) -> Iterator[tuple[str, _Chosen]]:
        """Yield the places that pass the test, each with the chosen elements."""
        candidates = self._candidates(data, shared, chosen)
        if self.condition.at is not None and (self.condition.there is False or self.condition.every is not None):
            found = [*candidates]
            if self._all_hold([value for _, value, _ in found]):
                yield (found[0][0] if found else ""), chosen
            return
        for pointer, value, then in candidates:
            if isinstance(value, _Absent):
                if self.wants_nothing:
                    yield pointer, then
            elif self.holds(value) and (self._fits is None or self._fits(data, pointer, value)):
                if self.condition.unknown is not None and isinstance(value, dict):
                    unknown = (key for key, held in value.items() if held is not None)
                    yield from ((join(pointer, key), then) for key in unknown if key not in self.condition.unknown)
                else:
                    yield pointer, then

    def _all_hold(self, values: Sequence[JSON | _Absent]) -> bool:
        if self.condition.there is False:
            return all(value is None or isinstance(value, _Absent) for value in values)
        return bool(values) and all(not isinstance(value, _Absent) and self.holds(value) for value in values)

    def paths(self, schemas: SchemaPlaces) -> tuple[str, ...]:
        """Return the paths of the schemas that the test reads."""
        match self.condition.schemas:
            case None:
                return ()
            case "response":
                return schemas.response
            case _:
                return schemas.tools

    def all_steps(self, schemas: SchemaPlaces) -> tuple[tuple[PathStep, ...], ...]:
        """Return the paths that the test reads. Each path is a tuple of steps."""
        return tuple(map(steps_of, self.paths(schemas))) if self.condition.schemas else (self.steps,)

    def _candidates(self, data: RequestData, shared: frozenset[str], chosen: _Chosen) -> Iterator[_Found]:
        condition = self.condition
        if condition.header is not None:
            absent = "" if condition.unlike is not None else _ABSENT  # an absent header matches nothing
            yield "", data.headers.get(condition.header.lower(), absent), chosen
        elif condition.schemas is None:
            yield from _walk([("", data.body, chosen)], self.steps, shared) if chosen else data.at(self.steps, shared)
        else:
            yield from chain.from_iterable(
                self._keywords(data, path, shared, chosen) for path in self.paths(data.schemas)
            )

    def _keywords(self, data: RequestData, path: str, shared: frozenset[str], chosen: _Chosen) -> Iterator[_Found]:
        *outer, last = steps_of(path)
        keyword = self.condition.keyword or ""
        for holder in _walk([("", data.body, chosen)], outer, shared):
            if self.condition.schemas == "strict-tools" and not _is_strict(holder[1]):
                continue
            for pointer, root, then in _walk([holder], [last], shared):
                within = _with_choice(then, _ROOT, pointer, shared)
                if within is None or not isinstance(root, dict):
                    continue
                for place, schema in [(pointer, root)] if self.condition.root else data.inside(pointer, root):
                    taken = within if self.condition.root else _with_choice(within, _INSIDE, place, shared)
                    if taken is not None:
                        value = schema.get(keyword, _ABSENT)
                        yield (place if isinstance(value, _Absent) else join(place, keyword)), value, taken


def _is_strict(element: JSON | _Absent) -> bool:
    return isinstance(element, dict) and element.get("strict") is True


def _with_choice(chosen: _Chosen, group: str, pointer: str, shared: frozenset[str]) -> _Chosen | None:
    """Return the choice extended by this element, or `None` if a different one is already chosen."""
    if group not in shared:
        return chosen
    before = chosen.get(group)
    if before is None:
        return {**chosen, group: pointer}
    return chosen if before == pointer else None


def _walk(found: list[_Found], steps: Sequence[PathStep], shared: frozenset[str]) -> list[_Found]:
    """Return all values at the end of a path with their pointers. A missing value is returned as absent."""
    for step in steps:
        if step.is_everything:
            found = [each for one in found for each in _everything(*one)]
            continue
        found = [_member(pointer, value, step.spellings, chosen) for pointer, value, chosen in found]
        for index, group in zip(step.indexes, step.groups, strict=True):
            found = [each for one in found for each in _elements(*one, index, group, shared)]
    return found


def _member(pointer: str, value: JSON | _Absent, spellings: tuple[str, str], chosen: _Chosen) -> _Found:
    if isinstance(value, dict):
        for spelling in spellings:
            if spelling in value:
                return join(pointer, spelling), value[spelling], chosen
    return pointer, _ABSENT, chosen


def _everything(pointer: str, value: JSON | _Absent, chosen: _Chosen) -> Iterator[_Found]:
    waiting: list[tuple[str, JSON | _Absent]] = [(pointer, value)]
    while waiting:
        place, each = waiting.pop()
        yield place, each, chosen
        if isinstance(each, dict):
            waiting.extend((join(place, key), inner) for key, inner in each.items())
        elif isinstance(each, list):
            waiting.extend((join(place, index), inner) for index, inner in enumerate(each))


def _elements(  # noqa: PLR0913, PLR0917 - a place, and how it goes on from there
    pointer: str, value: JSON | _Absent, chosen: _Chosen, index: _Element, group: str, shared: frozenset[str]
) -> Iterator[_Found]:
    if not isinstance(value, list):
        return
    if index is not None:
        before = chosen.get(group, "").removeprefix(f"{pointer}/")
        for position in _positions(index, len(value), before):
            yield join(pointer, position), value[position], chosen
        return
    known = chosen.get(group) if group in shared else None
    if known is not None:
        at = known.removeprefix(f"{pointer}/")
        if at.isdecimal():
            yield known, value[int(at)], chosen
        return
    for position, each in enumerate(value):
        place = join(pointer, position)
        taken = _with_choice(chosen, group, place, shared)
        if taken is not None:
            yield place, each, taken


def _positions(index: _Element, length: int, before: str) -> range:
    """Return the positions that an index selects in a list of `length` elements.

    `before` is the position of the chosen element, to which a relative index refers.
    """
    match index:
        case int():
            at = index if index >= 0 else length + index
            return range(at, at + 1) if 0 <= at < length else range(0)
        case tuple():
            return range(index[0], length)
        case _:
            first = int(before) + 1 if before.isdecimal() else length
            return range(first, min(first + 1, length) if index == "next" else length)


_Fits: TypeAlias = "Callable[[RequestData, str, JSON], bool]"


def _context(condition: Condition, steps: tuple[PathStep, ...]) -> _Fits | None:
    if condition.beside is not None:
        allowed = {*condition.beside}
        return lambda data, pointer, _: _has_others(data.body, pointer, allowed)
    if condition.repeated:
        return lambda data, pointer, value: _first(data.at(steps, frozenset()), value) != pointer
    if condition.outside is not None:
        other = condition.outside
        if condition.schemas is not None:
            return lambda data, pointer, value: not _names(value) <= _names(_sibling(data.body, pointer, other))
        path = steps_of(other)
        return lambda data, _, value: not _names(value) <= _all_names(data.at(path, frozenset()))
    return _schema_context(condition)


def _schema_context(condition: Condition) -> _Fits | None:
    """Return the test for an operator that examines the schema around a keyword, or `None` for other operators."""
    if condition.deeper is not None:
        levels = condition.deeper
        return lambda data, pointer, _: schema_depth(_holder(data.body, pointer)) > levels
    if condition.shared is not None:
        keywords = {*condition.shared}
        return lambda data, pointer, _: bool(keywords & _shared_with_reference(data, pointer))
    return None


def _holder(body: JSON, pointer: str) -> JSON:
    return resolve(body, pointer.rpartition("/")[0])


def _shared_with_reference(data: RequestData, pointer: str) -> AbstractSet[str]:
    """Return the keywords that a schema has in common with the schema in its `$ref`."""
    holder = _holder(data.body, pointer)
    if not isinstance(holder, dict):
        return frozenset()
    roots = [data.body, *(resolve(data.body, pointer[: at.start()]) for at in re.finditer("/", pointer))]
    named = next((each for root in reversed(roots) if isinstance(each := resolve_reference(holder, root), dict)), None)
    return holder.keys() & named.keys() if named is not None else frozenset()


def _has_others(body: JSON, pointer: str, allowed: AbstractSet[str]) -> bool:
    holder, _, key = pointer.rpartition("/")
    found = resolve(body, holder)
    others = found.items() if isinstance(found, dict) else ()
    return any(value is not None and name != key and name not in allowed for name, value in others)


def _sibling(body: JSON, pointer: str, key: str) -> JSON:
    holder = _holder(body, pointer)
    return as_object(holder).get(key)


def _names(value: JSON | _Absent) -> AbstractSet[str]:
    match value:
        case str():
            return {value}
        case list() | dict():
            return {each for each in value if isinstance(each, str)}
        case _:
            return frozenset()


def _all_names(found: Iterable[_Found]) -> AbstractSet[str]:
    return {name for _, value, _ in found for name in _names(value)}


def _first(found: Iterable[_Found], value: JSON) -> str | None:
    return next((place for place, each, _ in found if not isinstance(each, _Absent) and equal(each, value)), None)
