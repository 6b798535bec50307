"""An answer as OpenAI Chat has it, as a response of the contract."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from harness.bridge.memory import Memory, plain, without_calls
from harness.contract.errors import MalformedResponse
from harness.contract.model import (
    JSON,
    SYNTHESISED_ID,
    ChatRequest,
    ChatResponse,
    Message,
    Part,
    Refusal,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)

EMPTY_ARGUMENTS, UNREADABLE_CALLS, INDICES = "empty-arguments", "unreadable-calls", "indices"
"""Keys of `ChatResponse.reported`: places of calls with empty arguments, calls that are no JSON, and the indices
that the pieces of streamed calls had."""

_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "end_turn": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
    "safety": StopReason.REFUSAL,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "pause_turn": StopReason.PAUSE,
    "malformed_function_call": StopReason.MALFORMED_CALL,
    "error": StopReason.ERROR,
}


def completion(  # noqa: PLR0913 - what an answer is made of
    text: str = "",
    calls: Iterable[Mapping[str, Any]] = (),
    *,
    reason: str | None = None,
    model: str | None = None,
    refusal: str | None = None,
    thinking: str | None = None,
    read: int | None = None,
    written: int | None = None,
    cached: int | None = None,
    reasoned: int | None = None,
) -> dict[str, Any]:
    """An answer, or a piece of one, in the form that `response` and `events` take, of a library that has another.

    Each of the calls has `id`, `name` and `args`, the arguments or their text, and a piece of a stream its `index`.
    Tokens are those `read`, of which some were `cached`, and those `written`, some of them `reasoned`.
    """
    made = [{**call, "function": {"name": call.get("name"), "arguments": call.get("args")}} for call in calls]
    usage = {
        "prompt_tokens": read,
        "completion_tokens": written,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoned},
    }
    message = {"content": text, "tool_calls": made, "refusal": refusal, "reasoning_content": thinking}
    counted = None if read is None and written is None else usage
    return {"choices": [{"message": message, "finish_reason": reason}], "model": model, "usage": counted}


def response(
    completion: object, request: ChatRequest, memory: Memory | None = None, *, own: object = None
) -> ChatResponse:
    """Return a completion as a response: an object of a library or its dictionary, with `choices`, `usage` and `model`.

    The facts are the library's. Where a value has to be chosen to go on, `ChatResponse.reported` has what the library
    said, and a rule compares it with the wire: calls without an id get one that is marked as made up; a call whose
    arguments are no JSON object is left out; empty arguments become `{}`; an answer with calls that says `stop` ends in
    calls. The library's own message, which is that of the completion unless `own` is given, is kept in `memory`,
    without the calls that were left out.

    Raises:
        MalformedResponse: it has no message.
    """
    body = plain(completion)
    choice = plain(next(iter(body.get("choices") or ()), None))
    if choice.get("message") is None:
        raise MalformedResponse("the answer has no message")
    told = plain(choice["message"])
    calls = [*map(plain, told.get("tool_calls") or ())]
    raw = choice.get("finish_reason")
    reason = stop_reason(raw)
    read = [_call(each, place, request) for place, each in enumerate(calls)]
    made = [call for call in read if call is not None]
    parts: list[Part] = [Thinking(told["reasoning_content"])] if told.get("reasoning_content") else []
    parts += [Text(text)] if (text := _text(told.get("content"))) else []
    parts += [Refusal(told["refusal"])] if told.get("refusal") else []
    message = Message(Role.ASSISTANT, (*parts, *made))
    if told.get("refusal"):
        reason = StopReason.REFUSAL
    elif made and reason is StopReason.END_TURN:
        reason = StopReason.TOOL_USE
    if len(made) < len(calls) and reason in (StopReason.END_TURN, StopReason.TOOL_USE):
        reason = StopReason.MALFORMED_CALL
    if memory is not None:
        left_out = [each for each, call in zip(calls, read, strict=True) if call is None]
        memory.keep(request, message, without_calls(choice["message"] if own is None else own, left_out))
    usage = _usage(plain(body.get("usage")))
    return ChatResponse(message, reason, usage, body.get("model"), raw, _reported(calls, read))


def _reported(calls: Sequence[Mapping[str, Any]], read: Sequence[ToolCall | None]) -> dict[str, JSON]:
    """What the library said of calls, where the response has other values."""
    texts = [plain(each.get("function")).get("arguments") for each in calls]
    names = [str(plain(each.get("function")).get("name") or "") for each in calls]
    found: dict[str, JSON] = {
        EMPTY_ARGUMENTS: [place for place, text in enumerate(texts) if text is None or text == ""],
        UNREADABLE_CALLS: [
            {"name": name, "arguments": text if isinstance(text, str) else repr(text)}
            for name, text, call in zip(names, texts, read, strict=True)
            if call is None
        ],
    }
    return {key: value for key, value in found.items() if value}


def stop_reason(word: str | None) -> StopReason:
    """What a library's or a provider's word for it means, in whatever case."""
    return _STOP_REASONS.get((word or "").lower(), StopReason.UNKNOWN)


def made_up(place: int, request: ChatRequest) -> str:
    """The id of a call that has none, by its place in the conversation: it is the same whenever it is asked for."""
    before = sum(len(message.tool_calls) for message in request.messages)
    return f"call-{before + place}"


def is_whole(arguments: object) -> bool:
    """Whether these are the arguments of a call that may be run."""
    return _arguments(arguments) is not None


def _arguments(given: object) -> dict[str, Any] | None:
    """Libraries hand on arguments as text or parsed, and none at all as an empty text."""
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError:
            return None
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {} if given is None else None


def _call(call: Mapping[str, Any], place: int, request: ChatRequest) -> ToolCall | None:
    function = plain(call["function"])
    arguments = _arguments(function.get("arguments"))
    if arguments is None or not function.get("name"):
        return None
    if call.get("id"):
        return ToolCall(call["id"], function["name"], arguments)
    return ToolCall(made_up(place, request), function["name"], arguments, {"harness": {SYNTHESISED_ID: True}})


def _text(content: Any) -> str:
    if isinstance(content, list):
        pieces = [plain(piece) for piece in cast("list[object]", content)]
        return "".join(piece["text"] for piece in pieces if piece.get("type") == "text")
    return content or ""


def _usage(used: Mapping[str, Any]) -> Usage:
    read, thought = plain(used.get("prompt_tokens_details")), plain(used.get("completion_tokens_details"))
    return Usage(
        used.get("prompt_tokens"),
        used.get("completion_tokens"),
        read.get("cached_tokens"),
        read.get("cache_write_tokens", read.get("cache_creation_tokens")),
        thought.get("reasoning_tokens"),
    )
