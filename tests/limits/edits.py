"""Edits of what an adapter sends, in words: where, as a path of keys and places, and what.

A path that leads nowhere leaves a request as it is: the first request of a tool loop has no results to edit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Sent:
    """A request on its way out. `content` are bytes that go in place of the body, where there are any."""

    body: Any
    url: str = ""
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])


Edit = Callable[[Sent], object]


def together(*edits: Edit) -> Edit:
    """One edit after the other."""
    return lambda sent: [edit(sent) for edit in edits]


def put(path: str, value: Any) -> Edit:
    """The value at a path, whatever stood there."""

    def change(holder: Any, key: Any) -> None:
        if isinstance(holder, dict) or 0 <= key < len(holder):
            holder[key] = copy.deepcopy(value)

    return _at(path, change)


def drop(path: str) -> Edit:
    """Nothing at a path."""

    def change(holder: Any, key: Any) -> None:
        if _has(holder, key):
            del holder[key]

    return _at(path, change)


def unheaded(name: str) -> Edit:
    """Without a header."""
    return lambda sent: sent.headers.pop(name, None)


def insert(path: str, value: Any) -> Edit:
    """A member of a list, in front of the one at a path."""

    def change(holder: Any, key: Any) -> None:
        if _has(holder, key):
            holder.insert(key, copy.deepcopy(value))

    return _at(path, change)


def append(path: str, value: Any) -> Edit:
    """A member of the list at a path, behind all others."""

    def change(holder: Any, key: Any) -> None:
        if _has(holder, key):
            holder[key].append(copy.deepcopy(value))

    return _at(path, change)


def double(path: str) -> Edit:
    """The member of a list at a path, a second time right behind it."""

    def change(holder: Any, key: Any) -> None:
        if _has(holder, key):
            holder.insert(key + 1, copy.deepcopy(holder[key]))

    return _at(path, change)


def copied(source: str, target: str) -> Edit:
    """At one path what stands at another."""

    def edit(sent: Sent) -> None:
        _at(source, lambda holder, key: put(target, holder[key])(sent) if _has(holder, key) else None)(sent)

    return edit


def moved(source: str, target: str, within: Any, into: str) -> Edit:
    """The member of a list at one path, behind all others of the list at another, inside of `within` at `into`."""

    def edit(sent: Sent) -> None:
        def change(holder: Any, key: Any) -> None:
            if _has(holder, key):
                append(target, {**within, into: [holder.pop(key)]})(sent)

        _at(source, change)(sent)

    return edit


def raw(content: bytes) -> Edit:
    """These bytes in place of the body."""

    def edit(sent: Sent) -> None:
        sent.content = content

    return edit


def elsewhere(ending: str, other: str) -> Edit:
    """A URL with another ending."""

    def edit(sent: Sent) -> None:
        sent.url = sent.url.removesuffix(ending) + other

    return edit


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else 0 <= key < len(holder)


def _at(path: str, change: Callable[[Any, Any], None]) -> Edit:
    def edit(sent: Sent) -> None:
        holder: Any = sent.body
        *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        for key in way:
            if not isinstance(holder, dict | list) or not _has(holder, key):
                return
            holder = holder[key]
        change(holder, last)

    return edit
