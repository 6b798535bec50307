"""Forms in which clients take a request: the message format of their own API, OpenAI's, or a single prompt.

A form returns the arguments under the names of the provider's SDK. `SYNONYMS` lists further names for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.adapters.anthropic.requests import encode as encode_for_anthropic
from harness.adapters.gemini.requests import encode as encode_for_gemini
from harness.adapters.openai_responses import SDK
from harness.bridge.openai_messages import Memory, completion_request
from harness.model.errors import Unsupported
from harness.model.messages import ChatRequest, Role, Text
from harness.platform.environment import importing_sdk

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "messages": ("messages", "msgs", "conversation", "chat_history", "history", "turns"),
    "contents": ("contents", "messages", "history", "conversation"),
    "prompt": ("prompt", "question", "text", "query", "user_message", "user_input", "message", "user", "content"),
    "system": ("system", "system_prompt", "system_instruction", "instructions", "system_message", "sp"),
    "tools": ("tools", "tool_definitions", "tool_schemas", "tool_specs"),
    "max_tokens": ("max_completion_tokens", "max_tokens", "max_output_tokens", "maxtok"),
    "temperature": ("temperature", "temp"),
    "max_output_tokens": ("max_output_tokens", "max_tokens"),
    "stop": ("stop", "stop_sequences"),
    "stop_sequences": ("stop_sequences", "stop"),
    "json_mode": ("json_mode", "json_output", "as_json"),
    "json_schema": ("json_schema", "response_schema", "output_schema", "schema"),
}
"""Names that methods have for an argument, in the order of preference."""

SETTINGS = frozenset({"max_tokens", "max_output_tokens", "temperature", "top_p", "stop", "stop_sequences"})
"""Arguments that are left out if a method has no parameter for them."""


@dataclass(frozen=True, slots=True)
class Form:
    """A way to take requests. `messages` is the argument that holds the conversation.

    `arguments` takes the request, the memory, the model and the names of the method's parameters. `capabilities` maps
    arguments to the capabilities that a method has if it takes them; the key "" applies to every method.
    """

    name: str
    messages: str
    arguments: Callable[[ChatRequest, Memory, str, frozenset[str]], dict[str, Any]]
    capabilities: Mapping[str, tuple[str, ...]]


_TOOLS = {"tools": ("tools", "parallel-tool-calls"), "tool_choice": ("tool-choice", "forced-tool-choice")}
_CONVERSATION = ("history", "truncation")


def _openai(request: ChatRequest, memory: Memory, _model: str, names: frozenset[str]) -> dict[str, Any]:
    system = first(SYNONYMS["system"], names)
    made = completion_request(replace(request, system=None) if system else request, memory)
    if system and request.system:
        made["system"] = request.system
    wanted = made.get("response_format")
    if wanted is None or "response_format" in names:
        return made
    kind, schema = wanted["type"], wanted.get("json_schema", {}).get("schema")
    if kind == "json_object" and first(SYNONYMS["json_mode"], names):
        return {**without(made, "response_format"), "json_mode": True}
    if schema is not None and first(SYNONYMS["json_schema"], names):
        return {**without(made, "response_format"), "json_schema": schema}
    return made


def _anthropic(request: ChatRequest, _memory: Memory, model: str, _names: frozenset[str]) -> dict[str, Any]:
    made = without(encode_for_anthropic(request, model), "model")
    match made.get("system"):
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            return {**made, "system": text}
        case _:
            return made


def _gemini(request: ChatRequest, _memory: Memory, model: str, names: frozenset[str]) -> dict[str, Any]:
    made: dict[str, Any] = {_snake(key): value for key, value in encode_for_gemini(request, model).items()}
    match made.pop("system_instruction", None):
        case {"parts": [{"text": str(text)}]}:
            made["system"] = text
        case None:
            pass
        case other:
            made["system"] = other
    settings = {_snake(key): value for key, value in made.pop("generation_config", {}).items()}
    if "config" in names:
        system = {"system_instruction": made.pop("system")} if "system" in made else {}
        config = {**system, **settings, **without(made, "contents")}
        return {"contents": made["contents"], **({"config": config} if config else {})}
    if "generation_config" in names:
        return {**made, "generation_config": settings} if settings else made
    return {**made, **settings}


def _responses(request: ChatRequest, _memory: Memory, model: str, names: frozenset[str]) -> dict[str, Any]:
    with importing_sdk(RESPONSES.name, SDK, "openai"):
        from harness.adapters.openai_responses.requests import encode  # noqa: PLC0415 - imports the SDK
    made = without(encode(request, model), "model")
    return made if "store" in names else without(made, "store", "include")


def _prompt(request: ChatRequest, memory: Memory, _model: str, names: frozenset[str]) -> dict[str, Any]:
    last = request.messages[-1]
    if last.role is not Role.USER or any(not isinstance(part, Text) for part in last.parts):
        raise Unsupported("the client", "a message that is not a text of the user", "its method takes a prompt")
    before = replace(request, messages=request.messages[:-1])
    made = _openai(before, memory, "", names)
    history = first(SYNONYMS["messages"], names)
    if made["messages"] and history is None:
        raise Unsupported("the client", "a conversation of several turns", "its method takes a prompt")
    prompt = "".join(part.text for part in last.parts if isinstance(part, Text))
    return {**(made if history else without(made, "messages")), "prompt": prompt}


_OUTPUT = {
    "response_format": ("json-mode", "json-schema"),
    "json_mode": ("json-mode",),
    "json_schema": ("json-schema",),
}

OPENAI = Form("openai-chat", "messages", _openai, {"": ("system-prompt", *_CONVERSATION), **_TOOLS, **_OUTPUT})
ANTHROPIC = Form(
    "anthropic",
    "messages",
    _anthropic,
    {
        "": _CONVERSATION,
        "system": ("system-prompt", "json-mode"),
        **_TOOLS,
        "output_config": ("json-schema",),
        "thinking": ("thinking",),
    },
)
GEMINI = Form(
    "gemini",
    "contents",
    _gemini,
    {
        "": _CONVERSATION,
        "system": ("system-prompt",),
        "tools": _TOOLS["tools"],
        "tool_config": _TOOLS["tool_choice"],
        "generation_config": ("json-mode", "json-schema"),
        "config": ("system-prompt", *_TOOLS["tools"], *_TOOLS["tool_choice"], "json-mode", "json-schema", "thinking"),
    },
)
RESPONSES = Form(
    "openai-responses",
    "input",
    _responses,
    {"": ("system-prompt", *_CONVERSATION), **_TOOLS, "text": ("json-mode", "json-schema"), "reasoning": ("thinking",)},
)
PROMPT = Form("prompt", "prompt", _prompt, {"system": ("system-prompt",), "messages": _CONVERSATION, **_OUTPUT})

FORMS = {each.name: each for each in (OPENAI, ANTHROPIC, GEMINI, RESPONSES, PROMPT)}


def first(known: tuple[str, ...], names: frozenset[str]) -> str | None:
    """Return the first of the known names that is among the names of a method's parameters."""
    return next((name for name in known if name in names), None)


def without(made: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the arguments without some of them."""
    return {name: value for name, value in made.items() if name not in names}


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)
