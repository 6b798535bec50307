"""Calls of third-party functions and of the methods of a client."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, cast

from harness.bridge.call_log import call
from harness.bridge.clients.methods import PASSES_OPTIONS, Method, method_of
from harness.bridge.clients.sources import arguments_beside_options


def attribute_of(client: object, path: tuple[str, ...]) -> object | None:
    """Return the function at a path of attributes from a client, or `None`."""
    found: object | None = client
    try:
        for name in path:
            found = getattr(found, name, None)
    except Exception:  # noqa: BLE001 - a property of the user's class may fail in any way
        return None
    return found if callable(found) else None


def call_with(
    function: Callable[..., object], arguments: Mapping[str, object], described: Callable[..., object] | None = None
) -> object:
    """Call third-party code with arguments by name. The list for its `*values` is passed as single arguments.

    `described` has the signature, if `function` itself does not show it.
    """
    try:
        signature = [*inspect.signature(described or function).parameters.values()]
    except (TypeError, ValueError):  # it has none
        return call(function, **arguments)
    kinds = [each.kind for each in signature]
    place = kinds.index(inspect.Parameter.VAR_POSITIONAL) if inspect.Parameter.VAR_POSITIONAL in kinds else None
    if place is None or signature[place].name not in arguments:
        return call(function, **arguments)
    by_place = [arguments.get(each.name, each.default) for each in signature[:place]]
    given = arguments[signature[place].name]
    values = [given] if isinstance(given, str) else cast("list[object]", given)
    placed = {each.name for each in signature[: place + 1]}
    by_name = {name: value for name, value in arguments.items() if name not in placed}
    return call(function, *by_place, *values, **by_name)


def with_parameters_of_delegate(client: object, method: Method) -> Method:
    """Return a method that passes its `**options` on to another method of the client with that method's parameters.
    The arguments that one of them sets itself are left out.
    """
    if not method.is_open:
        return method
    fixed, places = arguments_beside_options(method.source)
    found = PASSES_OPTIONS.search(method.source)
    delegate = None if found is None else attribute_of(client, (found[1],))
    if delegate is None:
        return replace(method, fixed=fixed - method.names)
    other = method_of((), delegate)
    fixed |= {*list(inspect.signature(cast("Any", delegate)).parameters)[:places]}
    fixed |= arguments_beside_options(other.source)[0] - other.names if other.is_open else frozenset[str]()
    fixed -= method.names
    return replace(
        method,
        names=(method.names | other.names) - fixed,
        is_open=other.is_open,
        hints={**other.hints, **method.hints},
        fixed=fixed,
    )


def tool_binder(client: object) -> Callable[..., object] | None:
    """Return the method of a client that returns another client with tools, if it has one."""
    return next((each for name in TOOL_BINDERS if callable(each := getattr(client, name, None))), None)


TOOL_BINDERS = ("bind_tools", "with_tools")
"""Names of methods that return another client with tools."""


def conversation_method_names(client: object) -> list[str]:
    """Return the names of a client's public methods that may send a conversation. Its properties are not evaluated,
    because that may take long. Its parts, which may be clients themselves, and class methods, which usually make
    objects, are left out.
    """
    names = [each for each in dir(client) if not each.startswith("_") and not _SENDS_NO_CONVERSATION.match(each)]
    parts = cast("dict[str, object]", getattr(client, "__dict__", {})) if not inspect.ismodule(client) else {}
    others = {name for name, each in parts.items() if not inspect.isroutine(each) and not isinstance(each, partial)}
    kinds = property, cached_property, classmethod
    return [
        each
        for each in names
        if each not in others and not isinstance(inspect.getattr_static(client, each, None), kinds)
    ]


_SENDS_NO_CONVERSATION = re.compile(
    r"a?(set|get|add|append|register|count|with)_|\w*batch|model_(construct|parametrized|validate)"
)
"""Start of the names of methods that change a client, or that send several conversations at once."""


async def wait_for(answer: Any) -> object:
    """Return the result of an awaitable that need not be a coroutine."""
    return await answer


def result_of_call(runner: asyncio.Runner, answer: object) -> object:
    """Return an answer, or its result if it is awaitable or the `Future` of a thread."""
    if isinstance(answer, Future):
        return cast("object", answer.result())
    return runner.run(wait_for(answer)) if inspect.isawaitable(answer) else answer
