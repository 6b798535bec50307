"""Uses of the stop reason in third-party code, which show whether the code can notice that an answer is truncated."""

from __future__ import annotations

import ast
import re

_NAMES = re.compile("(finish|stop)_?reason", re.IGNORECASE)

_TOOL_WORDS = {"tool_use", "tool_calls", "function_call"}

_TRUNCATION_WORDS = {
    *("length", "max_tokens", "MAX_TOKENS", "incomplete", "max_output_tokens", "model_context_window_exceeded"),
}


def may_notice_truncation(source: str) -> bool:
    """Return whether code may use a stop reason in a way that differs for truncated answers.

    It does not if it only tests whether there is one, or compares it with other words. A variable for the stop reason
    is followed by its name. If the code cannot be parsed, the answer is that of a search for the name.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return _NAMES.search(source) is not None
    return _Uses(tree).may_differ()


class _Uses:
    def __init__(self, tree: ast.Module) -> None:
        self._nodes = [*ast.walk(tree)]
        self._parents = {child: each for each in self._nodes for child in ast.iter_child_nodes(each)}
        self._followed = set[str]()

    def may_differ(self) -> bool:
        """Return whether any use of a stop reason may differ for truncated answers."""
        if any(map(self._has_field, self._nodes)):
            return True
        names = {each.id for each in self._nodes if isinstance(each, ast.Name) and _NAMES.fullmatch(each.id)}
        pending = [*filter(self._mentions, self._nodes), *(use for name in names for use in self._uses_of(name))]
        while pending:
            found = self._variable_or_verdict(pending.pop())
            if found is True:
                return True
            pending += self._uses_of(found) if found else []
        return False

    @staticmethod
    def _has_field(node: ast.AST) -> bool:
        fields = (
            (each for each in node.body if isinstance(each, ast.AnnAssign)) if isinstance(node, ast.ClassDef) else ()
        )
        return any(isinstance(each.target, ast.Name) and _NAMES.fullmatch(each.target.id) for each in fields)

    @staticmethod
    def _mentions(node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            return _NAMES.fullmatch(node.attr) is not None
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and _NAMES.fullmatch(node.value) is not None
        return isinstance(node, ast.keyword | ast.arg) and _NAMES.fullmatch(node.arg or "") is not None

    def _uses_of(self, name: str) -> list[ast.AST]:
        """Return the expressions that read a variable, when it is first followed."""
        if name in self._followed:
            return []
        self._followed.add(name)
        return [each for each in self._nodes if isinstance(each, ast.Name) and each.id == name and self._is_read(each)]

    @staticmethod
    def _is_read(node: ast.Name) -> bool:
        return isinstance(node.ctx, ast.Load)

    def _variable_or_verdict(self, node: ast.AST) -> str | bool:
        """Return the name of the variable to which a stop reason is assigned, or else whether its use may differ."""
        node = self._value_at(node)
        parent = self._parents.get(node)
        while isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.IfExp) and node is not parent.test):
            node, parent = parent, self._parents.get(parent)
        if isinstance(parent, ast.Compare):
            return not _is_same_for_truncated(parent)
        if isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            target = targets[0]
            return target.id if len(targets) == 1 and isinstance(target, ast.Name) else True
        if isinstance(parent, ast.Tuple) and isinstance(node, ast.Name):
            return not (isinstance(self._parents.get(parent), ast.Return) and self._is_unpacked(node.id))
        is_test = isinstance(parent, ast.If | ast.While | ast.IfExp) and node is parent.test
        return not is_test and not (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not))

    def _value_at(self, node: ast.AST) -> ast.AST:
        """Return the expression that reads the stop reason, if `node` is its key, as in `choice["finish_reason"]`."""
        parent = self._parents.get(node)
        if isinstance(parent, ast.Subscript) and node is parent.slice and isinstance(parent.ctx, ast.Load):
            return parent
        is_get = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr == "get"
        return parent if is_get and isinstance(parent, ast.Call) and node in parent.args[:1] else node

    def _is_unpacked(self, name: str) -> bool:
        """Return whether code unpacks a tuple into a variable of this name."""
        stored = (each for each in self._nodes if isinstance(each, ast.Name) and each.id == name)
        return any(
            isinstance(each.ctx, ast.Store) and isinstance(self._parents.get(each), ast.Tuple) for each in stored
        )


def _is_same_for_truncated(comparison: ast.Compare) -> bool:
    """Return whether the result of a comparison is the same for truncated and for complete answers without calls."""
    items = [comparison.left, *comparison.comparators]
    inner = [
        part for each in items for part in (each.elts if isinstance(each, ast.Tuple | ast.List | ast.Set) else [each])
    ]
    words = {each.value for each in inner if isinstance(each, ast.Constant)}
    if len(words) < len(inner) - 1 or len(comparison.ops) != 1:
        return False
    if words == {None}:
        return True
    is_negated = isinstance(comparison.ops[0], ast.NotEq | ast.NotIn | ast.IsNot)
    return words <= _TOOL_WORDS if is_negated else not words & {*_TRUNCATION_WORDS, "stop", "end_turn", "STOP"}
