"""Objects of the user that conversations use: how they are copied, and how they are opened."""

from __future__ import annotations

import asyncio
import copy
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class ObjectCopies:
    """A function that makes a copy of an object, so that no conversation has the history of another one."""

    value: object

    def __call__(self) -> object:
        """Return a copy of the object. What cannot be copied, such as an HTTP client, is shared with it."""
        package = type(self.value).__module__.partition(".")[0]
        reporting, sys.unraisablehook = sys.unraisablehook, _ignore  # a copy that fails may also fail to end
        try:
            return _copy(self.value, package, {}, 0)
        finally:
            sys.unraisablehook = reporting


def _ignore(_: object) -> None: ...


def _copy(value: object, package: str, memo: dict[int, Any], depth: int) -> object:
    """Return a deep copy of a value. Without one, copy the objects of a package and containers one level at a time."""
    if id(value) in memo:
        return memo[id(value)]
    trial = {**memo}
    with suppress(Exception):  # third-party code may refuse to be copied in any way
        made = copy.deepcopy(value, trial)
        memo |= trial
        return made
    is_container = type(value) in (list, dict)
    if depth > _MAX_DEPTH or not (is_container or type(value).__module__.partition(".")[0] == package):
        return value
    try:
        made = copy.copy(value)
    except Exception:  # noqa: BLE001 - as above
        return value
    memo[id(value)] = made
    if isinstance(made, list):
        made[:] = [_copy(each, package, memo, depth + 1) for each in cast("list[object]", made)]
        return cast("object", made)
    fields = cast("dict[str, object]", made if isinstance(made, dict) else getattr(made, "__dict__", {}))
    for name, each in [*fields.items()]:
        fields[name] = _copy(each, package, memo, depth + 1)
    return cast("object", made)


_MAX_DEPTH = 4
"""Limit of the depth of the objects that are copied one level at a time."""


def open_object(runner: asyncio.Runner, value: Any) -> object:
    """Enter the context of an object of the user, and return what it returns.

    The context is never left, because later conversations use the object, or a copy that shares its HTTP client.
    """
    kind = cast("object", type(value))
    try:
        if hasattr(kind, "__aenter__"):
            return runner.run(value.__aenter__())
        return value.__enter__() if hasattr(kind, "__enter__") else value
    except RuntimeError:  # it is already open, such as an `httpx.Client`, which can be entered only once
        return value
