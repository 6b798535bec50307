"""What values take for what is meant, and how they refuse the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, cast

from harness.contract.errors import InvalidValue

put = object.__setattr__
"""Sets a field: the values are frozen, and are made whole before anybody sees them."""


def sequence(given: object, place: str, members: str) -> tuple[Any, ...]:
    """What was given, as a tuple. Raises `InvalidValue`: it has no order, or is a text."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        refuse(place, cast("object", given), f"a list or a tuple of {members}")
    return tuple(cast("Iterable[Any]", given))


def check(place: str, given: object, kinds: tuple[type, ...], allowed: str) -> None:
    """Raises `InvalidValue`, with what is `allowed`, where something of another kind was given."""
    if not isinstance(given, kinds):
        refuse(place, given, allowed)


def refuse(place: str, given: object, allowed: str) -> NoReturn:
    """Raises `InvalidValue`."""
    raise InvalidValue(place, f"{shown(given)} is not allowed. Allowed: {allowed}.")


def kind_name(kind: type) -> str:
    """What a type is called where several are listed."""
    return kind.__name__


def shown(given: object) -> str:
    """What was given, by its value where that is short, since it may be a whole conversation."""
    text = repr(given)
    return text if isinstance(given, str | int) and len(text) <= 40 else f"a {type(given).__name__}"
