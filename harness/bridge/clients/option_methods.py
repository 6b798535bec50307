"""Options that a client takes by methods which return it with an option, as in `client.temperature(0).chat()`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

from harness.bridge.clients.invocation import TOOL_BINDERS, attribute_of, call_with, tool_binder
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.names import SYNONYMS

_OPTIONS = ("system", "tools", "tool_choice", "max_tokens", "temperature", "stop", "json_schema")

_OPTION_NAMES = frozenset({"top_p", "response_format", *(each for name in _OPTIONS for each in SYNONYMS[name])})
"""Names of options that a client may take by a method."""

_PREFIX = re.compile("^(with|use|set)_")

_RETURNS_CLIENT = re.compile(
    r"return (self\s*$|self\._?(with|copy|clone|replace|set|derive|evolve)\w*\(|type\(self\)\(|self\.__class__\(|cls\("
    r"|(dataclasses\.|copy\.)?(replace|copy|evolve)\(self|(new|other|clone|copy|copied|made)\s*$)",
    re.MULTILINE,
)
"""Code that returns the object of a method, or a copy of it."""


def option_methods(client: object) -> dict[str, Callable[..., object]]:
    """Return the methods of a client that return the client with an option, by the name of the option."""
    found = {option: attribute_of(client, (name,)) for name, option in _option_method_names(type(client)).items()}
    return {option: cast("Callable[..., object]", each) for option, each in found.items() if each is not None}


@lru_cache(maxsize=64)
def _option_method_names(kind: type) -> Mapping[str, str]:
    """Return the methods of a class that take one option and return the object or a copy, with their options."""
    options = {name: _PREFIX.sub("", name) for name, _ in inspect.getmembers(kind, inspect.isfunction)}
    return {
        name: option
        for name, option in options.items()
        if option in _OPTION_NAMES and name not in TOOL_BINDERS and _returns_client(getattr(kind, name))
    }


def _returns_client(function: Callable[..., object]) -> bool:
    method = method_of((), function)
    is_setter = len(inspect.signature(function).parameters) == _SETTER_PARAMETERS and not method.sends_requests
    return is_setter and _RETURNS_CLIENT.search(method.source) is not None


_SETTER_PARAMETERS = 2
"""Number of parameters of a function that sets one option of an object."""


def with_options(client: object, path: tuple[str, ...], arguments: dict[str, Any]) -> object:
    """Return a client with those `arguments` of its method that it takes by other methods, which are removed."""
    binder = tool_binder(client) if arguments.get("tools") else None
    if binder is not None:
        bound = {name: arguments.pop(name) for name in ("tools", "tool_choice") if name in arguments}
        client = binder(bound.pop("tools"), **bound)
    options = option_methods(client)
    own = [*inspect.signature(cast("Any", attribute_of(client, path))).parameters] if options else []
    for name in options.keys() & arguments.keys() - {*own}:
        function = option_methods(client)[name]
        parameter = next(iter(inspect.signature(function).parameters))
        client = call_with(function, {parameter: arguments.pop(name)})
    return client
