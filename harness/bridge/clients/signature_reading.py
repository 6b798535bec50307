"""Uses of a value in third-party code: which of its attributes are read, and whether it is the system prompt."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from harness.bridge.clients.sources import plain_name

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Place: TypeAlias = tuple[ast.AST, str]
"""A part of the code, and the name of a variable or attribute in it."""


def reads_signatures(source: str, parameter: str) -> bool:
    """Return whether code reads the signatures of the functions in a parameter."""
    return any(_is_signature_read(node, name) for node, name in _uses(source, parameter))


def attributes_read(source: str, parameter: str) -> frozenset[str]:
    """Return the attributes that code reads from the value of a parameter, or from its items."""
    nodes = ((node, name) for node, name in _uses(source, parameter) if isinstance(node, ast.Attribute))
    return frozenset(node.attr for node, name in nodes if plain_name(node.value) == name)


def creates_instances(source: str, parameter: str) -> bool:
    """Return whether code calls the value of a parameter without arguments, and does not test for a class first."""
    calls = (node for node, name in _uses(source, parameter) if isinstance(node, ast.Call) and _is_called(node, name))
    is_tested = re.search(r"isinstance\(\w+, type\)|isclass\(", source) is not None
    return not is_tested and any(not node.args and not node.keywords for node in calls)


def is_system_prompt(source: str, parameter: str) -> bool:
    """Return whether code sends the value of a parameter as the system prompt."""
    return any(_is_sent_as_system(node, name) for node, name in _uses(source, parameter))


_SYSTEM_KEYS = ("system", "system_instruction", "systemInstruction", "instructions")
_SYSTEM_ROLES = ("system", "developer")


def _is_sent_as_system(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call):
        is_message = any(_constant(each) in _SYSTEM_ROLES for each in node.args)
        is_named = any(each.arg in _SYSTEM_KEYS and _holds_itself(each.value, name) for each in node.keywords)
        return is_named or (is_message and any(plain_name(each) == name for each in node.args))
    if isinstance(node, ast.Dict):
        pairs = [*zip(map(_constant, node.keys), node.values, strict=True)]
        is_message = any(_constant(value) in _SYSTEM_ROLES for _, value in pairs)
        return any(plain_name(value) == name and (is_message or key in _SYSTEM_KEYS) for key, value in pairs)
    return False


def _constant(node: ast.AST | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _is_called(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == name


class _Code:
    """Parsed code, and its nodes by the function and the variable or attribute that they mention."""

    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source)
        self.functions = [*_functions_in(self.tree)]
        self._nodes = dict[ast.AST, Mapping[str, Sequence[ast.AST]]]()

    def nodes(self, scope: ast.AST, name: str) -> Sequence[ast.AST]:
        """Return the nodes in a part of the code that copy or use values, and that hold a variable or attribute."""
        if scope not in self._nodes:
            found = defaultdict[str, list[ast.AST]](list)
            for node in (each for each in ast.walk(scope) if isinstance(each, _NODES)):
                for held in {plain_name(each) for each in ast.walk(node)}:
                    found[held].append(node)
            self._nodes[scope] = found
        return self._nodes[scope].get(name, ())


@lru_cache(maxsize=8)
def _parse(source: str) -> _Code | None:
    try:
        return _Code(source)
    except SyntaxError:
        return None


@lru_cache(maxsize=64)
def _uses(source: str, parameter: str) -> tuple[tuple[ast.AST, str], ...]:
    """Return all nodes that use the values of a parameter, each with the name that the value has there.

    The values are followed through loops and assignments, and into the functions and classes of `source` that receive
    them.
    """
    code = _parse(source)
    if code is None:
        return ()
    known = dict(code.functions)
    pending: list[_Place] = [(each, parameter) for _, each in code.functions if parameter in _all_parameters(each)]
    seen, found = set[_Place](), list[tuple[ast.AST, str]]()
    while pending:
        place = pending.pop()
        if place in seen:
            continue
        seen.add(place)
        scope, name = place
        for node in code.nodes(scope, name):
            if isinstance(node, ast.Call | ast.Attribute | ast.Dict):
                found.append((node, name))
            pending += _copies(node, place, known, code.tree)
    return tuple(found)


_NODES = (
    *(ast.Call, ast.Attribute, ast.Dict, ast.For, ast.AsyncFor, ast.comprehension),
    *(ast.Assign, ast.AnnAssign, ast.NamedExpr),
)


def _functions_in(tree: ast.AST) -> Iterator[tuple[str, _Function]]:
    """Yield the functions of some code with their names. A constructor has the name of its class."""
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            yield node.name, node
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from (
                (node.name, each) for each in node.body if isinstance(each, _Function) and each.name == "__init__"
            )


def _parameters(function: _Function) -> list[str]:
    given = function.args
    return [
        each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs) if each.arg not in ("self", "cls")
    ]


def _all_parameters(function: _Function) -> list[str]:
    """Return the parameters of a function, with `values` of `*values`."""
    return [*_parameters(function), *([function.args.vararg.arg] if function.args.vararg else [])]


_SIGNATURE_READERS = ("signature", "get_type_hints", "getdoc", "getfullargspec")
_SIGNATURE_PARTS = ("__name__", "__doc__", "__annotations__", "__signature__")


def _is_signature_read(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _SIGNATURE_PARTS and plain_name(node.value) == name
    if not isinstance(node, ast.Call) or not node.args or plain_name(node.args[0]) != name:
        return False
    reads = [each.value for each in node.args[1:2] if isinstance(each, ast.Constant)]
    called = plain_name(node.func)
    return called in _SIGNATURE_READERS or (called == "getattr" and reads[0:1] == ["__name__"])


def _copies(node: ast.AST, place: _Place, known: dict[str, _Function], tree: ast.AST) -> Iterator[_Place]:
    """Yield the places to which a node copies a value or its items."""
    scope, name = place
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension) and _holds(node.iter, name):
        yield from ((scope, each) for each in _names_in(node.target))
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value and _holds(node.value, name):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target, value in (pair for each in targets for pair in _assignments(each, node.value)):
            if _holds(value, name):
                yield from _places_of(target, scope, tree)
    elif isinstance(node, ast.Call):
        yield from _arguments_of_call(node, name, known)
        added = any(_holds(each, name) for each in node.args)
        if added and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING_METHODS:
            yield from _places_of(node.func.value, scope, tree)


def _assignments(target: ast.AST, value: ast.AST) -> Iterable[tuple[ast.AST, ast.AST]]:
    """Return a target with its value, or those of each item in `first, second = 1, 2`."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return zip(target.elts, value.elts, strict=True)
    return [(target, value)]


_ADDING_METHODS = ("append", "extend", "insert", "add", "update", "setdefault")
"""Methods of lists, sets and dictionaries that add what they get."""


def _places_of(target: ast.AST, scope: ast.AST, tree: ast.AST) -> Iterator[_Place]:
    """Yield the places to which an assignment writes. An item of a collection counts as the whole collection."""
    while isinstance(target, ast.Subscript):
        target = target.value
    if isinstance(target, ast.Attribute):
        yield tree, target.attr
    else:
        yield from ((scope, each) for each in _names_in(target))


def _arguments_of_call(node: ast.Call, name: str, known: dict[str, _Function]) -> Iterator[_Place]:
    """Yield the parameters that receive a value, or its items, in a call."""
    called, arguments = plain_name(node.func), node.args
    if called == "map" and arguments:
        called, arguments = plain_name(arguments[0]), arguments[1:]
    function = known.get(called)
    if function is None:
        return
    names = _parameters(function)
    rest = [function.args.vararg.arg] * len(arguments) if function.args.vararg else []
    for parameter, value in zip([*names, *rest], arguments, strict=False):
        if _holds(value, name):
            yield function, parameter
    yield from ((function, each.arg) for each in node.keywords if each.arg in names and _holds(each.value, name))


def _holds(node: ast.AST, name: str) -> bool:
    return any(plain_name(each) == name for each in ast.walk(node))


def _holds_itself(node: ast.AST, name: str) -> bool:
    """Return whether an expression has a value, and not only one of its attributes. Its methods may be called."""
    nodes = [*ast.walk(node)]
    called = {id(each.func) for each in nodes if isinstance(each, ast.Call)}
    owners = {id(each.value) for each in nodes if isinstance(each, ast.Attribute) and id(each) not in called}
    return any(plain_name(each) == name and id(each) not in owners for each in nodes)


def _names_in(node: ast.AST) -> Iterable[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
