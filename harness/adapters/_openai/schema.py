"""JSON Schema in the strict form that structured output wants (openai-chat-strict-schema)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.contract.model import JSON

_NOT_STRICT = frozenset(
    {
        "allOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "propertyNames",
        "unevaluatedProperties",
    }
)
"""Keywords without a strict form."""


class _NoStrictFormError(Exception):
    """The schema describes something that no strict schema does."""


def strict_form(schema: dict[str, JSON]) -> dict[str, JSON] | None:
    """The schema with every object closed, every property required, optional ones nullable, and defaults dropped.

    `None` if that would describe something else: maps, objects or values without constraints, keywords without a strict
    form. The root has to be an object.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _rewritten(schema)
    except _NoStrictFormError:
        return None


def _rewritten(schema: JSON) -> dict[str, JSON]:
    if not isinstance(schema, dict) or _NOT_STRICT & schema.keys():
        raise _NoStrictFormError
    if "$ref" in schema:
        if schema.keys() - {"$ref", "default"}:  # they would have to be merged into what it refers to
            raise _NoStrictFormError
        return {"$ref": schema["$ref"]}
    types = _types(schema)
    if not types and not {"enum", "const", "anyOf"} & schema.keys():
        raise _NoStrictFormError
    if "array" in types and "items" not in schema:
        raise _NoStrictFormError
    result: dict[str, JSON] = {key: _keyword(key, value) for key, value in schema.items() if key != "default"}
    return result | _closed(result) if "object" in types else result


def _types(schema: dict[str, JSON]) -> list[JSON]:
    types = schema.get("type")
    return types if isinstance(types, list) else [] if types is None else [types]


def _keyword(key: str, value: JSON) -> JSON:
    if key in {"properties", "$defs", "definitions"} and isinstance(value, dict):
        return {name: _rewritten(schema) for name, schema in value.items()}
    if key == "anyOf" and isinstance(value, list):
        return [_rewritten(schema) for schema in value]
    return _rewritten(value) if key == "items" else value


def _closed(schema: dict[str, JSON]) -> dict[str, JSON]:
    """An object whose properties are in strict form → `properties`, `required` and `additionalProperties` in it."""
    properties = schema.get("properties")
    additional = schema.get("additionalProperties")
    if additional not in (None, False) or (not properties and additional is None):
        raise _NoStrictFormError
    required = schema.get("required")
    return {
        "properties": {
            name: value if isinstance(required, list) and name in required else _nullable(value)
            for name, value in _items(properties)
        },
        "required": [name for name, _ in _items(properties)],
        "additionalProperties": False,
    }


def _items(properties: JSON) -> list[tuple[str, dict[str, JSON]]]:
    entries = properties.items() if isinstance(properties, dict) else ()
    return [(name, schema) for name, schema in entries if isinstance(schema, dict)]


def _nullable(schema: dict[str, JSON]) -> dict[str, JSON]:
    types = _types(schema)
    if types and not {"enum", "const", "anyOf"} & schema.keys():
        return {**schema, "type": types if "null" in types else [*types, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}
