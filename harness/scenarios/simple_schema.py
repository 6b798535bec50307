"""JSON Schemas of the simple kind that most are: the metaschema takes longer than all else that is done with one."""

from __future__ import annotations

from harness.contract.model import JSON

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def is_simple(schema: JSON) -> bool:
    """Whether it is a schema (draft 2020-12), and a simple one; of what is not, nothing is known yet."""
    return isinstance(schema, dict) and all(_fits(key, value) for key, value in schema.items())


def _fits(keyword: str, value: JSON) -> bool:
    match keyword:
        case "type":
            return isinstance(value, str) and value in _TYPES
        case "description" | "title":
            return isinstance(value, str)
        case "properties":
            return isinstance(value, dict) and all(map(is_simple, value.values()))
        case "items":
            return is_simple(value)
        case "required":
            return isinstance(value, list) and all(isinstance(each, str) for each in value) and _are_distinct(value)
        case "enum":
            return isinstance(value, list)
        case "additionalProperties":
            return isinstance(value, bool)
        case _:
            return False


def _are_distinct(names: list[JSON]) -> bool:
    return len(set(map(str, names))) == len(names)
