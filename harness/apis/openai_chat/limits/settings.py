"""Everything beside messages and tools that OpenAI's service limits (openai-chat-tools-want-no-reasoning,
openai-chat-required-fields, openai-chat-max-completion-tokens, openai-chat-strict-schema, openai-chat-word-json,
openai-chat-stream-options-streamed)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.apis.openai_chat import limits
from harness.apis.openai_chat.limits import schemas
from harness.apis.openai_chat.limits.chat import Chat, shown
from harness.apis.openai_chat.limits.messages import NAME
from harness.apis.openai_chat.requests.parts import content_views
from harness.apis.view import TextView
from harness.contract.model import JSON
from harness.contract.protocols import Capability

FIELDS = frozenset(
    {
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)
"""The fields of a request (O/types/chat/completion_create_params.py)."""

_FORMATS = ("text", "json_object", "json_schema")


def violations(chat: Chat) -> Iterator[Violation]:
    """What OpenAI's service refuses of the request as a whole."""
    if not chat.openai:
        return
    yield from _fields(chat)
    yield from _reasoning(chat)
    yield from _sampling(chat)
    yield from _format(chat)


def _fields(chat: Chat) -> Iterator[Violation]:
    for field, value in chat.body.items():
        if field not in FIELDS and value is not None:
            yield limits.UNKNOWN_FIELD.broken(
                f"Unknown parameter: '{field}'.", join("", field), actual=field, code="unknown_parameter"
            )
    if not isinstance(chat.body.get("model"), str):
        yield limits.MODEL_MISSING.broken("You must provide a model parameter.", "")
    if chat.body.get("stream_options") is not None and chat.body.get("stream") is not True:
        yield limits.STREAM_OPTIONS.broken(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", "/stream_options"
        )
    for field in ("functions", "function_call"):
        if chat.body.get(field) is not None:
            yield limits.LEGACY_FUNCTIONS.broken(
                f"'{field}' is deprecated; use 'tools' and 'tool_choice'.", join("", field)
            )


def _reasoning(chat: Chat) -> Iterator[Violation]:
    """Some models take functions only with reasoning switched off, some not at all
    (openai-chat-tools-want-no-reasoning, openai-chat-tools-want-effort-none)."""
    if not chat.body.get("tools"):
        return
    if Capability.TOOLS in chat.profile.lacks:
        yield limits.TOOLS_UNSUPPORTED.broken(
            f"Function tools are not supported for {chat.body.get('model')} in /v1/chat/completions.", "/tools"
        )
        return
    effort = chat.body.get("reasoning_effort")
    profile = chat.profile
    if profile.tools_want_effort_none if effort is None else profile.tools_want_no_reasoning and effort != "none":
        yield limits.TOOLS_WITH_REASONING.broken(
            f"Function tools with reasoning_effort are not supported for {chat.body.get('model')} in "
            "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
            "/tools" if effort is None else "/reasoning_effort",
            actual=effort,
            expected="none",
        )


def _sampling(chat: Chat) -> Iterator[Violation]:
    if chat.profile.sampling == "any":
        return
    if chat.body.get("max_tokens") is not None:
        yield limits.MAX_TOKENS.broken(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
            "/max_tokens",
            code="unsupported_parameter",
        )
    temperature = chat.body.get("temperature")
    only_the_default = chat.profile.sampling == "default"
    if only_the_default and temperature not in (None, 1):
        yield limits.TEMPERATURE.broken(
            f"Unsupported value: 'temperature' does not support {temperature} with this model. Only the default (1) "
            "value is supported.",
            "/temperature",
            actual=temperature,
            expected=1,
            code="unsupported_value",
        )
    for field in ("temperature", "top_p", "stop", "presence_penalty", "frequency_penalty"):
        if chat.body.get(field) is not None and not (only_the_default and field == "temperature"):
            yield limits.SAMPLING.broken(
                f"Unsupported parameter: some reasoning models refuse '{field}'.",
                join("", field),
                code="unsupported_parameter",
            )


def _format(chat: Chat) -> Iterator[Violation]:
    wanted, place = chat.body.get("response_format"), "/response_format"
    if wanted is None:
        return
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if not isinstance(wanted, dict) or kind not in _FORMATS:
        yield limits.FORMAT_TYPE.broken(
            f"Invalid value for 'response_format.type': {shown(kind)}. Supported are: {', '.join(_FORMATS)}.",
            place,
            actual=wanted,
            code="invalid_value",
        )
    elif kind == "json_schema":
        yield from _schema(wanted.get("json_schema"), join(place, "json_schema"))
    elif kind == "json_object" and not any("json" in text.lower() for text in _texts(chat)):
        yield limits.JSON_WORD.broken(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
            place,
        )


def _texts(chat: Chat) -> Iterator[str]:
    for pointer, message in chat.messages:
        for part in content_views(message.get("content"), join(pointer, "content")):
            if isinstance(part, TextView):
                yield part.text


def _schema(described: JSON, pointer: str) -> Iterator[Violation]:
    name = described.get("name") if isinstance(described, dict) else None
    if not isinstance(described, dict) or not isinstance(name, str) or not NAME.fullmatch(name):
        yield limits.FORMAT_NAME.broken(
            "Invalid 'response_format.json_schema.name': expected at most 64 characters that match the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
            pointer if isinstance(described, dict) else "/response_format",
            actual=name,
            code="invalid_value",
        )
    elif described.get("strict") is True:
        subject = f"response_format '{name}'"
        yield from schemas.violations(described.get("schema"), join(pointer, "schema"), subject, "invalid_json_schema")
