"""The members of a module that may be its client."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from harness.bridge.clients.methods import method_of, public_methods
from harness.bridge.clients.names import METHODS
from harness.bridge.clients.session_openers import session_opener
from harness.bridge.clients.shape_recognition import is_value_class
from harness.bridge.clients.sources import plain_name, source_of
from harness.model.protocols import Adapter, Loop


def possible_clients(
    module: str, members: Mapping[str, object], may_be_client: Callable[[object, str], bool]
) -> list[str]:
    """Return the names of the members of a module that may be its client.

    Of several, those count whose code sends a request, except `main`, functions that only use another one,
    those that another one calls, and classes of which there is an object. A class that opens sessions counts in place
    of their class. If no member may be the client, the classes count, or all members if there are several.
    """
    found = [
        name
        for name, value in members.items()
        if not name.startswith("_")
        and (f"{getattr(value, '__module__', None)}.".startswith(f"{module}.") or _is_defined_here(value))
    ]
    found = [each for each in found if not is_value_class(members[each])] or found
    clients = [each for each in found if may_be_client(members[each], f"{module}:{each}")]
    clients = clients or [each for each in found if inspect.isclass(members[each])] or (found if len(found) > 1 else [])
    openers = {id(session): name for name in found for session in _opened_classes(members[name])}
    clients = [*dict.fromkeys(openers.get(id(members[each]), each) for each in clients)]
    clients = [each for each in clients if _sends_requests(members[each])] or clients
    clients = [each for each in clients if each != "main"] or clients
    made = {id(type(members[each])) for each in clients}
    clients = [each for each in clients if id(members[each]) not in made]
    called = {each: _called_names(members[each], members) & {*clients} - {each} for each in clients}
    clients = [each for each in clients if not _is_shortcut(members[each], [members[name] for name in called[each]])]
    return [each for each in clients if not any(each in called[other] for other in clients)] or clients


def _is_shortcut(value: object, called: Sequence[object]) -> bool:
    """Return whether a function calls one of the possible clients. This is a class that it uses once, or a function
    that gets the arguments of the call unchanged.
    """
    if not inspect.isfunction(value) or len(called) != 1:
        return False
    kinds = {each.kind for each in inspect.signature(value).parameters.values()}
    passes_on = kinds <= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return inspect.isclass(called[0]) or passes_on


def _called_names(value: object, members: Mapping[str, object]) -> set[str]:
    """Return the names that the code of a value calls, or that the tables of its module have which the code uses."""
    code = value if inspect.isclass(value) or inspect.isfunction(value) else type(value)
    try:
        nodes = [*ast.walk(ast.parse(textwrap.dedent(source_of(code))))]
    except SyntaxError:
        return set()
    called = {plain_name(each.func) for each in nodes if isinstance(each, ast.Call)}
    used = {each.id for each in nodes if isinstance(each, ast.Name)}
    tables = (cast("object", each) for name, each in members.items() if name in used and isinstance(each, dict))
    listed = [each for table in tables for each in cast("dict[object, object]", table).values()]
    return called | {name for name, each in members.items() if any(each is one for one in listed)}


def _is_defined_here(value: object) -> bool:
    """Return whether a value of a module is an adapter, a loop, or an object with methods, as libraries make them. An
    imported class or function belongs to another module.
    """
    if isinstance(value, Adapter | Loop):
        return True
    is_imported = inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value)
    return not is_imported and any(callable(getattr(type(value), each, None)) for each in METHODS)


def _opened_classes(value: object) -> Iterator[type]:
    """Yield the class of the sessions that a class opens, if it opens some."""
    opener = session_opener(value) if inspect.isclass(value) else None
    if opener is not None:
        yield opener[1]


def _sends_requests(value: object) -> bool:
    """Return whether the code of a class, a function or an object sends a request, also by other functions. Adapters
    and loops of harness count, too.
    """
    if isinstance(value, Adapter | Loop):
        return True
    if inspect.isfunction(value):
        return method_of((), value).sends_requests
    return any(each.sends_requests for each in public_methods(value if inspect.isclass(value) else type(value)))
