"""JSON objects as the protobuf JSON mapping reads them (gemini-casing).

`thought_signature` and `thoughtSignature` are one field, `null` is an absent field, one object may stand for a list of
one, an enum is its name or its number, and bytes are base64 in either alphabet.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from harness.apis.entries import entrywise
from harness.apis.jsonvalue import join
from harness.apis.view import WireError
from harness.contract.model import JSON

T = TypeVar("T")

_UNDERSCORED = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_STANDARD_ALPHABET = str.maketrans("-_", "+/")


@lru_cache(4096)
def camel(key: str) -> str:
    """The camelCase spelling of a field's name."""
    return _UNDERSCORED.sub(lambda match: match[1].upper(), key)


@lru_cache(4096)
def snake(key: str) -> str:
    """The snake_case spelling of a field's name, which the provider's messages use."""
    return _CAPITAL.sub(lambda match: f"_{match[1].lower()}", key)


def decoded(text: str) -> bytes | None:
    """The bytes of a base64 text in either alphabet, padded or not; `None` if it is none."""
    bare = text.translate(_STANDARD_ALPHABET).rstrip("=")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError:  # binascii.Error, or text outside ASCII
        return None


def canonical(value: JSON) -> JSON:
    """Base64 text in the standard alphabet with padding, so that equal bytes are equal texts. Else the value itself."""
    data = decoded(value) if isinstance(value, str) else None
    return value if data is None else base64.b64encode(data).decode()


@dataclass(frozen=True, slots=True)
class ProtoMessage:
    """One JSON object, read by the camelCase names of its fields. `pointer` is its place in the body as sent."""

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
        """The fields that are set."""
        return tuple(self._fields)

    def get(self, name: str) -> JSON:
        """The value of a field, `None` if it is not set."""
        return self._fields[name][1] if name in self._fields else None

    def spelling(self, name: str) -> str:
        """The key of a set field as it was sent."""
        return self._fields[name][0]

    def at(self, name: str) -> str:
        """Pointer to a field, or to this object if the field is not set."""
        return join(self.pointer, self._fields[name][0]) if name in self._fields else self.pointer

    def text(self, name: str) -> str | None:
        """A string field. Raises `WireError` for a value of another type."""
        value = self.get(name)
        if value is None or isinstance(value, str):
            return value
        raise WireError("a string is expected", self.at(name))

    def enum(self, name: str, values: Sequence[str]) -> str | None:
        """An enum field by the name of its value: some clients send its number, which is the index in `values`. A
        number beyond them is returned as text. Raises `WireError` for a value of another type."""
        value = self.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            return self.text(name)
        return values[value] if 0 <= value < len(values) else str(value)

    def message(self, name: str) -> ProtoMessage | None:
        """An object field. Raises `WireError` for a value of another type."""
        value = self.get(name)
        return None if value is None else ProtoMessage.of(value, self.at(name))

    def messages(self, name: str) -> list[ProtoMessage]:
        """A repeated object field. Raises `WireError` for a value of another type."""
        return [ProtoMessage.of(item, pointer) for item, pointer in repeated(self.get(name), self.at(name))]

    def camelised(self) -> dict[str, JSON]:
        """The object with its own keys in camelCase and its nested values as they are."""
        return {name: value for name, (_, value) in self._fields.items()}


def entrywise_repeated(read: Callable[[Any, str], T]) -> Callable[[JSON, str], Sequence[T]]:
    """`harness.apis.entries.entrywise` for the values of a repeated field."""
    of_list = entrywise(read)

    def of(value: JSON, pointer: str) -> Sequence[T]:
        return of_list(value, pointer) if value is None or isinstance(value, list) else (read(value, pointer),)

    return of


def repeated(value: JSON, pointer: str) -> list[tuple[JSON, str]]:
    """The values of a repeated field, each with its pointer. A value that is no list is a list of one."""
    if value is None:
        return []
    if isinstance(value, list):
        return [(item, join(pointer, index)) for index, item in enumerate(value)]
    return [(value, pointer)]


TYPES = ("type_unspecified", "string", "number", "integer", "boolean", "array", "object", "null")
"""The types of a schema; the number of one is its index (google.ai.generativelanguage.v1beta.Type)."""


def schema_view(schema: JSON) -> JSON:
    """An OpenAPI schema in one spelling: keys in camelCase, types in lower case, absent fields left out
    (gemini-schema-fields)."""
    if not isinstance(schema, dict):
        return schema
    fields = ProtoMessage.of(schema).camelised()
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
            return [schema_view(option) for option, _ in repeated(value, "")]
        case (("properties" | "defs"), dict()):
            return {key: schema_view(member) for key, member in value.items()}
        case _:
            return value
