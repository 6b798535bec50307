"""What the value of a key of settings has to be, and tables that have no other keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from harness.contract.errors import UnknownName, UsageError


@dataclass(frozen=True, slots=True)
class Key:
    """What the value of a key has to be, in words and by an example; `needed`: the table is nothing without it."""

    fits: Fit
    what: str
    example: str
    needed: bool = False


def checked(table: Mapping[str, Any], keys: Mapping[str, Key], place: str) -> None:
    """Whether a table has known keys alone, each with a value that it can have, and all that are needed.

    Raises:
        UsageError: it has not: place and key.
    """
    for name, value in table.items():
        if name not in keys:
            raise UnknownName("key", name, tuple(keys), place)
        known = keys[name]
        if not known.fits(value):
            raise UsageError(f"{place}.{name}: it has to be {known.what}, as in {name} = {known.example}.")
    for name, key in keys.items():
        if key.needed and name not in table:
            raise UsageError(f"{place}: it needs {name}, {key.what}, as in {name} = {key.example}.")


@dataclass(frozen=True, slots=True)
class Fit:
    """What a value may be: whether one `holds`, and the same as a JSON Schema, for editors."""

    holds: Callable[[object], bool]
    form: Mapping[str, Any]

    def __call__(self, value: object) -> bool:
        """Whether a value fits."""
        return self.holds(value)


def form(keys: Mapping[str, Key], inner: Mapping[str, Mapping[str, Key]] | None = None) -> dict[str, Any]:
    """The JSON Schema of a table; `inner` has the keys of the tables in the tables that it has."""
    properties = {
        name: {"description": f"{key.what}, as in {name} = {key.example}", **key.fits.form}
        for name, key in keys.items()
    }
    for name, within in (inner or {}).items():
        properties[name] = {**properties[name], "additionalProperties": form(within)}
    needed = [name for name, key in keys.items() if key.needed]
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": needed} if needed else schema


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, cast("list[object]", value)))


def _is_filled_list(value: object) -> bool:
    return _is_list(value) and bool(value)


def _is_table(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, cast("dict[str, object]", value).values()))


def _is_tables(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in cast("dict[str, object]", value).values())


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


_TEXT: Mapping[str, Any] = {"type": "string", "minLength": 1}

is_text = Fit(_is_text, _TEXT)
"""A text that is not empty."""
is_list = Fit(_is_list, {"type": "array", "items": _TEXT})
"""A list of such texts."""
is_filled_list = Fit(_is_filled_list, {"type": "array", "items": _TEXT, "minItems": 1})
"""A list of such texts, which has one at least."""
is_table = Fit(_is_table, {"type": "object", "additionalProperties": _TEXT})
"""A table of such texts."""
is_tables = Fit(_is_tables, {"type": "object", "additionalProperties": {"type": "object"}})
"""A table of tables."""
is_switch = Fit(_is_switch, {"type": "boolean"})
"""True or false."""


def is_whole(least: int, most: int | None = None) -> Fit:
    """Whether something is a whole number from `least` on, up to `most`."""

    def holds(value: object) -> bool:
        return type(value) is int and value >= least and (most is None or value <= most)

    bound = {} if most is None else {"maximum": most}
    return Fit(holds, {"type": "integer", "minimum": least, **bound})


def is_seconds(most: float) -> Fit:
    """Whether something is a number of seconds, up to `most`."""

    def holds(value: object) -> bool:
        return type(value) in (int, float) and 0 <= cast("float", value) <= most

    return Fit(holds, {"type": "number", "minimum": 0, "maximum": most})
