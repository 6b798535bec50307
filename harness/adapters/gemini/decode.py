"""Body of a response → canonical response.

Read from the raw JSON, since the SDK's types drop what they do not know
(`test_parts_become_parts_and_go_back_as_they_came`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from harness.adapters._common import compact, count, retry_after
from harness.contract.errors import MalformedResponse, ProviderError, provider_error
from harness.contract.model import (
    JSON,
    SYNTHESISED_ID,
    ChatResponse,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)

if TYPE_CHECKING:
    from harness.contract.model import ChatRequest

_STOP_REASONS = {
    "STOP": StopReason.END_TURN,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "CONTINUATION": StopReason.PAUSE,
    **dict.fromkeys(("OTHER", "IMAGE_OTHER", "NO_IMAGE"), StopReason.ERROR),
    **dict.fromkeys(
        (
            "SAFETY",
            "RECITATION",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "LANGUAGE",
            "MODEL_ARMOR",
            "ESCALATION",
            "PUP_LIMITED_DISABLED",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
        ),
        StopReason.REFUSAL,
    ),
    **dict.fromkeys(
        (
            "MALFORMED_FUNCTION_CALL",
            "UNEXPECTED_TOOL_CALL",
            "TOO_MANY_TOOL_CALLS",
            "MISSING_THOUGHT_SIGNATURE",
            "MALFORMED_RESPONSE",
        ),
        StopReason.MALFORMED_CALL,
    ),
}

_DATA_FIELDS = frozenset(
    {
        "text",
        "functionCall",
        "functionResponse",
        "inlineData",
        "fileData",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
    }
)
"""Fields of which a part has exactly one (gemini-contents)."""


def answer(body: JSON, request: ChatRequest) -> ChatResponse:
    """The answer that a GenerateContentResponse is.

    Raises:
        MalformedResponse: it is none.
    """
    if not isinstance(body, dict):
        raise MalformedResponse("the body is no object")
    candidates = body.get("candidates")
    candidate = candidates[0] if isinstance(candidates, list) and candidates else None
    parts, raw_reason = (), None
    if isinstance(candidate, dict):
        parts, raw_reason = _parts(candidate, request), candidate.get("finishReason")
    blocked = block_reason(body)
    if raw_reason is None and blocked is not None:
        raw_reason, reason = blocked, StopReason.REFUSAL
    elif isinstance(candidate, dict):
        reason = _stop_reason(raw_reason, parts)
    else:
        raise MalformedResponse("there is neither a candidate nor a reason why the prompt was blocked")
    model = body.get("modelVersion")
    return ChatResponse(
        message=Message(Role.ASSISTANT, parts),
        stop_reason=reason,
        usage=_usage(body.get("usageMetadata")),
        model=model if isinstance(model, str) else None,
        raw_stop_reason=raw_reason if isinstance(raw_reason, str) else None,
    )


def block_reason(body: dict[str, JSON]) -> JSON:
    """Why the prompt, or an answer that has begun, was blocked, if it was (gemini-no-candidates)."""
    feedback = body.get("promptFeedback")
    return feedback.get("blockReason") if isinstance(feedback, dict) else None


def _stop_reason(raw: JSON, parts: tuple[Part, ...]) -> StopReason:
    """STOP stands for the end of a turn and for calls alike (gemini-calls-whole)."""
    if not isinstance(raw, str):
        return StopReason.UNKNOWN
    if raw == "STOP" and any(_is_broken_call(each) for each in parts):
        return StopReason.MALFORMED_CALL
    if raw == "STOP" and any(isinstance(each, ToolCall) for each in parts):
        return StopReason.TOOL_USE
    if raw.startswith("IMAGE_"):
        return StopReason.REFUSAL
    return _STOP_REASONS.get(raw, StopReason.UNKNOWN)


def _is_broken_call(part: Part) -> bool:
    return isinstance(part, Opaque) and isinstance(part.raw, dict) and "functionCall" in part.raw


def _parts(candidate: dict[str, JSON], request: ChatRequest) -> tuple[Part, ...]:
    content = candidate.get("content")
    raw_parts = content.get("parts") if isinstance(content, dict) else None
    ids = FreshIds(request)
    return tuple(part(raw, ids) for raw in raw_parts) if isinstance(raw_parts, list) else ()


def part(raw: JSON, ids: FreshIds) -> Part:
    """The part that a part of the API is; a call without an id takes the next of `ids`."""
    if isinstance(raw, dict) and len(raw.keys() & _DATA_FIELDS) == 1:
        match raw:
            case {"text": str(text), "thought": True}:
                return Thinking(text, _metadata(_rest(raw, "text")))
            case {"text": str(text)}:
                return Text(text, _metadata(_rest(raw, "text")))
            case {"functionCall": dict(call)}:
                return _call(raw, call, ids)
            case {"inlineData": {"mimeType": str(media_type), "data": str(data), **more}}:
                return _inline(raw, media_type, data, more)
            case {"fileData": {"mimeType": str(media_type), "fileUri": str(uri), **more}}:
                kind = Image if media_type.startswith("image/") else File
                return kind(media_type, uri=uri, provider_metadata=_metadata(_rest(raw, "fileData", more)))
            case _:
                pass
    return Opaque("gemini", raw)


def _call(raw: dict[str, JSON], call: dict[str, JSON], ids: FreshIds) -> Part:
    name, arguments, call_id = call.get("name"), call.get("args"), call.get("id")
    if arguments is None:
        arguments = {}
    in_pieces = "partialArgs" in call or "willContinue" in call  # what stands here is not the whole call
    if in_pieces or not isinstance(name, str) or not isinstance(arguments, dict):
        return Opaque("gemini", raw)
    more = {key: value for key, value in call.items() if key not in ("name", "args", "id")}
    metadata = _metadata(_rest(raw, "functionCall", more))
    if isinstance(call_id, str) and call_id:
        return ToolCall(call_id, name, arguments, metadata)
    return ToolCall(ids.next(), name, arguments, {**metadata, "harness": {SYNTHESISED_ID: True}})


def _inline(raw: dict[str, JSON], media_type: str, data: str, more: dict[str, JSON]) -> Part:
    try:
        decoded = base64.b64decode(data, validate=True)
    except ValueError:
        return Opaque("gemini", raw)
    if base64.b64encode(decoded).decode() != data:  # it would not go back as it came
        return Opaque("gemini", raw)
    kind = Image if media_type.startswith("image/") else File
    return kind(media_type, data=decoded, provider_metadata=_metadata(_rest(raw, "inlineData", more)))


def _rest(raw: dict[str, JSON], data_field: str, more: dict[str, JSON] | None = None) -> dict[str, JSON]:
    """The fields of a part that have no canonical place; `more` are those inside its data field."""
    rest = {key: value for key, value in raw.items() if key != data_field}
    return {**rest, data_field: more} if more else rest


def _metadata(fields: dict[str, JSON]) -> dict[str, JSON]:
    return {"gemini": fields} if fields else {}


class FreshIds:
    """Ids for calls without one: the place of the call in the history, unlike any id that the history holds."""

    def __init__(self, request: ChatRequest) -> None:
        self._turn = len(request.messages)
        self._taken = {call.id for message in request.messages for call in message.tool_calls}
        self._made = 0

    def next(self) -> str:
        """An id that no call of the history has, and no earlier one of this answer."""
        made = f"call_{self._turn}_{self._made}"
        self._made += 1
        while made in self._taken:  # a history that was trimmed has the same length twice
            made += "_"
        return made


def _usage(usage: JSON) -> Usage:
    """gemini-usage: what candidates and thoughts take is counted apart."""
    if not isinstance(usage, dict):
        return Usage()
    thoughts = count(usage, "thoughtsTokenCount")
    return Usage(
        input_tokens=_sum(count(usage, "promptTokenCount"), count(usage, "toolUsePromptTokenCount")),
        output_tokens=_sum(count(usage, "candidatesTokenCount"), thoughts),
        cache_read_tokens=count(usage, "cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


# --- errors ---


def in_stream(error: JSON) -> ProviderError:
    """The `error` of a chunk. It comes under HTTP 200: its code is the status that it stands for."""
    details = as_object(error)
    code = details.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return build_error(status, details, compact(error)[:500], {})


def build_error(status: int, details: Mapping[str, Any], text: str, headers: Mapping[str, str]) -> ProviderError:
    """The error that `details` describe; `text` is its message where they have none."""
    message, code = details.get("message"), details.get("status")
    return provider_error(
        status,
        message if isinstance(message, str) else text,
        code=code if isinstance(code, str) else None,
        retry_after=_retry_after(headers, details),
    )


def _retry_after(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    """Seconds to wait: from the header `retry-after`, else from a RetryInfo in the body ("34.5s")."""
    if "retry-after" in headers:
        return retry_after(headers)
    entries = details.get("details")
    for entry in cast("list[object]", entries) if isinstance(entries, list) else []:
        delay = as_object(entry).get("retryDelay")
        if isinstance(delay, str) and re.fullmatch(r"\d+(\.\d+)?s", delay):
            return float(delay[:-1])
    return None


def as_object(value: object) -> Mapping[str, Any]:
    """Return an object, and an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
