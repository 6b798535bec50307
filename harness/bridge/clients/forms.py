"""Requests as arguments of a client, in the form of an API or as a single prompt.

A `Form` builds the arguments under the names of the provider's SDK, and `names.SYNONYMS` lists other names for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from harness.adapters.anthropic.requests import encode as encode_for_anthropic
from harness.adapters.gemini.requests import encode as encode_for_gemini
from harness.adapters.openai_responses.requests import encode as encode_for_responses
from harness.bridge.clients.names import ERROR_FLAG, SYNONYMS, SYSTEM_MESSAGE, TOOL_MESSAGES, first_known
from harness.bridge.clients.values import snake_case, without_keys
from harness.bridge.openai_messages import Memory, completion_request
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatRequest, Role, Text, ThinkingSettings


@dataclass(frozen=True, slots=True)
class Form:
    """A request format that clients accept. `messages` is the argument that holds the conversation.

    `arguments` builds the arguments from the request, the memory, the model and the names of the method's parameters.
    The names include `ERROR_FLAG` if the client's messages can mark errors. They include `TOOL_MESSAGES` if the method
    takes results as messages with the role `tool`, and `SYSTEM_MESSAGE` if it takes the system prompt as a message.
    `capabilities` maps arguments to the capabilities of a method that accepts them; the key "" applies to every method.
    `settings` lists the arguments for settings.
    """

    name: str
    messages: str
    arguments: Callable[[ChatRequest, Memory, str, frozenset[str]], dict[str, Any]]
    capabilities: Mapping[str, tuple[str, ...]]
    settings: tuple[str, ...] = ("max_tokens", "temperature", "top_p", "stop")


_CHOICE_CAPABILITIES = ("tool-choice", "forced-tool-choice", "named-tool-choice")

_TOOL_CAPABILITIES = {"tools": ("tools", "parallel-tool-calls"), "tool_choice": _CHOICE_CAPABILITIES}

_CONVERSATION_CAPABILITIES = ("history", "truncation")


def _openai_arguments(request: ChatRequest, memory: Memory, _model: str, names: frozenset[str]) -> dict[str, Any]:
    system = first_known(SYNONYMS["system"], names)
    failed = {ERROR_FLAG: True} if ERROR_FLAG in names else None
    made = completion_request(replace(request, system=None) if system else request, memory, failed=failed)
    if system and request.system:
        made["system"] = request.system
    made |= _reasoning(request.thinking, names) if request.thinking is not None else {}
    wanted = made.get("response_format")
    if wanted is None or "response_format" in names:
        return made
    kind, schema = wanted["type"], wanted.get("json_schema", {}).get("schema")
    if kind == "json_object" and first_known(SYNONYMS["json_mode"], names):
        return {**without_keys(made, "response_format"), "json_mode": True}
    if schema is not None and first_known(SYNONYMS["json_schema"], names):
        return {**without_keys(made, "response_format"), "json_schema": schema}
    return made


def _reasoning(thinking: ThinkingSettings, names: frozenset[str]) -> dict[str, Any]:
    """Return the argument for an amount of reasoning: a word, or an object of Anthropic's API.

    Raises:
        Unsupported: the method takes only the other kind of amount.
    """
    if thinking.effort is not None and first_known(SYNONYMS["effort"], names):
        return {"effort": thinking.effort}
    if thinking.budget_tokens is not None and first_known(SYNONYMS["thinking"], names):
        return {"thinking": {"type": "enabled", "budget_tokens": thinking.budget_tokens}}
    raise Unsupported(RECOGNISED_CLIENT, "this amount of reasoning", "it has no such argument")


def _anthropic_arguments(request: ChatRequest, _memory: Memory, model: str, names: frozenset[str]) -> dict[str, Any]:
    sampling = {name: value for name in ("temperature", "top_p") if (value := getattr(request, name)) is not None}
    request = replace(request, temperature=None, top_p=None)  # the version of the API is the client's own
    made = {**without_keys(encode_for_anthropic(request, model), "model"), **sampling}
    if "thinking" in names and "output_config" not in names and made.get("output_config", {}).keys() == {"effort"}:
        del made["output_config"]
    if TOOL_MESSAGES in names:
        made["messages"] = [*_with_separate_results(made["messages"])]
    match made.get("system"):
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            if SYSTEM_MESSAGE not in names:
                return {**made, "system": text}
            messages = [{"role": "system", "content": text}, *made["messages"]]
            return {**without_keys(made, "system"), "messages": messages}
        case _:
            return made


def _with_separate_results(messages: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield messages of Anthropic's format, with each result in a message of its own with the role `tool`."""
    for each in messages:
        content = each["content"]
        blocks = cast("list[dict[str, Any]]", content) if isinstance(content, list) else []
        results = [without_keys(block, "type") for block in blocks if block["type"] == "tool_result"]
        yield from ({"role": "tool", **block} for block in results)
        others = [block for block in blocks if block["type"] != "tool_result"]
        if others or not results:
            yield {**each, "content": others or content}


def _gemini_arguments(request: ChatRequest, _memory: Memory, model: str, names: frozenset[str]) -> dict[str, Any]:
    made: dict[str, Any] = {snake_case(key): value for key, value in encode_for_gemini(request, model).items()}
    match made.pop("system_instruction", None):
        case {"parts": [{"text": str(text)}]}:
            made["system"] = text
        case None:
            pass
        case other:
            made["system"] = other
    settings = {snake_case(key): value for key, value in made.pop("generation_config", {}).items()}
    if "config" in names:
        system = {"system_instruction": made.pop("system")} if "system" in made else {}
        config = {**system, **settings, **without_keys(made, "contents")}
        return {"contents": made["contents"], **({"config": config} if config else {})}
    if "generation_config" in names:
        return {**made, "generation_config": settings} if settings else made
    schema = settings.get("response_json_schema")
    if schema is not None and first_known(SYNONYMS["json_schema"], names):
        settings = {**without_keys(settings, "response_mime_type", "response_json_schema"), "json_schema": schema}
    elif schema is None and "response_mime_type" in settings and first_known(SYNONYMS["json_mode"], names):
        settings = {**without_keys(settings, "response_mime_type"), "json_mode": True}
    return {**made, **settings}


def _responses_arguments(request: ChatRequest, _memory: Memory, model: str, names: frozenset[str]) -> dict[str, Any]:
    made = without_keys(encode_for_responses(request, model), "model")
    made = made if "store" in names else without_keys(made, "store", "include")
    schema = made.get("text", {}).get("format", {}).get("schema")
    if schema is not None and "text" not in names and first_known(SYNONYMS["json_schema"], names):
        return {**without_keys(made, "text"), "json_schema": schema}
    return made


def _prompt_arguments(request: ChatRequest, memory: Memory, _model: str, names: frozenset[str]) -> dict[str, Any]:
    last = request.messages[-1]
    if last.role is not Role.USER or any(not isinstance(part, Text) for part in last.parts):
        raise Unsupported(
            RECOGNISED_CLIENT, "a message that is not a text of the user", "its method has a prompt, not messages"
        )
    before = replace(request, messages=request.messages[:-1])
    made = _openai_arguments(before, memory, "", names)
    history = first_known(SYNONYMS["messages"], names)
    if made["messages"] and history is None:
        raise Unsupported(RECOGNISED_CLIENT, "a conversation of several turns", "its method has a prompt, not messages")
    prompt = "".join(part.text for part in last.parts if isinstance(part, Text))
    return {**(made if history else without_keys(made, "messages")), "prompt": prompt}


_OUTPUT_CAPABILITIES = {
    "response_format": ("json-mode", "json-schema"),
    "json_mode": ("json-mode",),
    "json_schema": ("json-schema",),
}

OPENAI = Form(
    "openai-chat",
    "messages",
    _openai_arguments,
    {"": ("system-prompt", *_CONVERSATION_CAPABILITIES), **_TOOL_CAPABILITIES, **_OUTPUT_CAPABILITIES},
)

ANTHROPIC = Form(
    "anthropic",
    "messages",
    _anthropic_arguments,
    {
        "": _CONVERSATION_CAPABILITIES,
        "system": ("system-prompt", "json-mode"),
        **_TOOL_CAPABILITIES,
        "output_config": ("json-schema",),
        "thinking": ("thinking",),
    },
    ("max_tokens", "temperature", "top_p", "stop_sequences"),
)

GEMINI = Form(
    "gemini",
    "contents",
    _gemini_arguments,
    {
        "": _CONVERSATION_CAPABILITIES,
        "system": ("system-prompt",),
        "tools": _TOOL_CAPABILITIES["tools"],
        "tool_config": _TOOL_CAPABILITIES["tool_choice"],
        "generation_config": ("json-mode", "json-schema"),
        "json_mode": ("json-mode",),
        "json_schema": ("json-schema",),
        "config": (
            "system-prompt",
            *_TOOL_CAPABILITIES["tools"],
            *_TOOL_CAPABILITIES["tool_choice"],
            "json-mode",
            "json-schema",
            "thinking",
        ),
    },
    ("max_output_tokens", "temperature", "top_p", "stop_sequences"),
)

RESPONSES = Form(
    "openai-responses",
    "input",
    _responses_arguments,
    {
        "": ("system-prompt", *_CONVERSATION_CAPABILITIES, "thinking"),
        **_TOOL_CAPABILITIES,
        "text": ("json-mode", "json-schema"),
        "json_schema": ("json-schema",),
    },
    ("max_output_tokens", "temperature", "top_p", "reasoning"),
)

PROMPT = Form(
    "prompt",
    "prompt",
    _prompt_arguments,
    {"system": ("system-prompt",), "messages": _CONVERSATION_CAPABILITIES, **_OUTPUT_CAPABILITIES},
)

FORMS = {each.name: each for each in (OPENAI, ANTHROPIC, GEMINI, RESPONSES, PROMPT)}

OPENAI_APIS = (OPENAI.name, RESPONSES.name)
"""APIs whose tool results have no error flag. Messages in OpenAI's format have none either."""
