"""Functions that decorators replaced by their own, or by objects."""

from __future__ import annotations

import inspect
from types import MethodType
from typing import Any, cast


def is_decorated_object(value: object) -> bool:
    """Return whether a value is a callable object that a decorator made of a function, with the signature of it."""
    is_object = not inspect.isroutine(value) and not inspect.isclass(value) and callable(value)
    return is_object and not {"__wrapped__", "__signature__"}.isdisjoint(getattr(value, "__dict__", {}))


def is_decorated(value: object) -> bool:
    """Return whether a decorator of another file made a value of a function."""
    if is_decorated_object(value):
        return True
    code = getattr(value, "__code__", None)
    inner = getattr(inspect.unwrap(cast("Any", value)), "__code__", None) if code is not None else None
    return inner is not None and inner.co_filename != cast("Any", code).co_filename


def decorated_function(value: object, name: str) -> object:
    """Return the function that a decorator without `functools.wraps` hides behind `(*args, **kwargs)`, by its `name` or
    if it is the only one. Return any other value unchanged.
    """
    for _ in range(_MAX_DECORATORS):
        if not inspect.isfunction(value) and not inspect.ismethod(value):
            break
        kinds = [each.kind for each in inspect.signature(value).parameters.values()]
        if kinds != [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
            break
        known = inspect.getclosurevars(value).nonlocals.values()
        functions = [each for each in known if inspect.isfunction(each) or inspect.ismethod(each)]
        named = [each for each in functions if each.__name__ in (name, value.__name__)] or functions
        if len(named) != 1:
            break
        owner = getattr(value, "__self__", None)
        value = named[0] if owner is None or inspect.ismethod(named[0]) else MethodType(named[0], owner)
    return value


_MAX_DECORATORS = 5
