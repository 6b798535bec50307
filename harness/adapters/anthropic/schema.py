"""The one rewrite of a response schema that the API asks for: closed objects (anthropic-strict-closed)."""

from __future__ import annotations

from harness.contract.errors import Unsupported
from harness.contract.model import JSON

_SCHEMAS_BY_NAME = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
_SCHEMAS_IN_LIST = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_SCHEMA = frozenset({"items", "not", "if", "then", "else", "contains"})


def closed(schema: JSON) -> JSON:
    """A copy in which every object without `additionalProperties` has `"additionalProperties": false`.

    Raises:
        Unsupported: an object is open (`additionalProperties` is there and not false), which the API refuses.
    """
    if not isinstance(schema, dict):
        return schema
    copy = {keyword: _closed_inside(keyword, value) for keyword, value in schema.items()}
    kind = schema.get("type")
    is_object = kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema
    if is_object and copy.setdefault("additionalProperties", False) is not False:
        raise Unsupported("anthropic", "an open object in a response schema", "the API takes closed objects only")
    return copy


def _closed_inside(keyword: str, value: JSON) -> JSON:
    if keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
        return {name: closed(schema) for name, schema in value.items()}
    if keyword in _SCHEMAS_IN_LIST and isinstance(value, list):
        return [closed(schema) for schema in value]
    return closed(value) if keyword in _SCHEMA else value
