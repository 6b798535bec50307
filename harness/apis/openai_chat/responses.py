"""Answers of Chat Completions → neutral views, by the dialect that a server speaks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from harness.apis.eventstream import is_event_stream
from harness.apis.failure import error_view
from harness.apis.jsonvalue import body_of, loads, resolve
from harness.apis.openai_chat.failures import read_error
from harness.apis.openai_chat.limits import MISTRAL
from harness.apis.openai_chat.requests.parts import assistant_views
from harness.apis.openai_chat.streams import fold
from harness.apis.profile import Profile
from harness.apis.view import CallView, ErrorView, OpaqueView, PartView, ResponseView, WireError
from harness.contract.http import HttpResponse
from harness.contract.model import JSON, StopReason, Usage


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to speak. As it stands it is OpenAI's.

    `ids`: calls have theirs, a short one, an empty one, or none. `repeats`: id, type and name are in every piece of a
    call. `later`: what later pieces have in their place: nothing, empty strings, or a new id and an empty name.
    `whole`: a call is one piece, with all its arguments. `opens_with_arguments`: the piece that opens a call has the
    first of its arguments, which are empty there otherwise. `first_index`: where the calls of a stream are counted
    from; `None`: they have no index. `one_index`: all calls of an answer have the first. `no_arguments`: how a call
    without arguments says so. `usage`: a stream counts its tokens in a chunk of its own if asked, in every chunk as far
    as they are known, or never. `comments`: the stream is kept alive by comments.
    """

    ids: Literal["issued", "short", "empty", "absent"] = "issued"
    repeats: bool = False
    later: Literal["arguments", "blanks", "new-ids"] = "arguments"
    whole: bool = False
    opens_with_arguments: bool = False
    first_index: int | None = 0
    one_index: bool = False
    no_arguments: str = "{}"
    usage: Literal["asked", "early", "never"] = "asked"
    comments: bool = False


OPENAI = Dialect()

DIALECTS: Mapping[str, Dialect] = {
    "empty-ids": Dialect(ids="empty"),  # Gemini's compatible endpoint
    "no-ids": Dialect(ids="absent"),
    "repeated-ids": Dialect(repeats=True),  # openai-chat-call-deltas, seen at OpenRouter
    "whole-calls": Dialect(whole=True),  # openai-chat-call-deltas, seen at Mistral, Groq and Ollama
    "index-from-one": Dialect(first_index=1),  # openai-chat-call-deltas
    "no-index": Dialect(first_index=None),  # openai-chat-call-deltas
    "one-index": Dialect(one_index=True),  # openai-chat-id-per-delta, seen at vLLM and SGLang
    "empty-strings": Dialect(later="blanks"),  # openai-chat-id-per-delta, seen at vLLM
    "id-per-piece": Dialect(later="new-ids"),  # openai-chat-id-per-delta, seen at vLLM
    "arguments-in-opening-piece": Dialect(opens_with_arguments=True),  # openai-chat-call-deltas
    "empty-arguments": Dialect(no_arguments=""),  # openai-chat-no-arguments, seen at Databricks
    "early-usage": Dialect(usage="early"),  # seen at Databricks
    MISTRAL: Dialect(ids="short", whole=True, usage="early"),  # nine characters; usage in the last chunk
    "no-usage": Dialect(usage="never"),
    "comments": Dialect(comments=True),  # seen at OpenRouter
}


def dialect_of(profile: Profile) -> Dialect:
    """The dialect that a profile names."""
    return OPENAI if profile.dialect is None else DIALECTS[profile.dialect]


def call_as(dialect: Dialect, call: JSON) -> JSON:
    """A tool call as the dialect has it."""
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
"""Fields of a message: OpenRouter's guide to reasoning tokens; Copilot (anomalyco/opencode#8900); LiteLLM's page on
reasoning content; Gemini's compatible endpoint (openai-chat-gemini-signature)."""

_STATE_OF_CALL = frozenset({"extra_content", "provider_specific_fields"})
"""Fields of a call: openai-chat-gemini-signature; LiteLLM's notes on Gemini 3."""

_WANTS_REASONING = re.compile(r"(.*/)?deepseek-v4\b.*", re.IGNORECASE)
"""Models that refuse a turn with calls whose `reasoning_content` did not come back
(openai-chat-deepseek-reasoning-back)."""


def marked(parts: Iterable[PartView], model: str) -> tuple[PartView, ...]:
    """The parts of an answer of this model, each saying whether it goes back."""
    found = tuple(parts)
    state = _STATE
    if _WANTS_REASONING.fullmatch(model) and any(isinstance(part, CallView) for part in found):
        state |= {"reasoning_content"}
    return tuple(_marked(part, state) for part in found)


def _marked(part: PartView, state: frozenset[str]) -> PartView:
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
"""openai-chat-stop-reasons. A word that is not here is unknown."""


def read(response: HttpResponse) -> ResponseView:
    """The neutral view of a response, its first choice read, a stream folded.

    An error is read wherever it stands: in the status, in a body with status 200, or in the middle of a stream.

    Raises:
        WireError: the body is no answer of this API and no error.
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
    whole = body if isinstance(body, dict) else {}
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
    parts = marked(parts, model if isinstance(model, str) else "")
    if word == "length":
        parts = _cut_short(parts, body)
    raw = word if isinstance(word, str) else None
    return ResponseView(
        api="openai-chat",
        parts=parts,
        stop_reason=StopReason.ERROR if error else _stop_reason(raw, parts),
        raw_stop_reason=raw,
        usage=_usage(body.get("usage")),
        model=model if isinstance(model, str) else None,
        body=body,
        streamed=streamed,
        complete=complete,
        error=error,
    )


def _choice(body: dict[str, JSON]) -> dict[str, JSON]:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _cut_short(parts: tuple[PartView, ...], body: dict[str, JSON]) -> tuple[PartView, ...]:
    """The parts of an answer that reached its bound. Arguments that end early are no JSON; if none had come yet, the
    last call looks like one without arguments (openai-chat-no-arguments), and is none."""
    last = next((part for part in reversed(parts) if isinstance(part, CallView)), None)
    if last is None or last.arguments != {} or resolve(body, last.arguments_pointer) == "{}":
        return parts
    return tuple(replace(part, arguments=None, malformed="") if part is last else part for part in parts)


def _is_malformed(part: PartView) -> bool:
    """Whether a part is a call of a function whose arguments are no object. A custom tool takes any text."""
    if not isinstance(part, CallView) or "/custom" in part.arguments_pointer:
        return False
    return not isinstance(part.arguments, dict)


def _stop_reason(raw: str | None, parts: tuple[PartView, ...]) -> StopReason:
    """A forced call ends with `stop` all the same, and a refusal in the message does too. The API has no
    word for a call whose arguments are none (openai-chat-message-answer)."""
    if raw in ("stop", "tool_calls", "function_call") and any(map(_is_malformed, parts)):
        return StopReason.MALFORMED_CALL
    if raw == "stop" and any(isinstance(part, CallView) for part in parts):
        return StopReason.TOOL_USE
    if raw == "stop" and any(isinstance(part, OpaqueView) and part.kind == "refusal" for part in parts):
        return StopReason.REFUSAL
    return _STOPS.get(raw or "", StopReason.UNKNOWN)


def _usage(usage: JSON) -> Usage:
    """openai-chat-usage: prompt tokens include what was cached, completion tokens include reasoning."""
    if not isinstance(usage, dict):
        return Usage()
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return Usage(
        input_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        cache_read_tokens=_count(prompt, "cached_tokens"),
        cache_write_tokens=_count(prompt, "cache_write_tokens"),
        reasoning_tokens=_count(completion, "reasoning_tokens"),
    )


def _count(counts: JSON, key: str) -> int | None:
    value = counts.get(key) if isinstance(counts, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
