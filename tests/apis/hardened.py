"""The SDKs' types as strict validators.

As they stand they accept bad requests: `Iterable` fields become lazy generators, extra keys are ignored and integers
are coerced. So the core schema is rewritten before the validator is built.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

_NOT_SCHEMAS = frozenset({"metadata", "serialization", "ref", "schema_ref", "cls", "default"})


@cache
def validator(kind: Any) -> SchemaValidator:
    """A validator that knows no lazy lists and no extra keys. Call `validate_python(value, strict=True)`."""
    schema = dict(TypeAdapter(kind).core_schema)  # a model's is built only when it is looked into
    return SchemaValidator(_hardened(schema, {}))


def _hardened(node: Any, done: dict[int, Any]) -> Any:
    if isinstance(node, list | tuple):
        return type(node)(_hardened(member, done) for member in node)
    if not isinstance(node, dict):
        return node
    if id(node) in done:  # nodes are shared, and some are recursive
        return done[id(node)]
    copy: dict[str, Any] = {}
    done[id(node)] = copy
    for key, value in node.items():
        copy[key] = value if key in _NOT_SCHEMAS else _hardened(value, done)
    if copy.get("type") == "generator":
        copy["type"] = "list"
    if copy.get("type") == "typed-dict" and copy.get("extra_behavior") != "allow":
        copy["extra_behavior"] = "forbid"
    return copy
