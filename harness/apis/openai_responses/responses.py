"""Answers of the Responses API → neutral views, by the dialect that a server speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.apis.eventstream import is_event_stream
from harness.apis.jsonvalue import body_of, join, loads
from harness.apis.openai_responses.failures import read_error
from harness.apis.openai_responses.requests.items import NAME, item_kind, item_parts, string
from harness.apis.openai_responses.streams import fold
from harness.apis.profile import Profile
from harness.apis.view import CallView, OpaqueView, PartView, ResponseView, WireError
from harness.contract.http import HttpResponse
from harness.contract.model import JSON, StopReason, Usage


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to speak. As it stands it is OpenAI's.

    `unique_ids`: call ids are issued once, or else count from `call_0` in every response. `numbered`: events have a
    `sequence_number`. `repeats`: the last event of a stream repeats the items. `sentinel`: behind it comes `[DONE]`.
    """

    unique_ids: bool = True
    numbered: bool = True
    repeats: bool = True
    sentinel: bool = False


OPENAI = Dialect()

DIALECTS: Mapping[str, Dialect] = {
    "reused-ids": Dialect(unique_ids=False),
    "no-numbers": Dialect(numbered=False),  # seen in recorded traffic
    "bare-end": Dialect(repeats=False),
    "sentinel": Dialect(sentinel=True),
}


def dialect_of(profile: Profile) -> Dialect:
    """The dialect that a profile names."""
    return OPENAI if profile.dialect is None else DIALECTS[profile.dialect]


_CALLS = ("function_call", "custom_tool_call")
_UNFINISHED = ("in_progress", "incomplete")
_INCOMPLETE = {
    "max_output_tokens": StopReason.MAX_TOKENS,
    "max_messages": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "steered": StopReason.PAUSE,
}
_STATUS = {
    "in_progress": StopReason.PAUSE,
    "queued": StopReason.PAUSE,
    "failed": StopReason.ERROR,
    "cancelled": StopReason.ERROR,
}


def read(response: HttpResponse) -> ResponseView:
    """The neutral view of a response, an event stream folded.

    Raises:
        WireError: a body that is no response of this API, though the status says that it is.
    """
    if response.status >= 400:
        return _refusal(response)
    if not is_event_stream(response.headers.get("content-type", ""), response.body):
        whole = body_of(response)
        if not isinstance(whole, dict) or ("output" not in whole and whole.get("error") is None):
            raise WireError("not a response")
        return _view(whole, whole.get("error"), response, streamed=False, complete=True)
    folded = fold(response.body)
    error = folded.error or folded.body.get("error")
    return _view(folded.body or {"error": error}, error, response, streamed=True, complete=folded.complete)


def _refusal(response: HttpResponse) -> ResponseView:
    """An error by status. A proxy's error need not be JSON."""
    try:
        body: JSON = loads(response.body)
    except WireError:
        body = response.body.decode(errors="replace")
    error = body.get("error") if isinstance(body, dict) else None
    return ResponseView(
        api=NAME,
        parts=(),
        stop_reason=StopReason.ERROR,
        raw_stop_reason=None,
        usage=Usage(),
        model=None,
        body=body,
        error=read_error(error if error is not None else body, response),
    )


def _view(
    body: dict[str, JSON], error: JSON, response: HttpResponse, *, streamed: bool, complete: bool
) -> ResponseView:
    items = _items(body)
    parts = tuple(
        _unless_cut_short(part, item, last=index == len(items) - 1) if body.get("status") == "incomplete" else part
        for index, (pointer, item) in enumerate(items)
        for part in item_parts(item, pointer)
    )
    kinds = tuple(item_kind(item) for _, item in items)
    stop, word = _stop(body, kinds, parts)
    if error is not None:
        stop = StopReason.ERROR
    elif not complete:
        stop, word = StopReason.UNKNOWN, None
    return ResponseView(
        api=NAME,
        parts=parts,
        stop_reason=stop,
        raw_stop_reason=word,
        usage=_usage(body.get("usage")),
        model=string(body.get("model")),
        body=body,
        streamed=streamed,
        complete=complete,
        error=None if error is None else read_error(error, response),
    )


def _unless_cut_short(part: PartView, item: dict[str, JSON], *, last: bool) -> PartView:
    """A part of an answer that is incomplete. A call that is cut short is malformed, whatever its arguments say: by
    the status of its item, or as the last one without any arguments, where a server calls every item completed."""
    raw = item.get("arguments")
    if not isinstance(part, CallView) or not isinstance(raw, str):
        return part
    if item.get("status") in _UNFINISHED or (last and not raw):
        return replace(part, arguments=None, malformed=raw)
    return part


def _items(body: dict[str, JSON]) -> list[tuple[str, dict[str, JSON]]]:
    output = body.get("output")
    items: list[tuple[str, dict[str, JSON]]] = []
    for index, item in enumerate(output if isinstance(output, list) else ()):
        pointer = join("/output", index)
        if not isinstance(item, dict):
            raise WireError("not an object", pointer)
        items.append((pointer, item))
    return items


def _stop(body: dict[str, JSON], kinds: tuple[str, ...], parts: tuple[PartView, ...]) -> tuple[StopReason, str | None]:
    """There is no finish reason, so the status and the items have to tell (openai-responses-stop-reasons)."""
    status, details = string(body.get("status")), body.get("incomplete_details")
    if status == "completed":
        if any(isinstance(part, CallView) and not isinstance(part.arguments, dict) for part in parts):
            return StopReason.MALFORMED_CALL, status
        if any(kind in _CALLS for kind in kinds):
            return StopReason.TOOL_USE, status
        refused = any(isinstance(part, OpaqueView) and part.kind == "refusal" for part in parts)
        return (StopReason.REFUSAL if refused else StopReason.END_TURN), status
    if status == "incomplete":
        reason = string(details.get("reason")) if isinstance(details, dict) else None
        return _INCOMPLETE.get(reason or "", StopReason.UNKNOWN), reason or status
    return _STATUS.get(status or "", StopReason.UNKNOWN), status


def _usage(usage: JSON) -> Usage:
    """Gross numbers (openai-responses-usage); the details are parts of them."""
    if not isinstance(usage, dict):
        return Usage()
    return Usage(
        input_tokens=_count(usage, "input_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        cache_read_tokens=_count(usage.get("input_tokens_details"), "cached_tokens"),
        cache_write_tokens=_count(usage.get("input_tokens_details"), "cache_write_tokens"),
        reasoning_tokens=_count(usage.get("output_tokens_details"), "reasoning_tokens"),
    )


def _count(counts: JSON, key: str) -> int | None:
    value = counts.get(key) if isinstance(counts, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
