"""Source code of modules, as far as the scripts that reproduce a finding need it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from types import ModuleType

_OWN = "harness"


def module_source(module: ModuleType, roots: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the imports and the definitions of a module that its functions `roots` need.

    Imports from harness are left out. The script must define those that are used outside of annotations.
    """
    source = inspect.getsource(module)
    tree = ast.parse(source)
    made = {name: node for node in tree.body for name in _defined_names(node)}
    needed, left = set[str](), [*roots, *(name for node in tree.body if _is_setup(node) for name in _names_in(node))]
    while left:
        name = left.pop()
        if name not in needed:
            needed.add(name)
            left += _names_in(made[name]) if name in made else []
    imports, definitions, own = list[str](), list[str](), list[str]()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            origin = getattr(node, "module", None) or node.names[0].name
            names = [each for each in node.names if (each.asname or each.name).partition(".")[0] in needed]
            if origin.partition(".")[0] == _OWN:
                own += [each.name for each in names]
            elif names:
                node.names = names
                imports.append(ast.unparse(node))
        elif _is_setup(node):
            (definitions or imports).append(ast.unparse(node))
        elif needed & {*_defined_names(node)}:
            first = min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)
            definitions.append("\n".join(source.splitlines()[first - 1 : node.end_lineno]))
    foreign = re.compile(rf": ({'|'.join(own)})(?=[,)])|\s*# noqa.*") if own else re.compile(r"\s*# noqa.*")
    return imports, [foreign.sub("", each) for each in definitions]


def imported_modules(module: ModuleType) -> list[str]:
    """Return the names of the packages that a module imports."""
    nodes = [*ast.walk(ast.parse(inspect.getsource(module)))]
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return [name.partition(".")[0] for name in names if name.partition(".")[0] != _OWN]


def _is_setup(node: ast.stmt) -> bool:
    """Return whether a statement of a module only sets up a library."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)


def _defined_names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [each.id for each in node.targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)) if node.value is not None:
            return [name]
        case _:
            return []


def _names_in(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
