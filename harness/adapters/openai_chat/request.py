"""Canonical request → body of `POST /chat/completions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters.openai_chat.messages import wire_messages
from harness.adapters.openai_chat.metadata import API, merged, own
from harness.adapters.openai_chat.models import is_reasoning, refuses_tools_with_reasoning
from harness.adapters.openai_chat.schema import strict_form
from harness.contract.errors import Unsupported
from harness.contract.model import JSON_INSTRUCTION, JsonMode, JsonSchema, NamedTool, Role, Text

if TYPE_CHECKING:
    from harness.contract.model import JSON, ChatRequest, ResponseFormat, Tool


def encode(request: ChatRequest, model: str, max_tokens_field: str = "max_completion_tokens") -> dict[str, JSON]:
    """The body, without the verbatim fields of `request.provider_metadata`; the bound stands in `max_tokens_field`.

    Raises:
        Unsupported: the API cannot express the request.
    """
    body: dict[str, JSON] = {"model": model, "messages": [*_preamble(request, model), *wire_messages(request.messages)]}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    bound: dict[str, JSON] = {} if request.max_tokens is None else {max_tokens_field: request.max_tokens}
    settings = _sampling(request, model) | bound | _reasoning(request, model)
    return body | _tool_choice(request) | _response_format(request.response_format) | settings


def _preamble(request: ChatRequest, model: str) -> list[JSON]:
    """The system prompt, and the word "json" where JSON mode would be refused without it (OC-12)."""
    role = "developer" if is_reasoning(model) else "system"
    preamble: list[JSON] = [{"role": role, "content": request.system}] if request.system else []
    if isinstance(request.response_format, JsonMode) and not _asks_for_json(request):
        preamble.append({"role": role, "content": JSON_INSTRUCTION})
    return preamble


def _asks_for_json(request: ChatRequest) -> bool:
    """System or user say "json". What the model or a tool said does not count, lest a growing history drops the
    instruction from its beginning."""
    said = [
        part.text
        for message in request.messages
        if message.role is Role.USER
        for part in message.parts
        if isinstance(part, Text)
    ]
    return any("json" in text.lower() for text in (request.system or "", *said))


def _tool(tool: Tool) -> dict[str, JSON]:
    function: dict[str, JSON] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": merged(function, own(tool.provider_metadata))}


def _tool_choice(request: ChatRequest) -> dict[str, JSON]:
    choice = request.tool_choice
    if choice is None:
        return {}
    if not request.tools:  # the field is refused then (OC-4); without tools "auto" and "none" mean what is so anyway
        if choice in ("auto", "none"):
            return {}
        raise Unsupported(API, "tool_choice", "a call is demanded and there are no tools")
    if isinstance(choice, NamedTool):
        return {"tool_choice": {"type": "function", "function": {"name": choice.name}}}
    return {"tool_choice": choice}


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


def _sampling(request: ChatRequest, model: str) -> dict[str, JSON]:
    sampling: dict[str, JSON] = {}
    if request.temperature is not None:
        sampling["temperature"] = request.temperature
    if request.top_p is not None:
        sampling["top_p"] = request.top_p
    if request.stop:
        sampling["stop"] = list(request.stop)
    if sampling and is_reasoning(model):
        raise Unsupported(API, ", ".join(sampling), f"{model} refuses sampling parameters")
    return sampling


def _reasoning(request: ChatRequest, model: str) -> dict[str, JSON]:
    exclusive = bool(request.tools) and refuses_tools_with_reasoning(model)
    if request.thinking is None:
        return {"reasoning_effort": "none"} if exclusive else {}
    if exclusive:
        raise Unsupported(API, "thinking", f"{model} refuses it together with tools")
    if request.thinking.effort is None and request.thinking.budget_tokens is not None:
        raise Unsupported(API, "thinking", "the API has efforts and no token budgets")
    return {"reasoning_effort": request.thinking.effort or "medium"}
