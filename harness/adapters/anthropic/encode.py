"""Canonical request → body of POST /v1/messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters.anthropic.conversation import messages
from harness.adapters.anthropic.models import is_adaptive, refused_thinking, takes_forced_choice, takes_prefill
from harness.adapters.anthropic.schema import closed
from harness.contract.errors import Unsupported
from harness.contract.model import JSON, JSON_INSTRUCTION, ChatRequest, JsonMode, JsonSchema, NamedTool

if TYPE_CHECKING:
    from harness.contract.model import ThinkingSettings, Tool

DEFAULT_MAX_TOKENS = 4096
"""Tokens of answer where the request sets no bound."""

_BUDGETS = {"low": 1024, "medium": 4096, "high": 16384}
"""Tokens of thinking that an effort stands for on models with budgets. The API's minimum is 1024
(anthropic-thinking-form)."""

_CACHE_MARK: dict[str, JSON] = {"cache_control": {"type": "ephemeral"}}


def body(request: ChatRequest, model: str) -> dict[str, JSON]:
    """The whole body; `model` where the request names none.

    Raises:
        Unsupported: the API cannot express the request.
    """
    _refuse_sampling(request)
    model = request.model or model
    result: dict[str, JSON] = {"model": model, "max_tokens": request.max_tokens}
    result["messages"] = messages(request.messages)
    if request.max_tokens is None:
        result["max_tokens"] = DEFAULT_MAX_TOKENS
    if system := _system(request):
        result["system"] = system
    if request.tools:
        result["tools"] = _tools(request)
    if request.stop:
        result["stop_sequences"] = list(request.stop)
    if isinstance(request.response_format, JsonSchema):
        result["output_config"] = {"format": {"type": "json_schema", "schema": closed(request.response_format.schema)}}
    if request.thinking is not None:
        think = _think_adaptively if is_adaptive(model) else _think_in_budget
        result = think(request.thinking, request, result)
    own = request.provider_metadata.get("anthropic")
    if isinstance(own, dict):
        result = _merged(result, own)
    result = _with_tool_choice(request, result)
    _refuse_gated(result, model)
    return result


def _refuse_sampling(request: ChatRequest) -> None:
    for name in ("temperature", "top_p"):
        if getattr(request, name) is not None:
            raise Unsupported("anthropic", name, "the API version 2026-10-21 refuses sampling parameters")


def _system(request: ChatRequest) -> list[JSON]:
    blocks: list[JSON] = []
    if request.system:
        mark = _CACHE_MARK if request.cache else {}
        blocks.append({"type": "text", "text": request.system, **mark})
    if isinstance(request.response_format, JsonMode):
        blocks.append({"type": "text", "text": JSON_INSTRUCTION})
    return blocks


def _tools(request: ChatRequest) -> list[JSON]:
    last = len(request.tools) - 1
    return [
        _tool(tool, _CACHE_MARK if request.cache and index == last else {}) for index, tool in enumerate(request.tools)
    ]


def _tool(tool: Tool, mark: dict[str, JSON]) -> dict[str, JSON]:
    # anthropic-tool-schema-object: the root says that it is an object; `{}` is our word for no arguments.
    schema: dict[str, JSON] = {"type": "object", **tool.parameters} if tool.parameters else _no_arguments()
    wire: dict[str, JSON] = {"name": tool.name, "input_schema": schema}
    if tool.description:
        wire["description"] = tool.description
    if tool.shown_while_written:
        wire["eager_input_streaming"] = True  # in whole requests too: tools that change would miss the prompt cache
    own = tool.provider_metadata.get("anthropic")
    return {**wire, **mark, **(own if isinstance(own, dict) else {})}


def _no_arguments() -> dict[str, JSON]:
    return {"type": "object", "properties": {}}


def _with_tool_choice(request: ChatRequest, result: dict[str, JSON]) -> dict[str, JSON]:
    choice = request.tool_choice
    if choice is None:
        return result
    forces = choice == "required" or isinstance(choice, NamedTool)
    if "tools" not in result:
        if forces:
            raise Unsupported("anthropic", "a forced tool choice", "the request has no tools")
        return result  # without tools there are no calls: auto and none hold by themselves, and the field is refused
    thinking = result.get("thinking")
    if forces and isinstance(thinking, dict) and thinking.get("type") == "enabled":
        raise Unsupported(
            "anthropic", "a forced tool choice", "not together with a thinking budget (anthropic-choice-form)"
        )
    if isinstance(choice, NamedTool):
        wire: dict[str, JSON] = {"type": "tool", "name": choice.name}
    else:
        wire = {"type": "any" if choice == "required" else choice}
    return _merged({"tool_choice": wire}, result)


_CONTINUED = frozenset({"text", "thinking", "redacted_thinking"})
"""Blocks behind which the model would have to go on writing; a turn that the provider paused holds others."""


def _refuse_gated(body: dict[str, JSON], model: str) -> None:
    """What this model refuses and others take, be it out of the caller's `provider_metadata`."""
    thinking, choice = _type_of(body.get("thinking")), _type_of(body.get("tool_choice"))
    if thinking in refused_thinking(model):
        raise Unsupported(
            "anthropic", f"thinking of the type {thinking!r}", f"{model} refuses it (anthropic-thinking-form)"
        )
    if choice in ("any", "tool") and not takes_forced_choice(model):
        raise Unsupported("anthropic", "a forced tool choice", f"{model} refuses it (anthropic-no-forced-choice)")
    if not takes_prefill(model) and _is_prefilled(body["messages"]):
        reason = f"{model} does not go on writing it (anthropic-no-prefill)"
        raise Unsupported("anthropic", "a conversation that ends with the assistant", reason)


def _type_of(value: JSON) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


def _is_prefilled(messages: JSON) -> bool:
    last = messages[-1] if isinstance(messages, list) and messages else None
    content = last.get("content") if isinstance(last, dict) and last.get("role") == "assistant" else None
    return isinstance(content, list) and all(_type_of(block) in _CONTINUED for block in content)


def _think_adaptively(settings: ThinkingSettings, request: ChatRequest, result: dict[str, JSON]) -> dict[str, JSON]:
    if settings.budget_tokens is not None:
        raise Unsupported("anthropic", "a thinking budget", f"{request.model} thinks adaptively; give an effort")
    thinking: dict[str, JSON] = {"thinking": {"type": "adaptive"}}
    if settings.effort is not None:
        thinking["output_config"] = {"effort": settings.effort}
    return _merged(result, thinking)


def _think_in_budget(settings: ThinkingSettings, request: ChatRequest, result: dict[str, JSON]) -> dict[str, JSON]:
    budget = settings.budget_tokens or _BUDGETS[settings.effort or "medium"]
    max_tokens = DEFAULT_MAX_TOKENS + budget if request.max_tokens is None else request.max_tokens
    if not 1024 <= budget < max_tokens:
        raise Unsupported(
            "anthropic",
            f"a thinking budget of {budget} tokens",
            f"it must be 1024 to max_tokens - 1 ({max_tokens - 1})",
        )
    return {**result, "max_tokens": max_tokens, "thinking": {"type": "enabled", "budget_tokens": budget}}


def _merged(base: dict[str, JSON], extra: dict[str, JSON]) -> dict[str, JSON]:
    """`base` with `extra` on it: objects merge, lists grow, the rest replaces."""
    result = dict(base)
    for key, value in extra.items():
        old = result.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            result[key] = _merged(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            result[key] = [*old, *value]
        else:
            result[key] = value
    return result
