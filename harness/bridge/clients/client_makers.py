"""Classes, functions and objects of the user that make the clients of conversations."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import textwrap
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from harness.bridge.call_log import BoundMethod, call
from harness.bridge.clients.constructors import (
    constructor_method,
    constructor_names,
    returns_one_object,
    try_to_make,
)
from harness.bridge.clients.invocation import result_of_call
from harness.bridge.clients.methods import Method, method_of, public_methods
from harness.bridge.clients.names import SYNONYMS, TOOL_PARAMETERS, first_known
from harness.bridge.clients.objects import ObjectCopies
from harness.bridge.clients.option_dictionaries import keys_of_options
from harness.bridge.clients.session_openers import session_opener
from harness.bridge.clients.sources import (
    arguments_beside_options,
    name_of_options,
    plain_name,
    source_of,
    source_of_class,
)
from harness.bridge.clients.turns import entered


@dataclass(frozen=True, slots=True)
class ClientMaker:
    """A class, a function or an object of the user that makes clients. `make` is called for a new client.

    `client_class` is the class of the clients. It is `None` for a function that returns functions, which are the
    clients then. If `make` makes an object that opens sessions, the sessions are the clients, and `opening` is the
    method that opens one.
    """

    make: Callable[..., object]
    client_class: type | None
    opening: str = ""

    @contextmanager
    def opened(self, runner: asyncio.Runner, made: object) -> Generator[object]:
        """Return the client of an object that was made: the object itself or a session that it opens.

        Objects and sessions that are context managers are entered, and left at the end.
        """
        with entered(runner, made, stays_open=self.copies_object) as found:
            if not self.opening:
                yield found
                return
            session = result_of_call(runner, call(BoundMethod(found, (self.opening,))))
            with entered(runner, session, stays_open=self.copies_object) as client:
                yield client

    @property
    def is_class(self) -> bool:
        """Return whether the clients are made by the constructor of their class."""
        return self.make is self.client_class

    @property
    def made_class(self) -> type | None:
        """The class of the objects that `make` makes: of the clients, or of those that open them."""
        return self.make if self.opening and inspect.isclass(self.make) else self.client_class

    @property
    def copies_object(self) -> bool:
        """Return whether the clients are copies of an object of the user. They must stay open."""
        return isinstance(self.make, ObjectCopies)

    @property
    def methods(self) -> list[Method]:
        """The public methods of the clients."""
        return [] if self.client_class is None else public_methods(self.client_class)

    @property
    def class_source(self) -> str:
        """The source of the class of the clients, or an empty text if they are functions."""
        return "" if self.client_class is None else source_of_class(self.client_class)

    @property
    def definition(self) -> type | Callable[..., object]:
        """The class of the clients, or the function that returns them if they are functions."""
        return self.make if self.client_class is None else self.client_class

    @property
    def constructor(self) -> Method:
        """The function that makes the clients, or the constructor of their class.

        If the function passes its `**options` on, its parameters include those of the constructor, and those of a class
        of options that it makes. They also include the keys that the constructor reads of its own `**options`.
        """
        made = constructor_method(self.make)
        if not made.is_open or self.client_class is None:
            return made
        fixed = () if self.is_class else arguments_beside_options(source_of(self.make))[0]
        own = made if self.is_class else constructor_method(self.client_class)
        names = (own.names | (keys_of_options(self.client_class) if own.is_open else frozenset[str]())) - {
            "self",
            *fixed,
        }
        hints = dict(own.hints)
        for each in _constructors_of_options(self.make):
            names |= each.names - {"self"}
            hints |= each.hints
        return replace(made, names=made.names | names, hints={**hints, **made.hints})


def _constructors_of_options(value: object) -> list[Method]:
    """Return the constructors of its package that a function or a constructor passes its `**options` on to, without the
    parameters that it sets itself.
    """
    function = value.__init__ if inspect.isclass(value) else value
    if not inspect.isfunction(function):
        return []
    options = name_of_options(function)
    try:
        nodes = [*ast.walk(ast.parse(textwrap.dedent(source_of(function))))]
    except SyntaxError:
        return []
    package, found = function.__module__.partition(".")[0], list[Method]()
    for node in (each for each in nodes if isinstance(each, ast.Call)):
        unpacked = [part for each in node.keywords if each.arg is None for part in ast.walk(each.value)]
        kind = function.__globals__.get(plain_name(node.func))
        is_passed_on = any(isinstance(each, ast.Name) and each.id == options for each in unpacked)
        if is_passed_on and inspect.isclass(kind) and kind.__module__.partition(".")[0] == package:
            made = constructor_method(kind)
            found.append(replace(made, names=made.names - {each.arg for each in node.keywords}))
    return found


def maker_of(value: object, api: str) -> ClientMaker | None:
    """Return how a class, a function or an object makes clients of an API. Return `None` for other values."""
    if inspect.isclass(value):
        opening, session = session_opener(value) or ("", value)
        return ClientMaker(value, session, opening)
    if inspect.isfunction(value):
        client = made_by(value, api)
        if client is None or inspect.isfunction(client):
            return None if client is None else ClientMaker(value, None)
        make = ObjectCopies(client) if returns_one_object(value, client) else value
        opening, session = session_opener(type(client)) or ("", type(client))
        return ClientMaker(make, session, opening)
    kind = type(value)
    is_object = not inspect.isroutine(value) and not inspect.ismodule(value) and kind is not partial
    return ClientMaker(ObjectCopies(value), kind) if is_object and kind.__module__ != "builtins" else None


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
