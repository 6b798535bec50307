"""Annotations of third-party code: the classes, list items and literal values in them."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, cast

BUILTIN_MODULES = ("builtins", "typing", "collections.abc")
"""Modules with built-in classes. JSON is not converted to these classes."""


def hints_of(value: object) -> Mapping[str, object]:
    """Return the annotations of a function, or of a class and its constructor; `{}` if they cannot be resolved."""
    try:
        own = typing.get_type_hints(value) or dict.fromkeys(_names_of_tuple(value), Any)
        return {**own, **typing.get_type_hints(value.__init__)} if inspect.isclass(value) else own
    except Exception:  # noqa: BLE001 - annotations of the user's code
        return {}


def _names_of_tuple(value: object) -> Iterable[str]:
    """Return the names of the fields of a named tuple without annotations. Other values have none."""
    return cast("Any", value)._fields if inspect.isclass(value) and hasattr(value, "_fields") else ()


def item_class(hint: object) -> object:
    """Return the class of the items of a list, or `None`."""
    members = [hint, *typing.get_args(hint)]
    return next((typing.get_args(each)[0] for each in members if is_list(each)), None)


def members_of(hint: object) -> Iterator[object]:
    """Yield the classes and the literal values in an annotation, without `None`. A generic class is yielded without its
    arguments.
    """
    hint = getattr(hint, "__value__", hint)  # of an alias: `type Arguments = dict | str`
    origin = typing.get_origin(hint)
    if origin in (typing.Union, UnionType, typing.Literal, typing.Annotated):
        for each in typing.get_args(hint):
            yield from members_of(each)
    elif hint not in (None, type(None)):
        yield origin or hint


def without_text(hint: object) -> object:
    """Return the annotation of the results for a parameter that takes them or a text."""
    members = [each for each in typing.get_args(hint) if each not in (str, type(None))]
    is_either = typing.get_origin(hint) in (typing.Union, UnionType) and str in typing.get_args(hint)
    return members[0] if is_either and len(members) == 1 else hint


def is_enum(value: object) -> bool:
    """Return whether a value is an enumeration class."""
    return inspect.isclass(value) and issubclass(value, Enum)


def has_only_fields(kind: type[Any]) -> bool:
    """Return whether a class only holds values."""
    return is_dataclass(kind) or any(hasattr(kind, name) for name in ("model_fields", "__attrs_attrs__", "_fields"))


def classes_among(members: Iterable[object]) -> list[type[Any]]:
    """Return the third-party classes among the members of an annotation."""
    return [each for each in members if inspect.isclass(each) and each.__module__ not in BUILTIN_MODULES]


def own_classes(hint: object) -> tuple[type, ...]:
    """Return the third-party classes in the annotation of a list, except mappings such as `TypedDict`."""
    item = item_class(hint)
    return tuple(each for each in classes_among((item, *typing.get_args(item))) if not issubclass(each, Mapping))


def own_classes_in(hint: object) -> list[type]:
    """Return the third-party classes in an annotation."""
    inner = [found for each in typing.get_args(hint) for found in own_classes_in(each)]
    is_own = inspect.isclass(hint) and hint.__module__.partition(".")[0] not in sys.stdlib_module_names
    return [*([cast("type", hint)] if is_own and not typing.get_origin(hint) else []), *inner]


def is_list(hint: object) -> bool:
    """Return whether an annotation is that of a list or another iterable with the type of its items."""
    origin = typing.get_origin(hint)
    is_iterable = inspect.isclass(origin) and issubclass(origin, Iterable) and not issubclass(origin, Mapping)
    return is_iterable and bool(typing.get_args(hint))


def subclasses_of(kind: object) -> list[type]:
    """Return the direct subclasses of a third-party class."""
    return kind.__subclasses__() if isinstance(kind, type) and kind.__module__ not in BUILTIN_MODULES else []
