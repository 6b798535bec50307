"""JSON schemas: what OpenAI asks of those of functions (openai-chat-array-items), and the strict subset, in which every
object is closed and requires all that it has (openai-chat-strict-schema)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.apis.openai_chat import limits
from harness.contract.model import JSON

_ONE = ("items", "additionalProperties", "not", "if", "then", "else")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions")


def violations(schema: JSON, pointer: str, subject: str, code: str) -> Iterator[Violation]:
    """What keeps a schema out of the strict subset. `subject` names its owner as refusals do."""
    for place, node in _nodes(schema, pointer):
        if not _is_object(node):
            continue
        context = place.removeprefix(pointer) or "the root"
        if node.get("additionalProperties") is not False:
            yield limits.STRICT_ADDITIONAL_PROPERTIES.broken(
                f"Invalid schema for {subject}: at {context}, 'additionalProperties' has to be given and to be false.",
                place,
                actual=node.get("additionalProperties"),
                expected=False,
                code=code,
            )
        properties, required = node.get("properties"), node.get("required")
        names = list(properties) if isinstance(properties, dict) else []
        given = required if isinstance(required, list) else []
        missing = [name for name in names if name not in given]
        if missing:
            yield limits.STRICT_REQUIRED.broken(
                f"Invalid schema for {subject}: at {context}, 'required' has to name every property. "
                f"Missing: {', '.join(missing)}.",
                place,
                actual=given,
                expected=[*names],
                code=code,
            )


def bare_arrays(schema: JSON, pointer: str, subject: str, code: str) -> Iterator[Violation]:
    """openai-chat-array-items: arrays that do not say what their items are. `subject` names the schema's owner as
    refusals do."""
    for place, node in _nodes(schema, pointer):
        if node.get("type") == "array" and "items" not in node:
            context = place.removeprefix(pointer) or "the root"
            yield limits.TOOL_ARRAY_ITEMS.broken(
                f"Invalid schema for {subject}: at {context}, array schema missing items.", place, code=code
            )


def _is_object(node: dict[str, JSON]) -> bool:
    kind = node.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or isinstance(node.get("properties"), dict)


def _nodes(schema: JSON, pointer: str) -> Iterator[tuple[str, dict[str, JSON]]]:
    """A schema and the schemas in it, with their pointers. Without recursion, for schemas of any depth."""
    waiting: list[tuple[str, JSON]] = [(pointer, schema)]
    while waiting:
        place, node = waiting.pop()
        if not isinstance(node, dict):
            continue
        yield place, node
        waiting += [(join(place, key), node[key]) for key in _ONE if key in node]
        for key in _MANY:
            held = node.get(key)
            if isinstance(held, list):
                waiting += [(join(place, key, index), one) for index, one in enumerate(held)]
        for key in _NAMED:
            held = node.get(key)
            if isinstance(held, dict):
                waiting += [(join(place, key, name), one) for name, one in held.items()]
