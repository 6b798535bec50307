"""Constructors that take all their options in one dictionary, and the keys that they read of it."""

from __future__ import annotations

import ast
import inspect
import textwrap
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from harness.bridge.clients.annotations import hints_of
from harness.bridge.clients.names import BASE_URLS, KEYS, MODELS
from harness.bridge.clients.sources import name_of_options, plain_name, source_of, source_of_class
from harness.bridge.clients.values import snake_case


@dataclass(frozen=True, slots=True)
class OptionDictionary:
    """Parameter of a constructor for a dictionary of options.

    `keys` maps the names of the options in snake case to their keys. `required` holds the names that have no default,
    and `preset` the defaults that are texts.
    """

    parameter: str
    keys: Mapping[str, str]
    required: frozenset[str]
    preset: Mapping[str, str]

    def pack(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments with the options moved to the dictionary."""
        options = {self.keys[name]: value for name, value in arguments.items() if name in self.keys}
        return {self.parameter: options, **{name: arguments[name] for name in arguments.keys() - self.keys.keys()}}


def option_dictionary(kind: type) -> OptionDictionary | None:
    """Return the parameter of a constructor for a dictionary with a base URL, a key or a model, or `None`.

    A constructor that takes one of these as a parameter of its own has no such dictionary.
    """
    constructor = kind.__init__
    if not inspect.isfunction(constructor):
        return None
    _, *parameters = inspect.signature(constructor).parameters.values()
    if {each.name for each in parameters} & _USUAL_OPTIONS:
        return None
    hints = hints_of(constructor)
    for each in parameters:
        others = (other for other in parameters if other is not each)
        is_named = each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY, each.POSITIONAL_ONLY)
        if not is_named or any(other.default is other.empty and other.kind is each.kind for other in others):
            continue
        hint = hints.get(each.name)
        if typing.is_typeddict(hint):
            keys = {snake_case(key): key for key in hints_of(hint)}
            required = frozenset(map(snake_case, cast("frozenset[str]", getattr(hint, "__required_keys__", ()))))
            found = OptionDictionary(each.name, keys, required, {})
        elif hint is None or "dict" in str(hint).lower() or "Mapping" in str(hint):
            found = _read_options(each.name, source_of(constructor), source_of_class(kind))
        else:
            continue
        if found.keys.keys() & _USUAL_OPTIONS:
            return found
    return None


_USUAL_OPTIONS = {*BASE_URLS, *KEYS, *MODELS}
"""Names of options by which a client is recognised."""


def keys_of_options(kind: type) -> frozenset[str]:
    """Return the keys that a constructor reads from its `**options`."""
    constructor = kind.__init__
    if not inspect.isfunction(constructor):
        return frozenset()
    open_name = name_of_options(constructor)
    if open_name is None:
        return frozenset()
    return frozenset(_read_options(open_name, source_of(constructor), source_of_class(kind)).keys.values())


def _read_options(name: str, constructor: str, source: str) -> OptionDictionary:
    """Return the keys that code reads from a dictionary, in its constructor or later in the methods."""
    try:
        tree = ast.parse(textwrap.dedent(constructor))
        whole = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return OptionDictionary(name, {}, frozenset(), {})
    local, attributes = _copies_of(name, tree)
    read = [*_keys_read(tree, local), *_keys_read(whole, attributes)]
    optional = {key for key, is_optional, _ in read if is_optional}
    return OptionDictionary(
        name,
        {snake_case(key): key for key, *_ in read},
        frozenset(snake_case(key) for key, *_ in read if key not in optional),
        {snake_case(key): default for key, _, default in read if default},
    )


def _copies_of(name: str, tree: ast.AST) -> tuple[set[str], set[str]]:
    """Return the variables and attributes that hold a dictionary, perhaps merged with defaults."""
    local, attributes = {name}, set[str]()
    for each in ast.walk(tree):
        if not isinstance(each, ast.Assign | ast.AnnAssign) or each.value is None:
            continue
        parts = _parts_of_dictionary(each.value)
        if any(isinstance(part, ast.Name) and part.id in local for part in parts):
            for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                (local if isinstance(target, ast.Name) else attributes).add(plain_name(target))
    return local, attributes


def _parts_of_dictionary(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions from which a dictionary gets its items."""
    if isinstance(node, ast.BoolOp):
        inner = node.values
    elif isinstance(node, ast.Dict):
        inner = [value for key, value in zip(node.keys, node.values, strict=True) if key is None]
    elif isinstance(node, ast.BinOp):
        inner = [node.left, node.right]
    elif isinstance(node, ast.IfExp):
        inner = [node.body, node.orelse]
    elif isinstance(node, ast.Call) and plain_name(node.func) == "dict":
        inner = [*node.args, *(each.value for each in node.keywords if each.arg is None)]
    else:
        yield node
        return
    for each in inner:
        yield from _parts_of_dictionary(each)


def _keys_read(tree: ast.AST, names: set[str]) -> Iterator[tuple[str, bool, str]]:
    """Yield each key that code reads from dictionaries with these names, whether it may be absent, and its default.

    Without a default that is a text, the default is an empty text.
    """
    for each in ast.walk(tree):
        if isinstance(each, ast.Subscript) and plain_name(each.value) in names and isinstance(each.ctx, ast.Load):
            key, is_optional, default = each.slice, False, None
        elif (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and each.func.attr in ("get", "pop")
            and plain_name(each.func.value) in names
            and each.args
        ):
            key, is_optional, default = each.args[0], True, each.args[1] if each.args[1:] else None
        elif isinstance(each, ast.Compare) and any(plain_name(other) in names for other in each.comparators):
            key, is_optional, default = each.left, True, None
        else:
            continue
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            text = default.value if isinstance(default, ast.Constant) else None
            yield key.value, is_optional, text if isinstance(text, str) else ""
