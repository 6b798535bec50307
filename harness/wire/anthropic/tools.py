"""Tool declarations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.model import JSON
from harness.wire.anthropic.conversation import dotted, objects
from harness.wire.anthropic.schemas import example_limits, schema_limits, strict_limits
from harness.wire.jsonvalue import join
from harness.wire.view import Violation

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_DOCUMENTED_LENGTH = 64


def tool_limits(body: dict[str, JSON]) -> Iterator[Violation]:
    """AN-2 to AN-6. Which keys a declaration may have is for `settings`."""
    names: set[str] = set()
    for pointer, tool in objects(body.get("tools"), "/tools"):
        name = tool.get("name")
        if isinstance(name, str):
            if name in names:
                yield Violation(
                    "anthropic-tool-name-duplicate",
                    "error",
                    "tools: Tool names must be unique.",
                    join(pointer, "name"),
                    "AN-3",
                    name,
                )
            names.add(name)
        if is_custom(tool):
            yield from _custom(tool, pointer)


def is_custom(tool: dict[str, JSON]) -> bool:
    """Whether the caller runs this tool; the provider's own have a type of their own."""
    return tool.get("type") in (None, "custom")


def _custom(tool: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    name = tool.get("name")
    path = dotted(pointer)
    if isinstance(name, str):
        yield from _name(name, join(pointer, "name"), path)
    else:
        message = f"{path}.custom.name: {'Input should be a valid string' if 'name' in tool else 'Field required'}"
        yield Violation("anthropic-tool-name", "error", message, pointer, "AN-2", name)
    schema, place = tool.get("input_schema"), join(pointer, "input_schema")
    if isinstance(schema, dict):
        yield from schema_limits(schema, place)
        yield from example_limits(tool, schema, pointer)
        if tool.get("strict") is True:
            yield from strict_limits(schema, place)
    else:
        message = f"{path}.custom.input_schema: {'Input should be an object' if schema else 'Field required'}"
        yield Violation("anthropic-tool-schema", "error", message, pointer, "AN-4", schema)


def _name(name: str, pointer: str, path: str) -> Iterator[Violation]:
    if not _NAME.fullmatch(name):
        message = f"{path}.custom.name: String should match pattern '^{_NAME.pattern}$'"
        yield Violation("anthropic-tool-name", "error", message, pointer, "AN-2", name)
    elif len(name) > _DOCUMENTED_LENGTH:
        message = f"{path}.custom.name: longer than the {_DOCUMENTED_LENGTH} characters that the documents promise"
        yield Violation("anthropic-tool-name-long", "warning", message, pointer, "AN-2", name)
