"""The protobuf JSON mapping: field names, types, and checks of both (gemini-casing, gemini-no-unknown-fields).

`thought_signature` and `thoughtSignature` are the same field, and `null` is an absent field. A single object may
replace a list with one element. An enum is given by name or number. Bytes are base64 in either alphabet. User data
(`args`, `response`, JSON schemas) and the settings of server tools are not checked.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeVar

from harness.apis.fact_files import ApiLimits, Facts
from harness.apis.jsonvalue import cached_per_element, join
from harness.apis.limits import Violation
from harness.apis.view import WireError
from harness.model.messages import JSON

T = TypeVar("T")

_UNDERSCORED = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_STANDARD_ALPHABET = str.maketrans("-_", "+/")


@lru_cache(4096)
def camel(key: str) -> str:
    """Return the camelCase spelling of a field name."""
    return _UNDERSCORED.sub(lambda match: match[1].upper(), key)


@lru_cache(4096)
def snake(key: str) -> str:
    """Return the snake_case spelling of a field name, as used in the provider's messages."""
    return _CAPITAL.sub(lambda match: f"_{match[1].lower()}", key)


def decode_base64(text: str) -> bytes | None:
    """Decode base64 text in either alphabet, with or without padding. Returns `None` if it is invalid."""
    bare = text.translate(_STANDARD_ALPHABET).rstrip("=")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError:  # binascii.Error, or non-ASCII text
        return None


def canonical(value: JSON) -> JSON:
    """Convert base64 text to the standard alphabet with padding. Other values are returned unchanged."""
    data = decode_base64(value) if isinstance(value, str) else None
    return value if data is None else base64.b64encode(data).decode()


@dataclass(frozen=True, slots=True)
class ProtoMessage:
    """A JSON object whose fields are accessed by their camelCase names. `pointer` is its location in the body."""

    pointer: str
    _fields: Mapping[str, tuple[str, JSON]]

    @staticmethod
    def of(value: JSON, pointer: str = "") -> ProtoMessage:
        """Read an object. Raises `WireError` for any other value."""
        if not isinstance(value, dict):
            raise WireError("an object is expected", pointer)
        return ProtoMessage(
            pointer, {camel(key): (key, content) for key, content in value.items() if content is not None}
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields that are set."""
        return tuple(self._fields)

    def get(self, name: str) -> JSON:
        """Return the value of a field, or `None` if it is not set."""
        return self._fields[name][1] if name in self._fields else None

    def spelling(self, name: str) -> str:
        """Return the original spelling of the key of a field that is set."""
        return self._fields[name][0]

    def at(self, name: str) -> str:
        """Return the pointer to a field, or to this object if the field is not set."""
        return join(self.pointer, self._fields[name][0]) if name in self._fields else self.pointer

    def text(self, name: str) -> str | None:
        """Return a string field. Raises `WireError` if it has another type."""
        value = self.get(name)
        if value is None or isinstance(value, str):
            return value
        raise WireError("a string is expected", self.at(name))

    def enum(self, name: str, values: Sequence[str]) -> str | None:
        """Return an enum field by name. A number is an index into `values`; a number out of range is returned as text.

        Raises `WireError` if the field has another type.
        """
        value = self.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            return self.text(name)
        return values[value] if 0 <= value < len(values) else str(value)

    def message(self, name: str) -> ProtoMessage | None:
        """Return an object field. Raises `WireError` if it has another type."""
        value = self.get(name)
        return None if value is None else ProtoMessage.of(value, self.at(name))

    def messages(self, name: str) -> list[ProtoMessage]:
        """Return a repeated object field. Raises `WireError` if it has another type."""
        return [ProtoMessage.of(item, pointer) for item, pointer in repeated_values(self.get(name), self.at(name))]

    def camelise(self) -> dict[str, JSON]:
        """Return the object with its own keys (not nested ones) in camelCase."""
        return {name: value for name, (_, value) in self._fields.items()}


def cached_per_value(read: Callable[[Any, str], T]) -> Callable[[JSON, str], Sequence[T]]:
    """Turn a function that reads one value into a cached reader of repeated fields. A single value is read as a list of
    one. See `harness.apis.jsonvalue.cached_per_element`.
    """
    of_list = cached_per_element(read)

    def of(value: JSON, pointer: str) -> Sequence[T]:
        return of_list(value, pointer) if value is None or isinstance(value, list) else (read(value, pointer),)

    return of


def repeated_values(value: JSON, pointer: str) -> list[tuple[JSON, str]]:
    """Return the values of a repeated field with their pointers. A value that is not a list is treated as a list of
    one."""
    if value is None:
        return []
    if isinstance(value, list):
        return [(item, join(pointer, index)) for index, item in enumerate(value)]
    return [(value, pointer)]


TYPES = ("type_unspecified", "string", "number", "integer", "boolean", "array", "object", "null")
"""Schema types, indexed by number (google.ai.generativelanguage.v1beta.Type)."""


def schema_view(schema: JSON) -> JSON:
    """Return an OpenAPI schema in a uniform spelling: camelCase keys, lower-case types, no absent fields
    (gemini-schema-fields)."""
    if not isinstance(schema, dict):
        return schema
    fields = ProtoMessage.of(schema).camelise()
    return {name: _schema_field(name, value) for name, value in fields.items()}


def _schema_field(name: str, value: JSON) -> JSON:
    match name, value:
        case "type", str():
            return value.lower()
        case "type", int() if 0 <= value < len(TYPES):
            return TYPES[value]
        case "items", dict():
            return schema_view(value)
        case "anyOf", _:
            return [schema_view(option) for option, _ in repeated_values(value, "")]
        case (("properties" | "defs"), dict()):
            return {key: schema_view(member) for key, member in value.items()}
        case _:
            return value


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

FACTS = Facts.next_to(__file__)
limit = ApiLimits(FACTS, "gemini")


@cache
def messages() -> dict[str, dict[str, str]]:
    """Return the fields of each protobuf message with their types. They are the parameters of the limit
    `gemini-unknown-field`.

    A type is a message name or one of the type names above. `X[]` is a repeated field; `X{}` is a map with values of
    type X.
    """
    parameters: Any = FACTS.limits["gemini-unknown-field"][1].parameters
    return parameters


_SOURCES = {
    "Schema": "gemini-schema-fields",
    "FunctionCall": "gemini-no-unknown-fields, gemini-function-call-form",
    "FunctionResponse": "gemini-function-response-form",
}


def misfits(body: JSON) -> list[Violation]:
    """Return violations for unknown fields (`gemini-unknown-field`) and values of the wrong type (`gemini-field-type`)
    in a request."""
    return list(_value(body, "GenerateContentRequest", "gemini-no-unknown-fields", "", ""))


def _value(value: JSON, kind: str, source: str, pointer: str, path: str) -> Iterator[Violation]:
    if kind.endswith(REPEATED):
        listed, member = isinstance(value, list), kind.removesuffix(REPEATED)
        if listed and member == "Content":
            for found in _contents(value, pointer):
                yield from found
            return
        for index, (item, place) in enumerate(repeated_values(value, pointer)):
            yield from _value(item, member, source, place, f"{path}[{index}]" if listed else path)
    elif kind.endswith(MAP) and isinstance(value, dict):
        for index, (key, item) in enumerate(value.items()):
            yield from _value(item, kind.removesuffix(MAP), source, join(pointer, key), f"{path}[{index}].value")
    elif kind in messages() and isinstance(value, dict):
        yield from _message(ProtoMessage.of(value, pointer), kind, path)
    elif not _fits(value, kind):
        expected = OBJECT if kind in messages() or kind.endswith(MAP) else kind
        yield limit("field-type").make_violation(
            f"Invalid value at '{path}' (TYPE_{expected.upper()}): {_json_excerpt(value)}",
            pointer,
            actual=value,
            expected=expected,
            source=source,
        )


@cached_per_element
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
            yield limit("unknown-field").make_violation(
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
        return isinstance(value, str) and decode_base64(value) is not None
    return kind == OBJECT and isinstance(value, dict)


def _is_number(value: JSON, *, whole: bool) -> bool:
    """Return whether a value is a number or a numeric string. The provider's parser accepts both."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        number = float(value)
    except ValueError:
        return False
    return not whole or number.is_integer()


def _json_excerpt(value: JSON) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
