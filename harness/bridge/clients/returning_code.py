"""The code that third-party code may run before it returns an answer: without exceptions and without long texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import cast


def returning_code(source: str) -> str:
    """Return code without the branches that raise an exception, the classes of exceptions, imports, and texts of
    several words that are not reported. If it cannot be parsed, it is unchanged.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    return ast.unparse(ast.fix_missing_locations(cast("ast.Module", _WithoutExceptions().visit(tree))))


class _WithoutExceptions(ast.NodeTransformer):
    """Removes what is not run, or shows nothing, when a function returns."""

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        return ast.Pass() if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert) else super().visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        if not _raises(node.body):
            return node
        return cast("list[ast.AST]", node.orelse) or ast.Pass()

    def visit_Match(self, node: ast.Match) -> ast.AST:
        kept = [each for each in node.cases if not _raises(each.body)]
        if not kept:
            return ast.Pass()
        node.cases = kept
        return self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        if _raises(node.body):
            return ast.ExceptHandler(body=[ast.Pass()])
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        is_exception = any(_EXCEPTION.search(ast.unparse(each)) for each in node.bases)
        return ast.Pass() if is_exception else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _REPORTING.search(ast.unparse(node.func)):
            return node
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        is_long = isinstance(node.value, str) and " " in node.value.strip()
        return ast.Constant("") if is_long else node


_EXCEPTION = re.compile(r"(?:Error|Exception|Exit|Warning)$")

_REPORTING = re.compile(
    r"log|print|warn|echo|emit|notif|publish|callback|observ|record|trac|on_|write|send", re.IGNORECASE
)
"""Name of a function that may report its arguments."""


def _raises(body: Sequence[ast.stmt]) -> bool:
    """Return whether a block of code ends with an exception."""
    return isinstance(body[-1], ast.Raise)
