"""Canonical request → body of `POST /responses`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters.openai_responses.items import wire_items
from harness.adapters.openai_responses.metadata import API, merged, own
from harness.adapters.openai_responses.models import is_reasoning
from harness.adapters.openai_responses.schema import strict_form
from harness.contract.errors import Unsupported
from harness.contract.model import JSON_INSTRUCTION, JsonMode, JsonSchema, NamedTool, Role, Text

if TYPE_CHECKING:
    from harness.contract.model import JSON, ChatRequest, ResponseFormat, Tool


def encode(request: ChatRequest, model: str) -> dict[str, JSON]:
    """The body, without the verbatim fields of `request.provider_metadata`.

    Raises:
        Unsupported: the API cannot express the request.
    """
    body: dict[str, JSON] = {"model": model, "input": [*_preamble(request), *wire_items(request.messages)]}
    body["store"] = False
    if is_reasoning(model):
        body["include"] = ["reasoning.encrypted_content"]
    if request.system:
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    return body | _tool_choice(request) | _text(request.response_format) | _settings(request, model)


def _preamble(request: ChatRequest) -> list[JSON]:
    """The word "json" where JSON mode would be refused without it: in the input, instructions do not count (RS-8)."""
    if not isinstance(request.response_format, JsonMode) or _asks_for_json(request):
        return []
    return [{"role": "developer", "content": JSON_INSTRUCTION}]


def _asks_for_json(request: ChatRequest) -> bool:
    """The user says "json".

    What the model or a tool said does not count, lest a growing history drops the instruction from its beginning.
    """
    parts = (part for message in request.messages if message.role is Role.USER for part in message.parts)
    return any("json" in part.text.lower() for part in parts if isinstance(part, Text))


def _tool(tool: Tool) -> dict[str, JSON]:
    wire: dict[str, JSON] = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
        "strict": False,
    }
    return merged(wire, own(tool.provider_metadata))


def _tool_choice(request: ChatRequest) -> dict[str, JSON]:
    choice = request.tool_choice
    if choice is None:
        return {}
    if not request.tools:  # without tools "auto" and "none" mean what is so anyway
        if choice in ("auto", "none"):
            return {}
        raise Unsupported(API, "tool_choice", "a call is demanded and there are no tools")
    if isinstance(choice, NamedTool):
        return {"tool_choice": {"type": "function", "name": choice.name}}
    return {"tool_choice": choice}


def _text(response_format: ResponseFormat | None) -> dict[str, JSON]:
    match response_format:
        case None:
            return {}
        case JsonMode():
            return {"text": {"format": {"type": "json_object"}}}
        case JsonSchema(schema=schema, name=name):
            strict = strict_form(schema)
            form: dict[str, JSON] = {"type": "json_schema", "name": name, "schema": strict or schema}
            return {"text": {"format": {**form, "strict": strict is not None}}}


def _settings(request: ChatRequest, model: str) -> dict[str, JSON]:
    if request.stop:
        raise Unsupported(API, "stop", "the API has no field for it")
    settings: dict[str, JSON] = {}
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    if request.top_p is not None:
        settings["top_p"] = request.top_p
    if settings and is_reasoning(model):
        raise Unsupported(API, ", ".join(settings), f"{model} refuses sampling parameters")
    if request.max_tokens is not None:
        settings["max_output_tokens"] = request.max_tokens
    if request.thinking is not None:
        if request.thinking.effort is None and request.thinking.budget_tokens is not None:
            raise Unsupported(API, "thinking", "the API has efforts and no token budgets")
        settings["reasoning"] = {"effort": request.thinking.effort or "medium", "summary": "auto"}
    return settings
