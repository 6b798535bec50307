"""Neutral views compared: the same facts, wherever they stand in the body."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from harness.apis.jsonvalue import canonical


def likeness(value: Any) -> Any:
    """A view without its pointers, as something that compares equal when the facts are the same.

    JSON inside is put into canonical text, so that key order does not count, `1` is not `true`, and `1.0` is `1`
    only where both are numbers.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        facts = [
            (field.name, _fact(field.name, getattr(value, field.name)))
            for field in dataclasses.fields(value)
            if not field.name.endswith("pointer")
        ]
        return (type(value).__name__, *facts)
    if isinstance(value, tuple):
        return tuple(map(likeness, cast("tuple[Any, ...]", value)))
    return value


_JSON_FIELDS = frozenset({"arguments", "opaque", "raw", "parameters", "schema", "value", "body"})


def _fact(name: str, value: Any) -> Any:
    if name in _JSON_FIELDS:
        return canonical(value)
    if isinstance(value, dict):
        return tuple(sorted((key, likeness(entry)) for key, entry in cast("dict[str, Any]", value).items()))
    return likeness(value)
