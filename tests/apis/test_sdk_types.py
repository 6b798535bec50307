"""The wire readers know the types of the installed SDKs, so that a new release shows what it brought.

A type of block, item, tool or event, or a field of requests or responses, that an SDK has and that nothing in the
API's package names has to be in `UNREAD`, under the reason why it needs no reader. A name there that has gone, or is
read by now, is stale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import harness.apis
from harness.apis.gemini.proto import camel, messages


def _tags(union: Any, field: str = "type") -> Iterator[str]:
    """The values of `field` of all members of a union: pydantic models and typed dictionaries."""
    if get_origin(union) is not None:
        for member in get_args(union):
            yield from _tags(member, field)
    elif isinstance(union, type):
        model = getattr(union, "model_fields", None)
        hint = get_type_hints(union).get(field) if model is None else field in model and model[field].annotation
        yield from _strings(hint)


def _strings(hint: Any) -> Iterator[str]:
    """The strings of the literals in an annotation."""
    if get_origin(hint) is Literal:
        yield from (value for value in get_args(hint) if isinstance(value, str))
    else:
        for inner in get_args(hint):
            yield from _strings(inner)


def _fields(*models: Any) -> set[str]:
    """The wire names of the fields of models and typed dictionaries."""
    names: set[str] = set()
    for model in models:
        fields = getattr(model, "model_fields", None)
        if fields is None:
            names |= get_type_hints(model).keys()
        else:
            names |= {field.alias or name for name, field in fields.items()}
    return names


def _anthropic() -> set[str]:
    types = pytest.importorskip("anthropic.types", reason="anthropic is not installed")
    beta = pytest.importorskip("anthropic.types.beta")
    unions = (
        types.ContentBlock,
        types.ContentBlockParam,
        types.ToolUnionParam,
        types.RawMessageStreamEvent,
        types.RawContentBlockDelta,
        *(beta.BetaContentBlock, beta.BetaContentBlockParam, beta.BetaToolUnionParam, beta.BetaInputTransformation),
        *(beta.BetaRawMessageStreamEvent, beta.BetaRawContentBlockDelta, types.CacheMissReason),
    )
    asked = types.message_create_params.MessageCreateParamsNonStreaming
    fields = _fields(asked, types.Message, types.Usage, beta.BetaMessage, beta.BetaUsage)
    reasons = {*_strings(types.StopReason), *_strings(beta.BetaStopReason)}
    return {name for union in unions for name in _tags(union)} | reasons | fields


def _chat() -> set[str]:
    types = pytest.importorskip("openai.types.chat", reason="openai is not installed")
    unions = (
        types.ChatCompletionContentPartParam,
        types.ChatCompletionToolUnionParam,
        types.ChatCompletionMessageToolCallUnion,
    )
    reasons = types.chat_completion.Choice.model_fields["finish_reason"].annotation
    roles = _tags(types.ChatCompletionMessageParam, "role")
    asked = types.completion_create_params.CompletionCreateParamsNonStreaming
    fields = _fields(asked, types.ChatCompletion, types.chat_completion.Choice, types.ChatCompletionMessage)
    return {name for union in unions for name in _tags(union)} | {*_strings(reasons), *roles} | fields


def _responses() -> set[str]:
    types = pytest.importorskip("openai.types.responses", reason="openai is not installed")
    unions = (types.ResponseOutputItem, types.ResponseInputItemParam, types.ToolParam, types.ResponseStreamEvent)
    asked = types.response_create_params.ResponseCreateParamsNonStreaming
    reasons = _strings(types.response.IncompleteDetails.model_fields["reason"].annotation)
    tags = {name for union in unions for name in _tags(union)}
    return tags | {*reasons} | _fields(asked, types.Response, types.ResponseUsage)


def _gemini() -> set[str]:
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    fields = (field.alias or name for model in (types.Part, types.Tool) for name, field in model.model_fields.items())
    answers = _fields(
        types.GenerateContentResponse,
        types.Candidate,
        types.GenerateContentResponseUsageMetadata,
        types.GenerateContentResponsePromptFeedback,
    )
    return {*fields, *answers, *(reason.value for reason in types.FinishReason)}


SDKS = {"anthropic": _anthropic, "openai_chat": _chat, "openai_responses": _responses, "gemini": _gemini}

UNREAD: Mapping[str, Mapping[str, str]] = {
    "anthropic": {
        "a header, not a field of the body": "user_profile_id workspace_id",
        "the counts of each step, beside the totals": "iterations",
    },
    "gemini": {
        "shown to people, and no part of the conversation": """
            avgLogprobs blockReasonMessage citationMetadata groundingMetadata logprobsResult modelStatus safetyRatings
            urlContextMetadata
        """,
        "a share of the counts, which are in the totals": "candidatesTokensDetails toolUsePromptTokensDetails",
        "of the transport, or made by the SDK": "automaticFunctionCallingHistory parsed sdkHttpResponse trafficType",
        "the time of the response, which only audits read": "createTime",
    },
    "openai_chat": {},
    "openai_responses": {
        "the usage of tools that the provider runs": "tool_usage",
        "a piece or a state of an item, which arrives whole in response.output_item.done": """
            response.code_interpreter_call.completed response.code_interpreter_call.in_progress
            response.code_interpreter_call.interpreting response.code_interpreter_call_code.delta
            response.code_interpreter_call_code.done response.compaction.compacting
            response.content_part.added response.content_part.done response.custom_tool_call_input.delta
            response.custom_tool_call_input.done response.file_search_call.completed
            response.file_search_call.in_progress response.file_search_call.searching
            response.function_call_arguments.done response.image_generation_call.completed
            response.image_generation_call.generating response.image_generation_call.in_progress
            response.image_generation_call.partial_image response.mcp_call.completed
            response.mcp_call.failed response.mcp_call.in_progress response.mcp_call_arguments.delta
            response.mcp_call_arguments.done response.mcp_list_tools.completed
            response.mcp_list_tools.failed response.mcp_list_tools.in_progress
            response.output_text.annotation.added response.output_text.delta response.output_text.done
            response.queued response.reasoning_summary_part.added response.reasoning_summary_part.done
            response.reasoning_summary_text.delta response.reasoning_summary_text.done
            response.reasoning_text.delta response.reasoning_text.done response.refusal.delta
            response.refusal.done response.shell_call_command.added response.shell_call_command.delta
            response.shell_call_command.done response.shell_call_output_content.delta
            response.shell_call_output_content.done response.web_search_call.completed
            response.web_search_call.in_progress response.web_search_call.searching
        """,
        "sound, which only the Realtime API sends": """
            response.audio.delta response.audio.done response.audio.transcript.delta
            response.audio.transcript.done
        """,
        "a version of a tool that the provider runs, read as any declared tool is": """
            programmatic_tool_calling web_search_2025_08_26
            web_search_preview_2025_03_11
        """,
    },
}
"""By package and by reason, the types that nothing names."""


def _named(package: str, name: str) -> bool:
    folder = Path(harness.apis.__file__).parent / package
    texts = (path.read_text("utf-8") for path in folder.rglob("*") if path.suffix in (".py", ".yaml"))
    return any(name in text for text in texts)


@pytest.mark.parametrize("package", SDKS)
def test_every_type_of_the_sdk_is_read_or_listed_with_a_reason(package: str) -> None:
    listed = {name for names in UNREAD[package].values() for name in names.split()}
    unnamed = {name for name in SDKS[package]() if not _named(package, name)}
    assert unnamed == listed


@pytest.mark.parametrize("name", [name for name in messages() if name != "GenerateContentRequest"])
def test_every_field_of_gemini_s_types_is_known(name: str) -> None:
    types = pytest.importorskip("google.genai.types")
    assert {camel(field) for field in getattr(types, name).model_fields} <= messages()[name].keys()
