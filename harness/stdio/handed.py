"""Copies of all that an adapter gets to hold, so that one which changes an object in place is judged by what it was
given, and is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar, cast

from harness.contract.model import JSON, ChatRequest, ChatResponse
from harness.results import Change

T = TypeVar("T")

_ATOMS = (str, int, float, bool, type(None), bytes, Enum)


class Handed:
    """The objects that were handed to one adapter, each with a copy that it never holds."""

    def __init__(self) -> None:
        self._originals: dict[int, tuple[object, Any]] = {}  # with the object itself, whose id must stay its own
        self._reported: set[str] = set()

    def hand(self, value: T) -> T:
        """Return a copy to hand to the adapter, so that what belongs to a scenario stays as it is."""
        handed = cast("T", _copied(value))
        self._originals[id(handed)] = handed, value
        return handed

    def original(self, value: T) -> T:
        """Return the value as it was when it was first handed over."""
        if isinstance(value, _ATOMS):
            return value
        known = self._originals.get(id(value))
        if known is None:
            known = self._originals[id(value)] = value, _rebuilt(value, self.original)
        return known[1]

    def request(self, request: ChatRequest) -> ChatRequest:
        """Return the request with the originals of all that it holds."""
        return replace(
            request,
            messages=tuple(map(self.original, request.messages)),
            tools=tuple(map(self.original, request.tools)),
            response_format=self.original(request.response_format),
            provider_metadata=self.original(request.provider_metadata),
        )

    def response(self, response: ChatResponse) -> ChatResponse:
        """Return the response with the original of its message."""
        return replace(response, message=self.original(response.message))

    def changes(self, request: ChatRequest, original: ChatRequest) -> tuple[Change, ...]:
        """Return what the adapter has changed in a request, each place once in a conversation."""
        found = [
            *_changes(request.messages, original.messages, "messages"),
            *_changes(request.tools, original.tools, "tools"),
            *_changes(request.response_format, original.response_format, "response_format"),
            *_changes(request.provider_metadata, original.provider_metadata, "provider_metadata"),
        ]
        new = [change for change in found if change.place not in self._reported]
        self._reported.update(change.place for change in new)
        return tuple(new)


def _copied(value: object) -> Any:
    return value if isinstance(value, _ATOMS) else _rebuilt(value, _copied)


def _rebuilt(value: object, each: Callable[[Any], Any]) -> Any:
    """The value with `each` of all that it holds. An object of a class that nobody here knows stays as it is."""
    kind, inside = type(value), cast("Any", value)
    try:
        if kind is dict:
            return {key: _copied(member) for key, member in inside.items()}
        if kind is list:
            return [_copied(member) for member in inside]
        if kind is tuple:
            return tuple(map(each, inside))
        if not is_dataclass(kind):
            return value
        made = object.__new__(kind)
        for field in fields(kind):
            object.__setattr__(made, field.name, each(getattr(value, field.name)))
    except RecursionError:
        return value
    return made


def _changes(now: Any, before: Any, place: str) -> Iterator[Change]:
    """Where two values part."""
    if now is before or now == before:
        return
    if _are(Mapping, now, before):
        for key in dict.fromkeys((*before, *now)):
            yield from _changes(now.get(key, _ABSENT), before.get(key, _ABSENT), f"{place}.{key}")
    elif _are((list, tuple), now, before) and len(now) == len(before):
        for index, (member, original) in enumerate(zip(now, before, strict=True)):
            yield from _changes(member, original, f"{place}[{index}]")
    elif is_dataclass(before) and _are(type(before), now, before):
        for field in fields(before):
            yield from _changes(getattr(now, field.name), getattr(before, field.name), f"{place}.{field.name}")
    else:
        yield Change(place, _shown(before), _shown(now))


def _are(kind: type | tuple[type, ...], *values: object) -> bool:
    return all(isinstance(value, kind) for value in values)


_ABSENT = object()


def _shown(value: object) -> JSON:
    """A value as JSON, or as Python shows it where it is none."""
    if value is _ABSENT:
        return None
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return repr(value)
