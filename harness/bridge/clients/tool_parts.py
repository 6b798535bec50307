"""Parts of a tool (name, function, description, schema) and the parameters, fields and keys that take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.bridge.clients.forms import OPENAI
from harness.bridge.clients.methods import Method
from harness.bridge.clients.names import first_known
from harness.bridge.clients.own_keys import Declaration
from harness.bridge.clients.tool_declarations import declaration_of
from harness.bridge.clients.tool_functions import as_handler
from harness.model.protocols import ConversationTool


def part_named(parts: Mapping[str, Any], name: str) -> Any:
    """Return the part of a tool that the name of a parameter or key means.

    Raises:
        KeyError: the name means no part.
    """
    meaning = next((key for key, names in TOOL_PARTS.items() if name in names), name)
    return parts[meaning]


def parts_of_tool(tool: ConversationTool, hint: str = "") -> dict[str, Any]:
    """Return the parts of a tool, by their meaning. `hint` is the annotation of the function."""
    return {
        "name": tool.name,
        "handler": as_handler(tool, hint),
        "description": tool.description,
        "parameters": tool.parameters,
        "properties": tool.parameters.get("properties") or {},
        "required": tool.parameters.get("required") or [],
        "declaration": Declaration(declaration_of(tool, OPENAI.name)),
    }


TOOL_PARTS: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "tool_name", "function_name", "key"),
    "handler": (
        *("handler", "function", "fn", "func", "callback", "run", "callable", "f", "implementation", "impl", "execute"),
        *("call", "invoke", "executor", "action", "target", "coroutine", "method", "fun"),
    ),
    "description": ("description", "doc", "desc", "summary", "help"),
    "parameters": (
        *("parameters", "schema", "input_schema", "json_schema", "params", "parameters_schema", "args_schema"),
        *("parameters_json_schema", "arguments_schema"),
    ),
    "properties": ("properties", "props", "parameter_properties"),
    "required": ("required", "required_parameters"),
    "declaration": ("spec", "definition", "declaration", "tool_spec", "tool_definition"),
}
"""Maps the parts of a tool with its function to the names of parameters, fields and keys for them."""


def tool_parameters(method: Method) -> dict[str, str]:
    """Return the parameters of a method, or of a constructor, that take parts of a tool, by their meaning."""
    found = {part: name for part, names in TOOL_PARTS.items() if (name := first_known(names, method.names))}
    if "handler" in found and not _takes_functions(method.hints.get(found["handler"])):
        del found["handler"]
    return found


def _takes_functions(hint: object) -> bool:
    return hint is None or hint is Any or "Callable" in str(hint) or "Function" in str(hint)
