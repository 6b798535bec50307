"""Response body of the API → canonical response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters._common import as_list, string
from harness.adapters._openai.answers import arguments_in, error_in
from harness.adapters._openai.wire import is_legal, read_usage, split_fields, synthesise_id
from harness.adapters.openai_responses import API, MAX_ID_CHARACTERS, RECEIVED
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
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from harness.model.messages import JSON, Part

_STATUSES = {
    "failed": StopReason.ERROR,
    "cancelled": StopReason.ERROR,
    "in_progress": StopReason.PAUSE,
    "queued": StopReason.PAUSE,
}
_REJECTED_REASONING_FIELDS = frozenset({"status"})
"""Fields of a reasoning item that the API rejects in requests (openai-responses-reasoning-status-refused)."""

_ACCEPTED_CALL_FIELDS = frozenset({"id", "call_id", "status", "namespace", "caller", "async"})
"""Fields of a call that the API accepts in addition to name and arguments (SDK type response_function_tool_call_param).
It rejects others, such as fields of compatible servers.
"""

_UNFINISHED = ("in_progress", "incomplete")
_INCOMPLETE = {
    "max_output_tokens": StopReason.MAX_TOKENS,
    "max_messages": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "steered": StopReason.PAUSE,
}


def read_response(body: JSON, status: int, history: Sequence[Message]) -> ChatResponse:
    """Return the response to a request with this history.

    Raises:
        MalformedResponse: the body is not a response.
        ProviderError: the response failed.
    """
    match body:
        case {"status": "failed", "error": {**error}}:
            raise error_in(error)
        case {"output": list(output), **rest}:
            pass
        case {"error": dict(error)} | {"error": str(error)} if error:
            raise error_in(error)
        case _:
            raise MalformedResponse("there is no list of output items", status)
    parts = tuple(_parts(output, history))
    stop_reason, raw = _stop_reason(rest, parts)
    return ChatResponse(
        Message(Role.ASSISTANT, parts),
        stop_reason,
        read_usage(rest.get("usage"), "input_tokens", "output_tokens"),
        string(rest.get("model")),
        raw,
        id=string(rest.get("id")),
    )


def _parts(output: list[JSON], history: Sequence[Message]) -> list[Part]:
    taken = [call.id for turn in history for call in turn.tool_calls]
    parts: list[Part] = []
    for item in output:
        match item:
            case {"type": "message", "content": [_, *_] as content, **fields}:
                parts.extend(_content(part, fields) for part in content)
            case {"type": "reasoning"}:
                parts.append(
                    Thinking(reasoning_of(item), _item_metadata(item, item.keys() - _REJECTED_REASONING_FIELDS))
                )
            case {"type": "function_call"}:
                call = call_of(item, taken)
                if call:
                    taken.append(call.id)
                parts.append(call or Opaque(API, item))
            case _:
                parts.append(Opaque(API, item))
    return parts


def _item_metadata(fields: dict[str, JSON], taken: AbstractSet[str]) -> dict[str, JSON]:
    """Return the metadata of an item. The fields in `taken` are sent back in later requests; others are only kept."""
    back, shown = split_fields(fields, taken)
    return {name: held for name, held in ((API, back), (RECEIVED, shown)) if held}


def _content(part: JSON, message: dict[str, JSON]) -> Part:
    """Convert a part of a message item. `message` has the item's other fields, which are sent back with the part."""
    message = {key: value for key, value in message.items() if key != "role"}
    match part:
        case {"type": "output_text", "text": str(text), **fields}:
            return Text(text, {API: {**fields, "message": message}})
        case {"type": "refusal", "refusal": str(text), **fields}:
            return Refusal(text, {API: {**fields, "message": message}})
        case _:
            return Opaque(API, {"type": "message", "role": "assistant", **message, "content": [part]})


def reasoning_of(item: dict[str, JSON]) -> str:
    """Return the visible reasoning: the summary, or the full text if a server sends it."""
    for key in ("summary", "content"):
        texts = [string(part.get("text")) for part in as_list(item.get(key)) if isinstance(part, dict)]
        if any(texts):
            return "\n\n".join(text for text in texts if text)
    return ""


def call_of(item: dict[str, JSON], taken: Sequence[str]) -> ToolCall | None:
    """Convert a call; return `None` if it is truncated or its arguments are not a JSON object.

    `taken` contains the ids of all earlier calls.
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
        made = synthesise_id(len(taken), taken)
        return ToolCall(made, name, arguments, _item_metadata(fields, _ACCEPTED_CALL_FIELDS) | marked)
    if not is_legal(call_id, MAX_ID_CHARACTERS):  # from a server with longer ids
        fields["call_id"] = call_id
    return ToolCall(call_id, name, arguments, _item_metadata(fields, _ACCEPTED_CALL_FIELDS))


def _stop_reason(body: dict[str, JSON], parts: Sequence[Part]) -> tuple[StopReason, str | None]:
    """Return the stop reason and the API's own term, from status and items (openai-responses-stop-reasons)."""
    status = string(body.get("status"))
    match status, body.get("incomplete_details"):
        case "completed", _:
            return _completed_stop_reason(parts), status
        case "incomplete", {"reason": str(reason)}:
            return _INCOMPLETE.get(reason, StopReason.UNKNOWN), reason
        case _:
            return _STATUSES.get(status or "", StopReason.UNKNOWN), status


def _completed_stop_reason(parts: Sequence[Part]) -> StopReason:
    kinds = [part.raw.get("type") for part in parts if isinstance(part, Opaque) and isinstance(part.raw, dict)]
    if "function_call" in kinds:
        return StopReason.MALFORMED_CALL
    if "custom_tool_call" in kinds or any(isinstance(part, ToolCall) for part in parts):
        return StopReason.TOOL_USE
    return StopReason.REFUSAL if any(isinstance(part, Refusal) for part in parts) else StopReason.END_TURN
