"""Objects of third-party classes that hold what a user says, such as a mail, in place of a text."""

from __future__ import annotations

import inspect
from typing import Any

from harness.bridge.clients.annotations import classes_among, has_only_fields, hints_of, is_enum, members_of
from harness.bridge.clients.names import KNOWN_PARAMETERS, SYNONYMS


def record_class(hint: object) -> type[Any] | None:
    """Return the class of a parameter for an object that holds what a user says, or `None`.

    It is a class of fields, at least one of which is a required text. It is no message or request of a conversation.
    """
    kinds = classes_among(members_of(hint))
    if len(kinds) != 1 or not has_only_fields(kinds[0]):
        return None
    if hints_of(kinds[0]).keys() & {*KNOWN_PARAMETERS, *SYNONYMS["messages"], "role"}:
        return None
    return kinds[0] if str in _required_fields(kinds[0]).values() else None


def make_record(kind: type[Any], text: str) -> object:
    """Return an object of such a class, in which each required text is `text`."""
    return kind(**{name: text if hint is str else _example(hint) for name, hint in _required_fields(kind).items()})


def _required_fields(kind: type[Any]) -> dict[str, object]:
    """Return the fields without a default, with their annotations."""
    hints, parameters = hints_of(kind), inspect.signature(kind).parameters.values()
    return {each.name: hints.get(each.name) for each in parameters if each.default is each.empty}


def _example(hint: object) -> object:
    """Return a value for an annotation: the first member of an enumeration, or an empty or usual value."""
    first = next(members_of(hint), None)
    if is_enum(first):
        return next(iter(first))  # type: ignore[call-overload]
    return first() if first in (int, float, bool, list, dict, tuple, set) else first  # type: ignore[operator]
