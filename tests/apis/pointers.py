"""JSON pointers in tests: follow them, or leave them out of a comparison."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any


def resolve(body: Any, pointer: str) -> Any:
    """What a pointer (RFC 6901) leads to. Raises `LookupError` where it leads nowhere."""
    for escaped in pointer.split("/")[1:]:
        key = escaped.replace("~1", "/").replace("~0", "~")
        body = body[int(key)] if isinstance(body, list) else body[key]
    return body


def without_pointers(value: Any) -> Any:
    """A view as plain data, without the fields that say where something stood."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        kept = {name: without_pointers(member) for name, member in fields.items() if "pointer" not in name}
        return type(value).__name__, kept
    if isinstance(value, tuple | list):
        return [without_pointers(member) for member in value]
    if isinstance(value, dict):
        return {name: without_pointers(member) for name, member in value.items()}
    return value


_ODD: list[Any] = [None, True, 0, 1.5, "", "x", "é", [], {}, [None], [[]], {"x": None}]


def oddities(body: Any) -> Iterator[Any]:
    """The body with each of its values in turn replaced by something odd."""
    for odd in _ODD:
        yield copy.deepcopy(odd)
    keys = range(len(body)) if isinstance(body, list) else body if isinstance(body, dict) else ()
    for key in keys:
        for value in oddities(body[key]):
            mutant = copy.copy(body)
            mutant[key] = value
            yield mutant
