"""Conversion of OpenAI Chat completions and chunks to canonical responses and stream events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from harness.bridge.call_log import log_joined
from harness.bridge.openai_messages import Memory, plain, without_calls
from harness.model.errors import MalformedResponse
from harness.model.messages import (
    JSON,
    SYNTHESISED_ID,
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    Message,
    Part,
    Refusal,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

EMPTY_ARGUMENTS, UNREADABLE_CALLS, INDICES = "empty-arguments", "unreadable-calls", "indices"
NO_STOP_REASON, NO_USAGE, NO_REFUSAL, NO_SETTINGS = "no-stop-reason", "no-usage", "no-refusal", "no-settings"
OWN_COUNTS, EMPTY_COUNTS = "own-counts", "empty-counts"
NO_TRUNCATION, ERRORS_APART, ERROR_FIELD = "no-truncation", "errors-apart", "error-field"
"""Keys of `ChatResponse.reported`.

Their values are the positions of calls with empty arguments, the calls whose arguments are not a JSON object, the
indices of streamed calls, `True` if the library returns no stop reason, no token counts or no refusals, and the names
of the settings that cannot be passed to it. `OWN_COUNTS` is `True` if the token counts are those of a client's own
object, which may count as the API does, and `EMPTY_COUNTS` if its field `usage` is empty. `NO_TRUNCATION` is `True` if
nothing shows whether the answer is truncated. `ERRORS_APART` is `True` if the caller may get an error in another way
than by the answer, such as by an event, and `ERROR_FIELD` if a field of the answer reports one.
"""

_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "end_turn": StopReason.END_TURN,
    "completed": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "max_output_tokens": StopReason.MAX_TOKENS,
    "incomplete": StopReason.MAX_TOKENS,
    "max_messages": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
    "safety": StopReason.REFUSAL,
    "recitation": StopReason.REFUSAL,
    "blocklist": StopReason.REFUSAL,
    "prohibited_content": StopReason.REFUSAL,
    "spii": StopReason.REFUSAL,
    "language": StopReason.REFUSAL,
    "model_armor": StopReason.REFUSAL,
    "escalation": StopReason.REFUSAL,
    "pup_limited_disabled": StopReason.REFUSAL,
    "image_safety": StopReason.REFUSAL,
    "image_prohibited_content": StopReason.REFUSAL,
    "image_recitation": StopReason.REFUSAL,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "pause_turn": StopReason.PAUSE,
    "compaction": StopReason.PAUSE,
    "steered": StopReason.PAUSE,
    "continuation": StopReason.PAUSE,
    "malformed_function_call": StopReason.MALFORMED_CALL,
    "unexpected_tool_call": StopReason.MALFORMED_CALL,
    "too_many_tool_calls": StopReason.MALFORMED_CALL,
    "missing_thought_signature": StopReason.MALFORMED_CALL,
    "malformed_response": StopReason.MALFORMED_CALL,
    "image_other": StopReason.ERROR,
    "no_image": StopReason.ERROR,
    "error": StopReason.ERROR,
}
"""Terms of libraries and providers. Gemini's `OTHER` is missing, because libraries use it for unknown reasons."""


def completion(  # noqa: PLR0913 - the fields of a completion
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
    cache_written: int | None = None,
    reasoned: int | None = None,
) -> dict[str, Any]:
    """Return a completion or chunk of OpenAI Chat, for libraries with another format.

    Each call has `id`, `name` and `args` (the arguments or their text), and in a stream also `index`. The numbers are
    token counts: `read` (including `cached` and `cache_written`) and `written` (including `reasoned`).
    """
    made = [{**call, "function": {"name": call.get("name"), "arguments": call.get("args")}} for call in calls]
    usage = {
        "prompt_tokens": read,
        "completion_tokens": written,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": cache_written},
        "completion_tokens_details": {"reasoning_tokens": reasoned},
    }
    message = {"content": text, "tool_calls": made, "refusal": refusal, "reasoning_content": thinking}
    counted = None if read is None and written is None else usage
    return {"choices": [{"message": message, "finish_reason": reason}], "model": model, "usage": counted}


def response(
    completion: object,
    request: ChatRequest,
    memory: Memory | None = None,
    *,
    own: object = None,
    parsed: bool = False,
) -> ChatResponse:
    """Convert a completion to a response. The completion is an object or a dictionary with `choices`, `usage` and
    `model`.

    Some values of a library have to be replaced. `ChatResponse.reported` records the originals, so that a rule can
    compare them with the wire:

    - A call without an id gets one that is marked as synthesised.
    - A call whose arguments are not a JSON object is left out; empty arguments become `{}`.
    - The last call of a response that reached its token limit is left out if its arguments are empty. With `parsed` it
      is always left out: an API that parses arguments, such as Anthropic's, returns truncated ones as an object.
    - The stop reason `stop` of a response with calls becomes `TOOL_USE`.

    `memory` stores the library's own message without the calls that were left out. That is `own`, or the message of the
    completion by default.

    Raises:
        MalformedResponse: the completion has no message.
    """
    body = plain(completion)
    choice = plain(next(iter(body.get("choices") or ()), None))
    if choice.get("message") is None:
        raise MalformedResponse("the completion has no message")
    message = plain(choice["message"])
    calls = [*map(plain, message.get("tool_calls") or ())]
    raw = choice.get("finish_reason")
    reason = stop_reason(raw)
    read = [_call(each, place, request) for place, each in enumerate(calls)]
    if read and reason is StopReason.MAX_TOKENS and (parsed or _is_empty(calls[-1])):
        read[-1] = None
    made = [call for call in read if call is not None]
    parts: list[Part] = [Thinking(message["reasoning_content"])] if message.get("reasoning_content") else []
    parts += [Text(text)] if (text := _text(message.get("content"))) else []
    parts += [Refusal(message["refusal"])] if message.get("refusal") else []
    answer = Message(Role.ASSISTANT, (*parts, *made))
    if message.get("refusal"):
        reason = StopReason.REFUSAL
    elif made and reason is StopReason.END_TURN:
        reason = StopReason.TOOL_USE
    if len(made) < len(calls) and reason in (StopReason.END_TURN, StopReason.TOOL_USE):
        reason = StopReason.MALFORMED_CALL
    if memory is not None:
        left_out = [each for each, call in zip(calls, read, strict=True) if call is None]
        memory.keep(request, answer, without_calls(choice["message"] if own is None else own, left_out))
    usage = _usage(plain(body.get("usage")))
    return ChatResponse(answer, reason, usage, body.get("model"), raw, _reported_arguments(calls, read))


def _reported_arguments(calls: Sequence[Mapping[str, Any]], read: Sequence[ToolCall | None]) -> dict[str, JSON]:
    texts = [plain(each.get("function")).get("arguments") for each in calls]
    names = [str(plain(each.get("function")).get("name") or "") for each in calls]
    found: dict[str, JSON] = {
        EMPTY_ARGUMENTS: [place for place, call in enumerate(calls) if _is_empty(call)],
        UNREADABLE_CALLS: [
            {"name": name, "arguments": text if isinstance(text, str) else _as_json(text)}
            for name, text, call in zip(names, texts, read, strict=True)
            if call is None
        ],
    }
    return {key: value for key, value in found.items() if value}


def _as_json(arguments: object) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(arguments)


def stop_reason(word: str | None) -> StopReason:
    """Return the stop reason for the term of a library or a provider, in upper or lower case."""
    return _STOP_REASONS.get((word or "").lower(), StopReason.UNKNOWN)


def stop_words(reason: StopReason) -> list[str]:
    """Return the terms for a stop reason, in lower case."""
    return [word for word, known in _STOP_REASONS.items() if known is reason]


def synthesised_id(place: int, request: ChatRequest) -> str:
    """Return an id for a call that has none. It depends only on the position of the call in the conversation."""
    before = sum(len(message.tool_calls) for message in request.messages)
    return f"call-{before + place}"


def is_whole(arguments: object) -> bool:
    """Return whether the arguments are a JSON object."""
    return _arguments(arguments) is not None


def _arguments(given: object) -> dict[str, Any] | None:
    """Parse arguments. Libraries pass them on as text or parsed; empty arguments may be an empty text."""
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError:
            return None
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {} if given is None else None


def _is_empty(call: Mapping[str, Any]) -> bool:
    return plain(call.get("function")).get("arguments") in (None, "")


def _calls(completion: object) -> list[Mapping[str, Any]]:
    choice = plain(next(iter(plain(completion).get("choices") or ()), None))
    return [*map(plain, plain(choice.get("message")).get("tool_calls") or ())]


def _call(call: Mapping[str, Any], place: int, request: ChatRequest) -> ToolCall | None:
    function = plain(call["function"])
    arguments = _arguments(function.get("arguments"))
    if arguments is None or not function.get("name"):
        return None
    if call.get("id"):
        return ToolCall(call["id"], function["name"], arguments)
    return ToolCall(synthesised_id(place, request), function["name"], arguments, {"harness": {SYNTHESISED_ID: True}})


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


# --- chunks ---


Whole = Callable[[list[Any]], object]
"""Joins the chunks of a library into its own response object."""
Read = Callable[[Any], object]
"""Converts a chunk or response object of a library into the format of `completion`."""


def events(  # noqa: PLR0913 - what a library's stream needs
    chunks: Iterable[object],
    request: ChatRequest,
    memory: Memory | None = None,
    *,
    whole: Whole | None = None,
    read: Read | None = None,
    parsed: bool = False,
) -> Iterator[StreamEvent]:
    """Yield the events of a stream, including its `Finish`.

    `whole` joins the chunks, if the library has a function for it. `read` converts chunks and the joined object to
    OpenAI's format; `memory` then stores the joined object. A stream without a stop reason still results in a response,
    because libraries return one to their users. If the connection was cut, a rule reports it. See `response` for
    `parsed`.

    Raises:
        MalformedResponse: there was no chunk.
    """
    made, taken = Chunks(request), list[object]()
    for chunk in chunks:
        taken.append(chunk)
        yield from made.add(read(chunk) if read else chunk)
    answer = whole(taken) if whole else made.completion
    log_joined(answer if whole else None, whole)
    own = answer if read and whole else None
    whole_answer = read(answer) if read and whole else answer
    # a library that itself leaves out the truncated call returns fewer calls than it streamed
    parsed = parsed and len(_calls(whole_answer)) >= made.started_calls
    yield from made.end(response(whole_answer, request, memory, own=own, parsed=parsed))


class Chunks:
    """Collects chunks, for wrappers of asynchronous libraries.

    A new index starts a call, and so does a new id at the same index: some servers number every call 0, others do not
    number calls. All calls end with the stream, because they are not known to be complete before.
    """

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._calls: list[dict[str, Any]] = []
        self._indices: list[JSON] = []
        self._open: dict[object, int] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": ""}
        self._body: dict[str, Any] = {"choices": []}
        self._reason: str | None = None
        self._begun = False

    def add(self, chunk: object) -> Iterator[StreamEvent]:
        """Yield the events of the next chunk."""
        self._begun = True
        fields = plain(chunk)
        for name in ("model", "usage"):
            self._body[name] = fields.get(name) or self._body.get(name)
        for choice in map(plain, fields.get("choices") or []):
            self._reason = choice.get("finish_reason") or self._reason
            delta = plain(choice.get("delta") or choice.get("message"))
            for name, kind in (("reasoning_content", ThinkingDelta), ("content", TextDelta), ("refusal", None)):
                if text := delta.get(name):
                    self._message[name] = self._message.get(name, "") + text
                    yield from [kind(text)] if kind else []
            for piece in map(plain, delta.get("tool_calls") or []):
                yield from self._piece(piece)

    @property
    def completion(self) -> dict[str, Any]:
        """The joined chunks as a completion.

        Raises:
            MalformedResponse: there was no chunk.
        """
        if not self._begun:
            raise MalformedResponse("the library returned a stream without a single chunk")
        message = {**self._message, **({"tool_calls": self._calls} if self._calls else {})}
        return {**self._body, "choices": [{"message": message, "finish_reason": self._reason}]}

    @property
    def started_calls(self) -> int:
        """Number of calls so far."""
        return len(self._calls)

    def check(self) -> None:
        """Do nothing. Kept for older wrappers; a stream without a stop reason is not an error."""

    def end(self, answer: ChatResponse) -> Iterator[StreamEvent]:
        """Yield the events after the last chunk; `answer` is the response of the stream."""
        runnable = {call.id for call in answer.tool_calls}
        for index, call in enumerate(self._calls):
            if self._id(index) in runnable and is_whole(call["function"]["arguments"]):
                yield ToolCallEnd(index)
        numbered = [index for index in self._indices if index is not None]
        if len(set(map(str, numbered))) < len(numbered):
            answer = replace(answer, reported={**answer.reported, INDICES: self._indices})
        yield Finish(answer)

    def _piece(self, piece: Mapping[str, Any]) -> Iterator[StreamEvent]:
        function = plain(piece.get("function"))
        key, call_id, text = piece.get("index"), piece.get("id"), function.get("arguments") or ""
        text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
        at = self._open.get(key)
        if at is None or (call_id and self._calls[at]["id"] not in (None, call_id)):
            at = self._open[key] = len(self._calls)
            begun: dict[str, Any] = {"name": function.get("name") or "", "arguments": ""}
            self._calls.append({"id": call_id or None, "type": "function", "function": begun})
            self._indices.append(key)
            yield ToolCallStart(at, self._id(at), begun["name"])
        if text:
            self._calls[at]["function"]["arguments"] += text
            yield ArgumentsDelta(at, text)

    def _id(self, at: int) -> str:
        """Return the id of a call, or the one that `response` will make for it."""
        return self._calls[at]["id"] or synthesised_id(at, self._request)
