"""Objects and functions of the user that make the clients of conversations."""

from __future__ import annotations

import copy
import inspect
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, cast

from harness.bridge.clients.constructors import constructor_names, try_to_make
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.names import SYNONYMS, TOOL_PARAMETERS, first_known


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


def maker_of(value: object, api: str) -> tuple[type, Callable[..., object]] | None:
    """Return the class of the clients that a class, a function or an object makes, and what makes them. Return `None`
    for other values.
    """
    if inspect.isclass(value):
        return value, value
    if inspect.isfunction(value):
        client = made_by(value, api)
        return None if client is None else (type(client), value)
    kind = type(value)
    is_object = not inspect.isroutine(value) and not inspect.ismodule(value) and kind is not partial
    return (kind, ObjectCopies(value)) if is_object and kind.__module__ != "builtins" else None


@lru_cache(maxsize=64)
def made_by(value: Callable[..., object], api: str) -> object | None:
    """Return the client that a function makes from a base URL, a key, a model, tools or nothing, or `None`.

    A function that fails for tools that are `None` gets an empty dictionary or list of them.
    """
    method = method_of((), value)
    takes_input = method.prompt or any(first_known(SYNONYMS[key], method.names) for key in ("messages", "contents"))
    tools = method.required & TOOL_PARAMETERS
    has_known = bool(tools or constructor_names(value).keys() & {"base_url", "api_key", "model"})
    is_maker = has_known or (not method.names and _RETURNS_VALUE.search(method.source) is not None)
    if takes_input or not is_maker or inspect.iscoroutinefunction(value):
        return None
    empties: tuple[object, ...] = (None, {}, []) if tools else (None,)
    for empty in empties:
        with suppress(Exception):  # third-party code may fail in any way
            client = try_to_make(value, api, **dict.fromkeys(tools, empty))[1]
            return client if has_known or type(client).__module__ != "builtins" else None
    return None


_RETURNS_VALUE = re.compile(r"^\s+return \S", re.MULTILINE)
