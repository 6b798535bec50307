"""Names that third-party clients use for parameters, methods, and the fields of messages, calls and tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping


def first_known(known: tuple[str, ...], names: frozenset[str]) -> str | None:
    """Return the first of the known names that is among the names of a method's parameters."""
    return next((name for name in known if name in names), None)


FUNCTION_LISTS = ("functions", "function_declarations")
"""Names of tool parameters that accept bare function declarations, without the enclosing object that has their type."""

THINKING_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "budget": ("thinking_budget", "thinking_tokens", "budget_tokens", "thinking_budget_tokens", "reasoning_budget"),
    "effort": ("reasoning_effort", "effort", "thinking_effort", "thinking_level", "reasoning_level"),
}
"""Maps a kind of amount of reasoning to the names of parameters for it."""

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "messages": ("messages", "msgs", "conversation", "chat_history", "history", "turns", "dialog", "transcript"),
    "input": ("input", "input_items", "items", "messages", "conversation", "history", "turns"),
    "contents": ("contents", "messages", "history", "conversation", "turns"),
    "prompt": (
        *("prompt", "question", "text", "query", "user_message", "user_input", "user_text", "message", "content"),
        *("task", "goal", "prompts", "questions", "user", "pr"),
    ),
    "system": ("system", "system_prompt", "system_instruction", "instructions", "system_message", "persona", "sp"),
    "tools": (
        *("tools", "tool_definitions", "tool_schemas", "tool_specs", "available_tools", "toolset", "toolbox"),
        *("tool_list", "tool_defs", "function_schemas", "schemas", "abilities", *FUNCTION_LISTS),
    ),
    "tool_choice": ("tool_choice", "tool_mode"),
    "tool_config": ("tool_config", "tool_choice", "tool_mode"),
    "max_tokens": ("max_completion_tokens", "max_tokens", "max_output_tokens", "maxtok"),
    "temperature": ("temperature", "temp"),
    "max_output_tokens": ("max_output_tokens", "max_tokens"),
    "stop": ("stop", "stop_sequences"),
    "stop_sequences": ("stop_sequences", "stop"),
    "thinking": ("thinking", *THINKING_PARAMETERS["budget"]),
    "effort": THINKING_PARAMETERS["effort"],
    "json_mode": ("json_mode", "json_output", "as_json", "json_response", "force_json", "json_only"),
    "json_schema": ("json_schema", "response_schema", "output_schema", "schema"),
}
"""Maps an argument to the parameter names that methods use for it, in order of preference."""

SETTINGS: Mapping[str, str] = {
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "stop": "stop",
    "stop_sequences": "stop",
    "reasoning": "thinking",
}
"""Maps arguments to the settings that they carry. Such an argument is left out if the method has no parameter for it.
"""

ERROR_FLAG = "is_error"
"""Field of a class for messages or results that marks a result as an error."""

OTHER_ERROR_FLAGS = ("error", "failed")
"""Names of the same field in other clients."""

TOOL_MESSAGES = "tool_messages"
"""Pseudo parameter name for a method that takes Anthropic's messages, but each result as a message with the role
`tool`.
"""

SYSTEM_MESSAGE = "system_message_first"
"""Pseudo parameter name for a method that takes Anthropic's messages, but the system prompt as the first of them."""

BASE_URLS = (
    *("base_url", "api_base", "baseurl", "api_url", "api_root", "server_url", "url", "endpoint", "host"),
    *("openai_url", "anthropic_url", "gemini_url"),
)

KEYS = ("api_key", "key", "apikey", "token", "auth_token")

MODELS = ("model", "model_name", "model_id", "ai_model_id", "model_spec", "spec")

PROVIDERS = ("provider", "vendor", "llm_provider", "provider_name", "backend")

METHODS = ("chat", "complete", "completion", "create", "generate", "invoke", "send", "ask", "run", "query")
"""Names of methods that send a conversation, the most common one first."""

KNOWN_PARAMETERS = frozenset(
    {*BASE_URLS, *KEYS, *MODELS, *PROVIDERS, *SYNONYMS["tools"], *SYNONYMS["system"], "max_tokens"}
)
"""Known names of parameters that do not hold messages."""

NO_TOOL_PARAMETERS = KNOWN_PARAMETERS - {*SYNONYMS["tools"]} | {
    "self",
    *(name for key in ("prompt", "messages", "json_schema") for name in SYNONYMS[key]),
}
"""Names of parameters that do not hold tools."""

NAMING_PARAMETERS = frozenset(
    [
        *("room", "uid", "sender_id", "account_id", "tenant_id", "guild_id", "topic_id", "customer", "tenant"),
        *("user_id", "channel_id", "chat_id", "session_id", "conversation_id", "thread_id", "room_id", "customer_id"),
        *("author", "channel", "chat", "session", "session_key", "username", "user_name", "speaker", "sender"),
        *("who", "nick", "nickname", "caller", "member"),
    ]
)
"""Names of parameters that name something and may have any value."""

_NAMING_ENDS = re.compile(r"(?<!call)(?<!use)(?<!response)(?<!message)(?<!item)(?<!api)_(id|uid|ts|key)$")


def is_naming(name: str) -> bool:
    """Return whether a parameter names something, such as `room` or `thread_ts`, and may have any value."""
    return name in NAMING_PARAMETERS or (_NAMING_ENDS.search(name) is not None and name not in KNOWN_PARAMETERS)


EXECUTORS = re.compile(
    r"(execute|run|call|invoke|handle|dispatch)_(tool|function)(_call)?$|(tool_|function_)?(executor|dispatcher|runner)$"
    r"|(tool|function)_(handler|callback)$|dispatch$|execute$|on_(tool_|function_)?call$"
)
"""Names of parameters for one function that executes all calls, given a name and arguments."""

FUNCTION_MAPS = (
    *("functions", "handlers", "tool_functions", "tool_handlers", "callables", "implementations", "tool_map"),
    *("function_map", "tools_map", "tool_impls", "impls", "available_functions", "fns", "funcs"),
)
"""Names of parameters for functions by their names, next to a parameter for declarations."""

_REGISTRIES = ("registry", "tool_registry", "toolkit", "tool_box", "tool_set", "skills", "actions", "abilities")

TOOL_PARAMETERS = frozenset({*SYNONYMS["tools"], *FUNCTION_MAPS, *_REGISTRIES})
"""Names of parameters for tools in any form."""

TEXT_KEYS = ("text", "what", "body")
"""Names of the content of a message that is no result of a tool."""

TEXTS_BESIDE_CALLS = ("thought", "comment", "preamble")
"""Names of the text of a message whose content is a list of calls."""

FIELD_ALIASES = {
    "arguments": ("args", "input"),
    "parameters": ("schema", "input_schema", "json_schema", "params", "args_schema"),
    "tool_call_id": ("call_id", "tool_use_id", "ref", "call_ref"),
    "content": (*TEXT_KEYS, "result", "output", "value"),
    "tool_calls": ("calls", "function_calls", "tool_uses", "invocations"),
    "role": ("who", "author", "speaker", "sender"),
    "id": ("call_id", "tool_call_id"),
    "name": ("tool", "tool_name", "function_name"),
    "answered_call": ("call", "tool_call", "function_call", "tool_use"),
}
"""Fields of OpenAI's messages, calls and tools → names of the same fields in third-party classes."""


def call_id_field(names: Iterable[str]) -> str | None:
    """Return the field of a result that holds the id of its call."""
    return next(filter(_CALL_ID_FIELD.fullmatch, names), None)


_CALL_ID_FIELD = re.compile(r"(\w+_)?(call|use|invocation|request|action)_?[iI]d")

CALL_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "call": ("call", "tool_call", "function_call", "tool_use"),
    "id": ("call_id", "tool_call_id", "tool_use_id", "id"),
    "name": ("name", "tool_name", "function_name", "tool"),
    "content": ("result", "output", "content", "value", "response", "text", "data"),
    "is_error": ("is_error", "error", "failed"),
}
"""Maps the parts of a tool result to the names of parameters, fields and keys for them."""
