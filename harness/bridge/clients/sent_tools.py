"""Parameters of third-party classes whose value is sent as the tools of a request."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from functools import lru_cache

from harness.bridge.clients.methods import Method
from harness.bridge.clients.names import KNOWN_PARAMETERS, SYNONYMS, first_known
from harness.bridge.clients.sources import plain_name


def parameter_for_tools(method: Method, source: str) -> str | None:
    """Return the parameter of a method or constructor for tools: by its name, or if the class in `source` sends it as
    the tools of a request.
    """
    name = first_known(SYNONYMS["tools"], method.names)
    if name is not None:
        return name
    unknown = method.names - KNOWN_PARAMETERS - {"self", *SYNONYMS["prompt"], *SYNONYMS["messages"]}
    found = sorted(_names_sent_as_tools(source) & unknown)
    return found[0] if len(found) == 1 else None


@lru_cache(maxsize=64)
def _names_sent_as_tools(source: str) -> frozenset[str]:
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
