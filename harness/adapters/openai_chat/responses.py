"""Body of a response → canonical response, including fields of compatible servers.

Fields of a dialect are recognised by their names. This is safe, because they are sent back only to the server that they
came from. Strict servers reject unknown fields: OpenAI (openai-chat-no-reasoning-field), Cerebras
(proxysoul/Empryo#209), Mistral (BerriAI/litellm#30835). Fields that no server is known to accept back are kept only for
the caller, under `RECEIVED`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters._common import as_list, own, string
from harness.adapters._openai.answers import arguments_in, error_in
from harness.adapters._openai.wire import is_legal, read_usage, split_fields, synthesise_id
from harness.adapters.openai_chat import API, MAX_ID_CHARACTERS, RECEIVED
from harness.model.errors import MalformedResponse
from harness.model.messages import (
    SYNTHESISED_ID,
    ChatResponse,
    Message,
    Opaque,
    Refusal,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.model.messages import JSON, Part, ProviderMetadata

_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}

_CANONICAL_FIELDS = {"role", "content", "refusal", "tool_calls"}


def read_response(body: JSON, status: int, history: Sequence[Message]) -> ChatResponse:
    """Return the response to a request with this history. The calls are the last parts of the message.

    Raises:
        MalformedResponse: the body is not a response.
        ProviderError: the body is an error, which some compatible servers send with HTTP 200.
    """
    match body:
        case {"choices": [{"message": dict(message), **choice}, *_], **rest}:
            pass
        case {"error": dict(error)} | {"error": str(error)} if error:
            raise error_in(error)
        case _:
            raise MalformedResponse("there is no choice with a message", status)
    raw_stop = string(choice.get("finish_reason"))
    parts = (*_thinking(message), *_content(message), *_calls(message, raw_stop, history))
    return ChatResponse(
        Message(Role.ASSISTANT, parts),
        _stop_reason(raw_stop, parts),
        read_usage(rest.get("usage"), "prompt_tokens", "completion_tokens"),
        string(rest.get("model")),
        raw_stop,
    )


def _thinking(message: dict[str, JSON]) -> list[Part]:
    """Return the reasoning, and the message fields that have no canonical equivalent."""
    fields, shown = message_fields(
        {key: value for key, value in message.items() if key not in _CANONICAL_FIELDS and not _is_empty(value)}
    )
    reasoning = {key: fields.pop(key) for key in REASONING if isinstance(fields.get(key), str)}
    parts: list[Part] = []
    if fields:
        parts.append(Opaque(API, fields))
    if shown:
        parts.append(Opaque(RECEIVED, shown))
    if reasoning:
        parts.append(Thinking(str(next(iter(reasoning.values()))), {API: dict(reasoning)}))
    return parts


def _is_empty(value: JSON) -> bool:
    return value is None or value in ("", [], {})


def _content(message: dict[str, JSON]) -> list[Part]:
    parts: list[Part] = []
    match message.get("content"):
        case str(text) if text:
            parts.append(Text(text))
        case list(content):
            parts.extend(map(_content_part, content))
        case _:
            pass
    if refusal := string(message.get("refusal")):
        parts.append(Refusal(refusal))
    return parts


def _content_part(part: JSON) -> Part:
    match part:
        case {"type": "text", "text": str(text), **others}:
            return Text(text, received_metadata(others))
        case {"type": "refusal", "refusal": str(text), **others}:
            return Refusal(text, received_metadata(others))
        case _:
            return Opaque(API, part)


def _calls(message: dict[str, JSON], raw_stop: str | None, history: Sequence[Message]) -> list[Part]:
    calls = message.get("tool_calls")
    taken = [call.id for turn in history for call in turn.tool_calls]
    parts: list[Part] = []
    made = as_list(calls)
    for number, raw in enumerate(made, 1):
        call_id = identify(raw, taken)
        taken.append(call_id)
        cut_short = raw_stop == "length" and number == len(made)  # earlier calls are complete
        parts.append(_call(raw, call_id, cut_short=cut_short) or Opaque(API, raw))
    return parts


def identify(call: JSON, taken: Sequence[str]) -> str:
    """Return the id of a call, or a new id if it has none. `taken` contains the ids of all earlier calls."""
    match call:
        case {"id": str(call_id)} if call_id:
            return call_id
        case _:
            return synthesise_id(len(taken), taken)


def _call(raw: JSON, call_id: str, *, cut_short: bool) -> ToolCall | None:
    """Convert a call; return `None` if it cannot be executed.

    This is the case if it is not a function call, has no name, or has arguments that are not a JSON object.
    """
    match raw:
        case {"function": {"name": str(name), **function}, **others} if name:
            arguments = _arguments(function.pop("arguments", ""), cut_short=cut_short)
        case _:
            return None
    if arguments is None:
        return None
    fields = {key: value for key, value in others.items() if key not in {"id", "type", "index"}}
    metadata = call_metadata(fields, function)
    if others.get("id") != call_id:
        marked: dict[str, JSON] = {"harness": {SYNTHESISED_ID: True}}
        return ToolCall(call_id, name, arguments, {**metadata, **marked})
    if not is_legal(call_id, MAX_ID_CHARACTERS):  # from a server with longer ids
        metadata = {**metadata, API: {**own(metadata, API), "id": call_id}}
    return ToolCall(call_id, name, arguments, metadata)


def _arguments(text: JSON, *, cut_short: bool) -> dict[str, JSON] | None:
    if text == "" and not cut_short:  # openai-chat-no-arguments
        return {}
    return arguments_in(text)


def _stop_reason(raw: str | None, parts: Sequence[Part]) -> StopReason:
    """Return the stop reason. It also depends on the parts: the API reports `stop` for a forced call
    (openai-chat-stop-reasons).
    """
    reason = _STOP_REASONS.get(raw or "", StopReason.UNKNOWN)
    if reason not in {StopReason.END_TURN, StopReason.TOOL_USE}:
        return reason
    if any(isinstance(part, Opaque) and isinstance(part.raw, dict) and "function" in part.raw for part in parts):
        return StopReason.MALFORMED_CALL
    if any(isinstance(part, ToolCall) for part in parts):
        return StopReason.TOOL_USE
    return StopReason.REFUSAL if any(isinstance(part, Refusal) for part in parts) else reason


REASONING = ("reasoning_content", "reasoning", "reasoning_text")
"""Names of the field with the reasoning text.

`reasoning_content` is used by DeepSeek and most others, `reasoning` by OpenRouter, Groq, Cerebras and Ollama, and
`reasoning_text` by Copilot.
"""

_MESSAGE = frozenset(
    {
        # openai-chat-deepseek-reasoning-back; accepted in recordings of DeepSeek, Ollama and Crusoe;
        # anomalyco/opencode#8900 (Copilot)
        *REASONING,
        "reasoning_details",  # OpenRouter: its guide to reasoning tokens, and a recording; Snowflake: a recording
        "reasoning_opaque",  # Copilot: the signature (anomalyco/opencode#8900)
        "thinking_blocks",  # LiteLLM: signed thinking of Claude (its page on reasoning content)
        "extra_content",  # Gemini's compatible endpoint: a thought signature (openai-chat-gemini-signature)
    }
)
_CALL = frozenset(
    {
        "extra_content",  # openai-chat-gemini-signature
        "provider_specific_fields",  # LiteLLM: a thought signature (its notes on Gemini 3)
        "custom",  # OpenAI: the call of a custom tool
    }
)
_FUNCTION = frozenset({"provider_specific_fields"})  # LiteLLM, where it is streamed


def received_metadata(fields: Mapping[str, JSON]) -> ProviderMetadata:
    """Return metadata for fields that are not sent back."""
    return {RECEIVED: dict(fields)} if fields else {}


def message_fields(fields: Mapping[str, JSON]) -> tuple[dict[str, JSON], dict[str, JSON]]:
    """Split the fields of a message into those to send back and the rest."""
    back, shown = split_fields(fields, _MESSAGE)
    match shown:  # S chat_completion_assistant_message_param; some servers send both empty
        case {"audio": {"id": str(audio_id)}} if audio_id:
            back["audio"] = {"id": audio_id}
        case {"function_call": {"name": str(name)}} if name:
            back["function_call"] = shown.pop("function_call")
        case _:
            pass
    return back, shown


def call_metadata(fields: Mapping[str, JSON], function: Mapping[str, JSON]) -> ProviderMetadata:
    """Return the metadata of a call: the fields of the call and its function that have no canonical equivalent."""
    back, shown = split_fields(fields, _CALL)
    inner, inner_shown = split_fields(function, _FUNCTION)
    if inner:
        back["function"] = inner
    if inner_shown:
        shown["function"] = inner_shown
    return {name: kept for name, kept in ((API, back), (RECEIVED, shown)) if kept}
