"""Names that functions accept among their `**options`: those of a list with which they compare them, and those of the
function to which they pass them on.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import cast

from harness.bridge.clients.sources import name_of_options, source_of


def accepted_options(value: object) -> frozenset[str]:
    """Return the names that a function, method or constructor accepts among its `**options`.

    Return no names if it has no `**options` or does not compare their names with a list. The code may raise an
    exception for other names, as in `if set(options) - ALLOWED: raise TypeError`. Or it selects the known ones, as in
    `{key: options[key] for key in ALLOWED if key in options}`.
    """
    function = value.__init__ if inspect.isclass(value) else getattr(value, "__func__", value)
    if not inspect.isfunction(function):
        return frozenset()
    options = name_of_options(function)
    if options is None:
        return frozenset()
    try:
        tree = ast.parse(textwrap.dedent(source_of(function)))
    except SyntaxError:
        return frozenset()
    owner = function.__globals__.get(function.__qualname__.rpartition(".")[0])
    found = [_texts_of(each, function.__globals__, owner) for each in _lists_compared(tree, options)]
    return frozenset[str]().union(*found)


def delegate_of_options(value: object) -> tuple[Callable[..., object], frozenset[str]] | None:
    """Return the function to which another one of its class or module passes all of its `**options`.

    Return it with the parameters that it can get by them. Return `None` if there is not exactly one such function, or
    if it accepts any name.
    """
    function, given = getattr(value, "__func__", value), set[str]()
    for _ in range(_MAX_DELEGATES):
        if not inspect.isfunction(function) or (options := name_of_options(function)) is None:
            return None
        try:
            tree = ast.parse(textwrap.dedent(source_of(function)))
        except SyntaxError:
            return None
        if sum(isinstance(each, ast.Name) and each.id == options for each in ast.walk(tree)) != 1:
            return None
        call = next((each for each in ast.walk(tree) if isinstance(each, ast.Call) and _unpacks(each, options)), None)
        owner = function.__globals__.get(function.__qualname__.rpartition(".")[0])
        function = None if call is None else _called_function(call, function.__globals__, owner)
        if call is None or function is None:
            return None
        parameters = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
        given |= {*parameters[: len(call.args)], *(each.arg for each in call.keywords if each.arg is not None)}
        if name_of_options(function) is None:
            return function, frozenset(parameters) - given
    return None


_MAX_DELEGATES = 4
"""Limit of the number of functions that pass the same options on."""


def _unpacks(call: ast.Call, options: str) -> bool:
    """Return whether a call gets all options as its own."""
    unpacked = [each.value for each in call.keywords if each.arg is None]
    return any(isinstance(each, ast.Name) and each.id == options for each in unpacked)


def _called_function(call: ast.Call, known: Mapping[str, object], owner: object) -> FunctionType | None:
    """Return the function that a call names, in a module or as a method of `owner`, or `None` for another one."""
    found: object = None
    if isinstance(call.func, ast.Name):
        found = known.get(call.func.id)
    elif isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        found = getattr(owner, call.func.attr, None) if call.func.value.id in ("self", "cls") else None
    return found if isinstance(found, FunctionType) else None


def _lists_compared(tree: ast.AST, options: str) -> Iterator[ast.expr]:
    """Yield the expressions for lists of accepted names with which code compares its options."""
    unknown = dict[str, ast.expr]()
    for each in ast.walk(tree):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            unknown[each.targets[0].id] = each.value
    for each in ast.walk(tree):
        if isinstance(each, ast.If) and any(isinstance(one, ast.Raise) for one in ast.walk(each)):
            tests = [each.test, *(unknown[name] for name in _names_in(each.test) if name in unknown)]
            for test in tests:
                yield from _lists_that_exclude(test, options, tree)
        elif isinstance(each, ast.comprehension | ast.For) and not _are_passed_on(tree, options):
            yield from _lists_that_select(each, options, tree)


def _lists_that_exclude(test: ast.expr, options: str, tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the lists in a test that finds options whose names are not in the list."""
    keys = {options, *_keys_of(tree, options)}
    for each in ast.walk(test):
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub) and options in _names_in(each.left):
            yield each.right
        elif isinstance(each, ast.Compare) and len(each.ops) == 1:
            is_excluding = isinstance(each.ops[0], ast.NotIn) or (
                isinstance(each.ops[0], ast.LtE) and options in _names_in(each.left)
            )
            if is_excluding and keys & _names_in(each.left):
                yield each.comparators[0]


def _lists_that_select(loop: ast.comprehension | ast.For, options: str, tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the list by which a loop selects options."""
    if isinstance(loop, ast.comprehension) and options in _names_in(loop.iter):
        keys = _names_in(loop.target)
        for each in (one for test in loop.ifs for one in ast.walk(test)):
            if isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.In) and keys & _names_in(each.left):
                yield each.comparators[0]
    elif options not in _names_in(loop.iter):
        body = loop.body if isinstance(loop, ast.For) else [_owner(tree, loop)]
        if any(_reads_by_key(each, options, _names_in(loop.target)) for each in body):
            yield loop.iter


def _are_passed_on(tree: ast.AST, options: str) -> bool:
    """Return whether code passes all options on, so that a loop only takes some of them out."""
    for each in ast.walk(tree):
        unpacked = list[ast.expr]()
        if isinstance(each, ast.Call):
            is_update = isinstance(each.func, ast.Attribute) and each.func.attr == "update"
            unpacked = [*(one.value for one in each.keywords if one.arg is None), *(each.args if is_update else ())]
        elif isinstance(each, ast.Dict):
            unpacked = [value for key, value in zip(each.keys, each.values, strict=True) if key is None]
        if any(isinstance(one, ast.Name) and one.id == options for one in unpacked):
            return True
    return False


def _reads_by_key(tree: ast.AST, options: str, keys: set[str]) -> bool:
    """Return whether code reads options by a variable that holds the name of an option."""
    for each in ast.walk(tree):
        read, by = ast.Constant(None), list[ast.expr]()
        if isinstance(each, ast.Subscript):
            read, by = each.value, [each.slice]
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in ("get", "pop"):
            read, by = each.func.value, each.args[:1]
        if options in _names_in(read) and any(keys & _names_in(key) for key in by):
            return True
    return False


def _owner(tree: ast.AST, part: ast.comprehension) -> ast.AST:
    """Return the comprehension to which a loop belongs."""
    return next(each for each in ast.walk(tree) if part in getattr(each, "generators", ()))


def _keys_of(tree: ast.AST, options: str) -> set[str]:
    """Return the variables of loops over the options."""
    loops = (each for each in ast.walk(tree) if isinstance(each, ast.comprehension | ast.For))
    return {name for each in loops if options in _names_in(each.iter) for name in _names_in(each.target)}


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _texts_of(node: ast.expr, known: Mapping[str, object], owner: object) -> frozenset[str]:
    """Return the texts in a collection that an expression spells out or names. A named attribute belongs to `owner`."""
    found = set[str]()
    for each in ast.walk(node):
        value: object = None
        if isinstance(each, ast.Constant):
            value = (each.value,)
        elif isinstance(each, ast.Name):
            value = known.get(each.id)
        elif isinstance(each, ast.Attribute):
            value = getattr(owner, each.attr, None)
        if isinstance(value, list | tuple | set | frozenset | dict):
            found |= {text for text in cast("Iterable[object]", value) if isinstance(text, str)}
    return frozenset(found)
