"""Body of a response → canonical response. Reads the wire itself, since the SDK's types lose what they do not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters._openai.failures import reported
from harness.adapters._openai.ids import is_legal, synthesised
from harness.adapters._openai.jsontext import count, loads, string
from harness.adapters._openai.metadata import own
from harness.adapters.openai_chat.api import API, LONGEST_ID, RECEIVED
from harness.adapters.openai_chat.taken_back import REASONING, of_call, of_message, received
from harness.contract.errors import MalformedResponse
from harness.contract.model import (
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
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.contract.model import JSON, Part

_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}

_KNOWN = {"role", "content", "refusal", "tool_calls"}


def decode(data: bytes, status: int, history: Sequence[Message]) -> ChatResponse:
    """The answer to a request with this history.

    Raises:
        MalformedResponse: this is no answer.
        ProviderError: this is an error, under HTTP 200 as some compatible servers have it.
    """
    try:
        body = loads(data)
    except ValueError as error:
        raise MalformedResponse(f"the body is not JSON: {error}", status) from None
    return response_of(body, status, history)


def response_of(body: JSON, status: int, history: Sequence[Message]) -> ChatResponse:
    """The same for a body that is parsed already. The calls are the last parts of the message, one for each.

    Raises:
        MalformedResponse: this is no answer.
        ProviderError: this is an error, under HTTP 200 as some compatible servers have it.
    """
    match body:
        case {"choices": [{"message": dict(message), **choice}, *_], **rest}:
            pass
        case {"error": dict(error)} | {"error": str(error)} if error:
            raise reported(error)
        case _:
            raise MalformedResponse("there is no choice with a message", status)
    raw_stop = string(choice.get("finish_reason"))
    parts = (*_thinking(message), *_content(message), *_calls(message, raw_stop, history))
    return ChatResponse(
        Message(Role.ASSISTANT, parts),
        _stop_reason(raw_stop, parts),
        _usage(rest.get("usage")),
        string(rest.get("model")),
        raw_stop,
    )


def _thinking(message: dict[str, JSON]) -> list[Part]:
    """Reasoning, and the fields of the message that have no place of their own."""
    fields, shown = of_message(
        {key: value for key, value in message.items() if key not in _KNOWN and not _is_empty(value)}
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
            return Text(text, received(others))
        case {"type": "refusal", "refusal": str(text), **others}:
            return Refusal(text, received(others))
        case _:
            return Opaque(API, part)


def _calls(message: dict[str, JSON], raw_stop: str | None, history: Sequence[Message]) -> list[Part]:
    calls = message.get("tool_calls")
    taken = [call.id for turn in history for call in turn.tool_calls]
    parts: list[Part] = []
    made = calls if isinstance(calls, list) else []
    for number, raw in enumerate(made, 1):
        call_id = identify(raw, taken)
        taken.append(call_id)
        cut_short = raw_stop == "length" and number == len(made)  # those before it were whole when it began
        parts.append(_call(raw, call_id, cut_short=cut_short) or Opaque(API, raw))
    return parts


def identify(call: JSON, taken: Sequence[str]) -> str:
    """The id of a call: the one that was issued, or one made for it. `taken`: the ids of all calls before it."""
    match call:
        case {"id": str(call_id)} if call_id:
            return call_id
        case _:
            return synthesised(len(taken), taken)


def _call(raw: JSON, call_id: str, *, cut_short: bool) -> ToolCall | None:
    """A call, or `None` if this is none that could be run: of another kind, without a name, or with arguments that are
    no JSON object."""
    match raw:
        case {"function": {"name": str(name), **function}, **others} if name:
            arguments = _arguments(function.pop("arguments", ""), cut_short=cut_short)
        case _:
            return None
    if arguments is None:
        return None
    fields = {key: value for key, value in others.items() if key not in {"id", "type", "index"}}
    metadata = of_call(fields, function)
    if others.get("id") != call_id:
        marked: dict[str, JSON] = {"harness": {SYNTHESISED_ID: True}}
        return ToolCall(call_id, name, arguments, {**metadata, **marked})
    if not is_legal(call_id, LONGEST_ID):  # issued all the same, by a server with longer ids
        metadata = {**metadata, API: {**own(metadata, API), "id": call_id}}
    return ToolCall(call_id, name, arguments, metadata)


def _arguments(text: JSON, *, cut_short: bool) -> dict[str, JSON] | None:
    if text == "" and not cut_short:  # openai-chat-no-arguments
        return {}
    try:
        arguments = loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None


def _stop_reason(raw: str | None, parts: Sequence[Part]) -> StopReason:
    """openai-chat-stop-reasons, and what the message itself says: a forced call stops with `stop`."""
    reason = _STOP_REASONS.get(raw or "", StopReason.UNKNOWN)
    if reason not in {StopReason.END_TURN, StopReason.TOOL_USE}:
        return reason
    if any(isinstance(part, Opaque) and isinstance(part.raw, dict) and "function" in part.raw for part in parts):
        return StopReason.MALFORMED_CALL
    if any(isinstance(part, ToolCall) for part in parts):
        return StopReason.TOOL_USE
    return StopReason.REFUSAL if any(isinstance(part, Refusal) for part in parts) else reason


def _usage(usage: JSON) -> Usage:
    """openai-chat-usage: the prompt includes what was cached, the completion includes reasoning."""
    fields = usage if isinstance(usage, dict) else {}
    return Usage(
        input_tokens=count(fields, "prompt_tokens"),
        output_tokens=count(fields, "completion_tokens"),
        cache_read_tokens=count(fields.get("prompt_tokens_details"), "cached_tokens"),
        cache_write_tokens=count(fields.get("prompt_tokens_details"), "cache_write_tokens"),
        reasoning_tokens=count(fields.get("completion_tokens_details"), "reasoning_tokens"),
    )
