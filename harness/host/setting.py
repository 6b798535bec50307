"""What the value of a key of settings has to be, and tables that have no other keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from harness.contract.errors import UnknownName, UsageError


@dataclass(frozen=True, slots=True)
class Key:
    """What the value of a key has to be, in words and by an example; `needed`: the table is nothing without it."""

    fits: Callable[[object], bool]
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


def is_text(value: object) -> bool:
    """A text that is not empty."""
    return isinstance(value, str) and bool(value)


def is_list(value: object) -> bool:
    """A list of such texts."""
    return isinstance(value, list) and all(map(is_text, cast("list[object]", value)))


def is_filled_list(value: object) -> bool:
    """A list of such texts, which has one at least."""
    return is_list(value) and bool(value)


def is_table(value: object) -> bool:
    """A table of such texts."""
    return isinstance(value, dict) and all(map(is_text, cast("dict[str, object]", value).values()))


def is_tables(value: object) -> bool:
    """A table of tables."""
    return isinstance(value, dict) and all(isinstance(each, dict) for each in cast("dict[str, object]", value).values())


def is_switch(value: object) -> bool:
    """True or false."""
    return isinstance(value, bool)


def is_whole(least: int, most: int | None = None) -> Callable[[object], bool]:
    """Whether something is a whole number from `least` on, up to `most`."""

    def fits(value: object) -> bool:
        return type(value) is int and value >= least and (most is None or value <= most)

    return fits


def is_seconds(most: float) -> Callable[[object], bool]:
    """Whether something is a number of seconds, up to `most`."""

    def fits(value: object) -> bool:
        return type(value) in (int, float) and 0 <= cast("float", value) <= most

    return fits
