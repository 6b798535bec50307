"""Body of a response → canonical response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters._common import count, string
from harness.adapters._openai.client import arguments_in, reported
from harness.adapters._openai.wire import is_legal, parted, synthesised
from harness.adapters.openai_responses import API, LONGEST_ID, RECEIVED
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
    from collections.abc import Set as AbstractSet

    from harness.contract.model import JSON, Part

_STATUSES = {
    "failed": StopReason.ERROR,
    "cancelled": StopReason.ERROR,
    "in_progress": StopReason.PAUSE,
    "queued": StopReason.PAUSE,
}
_SHOWN_OF_REASONING = frozenset({"status"})
"""Fields of a reasoning item that the API refuses to take back (openai-responses-reasoning-status-refused)."""

_TAKEN_OF_CALL = frozenset({"id", "call_id", "status", "namespace", "caller"})
"""Fields of a call that the API takes beside name and arguments (S response_function_tool_call_param). Any other is
refused as an unknown parameter: `async` (S response_function_tool_call), and what compatible servers add."""

_UNFINISHED = ("in_progress", "incomplete")
_INCOMPLETE = {
    "max_output_tokens": StopReason.MAX_TOKENS,
    "max_messages": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "steered": StopReason.PAUSE,
}


def response_of(body: JSON, status: int, history: Sequence[Message]) -> ChatResponse:
    """The answer to a request with this history.

    Raises:
        MalformedResponse: this is no answer.
        ProviderError: this is an answer that failed.
    """
    match body:
        case {"status": "failed", "error": {**error}}:
            raise reported(error)
        case {"output": list(output), **rest}:
            pass
        case {"error": dict(error)} | {"error": str(error)} if error:
            raise reported(error)
        case _:
            raise MalformedResponse("there is no list of output items", status)
    parts = tuple(_parts(output, history))
    stop_reason, raw = _stop_reason(rest, parts)
    return ChatResponse(
        Message(Role.ASSISTANT, parts), stop_reason, _usage(rest.get("usage")), string(rest.get("model")), raw
    )


def _parts(output: list[JSON], history: Sequence[Message]) -> list[Part]:
    taken = [call.id for turn in history for call in turn.tool_calls]
    parts: list[Part] = []
    for item in output:
        match item:
            case {"type": "message", "content": [_, *_] as content, **fields}:
                parts.extend(_content(part, fields) for part in content)
            case {"type": "reasoning"}:
                parts.append(Thinking(reasoning_of(item), _taken_back(item, item.keys() - _SHOWN_OF_REASONING)))
            case {"type": "function_call"}:
                call = call_of(item, taken)
                if call:
                    taken.append(call.id)
                parts.append(call or Opaque(API, item))
            case _:
                parts.append(Opaque(API, item))
    return parts


def _taken_back(fields: dict[str, JSON], taken: AbstractSet[str]) -> dict[str, JSON]:
    """The metadata of an item: the fields that go back, and apart from them those that are only shown."""
    back, shown = parted(fields, taken)
    return {name: held for name, held in ((API, back), (RECEIVED, shown)) if held}


def _content(part: JSON, message: dict[str, JSON]) -> Part:
    """A part of a message item. `message`: the item's other fields, which go back with the part."""
    message = {key: value for key, value in message.items() if key != "role"}
    match part:
        case {"type": "output_text", "text": str(text), **fields}:
            return Text(text, {API: {**fields, "message": message}})
        case {"type": "refusal", "refusal": str(text), **fields}:
            return Refusal(text, {API: {**fields, "message": message}})
        case _:
            return Opaque(API, {"type": "message", "role": "assistant", **message, "content": [part]})


def reasoning_of(item: dict[str, JSON]) -> str:
    """Return the visible reasoning: the summary, or the reasoning itself where a server sends it."""
    for key in ("summary", "content"):
        shown = item.get(key)
        texts = (
            [string(part.get("text")) for part in shown if isinstance(part, dict)] if isinstance(shown, list) else []
        )
        if any(texts):
            return "\n\n".join(text for text in texts if text)
    return ""


def call_of(item: dict[str, JSON], taken: Sequence[str]) -> ToolCall | None:
    """A call, or `None` if this is none that could be run: cut short, or its arguments are no JSON object.

    `taken`: the ids of all calls before it.
    """
    match item:
        case {"name": str(name), "arguments": str(text), **fields} if fields.get("status") not in _UNFINISHED:
            arguments = arguments_in(text or "{}")
        case _:
            return None
    if arguments is None:
        return None
    del fields["type"]
    call_id = fields.pop("call_id", None)
    if not isinstance(call_id, str) or not call_id:
        marked: dict[str, JSON] = {"harness": {SYNTHESISED_ID: True}}
        made = synthesised(len(taken), taken)
        return ToolCall(made, name, arguments, _taken_back(fields, _TAKEN_OF_CALL) | marked)
    if not is_legal(call_id, LONGEST_ID):  # issued all the same, by a server with longer ids
        fields["call_id"] = call_id
    return ToolCall(call_id, name, arguments, _taken_back(fields, _TAKEN_OF_CALL))


def _stop_reason(body: dict[str, JSON], parts: Sequence[Part]) -> tuple[StopReason, str | None]:
    """There is no finish reason, so status and items have to tell (openai-responses-stop-reasons). With the
    API's own word."""
    status = string(body.get("status"))
    match status, body.get("incomplete_details"):
        case "completed", _:
            return _completed(parts), status
        case "incomplete", {"reason": str(reason)}:
            return _INCOMPLETE.get(reason, StopReason.UNKNOWN), reason
        case _:
            return _STATUSES.get(status or "", StopReason.UNKNOWN), status


def _completed(parts: Sequence[Part]) -> StopReason:
    kinds = [part.raw.get("type") for part in parts if isinstance(part, Opaque) and isinstance(part.raw, dict)]
    if "function_call" in kinds:
        return StopReason.MALFORMED_CALL
    if "custom_tool_call" in kinds or any(isinstance(part, ToolCall) for part in parts):
        return StopReason.TOOL_USE
    return StopReason.REFUSAL if any(isinstance(part, Refusal) for part in parts) else StopReason.END_TURN


def _usage(usage: JSON) -> Usage:
    """openai-responses-usage: input includes what was cached, output includes reasoning."""
    fields = usage if isinstance(usage, dict) else {}
    return Usage(
        input_tokens=count(fields, "input_tokens"),
        output_tokens=count(fields, "output_tokens"),
        cache_read_tokens=count(fields.get("input_tokens_details"), "cached_tokens"),
        cache_write_tokens=count(fields.get("input_tokens_details"), "cache_write_tokens"),
        reasoning_tokens=count(fields.get("output_tokens_details"), "reasoning_tokens"),
    )
