"""Whether a request meets the conditions of a fact, and where.

A place is a path of keys: `thinking.type`; `tools[].name` is some element's, `messages[-1]` one element. What is not
there meets `there: false` and nothing else, and `tools[].name` is not there where no tool has one. Keys in camelCase
are found in snake_case too: Gemini takes both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.apis.fact import Condition
from harness.apis.jsonvalue import equal, join
from harness.apis.subschemas import subschemas
from harness.contract.model import JSON

_SEGMENT = re.compile(r"([^\[\]]*)((?:\[-?\d*\])*)")
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


class _Absent:
    """What stands where nothing stands."""


_ABSENT = _Absent()

_Found: TypeAlias = "tuple[str, JSON | _Absent]"


@dataclass(frozen=True, slots=True)
class SchemaPlaces:
    """Where an API has JSON schemas: of tools, whose element may say `strict` beside, and of the answer.

    `tool` is the smallest tool that it takes.
    """

    tools: tuple[str, ...] = ()
    response: tuple[str, ...] = ()
    tool: Mapping[str, JSON] = field(default_factory=dict[str, JSON])


@dataclass(frozen=True, slots=True)
class Asked:
    """What conditions look at: a body, its headers by their lower-case names, and where it has schemas."""

    body: JSON
    headers: Mapping[str, str]
    schemas: SchemaPlaces


def met(conditions: Sequence[Condition], asked: Asked) -> str | None:
    """Where a request meets the first of the conditions, as a JSON pointer, if it meets all of them; else `None`."""
    pointers = [next(_meeting(each, asked), None) for each in conditions]
    return None if not pointers or None in pointers else pointers[0]


def _meeting(condition: Condition, asked: Asked) -> Iterator[str]:
    candidates = _candidates(condition, asked)
    if condition.there is False and condition.at is not None:
        found = list(candidates)
        if all(isinstance(value, _Absent) for _, value in found):
            yield found[0][0] if found else ""
        return
    for pointer, value in candidates:
        if _holds(condition, value):
            yield pointer


def _candidates(condition: Condition, asked: Asked) -> Iterator[_Found]:
    if condition.header is not None:
        value = asked.headers.get(condition.header.lower())
        yield "", _ABSENT if value is None else value
    elif condition.at is not None:
        yield from _at(asked.body, condition.at)
    elif condition.keyword is not None:
        yield from _keywords(condition, asked)


def _keywords(condition: Condition, asked: Asked) -> Iterator[_Found]:
    for pointer, root in _roots(condition, asked):
        for place, schema in [(pointer, root)] if condition.root else subschemas(root, pointer):
            if isinstance(schema, dict):
                value = schema.get(condition.keyword or "", _ABSENT)
                yield (place if isinstance(value, _Absent) else join(place, condition.keyword or "")), value


def _roots(condition: Condition, asked: Asked) -> Iterator[tuple[str, JSON]]:
    paths = asked.schemas.response if condition.schemas == "response" else asked.schemas.tools
    for path in paths:
        holder, _, key = path.rpartition(".")
        for pointer, element in _at(asked.body, holder):
            if condition.schemas == "strict-tools" and not (
                isinstance(element, dict) and element.get("strict") is True
            ):
                continue
            for place, schema in _step(pointer, element, key):
                if isinstance(schema, dict):
                    yield place, schema


def _at(body: JSON, path: str) -> Iterator[_Found]:
    """All values at a path, each with its pointer. Where the path leads to nothing, that is one of them."""
    found: list[_Found] = [("", body)]
    for segment in path.split(".") if path else ():
        found = [each for pointer, value in found for each in _step(pointer, value, segment)]
    yield from found


def _step(pointer: str, value: JSON | _Absent, segment: str) -> list[_Found]:
    matched = _SEGMENT.fullmatch(segment)
    key, indexes = (matched[1], re.findall(r"\[(-?\d*)\]", matched[2])) if matched else (segment, [])
    found = [_member(pointer, value, key)]
    for index in indexes:
        found = [each for place, inner in found for each in _elements(place, inner, index)]
    return found


def _member(pointer: str, value: JSON | _Absent, key: str) -> _Found:
    if isinstance(value, dict):
        for spelling in (key, _CAPITAL.sub(lambda found: f"_{found[1].lower()}", key)):
            if spelling in value:
                return join(pointer, spelling), value[spelling]
    return pointer, _ABSENT


def _elements(pointer: str, value: JSON | _Absent, index: str) -> list[_Found]:
    if not isinstance(value, list):
        return []
    if not index:
        return [(join(pointer, position), each) for position, each in enumerate(value)]
    position = int(index) if int(index) >= 0 else len(value) + int(index)
    return [(join(pointer, position), value[position])] if 0 <= position < len(value) else []


def _holds(condition: Condition, value: JSON | _Absent) -> bool:
    if condition.operator == "there":
        return isinstance(value, _Absent) is not condition.there
    return not isinstance(value, _Absent) and _compares(condition, value)


def _compares(condition: Condition, value: JSON) -> bool:
    operand = condition.operand
    match condition.operator:
        case "is":
            return equal(value, operand)
        case "in":
            return any(equal(value, each) for each in condition.in_ or ())
        case "out":
            return not any(equal(value, each) for each in condition.out or ())
        case "over":
            return isinstance(value, int | float) and _is_number(value) and value > (condition.over or 0)
        case "under":
            return isinstance(value, int | float) and _is_number(value) and value < (condition.under or 0)
        case "longer":
            return isinstance(value, str | list) and len(value) > (condition.longer or 0)
        case "like":
            return isinstance(value, str) and re.fullmatch(condition.like or "", value, re.DOTALL) is not None
        case _:
            return _kind(value) == operand


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: JSON) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
