"""Code that takes the results of tools: the form in which a method reads them, and whether it sends them."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from harness.bridge.clients.sources import plain_name

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_LIST, _ITEM, _CALL, _VALUE = "list", "item", "call", "value"
"""Kinds of values that a variable holds: all results, one of them, or a part of one, such as what identifies its call.
"""


@dataclass(slots=True)
class ResultUses:
    """Uses of the results that a method gets.

    `keys` and `attributes` are read of each result. `names` are the variables to which a result that is a tuple is
    unpacked, and `call_fields` what is read of the first of them. `mapping_keys` are the expressions by which a
    dictionary of results is read. `is_ordered` is set if the results are values in the order of the calls, `is_native`
    if they are put into the messages as they are, and `is_sent` if they get into a message for results. `is_object` is
    set if the content of a result is unchanged in a field that holds an object, the `response` of Gemini. `is_tested`
    is set if the code tests whether the results are a list or a text.
    """

    keys: dict[str, None] = field(default_factory=dict[str, None])
    attributes: dict[str, None] = field(default_factory=dict[str, None])
    names: tuple[str, ...] = ()
    call_fields: set[str] = field(default_factory=set[str])
    is_mapping: bool = False
    mapping_keys: set[str] = field(default_factory=set[str])
    is_ordered: bool = False
    is_native: bool = False
    is_sent: bool = False
    is_object: bool = False
    is_tested: bool = False

    @property
    def is_known(self) -> bool:
        """Return whether the code shows the form of the results."""
        return bool(self.keys or self.attributes or self.names) or self.is_mapping or self.is_ordered or self.is_native

    @property
    def is_by_name(self) -> bool:
        """Return whether a dictionary of results has the names of the tools as keys."""
        return bool(self.mapping_keys) and all("name" in each for each in self.mapping_keys)


@lru_cache(maxsize=256)
def uses_of_results(method: str, source: str, parameter: str, *, is_content: bool = False) -> ResultUses:
    """Return the uses of a parameter in the source of a method, and in the functions of `source` that get its value.

    The parameter is for all results, or for the content of one if `is_content` is set.
    """
    try:
        (tree,) = ast.parse(textwrap.dedent(method)).body
        functions = {each.name: each for each in ast.walk(ast.parse(source)) if isinstance(each, _Function)}
    except (SyntaxError, ValueError):
        return ResultUses()
    found = ResultUses()
    pending: list[tuple[ast.AST, str, str]] = [(tree, parameter, _VALUE if is_content else _LIST)]
    seen = set[tuple[ast.AST, str, str]]()
    while pending:
        place = pending.pop()
        if place not in seen:
            seen.add(place)
            pending += _Scope(*place, functions, found).follow()
    return found


@dataclass(frozen=True, slots=True)
class _Scope:
    """A function in which the variable `name` holds all results, one result or a part of one, according to `kind`."""

    tree: ast.AST
    name: str
    kind: str
    functions: dict[str, _Function]
    found: ResultUses

    def follow(self) -> Iterator[tuple[ast.AST, str, str]]:
        """Record the uses of the variable. Yield the other variables that get its value."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
                yield from self._loop(node.iter, node.target)
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    yield from self._follow_assignment(node.value, target)
            elif isinstance(node, ast.Subscript) and self._is_it(node.value):
                self._subscript(node)
            elif isinstance(node, ast.Attribute) and self._is_it(node.value):
                self._attribute(node.attr)
            elif isinstance(node, ast.Dict | ast.Call) and _is_result_message(node) and self._is_in(node):
                self.found.is_sent = True
            self.found.is_object |= any(map(self._is_content, _values_of_response(node)))
            if isinstance(node, ast.Call):
                self.found.is_tested |= self.kind == _LIST and self._is_test(node)
                yield from self._call(node)
            elif isinstance(node, ast.Dict):
                keys = ((_text(key), value) for key, value in zip(node.keys, node.values, strict=True))
                is_native = any(key in ("content", "parts") and self._is_it(value) for key, value in keys)
                self.found.is_native |= is_native and self.kind == _LIST

    def _is_it(self, node: ast.AST) -> bool:
        """Return whether an expression has the value of the variable, perhaps copied, in part or with a default."""
        if isinstance(node, ast.BoolOp):
            return self._is_it(node.values[0])
        if isinstance(node, ast.IfExp):
            return self._is_it(node.body) or self._is_it(node.orelse)
        if isinstance(node, ast.Call) and plain_name(node.func) in _COPIES and node.args:
            return self._is_it(node.args[0])
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return self._is_it(node.value)
        return isinstance(node, ast.Name | ast.Attribute) and plain_name(node) == self.name

    def _is_in(self, node: ast.AST) -> bool:
        return any(isinstance(each, ast.Name) and each.id == self.name for each in ast.walk(node))

    def _is_test(self, node: ast.Call) -> bool:
        """Return whether a call tests whether the variable is a list or a text."""
        is_test = plain_name(node.func) == "isinstance" and bool(node.args) and self._is_it(node.args[0])
        return is_test and any(plain_name(each) in _TESTED for each in ast.walk(node.args[-1]))

    def _is_content(self, node: ast.expr) -> bool:
        """Return whether an expression is the content of a result, unchanged."""
        if self.kind == _VALUE:
            assigned = (each for each in ast.walk(self.tree) if isinstance(each, ast.Assign | ast.AnnAssign))
            is_made = any(
                isinstance(part, ast.Dict | ast.JoinedStr)
                for each in assigned
                if self.name in {plain_name(name) for name in getattr(each, "targets", [getattr(each, "target", each)])}
                for part in ast.walk(each)
            )
            return isinstance(node, ast.Name) and node.id == self.name and not is_made
        if self.kind == _ITEM and self.found.is_ordered and self._is_it(node):
            return True
        if isinstance(node, ast.Call) and plain_name(node.func) != "get":
            return False
        owner = node.value if isinstance(node, ast.Subscript | ast.Attribute) else _owner_of_call(node)
        return self.kind in (_ITEM, _LIST) and owner is not node and self._is_it(owner)

    def _loop(self, iterated: ast.expr, target: ast.expr) -> Iterator[tuple[ast.AST, str, str]]:
        """Follow the results through a loop or a comprehension."""
        if self.kind != _LIST:
            return
        called = plain_name(iterated.func) if isinstance(iterated, ast.Call) else ""
        arguments = iterated.args if isinstance(iterated, ast.Call) else []
        if self._is_it(iterated):
            yield from self._item(target)
        elif called == "enumerate" and arguments and self._is_it(arguments[0]) and isinstance(target, ast.Tuple):
            yield from self._item(target.elts[-1])
        elif called == "zip" and isinstance(target, ast.Tuple) and any(map(self._is_it, arguments)):
            place = [*map(self._is_it, arguments)].index(True)
            self.found.is_ordered = True
            yield from self._item(target.elts[place] if place < len(target.elts) else target)
        elif called in _COPIES and arguments:
            yield from self._loop(arguments[0], target)
        elif called == "items" and self._is_it(_owner_of_call(iterated)) and isinstance(target, ast.Tuple):
            self.found.is_mapping = True
            self.found.mapping_keys.add(plain_name(target.elts[0]))
            yield from ((self.tree, plain_name(each), _VALUE) for each in target.elts)

    def _item(self, target: ast.expr) -> Iterator[tuple[ast.AST, str, str]]:
        if isinstance(target, ast.Tuple | ast.List):
            yield from self._unpack([plain_name(each) for each in target.elts])
        else:
            yield self.tree, plain_name(target), _ITEM

    def _unpack(self, names: list[str]) -> Iterator[tuple[ast.AST, str, str]]:
        self.found.names = tuple(names)
        yield from ((self.tree, each, _VALUE if place else _CALL) for place, each in enumerate(names))

    def _follow_assignment(self, value: ast.expr, target: ast.expr) -> Iterator[tuple[ast.AST, str, str]]:
        """Follow the results through an assignment."""
        if self._is_it(value) and isinstance(target, ast.Tuple) and self.kind == _ITEM:
            yield from self._unpack([plain_name(each) for each in target.elts])
        elif isinstance(target, ast.Name):
            if self._is_it(value):
                yield self.tree, target.id, self.kind
            elif self._is_in(value) and not any(_is_foreign_call(each) for each in ast.walk(value)):
                yield self.tree, target.id, _VALUE

    def _subscript(self, node: ast.Subscript) -> None:
        key = _text(node.slice)
        if self.kind == _CALL and key:
            self.found.call_fields.add(key)
        elif self.kind == _ITEM:
            if key:
                self.found.keys[key] = None
            elif isinstance(node.slice, ast.Constant) and not self.found.names:
                self.found.names = ("", "")
        elif self.kind == _LIST and not isinstance(node.slice, ast.Constant | ast.Slice | ast.UnaryOp):
            if self._is_index(node.slice):
                self.found.is_ordered = True
            else:
                self._mapping_key(node.slice)

    def _is_index(self, node: ast.expr) -> bool:
        """Return whether an expression is a variable that counts the items of a loop."""
        loops = (each for each in ast.walk(self.tree) if isinstance(each, ast.For | ast.comprehension))
        counted = {
            plain_name(each.target.elts[0] if isinstance(each.target, ast.Tuple) else each.target)
            for each in loops
            if isinstance(each.iter, ast.Call) and plain_name(each.iter.func) in ("enumerate", "range")
        }
        return plain_name(node) in counted

    def _mapping_key(self, node: ast.expr) -> None:
        self.found.is_mapping = True
        self.found.mapping_keys.add(plain_name(node) or _text(getattr(node, "slice", node)))

    def _attribute(self, name: str) -> None:
        if self.kind == _ITEM and name not in _DICTIONARY_METHODS:
            self.found.attributes[name] = None
        elif self.kind == _CALL and name not in _STRING_METHODS:
            self.found.call_fields.add(name)
        elif self.kind == _LIST and name in ("items", "keys", "values"):
            self.found.is_mapping = True

    def _call(self, node: ast.Call) -> Iterator[tuple[ast.AST, str, str]]:
        """Follow the results through a call."""
        called = plain_name(node.func)
        if self._is_it(_owner_of_call(node)) and called in ("get", "pop", "setdefault") and node.args:
            if self.kind == _ITEM and (key := _text(node.args[0])):
                self.found.keys[key] = None
            elif self.kind == _LIST and not isinstance(node.args[0], ast.Constant):
                self._mapping_key(node.args[0])
        is_added = called == {_LIST: "extend", _ITEM: "append"}.get(self.kind)
        self.found.is_native |= is_added and len(node.args) == 1 and self._is_it(node.args[0])
        arguments = node.args
        if called == "map" and arguments:
            called, arguments = plain_name(arguments[0]), arguments[1:]
        function = self.functions.get(called)
        if function is None or function is self.tree:
            return
        names = [each.arg for each in function.args.args if each.arg not in ("self", "cls")]
        kind = _ITEM if arguments is not node.args and self.kind == _LIST else self.kind
        given = [*zip(names, arguments, strict=False), *((each.arg or "", each.value) for each in node.keywords)]
        for parameter, value in given:
            if self._is_it(value):
                yield function, parameter, kind
            elif self._is_in(value):
                yield function, parameter, _VALUE


def _values_of_response(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that a node puts into the field `response` of a message for results."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        yield from (value for key, value in pairs if _text(key) == _RESPONSE)
    elif isinstance(node, ast.Call) and _RESULT_CLASSES.search(plain_name(node.func)):
        yield from (each.value for each in node.keywords if each.arg == _RESPONSE)
    elif isinstance(node, ast.Assign):
        keys = (each.slice for each in node.targets if isinstance(each, ast.Subscript))
        yield from (node.value for key in keys if _text(key) == _RESPONSE)


_RESPONSE = "response"


def _owner_of_call(node: ast.expr) -> ast.expr:
    """Return the object whose method is called, or the expression itself for anything else."""
    return node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else node


def _is_foreign_call(node: ast.AST) -> bool:
    """Return whether a node calls code that may return something else than a form of its argument."""
    return isinstance(node, ast.Call) and not _CONVERSIONS.fullmatch(plain_name(node.func))


def _is_result_message(node: ast.Dict | ast.Call) -> bool:
    """Return whether an expression makes a message, or a part of one, with the result of a tool."""
    if isinstance(node, ast.Dict):
        texts = {_text(each) for each in (*node.keys, *node.values) if each is not None}
        return bool(texts & _RESULT_WORDS)
    return bool(_RESULT_CLASSES.search(plain_name(node.func))) or bool(
        {each.arg for each in node.keywords} & _RESULT_WORDS
    )


_RESULT_WORDS = {
    *("tool_call_id", "tool_use_id", "tool_result", "function_call_output"),
    *("functionResponse", "function_response"),
}
"""Keys and types of the messages for results in the formats of the APIs."""

_RESULT_CLASSES = re.compile("function_?response|tool_?(message|result)|function_?call_?output", re.IGNORECASE)

_TESTED = ("str", "list", "tuple", "Sequence")

_COPIES = ("list", "tuple", "sorted", "reversed", "dict", "iter")

_CONVERSIONS = re.compile("str|repr|dumps|list|dict|tuple|len|get|pop|items|values|keys|isinstance|getattr|format|join")
"""Names of functions whose value has the one that they get."""

_DICTIONARY_METHODS = ("get", "pop", "items", "keys", "values", "copy", "setdefault", "update")

_STRING_METHODS = ("strip", "lower", "startswith", "split", "format")


def _text(node: ast.AST | None) -> str:
    """Return the text of a constant, or an empty text."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def documented_uses(document: str, parameter: str) -> ResultUses:
    """Return the form of the results that a docstring shows after the name of their parameter."""
    found = ResultUses()
    text = " ".join(document.partition(parameter)[2].split())[:_MAX_DOCUMENT]
    if (pair := re.search(r"\(\s*([a-zA-Z_]\w*),\s*([a-zA-Z_]\w*)(?:,\s*([a-zA-Z_]\w*))?\s*\)", text)) is not None:
        found.names = tuple(filter(None, pair.groups()))
    elif (table := re.search(r"\{\s*([a-zA-Z_][\w.]*)\s*:\s*[a-zA-Z_][^{},]*\}", text)) is not None:
        found.is_mapping = True
        found.mapping_keys.add(table[1])
    elif (keys := re.search(r"\{([^{}]*)\}", text)) is not None:
        names = re.findall(r"[\"'](\w+)[\"']\s*:", keys[1]) or re.findall(r"[a-zA-Z_]\w*", keys[1])
        found.keys.update(dict.fromkeys(names))
    elif re.search(r"\b(dict|mapping|dictionary)\b", text, re.IGNORECASE) and re.search(r"\bid\b", text):
        found.is_mapping = True
    return found


_MAX_DOCUMENT = 300
