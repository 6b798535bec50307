"""Body of a response → canonical response.

Read from JSON: the SDK's types would cost a tenth of a run of the suite, and each part has to keep the fields that they
do not know anyway (`test_blocks_become_parts_and_go_back_as_they_came`).
"""

from __future__ import annotations

from typing import Any, Final, cast, get_args

from anthropic.types import StopReason as Word

from harness.adapters._common import compact, count
from harness.contract.errors import MalformedResponse, ProviderError, provider_error
from harness.contract.model import (
    JSON,
    ChatResponse,
    Message,
    Opaque,
    Part,
    ProviderMetadata,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)

RECEIVED: Final = "anthropic/received"
"""Whose the fields are that came and do not go back: nobody's, so that no adapter sends them."""

_OTHER_NAMES = {"model_context_window_exceeded": StopReason.MAX_TOKENS, "pause_turn": StopReason.PAUSE}
_STOP_REASONS = _OTHER_NAMES | {word: StopReason(word) for word in get_args(Word) if word in [*StopReason]}
"""The SDK's words for why the model stopped. The contract has the same, but for two."""

_COMPLETE = frozenset({StopReason.TOOL_USE, StopReason.END_TURN, StopReason.STOP_SEQUENCE})
"""Reasons after which nothing excuses a call whose arguments are no object."""


def message(body: JSON) -> ChatResponse:
    """The answer that a message of the API is.

    Raises:
        MalformedResponse: it is none.
    """
    blocks = body.get("content") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(blocks, list):
        raise MalformedResponse("the body is no message: it has no list `content`")
    raw_reason = body.get("stop_reason")
    reason = _STOP_REASONS.get(raw_reason, StopReason.UNKNOWN) if isinstance(raw_reason, str) else StopReason.UNKNOWN
    parts = tuple(part(block) for block in blocks)
    if reason is StopReason.MAX_TOKENS and parts and isinstance(parts[-1], ToolCall):
        # The API closes the JSON of a call that it cuts short: what is there parses, and is not what was meant.
        parts = (*parts[:-1], Opaque("anthropic", blocks[-1]))
    elif reason in _COMPLETE and any(_is_call(each) for each in parts):
        reason = StopReason.MALFORMED_CALL
    model = body.get("model")
    return ChatResponse(
        message=Message(Role.ASSISTANT, parts),
        stop_reason=reason,
        usage=_usage(body.get("usage")),
        model=model if isinstance(model, str) else None,
        raw_stop_reason=raw_reason if isinstance(raw_reason, str) else None,
    )


def _is_call(part: Part) -> bool:
    return isinstance(part, Opaque) and isinstance(part.raw, dict) and part.raw.get("type") == "tool_use"


def part(block: JSON) -> Part:
    """The part that a content block is. A call whose arguments are no object is `Opaque`."""
    if isinstance(block, dict):
        match block:
            case {"type": "text", "text": str(text), "citations": list(citations)}:
                return Text(text, _with_citations(_rest(block, "text", "citations"), citations))
            case {"type": "text", "text": str(text)}:
                return Text(text, _rest(block, "text"))
            case {"type": "thinking", "thinking": str(text)}:
                return Thinking(text, _rest(block, "thinking"))
            case {"type": "tool_use", "id": str(call_id), "name": str(name), "input": dict(arguments)}:
                return ToolCall(call_id, name, arguments, _rest(block, "id", "name", "input"))
            case _:
                pass
    return Opaque("anthropic", block)


def _with_citations(rest: ProviderMetadata, citations: list[JSON]) -> ProviderMetadata:
    """With the citations as the API takes them back: it refuses the `file_id` that it gave, which stays with the caller
    (langchain-ai/langchain#32592; S citation_char_location_param and its like have none)."""
    taken: list[JSON] = [
        {key: value for key, value in each.items() if key != "file_id"} if isinstance(each, dict) else each
        for each in citations
    ]
    own = rest.get("anthropic")
    fields = own if isinstance(own, dict) else {}
    shown: dict[str, JSON] = {} if taken == citations else {RECEIVED: {"citations": citations}}
    return {"anthropic": {**fields, "citations": taken}, **shown}


def _rest(block: dict[str, JSON], *taken: str) -> ProviderMetadata:
    """The fields of a block that have no canonical place, to go back with it."""
    rest: dict[str, JSON] = {key: value for key, value in block.items() if key != "type" and key not in taken}
    return {"anthropic": rest} if rest else {}


def _usage(usage: JSON) -> Usage:
    """anthropic-usage: `input_tokens` of the API leaves out what a cache took part in."""
    if not isinstance(usage, dict):
        return Usage()
    fresh, output = count(usage, "input_tokens"), count(usage, "output_tokens")
    read, written = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    details = usage.get("output_tokens_details")
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count(details, "thinking_tokens") if isinstance(details, dict) else None,
    )


_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The statuses that the API's error types come with."""


def in_stream(event: dict[str, JSON]) -> ProviderError:
    """The error that an event carries. It comes under HTTP 200 (anthropic-stream-error): its type says which status it
    stands for."""
    details = error_details(event)
    message, code = details.get("message"), details.get("type")
    return provider_error(
        _STATUSES.get(code, 500) if isinstance(code, str) else 500,
        message if isinstance(message, str) else compact(event)[:500],
        code=code if isinstance(code, str) else None,
    )


def error_details(body: object) -> dict[str, Any]:
    """The inner object of `{"type": "error", "error": {"type", "message"}}`, or nothing."""
    details = cast("dict[str, object]", body).get("error") if isinstance(body, dict) else None
    return cast("dict[str, Any]", details) if isinstance(details, dict) else {}
