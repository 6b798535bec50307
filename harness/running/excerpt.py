"""A JSON body as people read it: a value a line, with the place that somebody points at marked."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from harness.apis.jsonvalue import join, resolve
from harness.contract.model import JSON

_STRING = 160
"""Characters that are shown of a text."""
_AROUND = 4
"""Lines that a piece shows on each side of the marked one."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `pointer` leads to the value that it shows or begins."""

    text: str
    pointer: str


def lines(value: JSON, width: int, pointer: str = "", opened: Collection[str] = ()) -> list[Line]:
    """A value over several lines: what fits into `width` columns stands on one, but for the containers on the way to
    the pointers `opened`, whose members get lines of their own."""
    ways = {way for each in opened for way in _way(each)}
    return list(_Layout(width, ways).of(value, pointer))


def _way(pointer: str) -> Iterator[str]:
    """The containers on the way to a place."""
    while "/" in pointer:
        pointer = pointer.rpartition("/")[0]
        yield pointer


@dataclass(frozen=True, slots=True)
class _Layout:
    width: int
    ways: Collection[str]

    def of(self, value: JSON, pointer: str, before: str = "", behind: str = "") -> Iterator[Line]:
        """`before` is the margin with the key, `behind` the comma."""
        members = _members(value)
        flat = f"{before}{_flat(value)}{behind}"
        if not members or (len(flat) <= self.width and pointer not in self.ways):
            yield Line(flat, pointer)
            return
        brackets = "{}" if isinstance(value, dict) else "[]"
        margin = " " * (len(before) - len(before.lstrip()))
        yield Line(f"{before}{brackets[0]}", pointer)
        for number, (key, step, member) in enumerate(members, 1):
            comma = "," if number < len(members) else ""
            yield from self.of(member, join(pointer, step), f"{margin}  {key}", comma)
        yield Line(f"{margin}{brackets[1]}{behind}", pointer)


def _members(value: JSON) -> list[tuple[str, str | int, JSON]]:
    """What a container holds: how the line of each member begins, its key or index, the member."""
    if isinstance(value, dict):
        return [(f"{json.dumps(key, ensure_ascii=False)}: ", key, member) for key, member in value.items()]
    return [("", at, member) for at, member in enumerate(value)] if isinstance(value, list) else []


def _flat(value: JSON) -> str:
    return json.dumps(_shortened(value), ensure_ascii=False)


def _shortened(value: JSON) -> JSON:
    if isinstance(value, str) and len(value) > _STRING:
        half = _STRING // 2
        return f"{value[:half]} ...{len(value) - 2 * half} more... {value[-half:]}"
    if isinstance(value, dict):
        return {key: _shortened(member) for key, member in value.items()}
    return [_shortened(member) for member in value] if isinstance(value, list) else value


def marked(shown: list[Line], pointer: str) -> int:
    """The index of the line that shows a place: its own, or that of the innermost value around it."""
    places = [line.pointer for line in shown]
    while pointer not in places and pointer:
        pointer = pointer.rpartition("/")[0]
    return places.index(pointer) if pointer in places else 0


def piece(value: JSON, pointer: str, width: int = 100) -> tuple[str, ...]:
    """The piece of a body around a place, the line of the place marked by `>`; the first line says where the piece
    lies. Of the whole body there is no piece: nothing in it is pointed at."""
    while pointer and resolve(value, pointer.rpartition("/")[0]) is None:  # what is missing has nothing around it
        pointer = pointer.rpartition("/")[0]
    if not pointer:
        return ()
    root = pointer if _members(resolve(value, pointer)) else pointer.rpartition("/")[0]
    shown = lines(resolve(value, root), width, root, (pointer,))
    at = marked(shown, pointer)
    first, last = max(at - _AROUND, 0), min(at + _AROUND + 1, len(shown))
    kept = [f"{'>' if number == at else ' '} {shown[number].text}" for number in range(first, last)]
    above = [f"  ({first} lines above)"] if first else []
    below = [f"  ({len(shown) - last} lines below)"] if last < len(shown) else []
    return (f"{root or '/'}:", *above, *kept, *below)
