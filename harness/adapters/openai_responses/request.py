"""Canonical request → body of `POST /responses`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters._openai.metadata import merged, own
from harness.adapters._openai.models import is_reasoning
from harness.adapters._openai.schema import strict_form
from harness.adapters._openai.settings import effort, sampling, tool_choice, user_says_json
from harness.adapters.openai_responses.api import API
from harness.adapters.openai_responses.items import wire_items
from harness.contract.errors import Unsupported
from harness.contract.model import JSON_INSTRUCTION, JsonMode, JsonSchema, NamedTool

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
    """The word "json" where JSON mode would be refused without it: in the input, instructions do not count
    (openai-responses-word-json)."""
    if not isinstance(request.response_format, JsonMode) or user_says_json(request.messages):
        return []
    return [{"role": "developer", "content": JSON_INSTRUCTION}]


def _tool(tool: Tool) -> dict[str, JSON]:
    wire: dict[str, JSON] = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
        "strict": False,
    }
    return merged(wire, own(tool.provider_metadata, API))


def _tool_choice(request: ChatRequest) -> dict[str, JSON]:
    choice = tool_choice(request, API)
    if isinstance(choice, NamedTool):
        return {"tool_choice": {"type": "function", "name": choice.name}}
    return {"tool_choice": choice} if choice else {}


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
    settings = sampling(request, model, API)
    if request.max_tokens is not None:
        settings["max_output_tokens"] = request.max_tokens
    if request.thinking is not None:
        settings["reasoning"] = {"effort": effort(request.thinking, API), "summary": "auto"}
    return settings
