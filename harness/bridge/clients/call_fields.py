"""Fields of a call in a client's answer: its id, its name and its arguments."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

from harness.bridge.clients.names import call_id_field
from harness.bridge.clients.values import items_of, jsonable, plain_fields

CALL_FIELDS = ("tool_calls", "calls", "function_calls", "tool_uses", "invocations", "tool_call", "function_call")
"""Names of fields that hold the calls of an answer, in order of preference."""

ARGUMENT_FIELDS = ("arguments", "args", "input", "parameters", "tool_args", "tool_input", "params")

_ID_FIELDS = ("call_id", "id", "tool_call_id")

_NAME_FIELDS = ("name", "tool", "tool_name", "function")

_OTHER_FIELDS = (*_ID_FIELDS, *_NAME_FIELDS, "type")

_CALL_PARTS = 3
"""Number of the fields of a call: its id, its name and its arguments, in this order if their names are unusual."""

_RAW_ARGUMENTS = re.compile(r"\w*(arguments|args)\w*")
"""Names of fields with the arguments as the model wrote them. A method of the call may parse them."""


def is_computed(value: object, name: str) -> bool:
    """Return whether an attribute of an object is a property."""
    return isinstance(getattr(type(value), name, None), property | cached_property)


def fields_of_call(call: object) -> dict[str, Any]:
    """Return the fields of a call. The arguments may be a property, or else a JSON text under another name."""
    found = {**plain_fields(call)}
    for name in filter(partial(is_computed, call), (*ARGUMENT_FIELDS, *_ID_FIELDS, *_NAME_FIELDS)):
        with contextlib.suppress(Exception):  # arguments that are no JSON make a property fail
            found[name] = getattr(call, name)
    if {*_NAME_FIELDS}.isdisjoint(found) and len(found) == _CALL_PARTS:
        call_id, name, arguments = found
        if arguments in ARGUMENT_FIELDS and isinstance(found[name], str):
            found |= {"id": found[call_id], "name": found[name]}
    if not {*ARGUMENT_FIELDS} & found.keys() and {*_NAME_FIELDS} & found.keys():
        others = [name for name, each in found.items() if isinstance(each, str | Mapping) and name not in _OTHER_FIELDS]
        raw = [each for each in others if _RAW_ARGUMENTS.fullmatch(each)]
        if any(is_computed(call, each) for each in ARGUMENT_FIELDS):
            raw += others  # the text that a property could not parse
        if raw:
            found["arguments"] = found[raw[0]]
    return found


def is_single_call(call: object) -> bool:
    """Return whether an object has a name and arguments, and no list of calls."""
    found = fields_of_call(call)
    names = {*_NAME_FIELDS} & found.keys()
    return bool(names) and bool({*ARGUMENT_FIELDS} & found.keys()) and not {*CALL_FIELDS} & found.keys()


def call_parts(call: object) -> dict[str, Any]:
    """Return the id, the name and the arguments (as `args`) of a call, and its index in a stream."""
    if (items := items_of(call)) is not None:
        *call_id, name, arguments = items
        call = {"id": next(iter(call_id), None), "name": name, "arguments": arguments}
    found = fields_of_call(call)
    function = found.get("function")
    either = {**(fields_of_call(function) if not isinstance(function, str) else {"name": function}), **found}
    given = [either[key] for key in ARGUMENT_FIELDS if key in either]
    arguments = next((each for each in given if each not in ("", None)), next(iter(given), None))
    own_id = call_id_field(either)
    ids = (*_ID_FIELDS, own_id) if own_id else _ID_FIELDS
    return {
        "id": next((either[key] for key in ids if either.get(key)), None),
        "name": either.get("name") or either.get("tool") or either.get("tool_name"),
        "args": arguments if isinstance(arguments, str) or arguments is None else json.dumps(jsonable(arguments)),
        **({"index": either["index"]} if "index" in either else {}),
    }
