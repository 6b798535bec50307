"""JSON schemas: what OpenAI asks of those of functions (openai-chat-array-items), and the strict subset, in which every
object is closed and requires all that it has (openai-chat-strict-schema)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import join
from harness.apis.limit import Limit, Violation
from harness.apis.metaschema import schema_fault
from harness.apis.openai_chat import limits
from harness.apis.subschemas import inner
from harness.contract.model import JSON

_KEYWORDS = (
    *("items", "additionalProperties", "not", "if", "then", "else"),
    *("anyOf", "oneOf", "allOf", "prefixItems"),
    *("properties", "$defs", "definitions"),
)
"""Keywords that have schemas which are looked at."""


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


def invalid(limit: Limit, schema: dict[str, JSON], pointer: str, subject: str, code: str) -> Iterator[Violation]:
    """openai-chat-schema-valid: a schema that is none. `subject` names its owner as refusals do."""
    fault = schema_fault(schema, lenient=True)
    if fault is not None:
        keys, reason = fault
        yield limit.broken(f"Invalid schema for {subject}: {reason}.", join(pointer, *keys), code=code)


def bare_arrays(schema: JSON, pointer: str, subject: str, code: str) -> Iterator[Violation]:
    """openai-chat-array-items: arrays that do not say what their items are. `subject` names the schema's owner as
    refusals do."""
    for place, node in _nodes(schema, pointer):
        kind = node.get("type")
        if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and "items" not in node:
            context = place.removeprefix(pointer) or "the root"
            yield limits.TOOL_ARRAY_ITEMS.broken(
                f"Invalid schema for {subject}: at {context}, array schema missing items.", place, code=code
            )


def _is_object(node: dict[str, JSON]) -> bool:
    kind = node.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or isinstance(node.get("properties"), dict)


def _nodes(schema: JSON, pointer: str) -> Iterator[tuple[str, dict[str, JSON]]]:
    """A schema and the schemas in it, with their pointers: what stands last comes first."""
    waiting: list[tuple[str, JSON]] = [(pointer, schema)]
    while waiting:
        place, node = waiting.pop()
        if isinstance(node, dict):
            yield place, node
            waiting.extend(inner(node, place, _KEYWORDS))
