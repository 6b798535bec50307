"""Plain values and fields of third-party objects: JSON, items of lists, names in camel case and snake case."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

from harness.bridge.openai_messages import plain
from harness.model.messages import JSON


def jsonable(value: object) -> JSON:
    """Return a value as JSON: objects as their fields, bytes as base64."""
    if value is None or isinstance(value, str | bool | int | float):
        return getattr(value, "value", value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): jsonable(each) for key, each in plain(cast("object", value)).items()}
    if (items := items_of(value)) is not None:
        return [jsonable(each) for each in items]
    if hasattr(value, "value"):  # an enumeration
        return jsonable(cast("Any", value).value)
    return {key: jsonable(each) for key, each in plain_fields(value).items() if not key.startswith("_")}


def items_of_iterator(value: object) -> list[object] | None:
    """Return the items of an iterator, or `None` for other values. An iterator that yields nothing more and has
    attributes is an object that keeps the answer in them.
    """
    if not isinstance(value, Iterator):
        return None
    items = [*cast("Iterator[object]", value)]
    return items or (None if has_attributes(cast("object", value)) else [""])


def has_attributes(value: object) -> bool:
    """Return whether a value has attributes of its own, as no generator has."""
    return bool(getattr(value, "__dict__", None))


def items_of(value: object) -> list[object] | None:
    """Return the items of a list or a tuple, or `None` for other values. A named tuple is an object with fields."""
    if not isinstance(value, list | tuple) or hasattr(cast("object", value), "_fields"):
        return None
    return [*cast("Sequence[object]", value)]


def plain_fields(value: object) -> Mapping[str, Any]:
    """Return the fields of any object; `{}` for values without fields. Fields of a model are not converted."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    if hasattr(value, "model_dump"):
        return {name: getattr(value, name, each) for name, each in plain(value).items()}
    names = [*getattr(value, "_fields", ())] or _slots_of(type(value))
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
    if names:
        return {name: getattr(value, name, None) for name in names}
    return plain(value) if hasattr(value, "__dict__") else {}


def _slots_of(kind: type) -> list[str]:
    """Return the slots of a class and of its base classes."""
    slots = [cast("str | Iterable[str]", vars(each).get("__slots__", ())) for each in kind.__mro__]
    names = [name for each in slots for name in ([each] if isinstance(each, str) else each)]
    return [name for name in names if not name.startswith("__")]


def result_object(text: object) -> object:
    """Return the content of a result as a JSON object. A text that is none becomes the value of its key `result`."""
    try:
        found: object = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        found = text
    return cast("object", found) if isinstance(found, dict) else {"result": found}


def as_object(value: JSON) -> dict[str, JSON]:
    """Return JSON if it is an object, or else `{}`."""
    return value if isinstance(value, dict) else {}


def camel_case(value: JSON) -> JSON:
    """Return JSON with camel-case names, without fields that are `None`."""
    if isinstance(value, list):
        return [camel_case(each) for each in value]
    if not isinstance(value, dict):
        return value
    named = ((re.sub(r"_(\w)", lambda found: found[1].upper(), key), item) for key, item in value.items())
    return {key: item if key in _VALUE_KEYS else camel_case(item) for key, item in named if item is not None}


_VALUE_KEYS = frozenset({"args", "input", "arguments", "parameters", "response"})
"""Keys whose values are chosen by the tool or the model. Names inside these values are left unchanged."""


def without_keys(made: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the arguments without some of them."""
    return {name: value for name, value in made.items() if name not in names}


def snake_case(name: str) -> str:
    """Convert a name from camel case to snake case. An acronym is one word: `AIMessage` becomes `ai_message`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
