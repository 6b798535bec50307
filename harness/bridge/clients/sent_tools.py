"""Parameters of third-party classes whose value is sent as the tools of a request."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from functools import lru_cache

from harness.bridge.clients.sources import plain_name


@lru_cache(maxsize=64)
def names_sent_as_tools(source: str) -> frozenset[str]:
    """Return the variables and attributes whose values get into the tools of a request."""
    try:
        nodes = [*ast.walk(ast.parse(textwrap.dedent(source)))]
    except SyntaxError:
        return frozenset()
    functions = {each.name: each for each in nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    assigned = [*_assigned_values(nodes)]
    pending = [value for target, value in assigned if target in _TOOL_KEYS]
    pending += [value for key, value in _keyed_values(nodes) if key in _TOOL_KEYS]
    found = set[str]()
    while pending:
        for node in ast.walk(pending.pop()):
            name = plain_name(node)
            if name and name not in found and isinstance(getattr(node, "ctx", None), ast.Load):
                found.add(name)
                pending += [value for target, value in assigned if target == name]
                pending += [each for each in [functions.get(name)] if each is not None]
    return frozenset(found)


@lru_cache(maxsize=256)
def names_converted_to_tools(source: str) -> frozenset[str]:
    """Return the variables whose values are the tools of a request themselves, perhaps converted one by one. Those that
    are only parts of a tool are left out.
    """
    try:
        nodes = [*ast.walk(ast.parse(textwrap.dedent(source)))]
    except SyntaxError:
        return frozenset()
    assigned = [*_assigned_values(nodes)]
    pending = [value for key, value in (*assigned, *_keyed_values(nodes)) if key in _TOOL_KEYS]
    found = set[str]()
    while pending:
        for name in _names_of_list(pending.pop()):
            if name not in found:
                found.add(name)
                pending += [value for target, value in assigned if target == name]
    return frozenset(found)


def _names_of_list(node: ast.AST) -> Iterator[str]:
    """Yield the variables whose items are the items of an expression, perhaps converted."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Starred(value=value) | ast.BoolOp(values=[value, *_]):
            yield from _names_of_list(value)
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*_names_of_list(body), *_names_of_list(orelse))
        case ast.Call(args=[*_, last], keywords=[]):
            yield from _names_of_list(last)
        case ast.ListComp(generators=[first, *_]) | ast.GeneratorExp(generators=[first, *_]):
            yield from _names_of_list(first.iter)
        case ast.List(elts=[item]) | ast.Tuple(elts=[item]) if isinstance(item, ast.Dict | ast.Starred):
            yield from _names_of_list(item)
        case ast.Dict():
            values = (value for key, value in _keyed_values([node]) if key in _TOOL_KEYS)
            yield from (name for value in values for name in _names_of_list(value))
        case _:
            return


_TOOL_KEYS = ("tools", "functions", "functionDeclarations", "function_declarations")


def _assigned_values(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the variables, the attributes and the keys that code assigns, with their values."""
    for each in nodes:
        if isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
            for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                key = target.slice if isinstance(target, ast.Subscript) else None
                yield str(key.value) if isinstance(key, ast.Constant) else plain_name(target), each.value


def _keyed_values(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the keys of dictionaries and the keyword arguments in code, with their values."""
    for each in nodes:
        if isinstance(each, ast.Dict):
            pairs = zip(each.keys, each.values, strict=True)
            yield from ((str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant))
        elif isinstance(each, ast.Call):
            yield from ((keyword.arg, keyword.value) for keyword in each.keywords if keyword.arg)
