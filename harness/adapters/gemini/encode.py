"""Canonical request → body of generateContent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters.gemini.conversation import contents
from harness.adapters.gemini.generation import is_3_or_later, is_before_3
from harness.adapters.gemini.merge import merged, own
from harness.contract.errors import Unsupported
from harness.contract.model import JSON, ChatRequest, JsonSchema, NamedTool

if TYPE_CHECKING:
    from harness.contract.model import ThinkingSettings, Tool

_BUDGETS = {"low": 1024, "medium": 8192, "high": 24576}
"""Tokens of thinking that an effort stands for on models with budgets."""

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def body(request: ChatRequest, model: str) -> dict[str, JSON]:
    """The whole body; `model` where the request names none.

    Raises:
        Unsupported: the API cannot express the request.
    """
    model = request.model or model
    result: dict[str, JSON] = {"contents": contents(request.messages, model)}
    if request.system:
        result["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        result["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in request.tools]}]
    if config := _generation_config(request, model):
        result["generationConfig"] = config
    return _with_tool_choice(request, merged(result, own(request.provider_metadata)))


def _declaration(tool: Tool) -> JSON:
    wire: dict[str, JSON] = {"name": tool.name}
    if tool.description:
        wire["description"] = tool.description
    if not _takes_nothing(tool.parameters):
        wire["parametersJsonSchema"] = tool.parameters
    return {**wire, **own(tool.provider_metadata)}


def _takes_nothing(schema: dict[str, JSON]) -> bool:
    """Whether the schema is one of no arguments. `{"type": "object"}` alone is not: it takes any."""
    return not schema or (
        not schema.get("properties", True)
        and schema.keys() <= {"type", "properties", "required", "additionalProperties"}
    )


def _generation_config(request: ChatRequest, model: str) -> dict[str, JSON]:
    config: dict[str, JSON] = {}
    if request.max_tokens is not None:
        config["maxOutputTokens"] = request.max_tokens
    if request.temperature is not None:
        config["temperature"] = request.temperature
    if request.top_p is not None:
        config["topP"] = request.top_p
    if request.stop:
        config["stopSequences"] = list(request.stop)
    if request.response_format is not None:
        if request.tools and is_before_3(model):
            raise Unsupported("gemini", "JSON together with tools", f"{model} refuses it (gemini-json-output)")
        config["responseMimeType"] = "application/json"
    if isinstance(request.response_format, JsonSchema):
        config["responseJsonSchema"] = request.response_format.schema
    if request.thinking is not None:
        config["thinkingConfig"] = _thinking(request.thinking, model)
    return config


def _thinking(settings: ThinkingSettings, model: str) -> JSON:
    """gemini-level-or-budget: a level or a budget, never both."""
    config: dict[str, JSON] = {"includeThoughts": True}
    if is_3_or_later(model):
        if settings.budget_tokens is not None:
            raise Unsupported("gemini", "a thinking budget", f"{model} takes levels; give an effort")
        if settings.effort is not None:
            config["thinkingLevel"] = settings.effort.upper()
    elif settings.budget_tokens is not None:
        config["thinkingBudget"] = settings.budget_tokens
    elif settings.effort is not None:
        config["thinkingBudget"] = _BUDGETS[settings.effort]
    return config


def _with_tool_choice(request: ChatRequest, result: dict[str, JSON]) -> dict[str, JSON]:
    choice = request.tool_choice
    if choice is None:
        return result
    if "tools" not in result:
        if choice == "required" or isinstance(choice, NamedTool):
            raise Unsupported("gemini", "a forced tool choice", "the request has no tools")
        return result  # without tools there are no calls: auto and none hold by themselves
    if isinstance(choice, NamedTool):
        config: dict[str, JSON] = {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    else:
        config = {"mode": _MODES[choice]}
    return merged({"toolConfig": {"functionCallingConfig": config}}, result)
