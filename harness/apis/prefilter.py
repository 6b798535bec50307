"""Prefilter for conditions, in a single walk through a request.

There are hundreds of facts, and nearly every request meets none of their conditions. The prefilter is necessary but not
sufficient: it only finds something in the request for each condition. `Conditions.met` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeAlias

from harness.apis.condition import Holds
from harness.apis.jsonvalue import cached_per_element
from harness.apis.matching import Conditions, ConditionTest, PathStep, RequestData, SchemaPlaces, steps_of
from harness.apis.schemas import subschemas
from harness.model.messages import JSON

_Tests: TypeAlias = "dict[str, list[tuple[int, Holds]]]"
"""Keyword of a schema → its tests. Each test is a bit, which is set if the test passes."""


@dataclass(slots=True)
class _Schemas:
    """Tests of a schema and its subschemas, and of the schema alone."""

    anywhere: _Tests = field(default_factory=dict[str, "list[tuple[int, Holds]]"])
    root: _Tests = field(default_factory=dict[str, "list[tuple[int, Holds]]"])

    def of(self, schema: JSON) -> int:
        """Return the tests that a schema passes."""
        if not isinstance(schema, dict):
            return 0
        found = _passed(self.root, schema)
        for _, each in subschemas(schema, "") if self.anywhere else ():
            found |= _passed(self.anywhere, each)
        return found


@dataclass(slots=True, eq=False)
class _Place:
    """Tests of a place in a body, and of the places inside it.

    `each` returns the tests that each element passes. `together` maps tests that one element must pass to a common bit.
    """

    tests: list[tuple[int, Holds]] = field(default_factory=list["tuple[int, Holds]"])
    together: dict[int, int] = field(default_factory=dict[int, int])
    members: dict[str, list[_Place]] = field(default_factory=dict[str, "list[_Place]"])
    elements: _Place | None = None
    each: Callable[[JSON, str], Sequence[int]] | None = None
    numbered: dict[int, _Place] = field(default_factory=dict[int, "_Place"])
    schemas: dict[str, _Schemas] = field(default_factory=dict[str, _Schemas])
    strict_schemas: dict[str, _Schemas] = field(default_factory=dict[str, _Schemas])

    def at_step(self, step: PathStep) -> _Place:
        """Return the place at the end of a step."""
        one, other = (self.members.setdefault(spelling, []) for spelling in step.spellings)
        place = next((each for each in one if any(each is same for same in other)), None)
        if place is None:
            place = _Place()
            one.append(place)
            if other is not one:
                other.append(place)
        for index in step.indexes:
            if isinstance(index, int):
                place = place.numbered.setdefault(index, _Place())
            else:
                place.elements = place.elements or _Place()
                place = place.elements
        return place

    def of(self, value: JSON) -> int:
        """Return the tests that a value at this place, or a value inside it, passes."""
        found = 0
        for bit, holds in self.tests:
            if holds(value):
                found |= bit
        if isinstance(value, dict):
            found |= self._of_object(value)
        elif isinstance(value, list):
            found |= self._of_list(value)
        if found and self.together:
            for needed, bit in self.together.items():
                if needed & found == needed:
                    found |= bit
        return found

    def _of_object(self, value: dict[str, JSON]) -> int:
        found = 0
        for key in self.members.keys() & value.keys():
            for place in self.members[key]:
                found |= place.of(value[key])
        if self.schemas:
            found |= _declared(self.schemas, value)
        if self.strict_schemas and value.get("strict") is True:
            found |= _declared(self.strict_schemas, value)
        return found

    def _of_list(self, value: list[JSON]) -> int:
        found = 0
        for index, place in self.numbered.items():
            if -len(value) <= index < len(value):
                found |= place.of(value[index])
        if self.each is not None:
            for passed in self.each(value, ""):
                found |= passed
        elif self.elements is not None:
            for element in value:
                found |= self.elements.of(element)
        return found


class Prefilter:
    """A prefilter of the conditions of many facts."""

    def __init__(self, conditions: Sequence[Conditions], schemas: SchemaPlaces) -> None:
        self._body = _Place()
        self._bits: dict[Hashable, int] = {}
        self._inside: dict[int, int] = {}
        self._needed = [self._needs(each, schemas) for each in conditions]
        for places in self._body.members.values():
            for place in places:
                if place.elements is not None:  # entries and tools, which later requests repeat
                    place.each = cached_per_element(_of(place.elements))

    def passing(self, asked: RequestData) -> Iterator[int]:
        """Yield the numbers of the conditions that a request may meet."""
        found = self._body.of(asked.body)
        return (number for number, needed in enumerate(self._needed) if needed & found == needed)

    def _needs(self, conditions: Conditions, schemas: SchemaPlaces) -> int:
        """Return the bits that the conditions require. Conditions on headers require none."""
        bits: list[tuple[ConditionTest, int]] = []
        there = {group for test in conditions.tests if not test.wants_nothing for group, _ in _chosen(test)}
        for test in conditions.tests:
            if not test.wants_nothing and test.condition.header is None:
                bits.append((test, self._placed(test, schemas)))
            elif test.condition.at is not None:
                bits.append((test, self._lacked(test, there)))
        needed = 0
        for _, bit in bits:
            needed |= bit
        ways = {group: steps for test, _ in bits for group, steps in _chosen(test)}
        for group in sorted(ways, key=len, reverse=True):
            members = [bit for test, bit in bits if bit and group in dict(_chosen(test))]
            if len(members) > 1:
                needed |= self._together(self._at(ways[group]), members, needed)
        return needed

    def _together(self, place: _Place, members: Sequence[int], inner: int) -> int:
        """Return the bit for tests that a single element of a list must pass."""
        mask = 0
        for bit in members:
            mask |= bit
        inside = self._inside.get
        for bit in _each(inner):
            within = inside(bit, 0)
            mask |= bit if within and within & mask == within else 0
        known = place.together.get(mask)
        if known is None:
            known = place.together[mask] = self._new(("together", id(place), mask))
            self._inside[known] = mask
        return known

    def _lacked(self, test: ConditionTest, there: Container[str]) -> int:
        """Return the bit of a test that an absent value passes, or 0 if a list may have no element that passes."""
        steps = test.steps
        last = max((at for at, step in enumerate(steps) if step.indexes), default=-1)
        if any(step.is_everything for step in steps) or (last >= 0 and not _is_chosen(steps[last], there)):
            return 0
        said = test.condition.model_dump_json(exclude_unset=True)
        if said not in self._bits:
            self._at(steps[: last + 1]).tests.append((self._new(said), _lacking(test, steps[last + 1 :])))
        return self._bits[said]

    def _new(self, key: Hashable) -> int:
        bit = self._bits[key] = 1 << len(self._bits)
        return bit

    def _placed(self, test: ConditionTest, schemas: SchemaPlaces) -> int:
        said = test.condition.model_dump_json(exclude_unset=True)
        if said in self._bits:
            return self._bits[said]
        bit = self._new(said)
        if test.condition.schemas is None:
            steps = [*takewhile(lambda step: not step.is_everything, test.steps)]
            is_whole = len(steps) == len(test.steps)
            self._at(steps).tests.append((bit, test.holds if is_whole else lambda _value: True))
            return bit
        for path in test.paths(schemas):
            *outer, last = steps_of(path)
            if last.indexes:
                return 0
            holder = self._at(outer)
            strictly = test.condition.schemas == "strict-tools"
            for spelling in {*last.spellings}:
                within = (holder.strict_schemas if strictly else holder.schemas).setdefault(spelling, _Schemas())
                asked = within.root if test.condition.root else within.anywhere
                asked.setdefault(test.condition.keyword or "", []).append((bit, test.holds))
        return bit

    def _at(self, steps: Sequence[PathStep]) -> _Place:
        place = self._body
        for step in steps:
            place = place.at_step(step)
        return place


def _chosen(test: ConditionTest) -> Iterator[tuple[str, tuple[PathStep, ...]]]:
    """Yield the lists from which a test chooses an element, with the steps to each list."""
    for at, step in enumerate(test.steps):
        if len(step.indexes) == 1 and step.indexes[0] is None and step.groups[0]:
            yield step.groups[0], test.steps[: at + 1]


def _is_chosen(step: PathStep, groups: Container[str]) -> bool:
    return step.indexes == (None,) and bool(step.groups[0]) and step.groups[0] in groups


def _lacking(test: ConditionTest, steps: Sequence[PathStep]) -> Holds:
    """Return a test that passes if the value after these steps is absent or passes."""
    wants_none = test.condition.there is False

    def within(value: JSON) -> bool:
        return value is None if wants_none else test.holds(value)

    if len(steps) == 1 and steps[0].spellings[0] == steps[0].spellings[1]:
        key = steps[0].spellings[0]
        return lambda value: not isinstance(value, dict) or key not in value or within(value[key])

    def holds(value: JSON) -> bool:
        for step in steps:
            if not isinstance(value, dict):
                return True
            key = next((each for each in step.spellings if each in value), None)
            if key is None:
                return True
            value = value[key]
        return within(value)

    return holds


def _each(bits: int) -> Iterator[int]:
    while bits:
        bit = bits & -bits
        yield bit
        bits ^= bit


def _of(place: _Place) -> Callable[[JSON, str], int]:
    return lambda entry, _pointer: place.of(entry)


def _declared(asked: Mapping[str, _Schemas], holder: dict[str, JSON]) -> int:
    found = 0
    for key in asked.keys() & holder.keys():
        found |= asked[key].of(holder[key])
    return found


def _passed(asked: _Tests, schema: dict[str, JSON]) -> int:
    found = 0
    for keyword in asked.keys() & schema.keys():
        for bit, holds in asked[keyword]:
            if holds(schema[keyword]):
                found |= bit
    return found
