"""Conversion of responses to neutral views, dialects of compatible servers, and rules for the responses of servers.

The chunks of a stream are first folded into the body of a non-streamed response (openai-chat-call-deltas,
openai-chat-stream-usage).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from harness.apis.eventstream import events_of, is_event_stream
from harness.apis.jsonvalue import as_list, as_object, body_of, is_blank, join, loads, resolve, string
from harness.apis.openai_chat.requests import assistant_views
from harness.apis.openai_common import meant_status, read_usage
from harness.apis.profiles import Profile, servers_of
from harness.apis.response_checks import EventGrammar, EventOrder, ReceivedEvent, ResponseChecks
from harness.apis.response_rules import CALL_ID, FIELDS, INDEX, ResponseViolation
from harness.apis.server import error_view
from harness.apis.view import CallView, ErrorView, OpaqueView, PartView, ResponseView, WireError
from harness.model.http import HttpResponse
from harness.model.messages import JSON, StopReason

WHOLE = frozenset({"role", "type", "id", "name", "format", "channel", "signature"})
"""String fields that are sent complete and may be repeated. All other strings are sent in pieces."""

_IGNORED_CHUNK_FIELDS = frozenset({"choices", "object", "obfuscation", "p", "error"})
"""Fields of a chunk that a non-streamed body does not have, or that are handled separately."""


@dataclass(slots=True)
class _Choice:
    """A choice under construction. `calls` has its tool calls, each with the index that its pieces use."""

    message: dict[str, JSON] = field(default_factory=lambda: {"role": "assistant", "content": None})
    calls: list[tuple[JSON, dict[str, JSON]]] = field(default_factory=list[tuple[JSON, dict[str, JSON]]])
    rest: dict[str, JSON] = field(default_factory=lambda: {"finish_reason": None})

    def body(self, index: int) -> dict[str, JSON]:
        """Return the choice as in a non-streamed body."""
        calls: list[JSON] = [call for _, call in self.calls]
        message = dict(self.message)
        if calls:
            message["tool_calls"] = calls
        body: dict[str, JSON] = {"index": index, "message": message}
        return body | self.rest


def fold(stream: bytes) -> tuple[dict[str, JSON], bool]:
    """Return the folded body, and whether the stream is complete. An error is stored in `error`.

    A stream is complete after `[DONE]`, which some compatible servers omit, or once every choice has a finish reason.

    Raises:
        WireError: the body is not an event stream, or an event is not a chunk.
    """
    whole: dict[str, JSON] = {"object": "chat.completion"}
    choices: dict[int, _Choice] = {}
    complete = False
    for event in events_of(stream):
        if event.data.strip() == "[DONE]":
            complete = True
            break
        chunk = loads(event.data)
        if not isinstance(chunk, dict):
            raise WireError("an event of the stream is not a chunk")
        if event.name == "error" or chunk.get("object") == "error":
            whole["error"] = chunk.get("error", chunk)
            continue
        _take(whole, choices, chunk)
    whole["choices"] = [choices[index].body(index) for index in sorted(choices)]
    finished = all(choice.rest["finish_reason"] for choice in choices.values())
    return whole, complete or (finished and bool(choices))


def _take(whole: dict[str, JSON], choices: dict[int, _Choice], chunk: dict[str, JSON]) -> None:
    for key, value in chunk.items():
        if key == "usage" and isinstance(value, dict):
            counted = {name: number for name, number in value.items() if number is not None}
            whole["usage"] = as_object(whole.get("usage")) | counted  # absent counts keep their value
        elif key not in _IGNORED_CHUNK_FIELDS and (value is not None or key not in whole):
            whole[key] = value
    if chunk.get("error") is not None:
        whole["error"] = chunk["error"]
    for piece in as_list(chunk.get("choices")):
        if isinstance(piece, dict):
            index = piece.get("index")
            _extend_choice(choices.setdefault(index if isinstance(index, int) else 0, _Choice()), piece)


def _extend_choice(choice: _Choice, piece: dict[str, JSON]) -> None:
    for key, value in piece.items():
        if key == "logprobs":  # each chunk has only the values of its own tokens
            choice.rest[key] = _extend_field(key, choice.rest.get(key), value)
        elif key not in ("index", "delta") and (value is not None or key not in choice.rest):
            choice.rest[key] = value
    delta = piece.get("delta")
    for key, value in delta.items() if isinstance(delta, dict) else ():
        if key == "tool_calls":
            for call in as_list(value):
                if isinstance(call, dict):
                    _extend_call(choice.calls, call)
        else:
            choice.message[key] = _extend_field(key, choice.message.get(key), value)


def _extend_call(calls: list[tuple[JSON, dict[str, JSON]]], piece: dict[str, JSON]) -> None:
    """Add a piece to its call: the last call with the same index, unless the piece starts a new call.

    A piece without an index belongs to the last call. Some servers send every call with index 0 and a new id. Others
    send a new id with each piece (openai-chat-id-per-delta). Therefore only a piece with a function name starts a new
    call. A call keeps its first id.
    """
    index, call_id = piece.get("index"), piece.get("id")
    near = [i for i in reversed(range(len(calls))) if index is None or calls[i][0] == index]
    fresh: dict[str, JSON] = {key: value for key, value in piece.items() if key != "index"}
    known = calls[near[0]][1].get("id") if near else None
    if call_id and known and call_id != known:
        same = [i for i in near if calls[i][1].get("id") == call_id]
        if same or _names_function(piece):
            near = same
        else:
            fresh["id"] = known
    if near:
        merged = _extend_field("", calls[near[0]][1], fresh)
        calls[near[0]] = (calls[near[0]][0], merged if isinstance(merged, dict) else fresh)
    else:
        calls.append((index, _with_arguments(fresh)))


def _names_function(piece: dict[str, JSON]) -> bool:
    """Return whether a piece names a function, or belongs to a tool of another kind."""
    function = piece.get("function")
    return "custom" in piece or (isinstance(function, dict) and bool(function.get("name")))


def _with_arguments(call: dict[str, JSON]) -> dict[str, JSON]:
    """Return the first piece of a call. Missing arguments become an empty string, to which later pieces can be
    appended.
    """
    function = call.get("function")
    if isinstance(function, dict) and function.get("arguments") is None:
        called = dict(function)
        called["arguments"] = ""
        return {**call, "function": called}
    return call


def _extend_field(key: str, old: JSON, new: JSON) -> JSON:
    """Return the value of a message field extended by its next piece."""
    if new is None or old is None:
        return old if new is None else new
    if isinstance(old, str) and isinstance(new, str):
        return (new or old) if key in WHOLE else old + new
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {name: _extend_field(name, old.get(name), value) for name, value in new.items()}
    if isinstance(old, list) and isinstance(new, list):
        return _details(old, new) if key == "reasoning_details" else [*old, *new]
    if key == "content" and isinstance(new, list):  # text first, then parts (Mistral)
        return [*([{"type": "text", "text": old}] if old else []), *new]
    if key == "content" and isinstance(old, list) and isinstance(new, str):
        return [*old, {"type": "text", "text": new}] if new else old
    return new


_GROWING = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Maps reasoning block types to the field that is sent in pieces."""


def _details(old: list[JSON], new: list[JSON]) -> list[JSON]:
    """Return the blocks of `reasoning_details` extended by further deltas (OpenRouter's guide to reasoning tokens).

    Text and summaries are sent in pieces; encrypted data is not. All blocks may have the same index. A different type
    (OpenRouterTeam/ai-sdk-provider#519, #520), a different id or a signature therefore also ends a block. A delta
    without an index is a complete block.
    """
    blocks = list(old)
    for delta in new:
        at = _open_block(blocks, delta)
        block = None if at is None else blocks[at]
        if at is None or not isinstance(block, dict) or not isinstance(delta, dict):
            blocks.append(delta)
            continue
        merged = dict(block)
        for key, value in delta.items():
            before = merged.get(key)
            if key == _GROWING.get(str(merged["type"])) and isinstance(before, str) and isinstance(value, str):
                merged[key] = before + value
            elif value or key not in merged:
                merged[key] = value
        blocks[at] = merged
    return blocks


def _open_block(blocks: list[JSON], delta: JSON) -> int | None:
    """Return the position of the block that a delta extends."""
    if not isinstance(delta, dict) or delta.get("index") is None:
        return None
    growing = _GROWING.get(str(delta.get("type")))
    if growing is None:
        return None
    for at in reversed(range(len(blocks))):
        block = blocks[at]
        if not isinstance(block, dict) or block.get("index") != delta["index"]:
            continue
        has_other_id = block.get("id") and delta.get("id") and block["id"] != delta["id"]
        signed = block.get("signature") and delta.get(growing)
        return None if block.get("type") != delta["type"] or has_other_id or signed else at
    return None


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """A dialect of compatible servers. The defaults are OpenAI's behaviour.

    - `ids`: call ids are issued as usual, short, empty, or absent.
    - `repeats`: every piece of a call repeats its id, type and name.
    - `later`: content of the pieces after the first. `arguments`: only arguments; `blanks`: also an empty id and name;
      `new-ids`: also a new id and an empty name.
    - `whole`: a call is sent as one piece.
    - `opens_with_arguments`: the first piece of a call already has arguments instead of an empty string.
    - `first_index`: index of the first call; `None` if calls have no index.
    - `one_index`: all calls have the index of the first.
    - `no_arguments`: arguments string of a call without arguments.
    - `usage`: position of the token counts in a stream. `asked`: in a separate chunk, on request; `asked-last`: in the
      last chunk, on request; `last`: always in the last chunk; `early`: in every chunk; `never`: nowhere.
    - `reasoning`: message field with the model's reasoning, if the server sends it.
    - `comments`: the server sends comments to keep the stream alive.
    - `fields`: additional fields of a response, by place: `body`, `choice`, `message` or `usage`. A stream also has the
      places `chunk` (every chunk), `delta` (every delta) and `last` (the last chunk with a choice).
    - `indexed`: calls have an index in non-streamed responses, too.
    - `without`: fields that the server omits, as `place.name`. Fields of a message are omitted only if they are empty.
    - `errors`: the error is an object (`object`) or a string (`text`) under the key `error`, or it is the body itself
      (`flat`).
    - `error_events`: an error inside a stream is an event named `error`, and has its HTTP status in `status_code`.
    - `error_fields`: additional or changed fields of an error. The value `{status}` is replaced by the HTTP status, and
      `{absent}` removes the field.
    """

    ids: Literal["issued", "short", "empty", "absent"] = "issued"
    repeats: bool = False
    later: Literal["arguments", "blanks", "new-ids"] = "arguments"
    whole: bool = False
    opens_with_arguments: bool = False
    first_index: int | None = 0
    one_index: bool = False
    no_arguments: str = "{}"
    usage: Literal["asked", "asked-last", "last", "early", "never"] = "asked"
    reasoning: Literal["", "reasoning", "reasoning_content", "reasoning_details"] = ""
    comments: bool = False
    fields: Mapping[str, Mapping[str, JSON]] = field(default_factory=dict[str, Mapping[str, JSON]])
    indexed: bool = False
    without: Sequence[str] = ()
    errors: Literal["object", "text", "flat"] = "object"
    error_events: bool = False
    error_fields: Mapping[str, JSON] = field(default_factory=dict[str, JSON])


OPENAI = ChatDialect()

DIALECTS: Mapping[str, ChatDialect] = {
    "empty-ids": ChatDialect(ids="empty"),  # Gemini's compatible endpoint
    "no-ids": ChatDialect(ids="absent"),
    "repeated-ids": ChatDialect(repeats=True),  # openai-chat-call-deltas, observed with OpenRouter
    "whole-calls": ChatDialect(whole=True),  # openai-chat-call-deltas, observed with Mistral, Groq and Ollama
    "index-from-one": ChatDialect(first_index=1),  # openai-chat-call-deltas
    "no-index": ChatDialect(first_index=None),  # openai-chat-call-deltas
    "one-index": ChatDialect(one_index=True),  # openai-chat-id-per-delta, observed with vLLM and SGLang
    "empty-strings": ChatDialect(later="blanks"),  # openai-chat-id-per-delta, observed with vLLM
    "id-per-piece": ChatDialect(later="new-ids"),  # openai-chat-id-per-delta, observed with vLLM
    "arguments-in-opening-piece": ChatDialect(opens_with_arguments=True),  # openai-chat-call-deltas
    "empty-arguments": ChatDialect(no_arguments=""),  # openai-chat-no-arguments, observed with Databricks
    "early-usage": ChatDialect(usage="early"),  # observed with Databricks
    "no-usage": ChatDialect(usage="never"),
    "comments": ChatDialect(comments=True),  # observed with OpenRouter
    **{server.service: ChatDialect(**server.dialect) for server in servers_of("openai-chat")},
}


def dialect_of(profile: Profile) -> ChatDialect:
    """Return the dialect of a profile."""
    return OPENAI if profile.dialect is None else DIALECTS[profile.dialect]


def call_as(dialect: ChatDialect, call: JSON) -> JSON:
    """Convert a tool call to the dialect."""
    if not isinstance(call, dict):
        return call
    spoken = dict(call)
    if dialect.ids == "short":
        spoken["id"] = str(call.get("id")).removeprefix("call_")[:9]
    elif dialect.ids == "empty":
        spoken["id"] = ""
    elif dialect.ids == "absent":
        spoken.pop("id", None)
    function = call.get("function")
    if isinstance(function, dict) and function.get("arguments") == "{}":
        spoken["function"] = {**function, "arguments": dialect.no_arguments}
    return spoken


_STATE = frozenset({"reasoning_details", "reasoning_opaque", "thinking_blocks", "extra_content"})
"""Message fields whose state must be sent back. Sources: OpenRouter's guide to reasoning tokens; Copilot
(anomalyco/opencode#8900); LiteLLM's page on reasoning content; Gemini's compatible endpoint
(openai-chat-gemini-signature).
"""

_STATE_OF_CALL = frozenset({"extra_content", "provider_specific_fields"})
"""Call fields whose state must be sent back. Sources: openai-chat-gemini-signature; LiteLLM's notes on Gemini 3."""

_WANTS_REASONING = re.compile(r"(.*/)?deepseek-v4\b.*", re.IGNORECASE)
"""Models that reject a turn with calls but without `reasoning_content` (openai-chat-deepseek-reasoning-back)."""


def mark_parts(parts: Iterable[PartView], model: str) -> tuple[PartView, ...]:
    """Set `returns` on the parts of a response: whether the client may send them back in later requests. Of a call's
    additional fields, keep only the state that the client must send back.
    """
    found = tuple(parts)
    state = _STATE
    if _WANTS_REASONING.fullmatch(model) and any(isinstance(part, CallView) for part in found):
        state |= {"reasoning_content"}
    return tuple(_mark(part, state) for part in found)


def _mark(part: PartView, state: frozenset[str]) -> PartView:
    match part:
        case OpaqueView():
            is_field = part.pointer.endswith(f"/message/{part.kind}")
            return replace(part, returns=part.kind in state) if is_field else part
        case CallView(opaque=dict(fields)):
            kept = {key: value for key, value in fields.items() if key in _STATE_OF_CALL}
            return replace(part, opaque=kept or None)
        case _:
            return part


_STOPS = {
    "stop": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}
"""Maps finish reasons to canonical stop reasons (openai-chat-stop-reasons)."""


def read(response: HttpResponse) -> ResponseView:
    """Return the neutral view of a response: its first choice. A stream is folded first.

    Errors are detected by status, in a body with status 200, and inside a stream.

    Raises:
        WireError: the body is neither a response of this API nor an error.
    """
    if is_event_stream(response.headers.get("content-type", ""), response.body):
        body, complete = fold(response.body)
        return _view(body, read_error(body, _choice(body), response), streamed=True, complete=complete)
    try:
        body = body_of(response) if response.status < 400 else loads(response.body)
    except WireError:
        if response.status < 400:
            raise
        text = response.body.decode("utf-8", errors="replace")
        return _view({}, error_view(response, text), streamed=False, complete=True)
    whole = as_object(body)
    error = read_error(whole, _choice(whole), response)
    if error is None and not isinstance(whole.get("choices"), list):
        raise WireError("a body without choices", "/choices")
    return _view(whole, error, streamed=False, complete=True)


def _view(body: dict[str, JSON], error: ErrorView | None, *, streamed: bool, complete: bool) -> ResponseView:
    choice = _choice(body)
    message = choice.get("message")
    parts: tuple[PartView, ...] = ()
    if isinstance(message, dict):
        parts = tuple(assistant_views(message, "/choices/0/message"))
    word, model = choice.get("finish_reason"), body.get("model")
    parts = mark_parts(parts, model if isinstance(model, str) else "")
    if word == "length":
        parts = _cut_short(parts, body)
    raw = string(word)
    return ResponseView(
        api="openai-chat",
        parts=parts,
        stop_reason=StopReason.ERROR if error else _stop_reason(raw, parts),
        raw_stop_reason=raw,
        usage=read_usage(body.get("usage"), "prompt_tokens", "completion_tokens"),
        model=string(model),
        body=body,
        streamed=streamed,
        complete=complete,
        error=error,
    )


def _choice(body: dict[str, JSON]) -> dict[str, JSON]:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return as_object(first)


def _cut_short(parts: tuple[PartView, ...], body: dict[str, JSON]) -> tuple[PartView, ...]:
    """Mark the last call of a truncated response as malformed.

    Truncated arguments are not JSON. If no arguments have been sent yet, the call looks like one without arguments
    (openai-chat-no-arguments).
    """
    last = next((part for part in reversed(parts) if isinstance(part, CallView)), None)
    if last is None or last.arguments != {} or resolve(body, last.arguments_pointer) == "{}":
        return parts
    return tuple(replace(part, arguments=None, malformed="") if part is last else part for part in parts)


def _is_malformed(part: PartView) -> bool:
    """Return whether a part is a function call whose arguments are not an object. A custom tool accepts any text."""
    if not isinstance(part, CallView) or part.free_form:
        return False
    return not isinstance(part.arguments, dict)


def _stop_reason(raw: str | None, parts: tuple[PartView, ...]) -> StopReason:
    """Return the stop reason.

    A forced call and a refusal in the message may also end with `stop`. The API has no finish reason for malformed
    arguments (openai-chat-message-answer).
    """
    if raw in ("stop", "tool_calls", "function_call") and any(map(_is_malformed, parts)):
        return StopReason.MALFORMED_CALL
    if raw == "stop" and any(isinstance(part, CallView) for part in parts):
        return StopReason.TOOL_USE
    if raw == "stop" and any(isinstance(part, OpaqueView) and part.kind == "refusal" for part in parts):
        return StopReason.REFUSAL
    return _STOPS.get(raw or "", StopReason.UNKNOWN)


_DELTA = "/choices/0/delta"


class _ChatChunkOrder(EventOrder):
    grammar = EventGrammar(
        sentinel="end",
        # The documentation also guarantees one creation time. Some servers send each chunk's time, which is harmless.
        stable=("id", "model"),
        finish="/choices/0/finish_reason",
        content=(f"{_DELTA}/content", f"{_DELTA}/tool_calls", f"{_DELTA}/refusal"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._has_role = False
        self._calls: list[dict[str, Any]] = []

    def check(self, event: ReceivedEvent) -> Iterator[ResponseViolation]:
        data = event.data or {}
        at = event.index
        delta = resolve(data, _DELTA)
        if not isinstance(delta, dict):
            return
        if not self._has_role and delta.get("role") != "assistant":
            message = "the first delta does not have the role `assistant`"
            yield FIELDS.make_violation(message, f"{_DELTA}/role", at, delta.get("role"), "assistant")
        self._has_role = True
        for number, piece in enumerate(as_list(delta.get("tool_calls"))):
            if isinstance(piece, dict):
                yield from self._piece(piece, join(f"{_DELTA}/tool_calls", number), at)

    def _piece(self, piece: dict[str, JSON], pointer: str, at: int) -> Iterator[ResponseViolation]:
        """Check one piece of a call. Only its index tells which call it belongs to."""
        calls, given, call_id = self._calls, piece.get("index"), piece.get("id")
        name = resolve(piece, "/function/name")
        index = given if isinstance(given, int) else len(calls) if call_id else max(len(calls) - 1, 0)
        known = next((call for call in reversed(calls) if call["index"] == index), None)
        if known is None:
            if index != len(calls):
                message = f"call {len(calls) + 1} of the answer has another index than {len(calls)}"
                yield INDEX.make_violation(message, f"{pointer}/index", at, index, len(calls))
            if not call_id:
                yield CALL_ID.make_violation("the first piece of a call has no id", f"{pointer}/id", at, call_id)
        elif call_id and call_id != known["id"] and name:
            message = "two calls have one index: clients put their arguments together into one call"
            yield INDEX.make_violation(message, f"{pointer}/index", at, given)
            known = None
        elif call_id and call_id != known["id"]:
            message = "the id of a call changes from one piece to the next"
            yield CALL_ID.make_violation(message, f"{pointer}/id", at, call_id, known["id"])
        elif index == given:
            # Only the first piece may have them: OpenAI's SDK concatenates all strings of a call
            # (`openai/lib/streaming/_deltas.py` of 3.54.0).
            for rule, key, place, value in ((CALL_ID, "id", "id", call_id), (FIELDS, "name", "function/name", name)):
                if value:
                    message = f"a later piece of a call has its {key} again: clients put the two together"
                    yield rule.make_violation(message, f"{pointer}/{place}", at, value)
        if known is None:
            calls.append({"index": index, "id": call_id})


check_response = ResponseChecks(
    file=Path(__file__).with_suffix(".yaml"),
    read=read,
    order=_ChatChunkOrder,
    arguments=("function", "arguments"),
    is_text=True,
    stop=("/choices/0/finish_reason", frozenset({"stop", "function_call"}), "tool_calls"),
    total="total_tokens",
    parts=("prompt_tokens", "completion_tokens"),
    counts_on_request=True,
)


def read_error(body: dict[str, JSON], choice: dict[str, JSON], response: HttpResponse) -> ErrorView | None:
    """Return the error of a body, in OpenAI's format or a compatible server's. `choice` is the body's first choice."""
    error = body.get("error")
    if is_blank(error):  # OpenRouter reports an error of the model's host in the choice
        error = choice.get("error")
    if not is_blank(error):
        return _error_view(error if isinstance(error, dict) else {"message": error}, response)
    if response.status >= 400 or body.get("object") == "error":  # Mistral and similar servers do not wrap the error
        return _error_view(body, response)
    return None


def _error_view(error: dict[str, JSON], response: HttpResponse) -> ErrorView:
    message = error.get("message", error.get("detail"))
    code = next((error[key] for key in ("code", "type") if not is_blank(error.get(key))), None)
    return error_view(
        response,
        message if isinstance(message, str) else str(message or error),
        str(code) if isinstance(code, str | int) else None,
        stands_for=meant_status(error),
    )
