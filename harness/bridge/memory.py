"""A library's own messages, behind ours."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from harness.contract.model import ChatRequest, Message, Opaque


class Memory:
    """Keeps what a library answered, so that it gets its own object back when the conversation goes on.

    The library's object may hold what has no canonical place (signatures, item ids, caches). It is found again by the
    place of our message in the history, or, where the history was trimmed, by what the message says; metadata does not
    count. One for each client: a client lives as long as a conversation.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Message, Any]] = {}

    def keep(self, request: ChatRequest, answer: Message, own: object) -> None:
        """`own` is what the library has for the answer to this request."""
        self._kept[len(request.messages)] = _said(answer), own

    def own(self, place: int, message: Message) -> Any:
        """What the library has for the message at this place of the history; nothing, if it never answered so."""
        said = _said(message)
        kept, own = self._kept.get(place, (None, None))
        if kept == said:
            return own
        return next((own for other, own in reversed(self._kept.values()) if other == said), None)


def plain(value: object) -> Mapping[str, Any]:
    """The fields of an object of a library: a dictionary, a model of pydantic, or any other object; none of `None`."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    dump = getattr(value, "model_dump", None)
    return cast("Mapping[str, Any]", dump() if callable(dump) else vars(value))


def without_calls(own: Any, calls: Sequence[Mapping[str, Any]]) -> Any:
    """Return a library's message without some of its calls, which nobody answers, or `None` if nothing else is in it.

    The calls may stand in any list of the message, in whatever form: a call is known by its id, one without an id by
    its name and its arguments.
    """
    for call in calls:
        function = plain(call.get("function"))
        own = _without(own, [call["id"]] if call.get("id") else [function.get("name"), function.get("arguments")])
    return None if calls and _is_blank(own) else own


_DEEPEST = 4
"""Levels of a message in which calls are looked for."""


def _without(value: Any, marks: Sequence[object], depth: int = 0) -> Any:
    """A value without the entries of its lists that have these marks; the value itself if there are none."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        left = [each for entry in entries for each in _kept(entry, marks, depth + 1)]
        return entries if list(map(id, left)) == list(map(id, entries)) else left
    kept = {key: (item, _without(item, marks, depth + 1)) for key, item in _fields(value).items()}
    changed = {key: new for key, (item, new) in kept.items() if new is not item}
    return _changed(value, changed) if changed else value


def _kept(entry: Any, marks: Sequence[object], depth: int) -> Sequence[Any]:
    """Return the entry without the marked entries inside it: unchanged, smaller or nothing."""
    inner = _without(entry, marks, depth)
    leaves = [*_leaves(entry)]
    return () if inner is entry and all(mark in leaves for mark in marks) else (inner,)


def _changed(value: Any, new: Mapping[str, Any]) -> Any:
    """A copy with other fields. An emptied list is left out, or what its class has where there is none."""
    if isinstance(value, Mapping):
        whole = {**cast("Mapping[str, Any]", value), **new}
        return {key: item for key, item in whole.items() if key not in new or item != []}
    made, declared = copy.copy(value), cast("dict[str, Any]", getattr(cast("Any", type(value)), "model_fields", {}))
    for key, item in new.items():
        default = declared[key].get_default(call_default_factory=True) if key in declared else item
        object.__setattr__(made, key, default if item == [] else item)
    return made


def _fields(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return cast("Mapping[str, Any]", getattr(value, "__dict__", {}))


def _leaves(value: object, depth: int = 0) -> Iterator[object]:
    """The texts in a value, at a few levels."""
    if isinstance(value, str):
        yield value
    elif depth <= _DEEPEST:
        for item in cast("list[object]", value) if isinstance(value, list) else _fields(value).values():
            yield from _leaves(item, depth + 1)


def _is_blank(value: object) -> bool:
    """Return whether a message has nothing but its role."""
    if isinstance(value, list):
        return all(map(_is_blank, cast("list[object]", value)))
    inner = [item for key, item in _fields(value).items() if key != "role"]
    return all(map(_is_blank, inner)) if inner or isinstance(value, Mapping) else value is None or value == ""


def _said(message: Message) -> Message:
    parts = tuple(part if isinstance(part, Opaque) else replace(part, provider_metadata={}) for part in message.parts)
    return Message(message.role, parts)
