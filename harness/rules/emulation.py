"""A JSON schema that is asked for by a tool: the model has to call one whose arguments are the answer.

Where an API takes a forced choice this binds the model as its own switch does, and released libraries ask so. The tool,
the choice and a text that speaks of the tool are then part of how JSON is asked for.
"""

from __future__ import annotations

from harness import catalog
from harness.apis.view import ToolView
from harness.contract.model import JsonSchema
from harness.meaning.schema_changes import change
from harness.rules.evidence import Asked


def format_tool(asked: Asked) -> ToolView | None:
    """The tool that stands for the wanted schema, if the request binds the model to it.

    It is none of the caller's, takes what the schema takes, and is the only one that may be called; or one of the
    caller's has to be called if it is not, so that the caller's stay in reach.
    """
    request, choice = asked.chat.request, asked.view.tool_choice
    if (
        not catalog.api(asked.view.api).traits.schema_by_tool
        or not isinstance(request.response_format, JsonSchema)
        or choice is None
    ):
        return None
    given = {tool.name for tool in request.tools}
    for tool in asked.view.tools:
        if tool.kind != "function" or tool.name in given:
            continue
        is_only_one = choice.mode == "named" and choice.name == tool.name and not given
        is_one_of_all = choice.mode == "required" and request.tool_choice in (None, "auto")
        if (is_only_one or is_one_of_all) and not change(request.response_format.schema, tool.parameters, tool.dialect):
            return tool
    return None
