"""Objects of third-party classes that the caller creates and a method fills with its answer."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

from harness.bridge.clients.annotations import classes_among, members_of
from harness.bridge.clients.answer_fields import has_answer_fields, has_calls_field
from harness.bridge.clients.names import SYNONYMS
from harness.bridge.clients.sources import passed_on, plain_name
from harness.bridge.clients.values import plain_fields


def filled_parameter(hints: Mapping[str, object], source: str, module: str) -> tuple[str, type] | None:
    """Return the parameter for an object that a method fills with its answer, and the class of that object.

    `hints` are the annotations of the method and `source` is its code. Functions of `module` may fill the object, too.
    """
    for name, hint in hints.items():
        kinds = classes_among(members_of(hint)) if name != "return" else []
        if len(kinds) == 1 and _is_filled(name, source, module) and _holds_answer(kinds[0]):
            return name, kinds[0]
    return None


def _holds_answer(kind: type) -> bool:
    """Return whether a class can be instantiated without arguments, and has fields for an answer but no history."""
    with suppress(Exception):  # third-party code may fail in any way
        made = kind()
        is_history = {*SYNONYMS["messages"]} & {name.lstrip("_") for name in plain_fields(made)}
        return not is_history and (has_answer_fields(made) or has_calls_field(made))
    return False


@lru_cache(maxsize=256)
def _is_filled(name: str, source: str, module: str) -> bool:
    """Return whether code writes to attributes of the value of a parameter, or passes it to code that does."""
    pending, seen = [(name, source)], set[tuple[str, str]]()
    while pending:
        place = pending.pop()
        if place in seen or not place[1]:
            continue
        seen.add(place)
        if _writes_attributes(*place):
            return True
        pending += passed_on(module, *place)
    return False


def _writes_attributes(name: str, source: str) -> bool:
    try:
        nodes = [*ast.walk(ast.parse(textwrap.dedent(source)))]
    except SyntaxError:
        return False
    return any(_is_write(each, name) for each in nodes)


def _is_write(node: ast.AST, name: str) -> bool:
    """Return whether a node assigns an attribute of a variable, or adds a value to one."""
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
        owner = node.value.value if isinstance(node.value, ast.Attribute) else node.value
        return plain_name(owner) == name and isinstance(owner, ast.Name) and not _is_item(node)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    of_attribute = isinstance(owner, ast.Attribute) and plain_name(owner.value) == name
    is_added = node.func.attr in _ADDING_METHODS and of_attribute
    return is_added or (plain_name(owner) == name and _FILLING_METHODS.match(node.func.attr) is not None)


def _is_item(node: ast.Attribute | ast.Subscript) -> bool:
    """Return whether a node is an item of a variable, as in `table[key]`."""
    return isinstance(node, ast.Subscript) and not isinstance(node.value, ast.Attribute)


_ADDING_METHODS = ("append", "extend", "insert", "add", "update", "setdefault")

_FILLING_METHODS = re.compile("_?(add|feed|fill|push|append|record|apply|absorb|update|set|finish|complete)(_|$)")
"""Names of methods by which code fills an object."""
