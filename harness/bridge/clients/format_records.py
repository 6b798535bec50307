"""Objects of third-party classes that hold the schema of an answer, such as `Format(name, schema)`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from harness.bridge.clients.annotations import classes_among, has_only_fields, members_of
from harness.bridge.clients.names import SYNONYMS, first_known
from harness.model.messages import JSON

_OTHER_FIELDS = frozenset({"name", "title", "description", "strict"})


def format_record(hint: object) -> type[Any] | None:
    """Return the class of a parameter for an object that holds the schema of an answer, or `None`."""
    kinds = classes_among(members_of(hint))
    if len(kinds) != 1 or not has_only_fields(kinds[0]):
        return None
    fields = {*inspect.signature(kinds[0]).parameters}
    schema = first_known(SYNONYMS["json_schema"], frozenset(fields))
    return kinds[0] if schema is not None and fields - {schema} <= _OTHER_FIELDS else None


def make_format(kind: type[Any], schema: Mapping[str, JSON]) -> object:
    """Return an object of such a class for a schema. It has a name if the class requires one."""
    parameters = inspect.signature(kind).parameters
    required = {name for name, each in parameters.items() if each.default is each.empty}
    name = first_known(SYNONYMS["json_schema"], frozenset(parameters))
    return kind(**{str(name): schema}, **dict.fromkeys(sorted(required - {name}), "answer"))
