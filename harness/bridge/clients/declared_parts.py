"""Variables and attributes that become parts of a tool's declaration, according to the code that builds it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from harness.bridge.clients.own_keys import SCHEMA_KEYS

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(maxsize=64)
def parts_by_name(source: str) -> Mapping[str, str]:
    """Return the part of a tool that each variable or attribute of some code becomes, by the key of the declaration.

    A name under several keys is left out, except that properties may also be listed as the required ones.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return {}
    found = dict[str, set[str]]()
    for scope in (each for each in ast.walk(tree) if isinstance(each, _Function | ast.Module)):
        assigned = _assigned_names(scope)
        for key, value in (pair for each in ast.walk(scope) for pair in _declared_values(each)):
            for name in _names_in(value, assigned):
                found.setdefault(name, set()).add(_PARTS[key])
    return {name: _main_part(parts) for name, parts in found.items() if _main_part(parts)}


def _main_part(parts: set[str]) -> str:
    if parts == {"properties", "required"}:
        return "properties"
    return next(iter(parts)) if len(parts) == 1 else ""


_SCHEMA_NAMES = (*SCHEMA_KEYS, "inputSchema")

_PARTS: Mapping[str, str] = {
    **{each: each for each in ("name", "description", "properties", "required")},
    **dict.fromkeys(_SCHEMA_NAMES, "parameters"),
}
"""Key of a declaration → part of the tool."""


def _declared_values(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the keys and values of a declaration, or of the schema of an object."""
    if isinstance(node, ast.Dict):
        pairs = [(_text(key), value) for key, value in zip(node.keys, node.values, strict=True)]
    elif isinstance(node, ast.Call):
        pairs = [(each.arg or "", each.value) for each in node.keywords]
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        key = _text(node.targets[0].slice)
        pairs = [(key, node.value)] if key in _SCHEMA_NAMES else []
        yield from pairs
        return
    else:
        return
    keys = {key for key, _ in pairs}
    is_declaration = "name" in keys and bool(keys & {"description", *_SCHEMA_NAMES})
    is_object = isinstance(node, ast.Dict) and "properties" in keys
    yield from (
        (key, value)
        for key, value in pairs
        if key in _PARTS and (is_object if key in {"properties", "required"} else is_declaration)
    )


def _text(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _assigned_names(scope: ast.AST) -> Mapping[str, set[str]]:
    """Return the names in the values that are assigned to each local variable."""
    found = dict[str, set[str]]()
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, set()).update(_names_in(node.value, {}))
    return found


def _names_in(node: ast.AST, assigned: Mapping[str, set[str]]) -> set[str]:
    """Return the variables and attributes whose values an expression uses, by way of local variables as well."""
    if isinstance(node, ast.Attribute):
        return {node.attr}
    if isinstance(node, ast.Name):
        return {node.id, *assigned.get(node.id, ())}
    if isinstance(node, ast.Dict | ast.Lambda):
        return set()  # a part of its own
    if isinstance(node, ast.Call):
        owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        called = {node.func.attr} if isinstance(node.func, ast.Attribute) and not node.args else set[str]()
        inner = [*owner, *node.args, *(each.value for each in node.keywords)]
        return called.union(*(_names_in(each, assigned) for each in inner))
    return set[str]().union(*(_names_in(each, assigned) for each in ast.iter_child_nodes(node)))
