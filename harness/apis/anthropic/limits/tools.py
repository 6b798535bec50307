"""Tool declarations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.apis.anthropic import limits
from harness.apis.anthropic.limits import strictness
from harness.apis.anthropic.limits.conversation import dotted, objects
from harness.apis.anthropic.limits.schemas import example_limits, schema_limits
from harness.apis.entries import entrywise
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.contract.model import JSON

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_DOCUMENTED_LENGTH = 64


def tool_limits(body: dict[str, JSON]) -> Iterator[Violation]:
    """anthropic-tool-name-pattern, anthropic-tool-names-differ, anthropic-tool-schema-object,
    anthropic-tool-examples-valid, anthropic-strict-closed. Which keys a declaration may have is for `settings`."""
    names: set[str] = set()
    tools = body.get("tools")
    for index, found in enumerate(_by_itself(tools, "/tools")):
        tool = tools[index] if isinstance(tools, list) else None
        name = tool.get("name") if isinstance(tool, dict) else None
        if isinstance(name, str):
            if name in names:
                place = join("/tools", index, "name")
                yield limits.TOOL_NAME_DUPLICATE.broken("tools: Tool names must be unique.", place, actual=name)
            names.add(name)
        yield from found
    yield from _strict(body)


def _strict(body: dict[str, JSON]) -> Iterator[Violation]:
    schemas = [
        (join(pointer, "input_schema"), tool.get("input_schema"))
        for pointer, tool in objects(body.get("tools"), "/tools")
        if is_custom(tool) and tool.get("strict") is True
    ]
    strict = [(pointer, schema) for pointer, schema in schemas if isinstance(schema, dict)]
    for pointer, schema in strict:
        yield from strictness.schema_limits(schema, pointer)
    yield from strictness.tools_limits(strict)


def is_custom(tool: dict[str, JSON]) -> bool:
    """Whether the caller runs this tool; the provider's own have a type of their own."""
    return tool.get("type") in (None, "custom")


@entrywise
def _by_itself(tool: JSON, pointer: str) -> list[Violation]:
    return [*_custom(tool, pointer)] if isinstance(tool, dict) and is_custom(tool) else []


def _custom(tool: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    name = tool.get("name")
    path = dotted(pointer)
    if isinstance(name, str):
        yield from _name(name, join(pointer, "name"), path)
    else:
        message = f"{path}.custom.name: {'Input should be a valid string' if 'name' in tool else 'Field required'}"
        yield limits.TOOL_NAME.broken(message, pointer, actual=name)
    schema, place = tool.get("input_schema"), join(pointer, "input_schema")
    if isinstance(schema, dict):
        yield from schema_limits(schema, place)
        yield from example_limits(tool, schema, pointer)
    else:
        message = f"{path}.custom.input_schema: {'Input should be an object' if schema else 'Field required'}"
        yield limits.TOOL_SCHEMA.broken(message, pointer, actual=schema)


def _name(name: str, pointer: str, path: str) -> Iterator[Violation]:
    if not _NAME.fullmatch(name):
        message = f"{path}.custom.name: String should match pattern '^{_NAME.pattern}$'"
        yield limits.TOOL_NAME.broken(message, pointer, actual=name)
    elif len(name) > _DOCUMENTED_LENGTH:
        message = f"{path}.custom.name: longer than the {_DOCUMENTED_LENGTH} characters that the documents promise"
        yield limits.TOOL_NAME_LONG.broken(message, pointer, actual=name)
