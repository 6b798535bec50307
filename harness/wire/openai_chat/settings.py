"""Everything beside messages and tools that OpenAI's service limits (OC-0, OC-1, OC-10 to OC-13)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model import JSON
from harness.protocols import Capability
from harness.wire.jsonvalue import join
from harness.wire.openai_chat import schemas
from harness.wire.openai_chat.chat import Chat, shown
from harness.wire.openai_chat.messages import NAME
from harness.wire.openai_chat.parts import content_views
from harness.wire.view import TextView, Violation

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
    for field in chat.body:
        if field not in FIELDS:
            yield Violation(
                rule="openai-chat-unknown-field",
                severity="error",
                message=f"Unknown parameter: '{field}'.",
                pointer=join("", field),
                source="OC-1",
                code="unknown_parameter",
                actual=field,
            )
    if not isinstance(chat.body.get("model"), str):
        yield Violation(
            rule="openai-chat-model-missing",
            severity="error",
            message="You must provide a model parameter.",
            pointer="",
            source="OC-1",
        )
    if chat.body.get("stream_options") is not None and chat.body.get("stream") is not True:
        yield Violation(
            rule="openai-chat-stream-options",
            severity="error",
            message="The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            pointer="/stream_options",
            source="OC-13",
        )
    for field in ("functions", "function_call"):
        if field in chat.body:
            yield Violation(
                rule="openai-chat-legacy-functions",
                severity="warning",
                message=f"'{field}' is deprecated; use 'tools' and 'tool_choice'.",
                pointer=join("", field),
                source="OC-14",
            )


def _reasoning(chat: Chat) -> Iterator[Violation]:
    """Some models take functions only with reasoning switched off, some not at all (OC-0)."""
    if not chat.body.get("tools"):
        return
    if Capability.TOOLS in chat.profile.lacks:
        yield Violation(
            rule="openai-chat-tools-unsupported",
            severity="error",
            message=f"Function tools are not supported for {chat.body.get('model')} in /v1/chat/completions.",
            pointer="/tools",
            source="OC-0",
        )
        return
    effort = chat.body.get("reasoning_effort")
    reasons = chat.profile.reasons_by_default if effort is None else effort != "none"
    if chat.profile.tools_want_no_reasoning and reasons:
        yield Violation(
            rule="openai-chat-tools-with-reasoning",
            severity="error",
            message=(
                f"Function tools with reasoning_effort are not supported for {chat.body.get('model')} in "
                "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."
            ),
            pointer="/reasoning_effort" if "reasoning_effort" in chat.body else "/tools",
            source="OC-0, OC-D1",
            actual=effort,
            expected="none",
        )


def _sampling(chat: Chat) -> Iterator[Violation]:
    if chat.profile.sampling == "any":
        return
    if chat.body.get("max_tokens") is not None:
        yield Violation(
            rule="openai-chat-max-tokens",
            severity="error",
            message=(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
            ),
            pointer="/max_tokens",
            source="OC-10",
            code="unsupported_parameter",
        )
    temperature = chat.body.get("temperature")
    refused = chat.profile.sampling == "default" and temperature not in (None, 1)
    if refused:
        yield Violation(
            rule="openai-chat-temperature",
            severity="error",
            message=(
                f"Unsupported value: 'temperature' does not support {temperature} with this model. Only the default "
                "(1) value is supported."
            ),
            pointer="/temperature",
            source="RS-D1",
            code="unsupported_value",
            actual=temperature,
            expected=1,
        )
    for field in ("temperature", "top_p", "stop", "presence_penalty", "frequency_penalty"):
        if chat.body.get(field) is not None and not (refused and field == "temperature"):
            yield Violation(
                rule="openai-chat-sampling",
                severity="warning",
                message=f"Unsupported parameter: some reasoning models refuse '{field}'.",
                pointer=join("", field),
                source="OC-10",
                code="unsupported_parameter",
            )


def _format(chat: Chat) -> Iterator[Violation]:
    wanted, place = chat.body.get("response_format"), "/response_format"
    if wanted is None:
        return
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if not isinstance(wanted, dict) or kind not in _FORMATS:
        yield Violation(
            rule="openai-chat-format-type",
            severity="error",
            message=f"Invalid value for 'response_format.type': {shown(kind)}. Supported are: {', '.join(_FORMATS)}.",
            pointer=place,
            source="O/types/chat/completion_create_params.py ResponseFormat",
            code="invalid_value",
            actual=wanted,
        )
    elif kind == "json_schema":
        yield from _schema(wanted.get("json_schema"), join(place, "json_schema"))
    elif kind == "json_object" and not any("json" in text.lower() for text in _texts(chat)):
        yield Violation(
            rule="openai-chat-json-word",
            severity="error",
            message=(
                "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
            ),
            pointer=place,
            source="OC-12",
        )


def _texts(chat: Chat) -> Iterator[str]:
    for pointer, message in chat.messages:
        for part in content_views(message.get("content"), join(pointer, "content")):
            if isinstance(part, TextView):
                yield part.text


def _schema(described: JSON, pointer: str) -> Iterator[Violation]:
    name = described.get("name") if isinstance(described, dict) else None
    if not isinstance(described, dict) or not isinstance(name, str) or not NAME.fullmatch(name):
        yield Violation(
            rule="openai-chat-format-name",
            severity="error",
            message=(
                "Invalid 'response_format.json_schema.name': expected at most 64 characters that match the pattern "
                "'^[a-zA-Z0-9_-]+$'."
            ),
            pointer=pointer if isinstance(described, dict) else "/response_format",
            source="OC-11",
            code="invalid_value",
            actual=name,
        )
    elif described.get("strict") is True:
        subject = f"response_format '{name}'"
        yield from schemas.violations(described.get("schema"), join(pointer, "schema"), subject, "invalid_json_schema")
