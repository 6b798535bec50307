"""JSON schemas: of tools, their examples, and the subset that strict tools and output formats take."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.anthropic import limits
from harness.apis.anthropic.limits.conversation import dotted
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.apis.metaschema import schema_fault
from harness.contract.model import JSON
from harness.scenarios.json_schema import UndecidedSchema, Validator, schema_error

_UNIONS = ("oneOf", "anyOf", "allOf")


def schema_limits(schema: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    """anthropic-tool-schema-object, anthropic-tool-schema-no-root-union: a valid schema of an object, which is no
    choice among several."""
    path = dotted(pointer)
    if schema.get("type") != "object":
        message = f"{path}.type: Input should be 'object'"
        yield limits.TOOL_SCHEMA.broken(message, pointer, actual=schema.get("type"), expected="object")
    unions = [key for key in _UNIONS if key in schema]
    if unions:
        message = f"{path}: input_schema does not support oneOf, allOf, or anyOf at the top level"
        yield limits.TOOL_SCHEMA_UNION.broken(message, join(pointer, unions[0]), actual=[*unions])
    fault = schema_fault(schema)
    if fault:
        keys, reason = fault
        message = f"{path}: JSON schema is invalid. It must match JSON Schema draft 2020-12: {reason}"
        yield limits.TOOL_SCHEMA.broken(message, join(pointer, *keys))


def example_limits(tool: dict[str, JSON], schema: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    """anthropic-tool-examples-valid: each of `input_examples` is valid by the tool's schema."""
    examples = tool.get("input_examples")
    for index, example in enumerate(examples if isinstance(examples, list) else ()):
        if not _is_valid(example, schema):
            place = join(pointer, "input_examples", index)
            message = f"{dotted(place)}: does not match the input_schema"
            yield limits.TOOL_EXAMPLES.broken(message, place, actual=example)


def _is_valid(example: JSON, schema: dict[str, JSON]) -> bool:
    """Whether an example is valid, or cannot be judged: a broken schema is a violation of its own."""
    try:
        return schema_error(schema) is not None or Validator(schema).is_valid(example)
    except (UndecidedSchema, RecursionError):
        return True
