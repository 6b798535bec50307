"""Canonical request → body of `POST /chat/completions`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.adapters._openai.metadata import merged, own
from harness.adapters._openai.models import is_of_mistral, is_reasoning
from harness.adapters._openai.schema import strict_form
from harness.adapters._openai.settings import effort, sampling, tool_choice, user_says_json
from harness.adapters.openai_chat.api import API
from harness.adapters.openai_chat.messages import wire_messages
from harness.contract.errors import Unsupported
from harness.contract.model import JSON_INSTRUCTION, JsonMode, JsonSchema, NamedTool

if TYPE_CHECKING:
    from harness.contract.model import JSON, ChatRequest, ResponseFormat, Tool


def encode(request: ChatRequest, model: str, max_tokens_field: str | None = None) -> dict[str, JSON]:
    """The body, without the verbatim fields of `request.provider_metadata`; the bound stands in `max_tokens_field`, or
    where the model wants it.

    Raises:
        Unsupported: the API cannot express the request.
    """
    body: dict[str, JSON] = {"model": model, "messages": [*_preamble(request, model), *wire_messages(request.messages)]}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    field = max_tokens_field or ("max_tokens" if is_of_mistral(model) else "max_completion_tokens")
    bound: dict[str, JSON] = {} if request.max_tokens is None else {field: request.max_tokens}
    settings = sampling(request, model, API, stop=list(request.stop) or None) | bound | _reasoning(request, model)
    return body | _tool_choice(request) | _response_format(request.response_format) | settings


def _preamble(request: ChatRequest, model: str) -> list[JSON]:
    """The system prompt, and the word "json" where JSON mode would be refused without it (openai-chat-word-json)."""
    role = "developer" if is_reasoning(model) else "system"
    preamble: list[JSON] = [{"role": role, "content": request.system}] if request.system else []
    if isinstance(request.response_format, JsonMode) and not _asks_for_json(request):
        preamble.append({"role": role, "content": JSON_INSTRUCTION})
    return preamble


def _asks_for_json(request: ChatRequest) -> bool:
    """System or user say "json"."""
    return "json" in (request.system or "").lower() or user_says_json(request.messages)


def _tool(tool: Tool) -> dict[str, JSON]:
    function: dict[str, JSON] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": merged(function, own(tool.provider_metadata, API))}


def _tool_choice(request: ChatRequest) -> dict[str, JSON]:
    choice = tool_choice(request, API)
    if isinstance(choice, NamedTool):
        return {"tool_choice": {"type": "function", "function": {"name": choice.name}}}
    return {"tool_choice": choice} if choice else {}


def _response_format(response_format: ResponseFormat | None) -> dict[str, JSON]:
    match response_format:
        case None:
            return {}
        case JsonMode():
            return {"response_format": {"type": "json_object"}}
        case JsonSchema(schema=schema, name=name):
            strict = strict_form(schema)
            form: dict[str, JSON] = {"name": name, "schema": strict or schema, "strict": strict is not None}
            return {"response_format": {"type": "json_schema", "json_schema": form}}


def _reasoning(request: ChatRequest, model: str) -> dict[str, JSON]:
    exclusive = bool(request.tools) and _refuses_tools_with_reasoning(model)
    if request.thinking is None:
        return {"reasoning_effort": "none"} if exclusive else {}
    if exclusive:
        raise Unsupported(API, "thinking", f"{model} refuses it together with tools")
    return {"reasoning_effort": effort(request.thinking, API)}


def _refuses_tools_with_reasoning(model: str) -> bool:
    """Function tools need `reasoning_effort: "none"`, and its absence means another effort
    (openai-chat-tools-want-no-reasoning)."""
    return re.match(r"gpt-(5\.([4-9]|\d\d)|6)", model) is not None
