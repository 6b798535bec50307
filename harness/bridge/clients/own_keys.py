"""Dictionaries in an API's format that a client can also read under keys of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from harness.bridge.clients.names import FIELD_ALIASES, TEXT_KEYS


class Declaration(dict[str, Any]):
    """A tool in an API's format. A client may also read the name, the description and the schema as keys of its own.

    Copies and JSON contain only the fields of the API's format. `as_read` is a plain dictionary with the keys that the
    client reads, for `harness reproduce`. Once the client has read one of its own keys, the declaration also contains
    the others.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.as_read = {**fields}

    def __missing__(self, key: str) -> Any:
        inner, found = self._inner, self._known_key(key)
        if found is None and not (_means_schema(key) and "name" in [*inner]):
            raise KeyError(key)
        value: Any = NO_PARAMETERS if found is None else inner[found]
        for unread in ("type", "function", *SCHEMA_KEYS):
            self.as_read.pop(unread, None)
        self.as_read[key] = value
        return value

    def __contains__(self, key: object) -> bool:
        is_read = bool(self.as_read.keys() - self.keys())
        return super().__contains__(key) or (is_read and isinstance(key, str) and self._known_key(key) is not None)

    @property
    def _inner(self) -> dict[str, Any]:
        """The object with the name, the description and the schema."""
        alone = dict[str, Any].get(self, "functionDeclarations", ())
        enclosed = alone[0] if len(alone) == 1 else {**self}
        return cast("dict[str, Any]", dict[str, Any].get(self, "function", enclosed))

    def _known_key(self, key: str) -> str | None:
        """Return the key of the API's format that means the same as a client's own."""
        keys = SCHEMA_KEYS if _means_schema(key) else ("description",) if key in _OWN_DESCRIPTION_KEYS else (key,)
        return next((each for each in keys if each in self._inner), None)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key of the API's format, or of a key that means the same."""
        try:
            return default if key == "function" and key not in self else self[key]
        except KeyError:
            return default


NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}

SCHEMA_KEYS = ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema")
"""Keys that hold the schema of a tool in the formats of the APIs. A tool of Gemini without parameters has none."""


def _means_schema(key: str) -> bool:
    return key in SCHEMA_KEYS or key in _OWN_SCHEMA_KEYS


_OWN_SCHEMA_KEYS = ("schema", "json_schema", "params", "args_schema")
_OWN_DESCRIPTION_KEYS = ("desc", "doc", "summary")
"""Keys of a tool in the formats of clients."""


class UnknownKeyError(KeyError):
    """A client reads a key that no usual message has."""


class UnknownAttributeError(UnknownKeyError, AttributeError):
    """A client reads an attribute of a message or call that is a dictionary, as of an object of its own."""


class PartFields(dict[str, Any]):
    """A part of a message's content in OpenAI's format. A client that converts it to a text does not take such parts.

    Its `repr` is that of a dictionary, as in a log of the messages.
    """

    def __str__(self) -> str:
        raise TypeError("a content part is no text")


class OwnFields(dict[str, Any]):
    """A message or a call in OpenAI's format. A client may also read its fields under names of its own.

    `own` holds the fields of the client's answer that the message or call comes from. Copies and JSON contain only the
    fields of OpenAI's format. `as_read` also has the other keys that the client reads, for `harness reproduce`.
    """

    def __init__(self, fields: Mapping[str, Any], own: Mapping[str, Any], flat: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self._known = {**flat, **own}
        others = {} if fields.get("role") == "tool" else {"content": TEXT_KEYS}
        self._aliases: Mapping[str, tuple[str, ...]] = {**FIELD_ALIASES, **others}
        self.as_read = {name: _as_read(value) for name, value in fields.items()}

    def __missing__(self, key: str) -> Any:
        if key not in self:
            raise UnknownKeyError(key)
        names = (name for name, others in self._aliases.items() if key in others and name in self._known)
        value = self._known[key if key in self._known else next(names)]
        self.as_read[key] = _as_read(value)
        return value

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("_") else UnknownAttributeError(name)

    def __contains__(self, key: object) -> bool:
        names = (name for name, others in self._aliases.items() if key in others)
        return super().__contains__(key) or key in self._known or any(name in self._known for name in names)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key of OpenAI's format, or of a key of the client's own."""
        try:
            return self[key]
        except KeyError:
            return default

    def copy(self) -> OwnFields:
        """Return a copy that the client can read in the same way."""
        made = OwnFields(self, self._known, {})
        made.as_read = self.as_read
        return made


def _as_read(value: object) -> object:
    if isinstance(value, list):
        return [_as_read(each) for each in cast("list[object]", value)]
    return value.as_read if isinstance(value, OwnFields) else value
