"""Conversion of messages and tools to the classes that a client's method is annotated with."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, cast

_ALIASES = {
    "arguments": ("args", "input"),
    "parameters": ("schema", "input_schema", "json_schema"),
    "tool_call_id": ("call_id", "tool_use_id"),
    "content": ("text",),
}
"""Fields of OpenAI's messages, calls and tools → names that classes have for them."""


_OWN_MODULES = ("builtins", "typing", "collections.abc")
"""Modules whose classes JSON is not converted to."""


def hints_of(value: object) -> Mapping[str, object]:
    """Return the annotations of a function or of a class's constructor; `{}` if they cannot be resolved."""
    try:
        return typing.get_type_hints(cast("type", value).__init__ if inspect.isclass(value) else value)
    except Exception:  # noqa: BLE001 - annotations of the user's code
        return {}


def as_annotated(value: object, hint: object) -> Any:
    """Return JSON as instances of the classes in an annotation. JSON that fits none of them is returned unchanged."""
    members = [hint, *typing.get_args(hint)]
    if isinstance(value, list):
        inner = next((typing.get_args(each)[0] for each in members if _is_list(each)), None)
        return [as_annotated(each, inner) for each in cast("list[object]", value)]
    for each in members:
        if not inspect.isclass(each) or each.__module__ in _OWN_MODULES:
            continue
        if issubclass(each, Enum) and isinstance(value, str) and value in {member.value for member in each}:
            return each(value)
        if isinstance(value, dict) and not issubclass(each, Mapping):
            made = _instance(cast("dict[str, Any]", value), each)
            if made is not None:
                return made
    return "" if value is None and hint is str else cast("object", value)


def _is_list(hint: object) -> bool:
    origin = typing.get_origin(hint)
    is_iterable = inspect.isclass(origin) and issubclass(origin, Iterable) and not issubclass(origin, Mapping)
    return is_iterable and bool(typing.get_args(hint))


def _instance(value: dict[str, Any], kind: Callable[..., object]) -> object | None:
    """Return an instance of a class for a message, a call or a tool, or `None` if the class has other fields."""
    hints = hints_of(kind)
    known: dict[str, Any] = {**value.get("function", {}), **value}
    for name, others in _ALIASES.items():
        known |= {other: known[name] for other in others if name in known}
    for name in ("arguments", *_ALIASES["arguments"]):
        if isinstance(known.get(name), str) and hints.get(name) is not str:
            known[name] = json.loads(known[name])
    try:
        names = inspect.signature(kind).parameters.keys() & known.keys()
        return kind(**{name: as_annotated(known[name], hints.get(name)) for name in names}) if names else None
    except (TypeError, ValueError):
        return None
