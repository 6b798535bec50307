"""Names and types of a request's fields, as the provider's JSON parser checks them (gemini-no-unknown-fields).

Payloads of the user (`args`, `response`, JSON schemas) and the settings of server tools are not looked into.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from harness.apis.entries import entrywise
from harness.apis.facts import Facts
from harness.apis.gemini.proto import ProtoMessage, decoded, repeated, snake
from harness.apis.jsonvalue import join
from harness.apis.limit import Limit, Violation
from harness.contract.model import JSON

ANY = "any"
BYTES = "bytes"
OBJECT = "object"
STRING = "string"
ENUM = "enum"
BOOL = "bool"
FLOAT, DOUBLE = "float", "double"
INT32, INT64 = "int32", "int64"
REPEATED = "[]"
MAP = "{}"

FACTS = Facts.beside(__file__)


def limit(name: str) -> Limit:
    """Return a limit of the API by its id without the API's name."""
    return FACTS.limits[f"gemini-{name}"][0]


@cache
def messages() -> dict[str, dict[str, str]]:
    """Message → field → type, by the parameters of `gemini-unknown-field`: the name of a message, or one of the words
    above; `X[]` repeated, `X{}` a map to X."""
    parameters: Any = FACTS.limits["gemini-unknown-field"][1].parameters
    return parameters


_SOURCES = {
    "Schema": "gemini-schema-fields",
    "FunctionCall": "gemini-no-unknown-fields, gemini-function-call-form",
    "FunctionResponse": "gemini-function-response-form",
}


def misfits(body: JSON) -> list[Violation]:
    """Unknown fields (`gemini-unknown-field`) and values of a wrong type (`gemini-field-type`) of a request."""
    return list(_value(body, "GenerateContentRequest", "gemini-no-unknown-fields", "", ""))


def _value(value: JSON, kind: str, source: str, pointer: str, path: str) -> Iterator[Violation]:
    if kind.endswith(REPEATED):
        listed, member = isinstance(value, list), kind.removesuffix(REPEATED)
        if listed and member == "Content":
            for found in _contents(value, pointer):
                yield from found
            return
        for index, (item, place) in enumerate(repeated(value, pointer)):
            yield from _value(item, member, source, place, f"{path}[{index}]" if listed else path)
    elif kind.endswith(MAP) and isinstance(value, dict):
        for index, (key, item) in enumerate(value.items()):
            yield from _value(item, kind.removesuffix(MAP), source, join(pointer, key), f"{path}[{index}].value")
    elif kind in messages() and isinstance(value, dict):
        yield from _message(ProtoMessage.of(value, pointer), kind, path)
    elif not _fits(value, kind):
        expected = OBJECT if kind in messages() or kind.endswith(MAP) else kind
        yield limit("field-type").broken(
            f"Invalid value at '{path}' (TYPE_{expected.upper()}): {_shown(value)}",
            pointer,
            actual=value,
            expected=expected,
            source=source,
        )


@entrywise
def _contents(content: JSON, pointer: str) -> list[Violation]:
    path = f"contents[{pointer.rpartition('/')[2]}]"
    return [*_value(content, "Content", "gemini-no-unknown-fields", pointer, path)]


def _message(message: ProtoMessage, kind: str, path: str) -> Iterator[Violation]:
    fields = messages()[kind]
    for name in message.names:
        if name in fields:
            source = _SOURCES.get(kind, "gemini-no-unknown-fields")
            inner = f"{path}.{snake(name)}" if path else snake(name)
            yield from _value(message.get(name), fields[name], source, message.at(name), inner)
        else:
            key = message.spelling(name)
            place = f" at '{path}'" if path else ""
            yield limit("unknown-field").broken(
                f'Invalid JSON payload received. Unknown name "{key}"{place}: Cannot find field.',
                message.at(name),
                actual=key,
                expected=[*fields],
                source="gemini-schema-fields" if kind == "Schema" else "gemini-no-unknown-fields",
            )


def _fits(value: JSON, kind: str) -> bool:
    if kind == ANY:
        return True
    if kind == STRING:
        return isinstance(value, str)
    if kind == ENUM:
        return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
    if kind == BOOL:
        return isinstance(value, bool) or value in ("true", "false")
    if kind in (FLOAT, DOUBLE, INT32, INT64):
        return _is_number(value, whole=kind in (INT32, INT64))
    if kind == BYTES:
        return isinstance(value, str) and decoded(value) is not None
    return kind == OBJECT and isinstance(value, dict)


def _is_number(value: JSON, *, whole: bool) -> bool:
    """Return whether a value is a number, or the text of one, which the provider's parser takes as well."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        number = float(value)
    except ValueError:
        return False
    return not whole or number.is_integer()


def _shown(value: JSON) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
