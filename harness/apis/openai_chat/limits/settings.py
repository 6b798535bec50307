"""Everything beside messages and tools that OpenAI's service limits (openai-chat-tools-want-no-reasoning,
openai-chat-required-fields, openai-chat-max-completion-tokens, openai-chat-strict-schema, openai-chat-word-json,
openai-chat-stream-options-streamed)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.apis.openai_chat import limits
from harness.apis.openai_chat.limits import schemas
from harness.apis.openai_chat.limits.chat import Chat, shown
from harness.apis.openai_chat.limits.messages import NAME
from harness.apis.openai_chat.requests.parts import content_views
from harness.apis.openai_parameters import (
    ARRAY,
    BOOLEAN,
    OBJECT,
    STRING,
    STRING_OR_ARRAY,
    Parameter,
    decimal,
    integer,
    out_of_range,
    wrong_type,
)
from harness.apis.view import TextView
from harness.contract.model import JSON
from harness.contract.protocols import Capability

_ANY: Parameter | None = None

FIELDS: Mapping[str, Parameter | None] = {
    "audio": OBJECT,
    "frequency_penalty": decimal(-2, 2),
    "function_call": _ANY,
    "functions": _ANY,
    "logit_bias": OBJECT,
    "logprobs": BOOLEAN,
    "max_completion_tokens": integer(1),
    "max_tokens": integer(1),
    "messages": _ANY,
    "metadata": OBJECT,
    "modalities": ARRAY,
    "model": _ANY,
    "moderation": _ANY,
    "n": integer(1, 128),
    "parallel_tool_calls": BOOLEAN,
    "prediction": OBJECT,
    "presence_penalty": decimal(-2, 2),
    "prompt_cache_key": STRING,
    "prompt_cache_options": _ANY,
    "prompt_cache_retention": _ANY,
    "reasoning_effort": _ANY,
    "response_format": _ANY,
    "safety_identifier": STRING,
    "seed": integer(),
    "service_tier": STRING,
    "stop": STRING_OR_ARRAY,
    "store": BOOLEAN,
    "stream": BOOLEAN,
    "stream_options": OBJECT,
    "temperature": decimal(0, 2),
    "tool_choice": _ANY,
    "tools": _ANY,
    "top_logprobs": integer(0, 20),
    "top_p": decimal(0, 1),
    "user": STRING,
    "verbosity": STRING,
    "web_search_options": OBJECT,
}
"""The fields of a request (O/types/chat/completion_create_params.py), with what they take (openai-chat-parameter-types,
openai-chat-parameter-ranges). Other checks look at those without."""

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
        if value is None:
            continue
        if field not in FIELDS:
            yield limits.UNKNOWN_FIELD.broken(
                f"Unknown parameter: '{field}'.", join("", field), actual=field, code="unknown_parameter"
            )
        elif parameter := FIELDS[field]:
            yield from _value(field, value, parameter)
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


def _value(field: str, value: JSON, parameter: Parameter) -> Iterator[Violation]:
    place, beyond = join("", field), out_of_range(field, value, parameter)
    if message := wrong_type(field, value, parameter):
        yield limits.PARAMETER_TYPE.broken(message, place, actual=value, code="invalid_type")
    elif beyond:
        yield limits.PARAMETER_RANGE.broken(beyond[0], place, actual=value, code=beyond[1])


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
        return
    schema, place, subject, code = (
        described.get("schema"),
        join(pointer, "schema"),
        f"response_format '{name}'",
        "invalid_json_schema",
    )
    if not isinstance(schema, dict):
        yield limits.FORMAT_SCHEMA.broken(
            "Missing required parameter: 'response_format.json_schema.schema'.",
            place if "schema" in described else pointer,
            actual=schema,
            code="missing_required_parameter",
        )
    else:
        yield from schemas.invalid(limits.FORMAT_SCHEMA, schema, place, subject, code)
        if described.get("strict") is True:
            yield from schemas.violations(schema, place, subject, code)
