"""Faults at an answer that ends at its bound, in the middle of a call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from harness.contract.model import (
    ChatResponse,
    Opaque,
    Part,
    StopReason,
    StreamEvent,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
)
from harness.kit.streamed import PartialArguments
from tests.broken.fault import GEMINI, OPENAI, Fault, answers, answers_parts, streams
from tests.broken.places import BODY, RESPONSE_ARGUMENTS

CUT = ("anthropic", *OPENAI)
"""Where a call that is cut short is on the wire at all."""


def _mended(part: Part) -> Part:
    """A call of what there is of its arguments."""
    if not isinstance(part, Opaque):
        return part
    raw = cast("dict[str, Any]", part.raw)
    call = raw.get("function", raw)
    arguments = call.get("arguments", call.get("input"))
    if isinstance(arguments, str):
        partial = PartialArguments()
        partial.add(arguments)
        arguments = partial.value
    return ToolCall(raw.get("call_id", raw["id"]), call["name"], arguments)


def _emptied(part: Part) -> Part:
    """A call without arguments, since there are none that can be parsed."""
    mended = _mended(part)
    return replace(mended, arguments={}) if isinstance(mended, ToolCall) and isinstance(part, Opaque) else part


def _all_ended(events: list[StreamEvent]) -> Iterator[StreamEvent]:
    """Every call that has begun has an end."""
    open_: list[int] = []
    for event in events[:-1]:
        yield event
        if isinstance(event, ToolCallStart):
            open_.append(event.index)
        elif isinstance(event, ToolCallEnd):
            open_.remove(event.index)
    yield from map(ToolCallEnd, open_)
    yield events[-1]


def _ended(response: ChatResponse) -> ChatResponse:
    return replace(response, stop_reason=StopReason.END_TURN)


FAULTS = (
    Fault("cut-call-mended", answers_parts(_mended), "call-truncated", "truncated-call", RESPONSE_ARGUMENTS, 0, CUT),
    Fault("cut-call-emptied", answers_parts(_emptied), "call-truncated", "truncated-call", RESPONSE_ARGUMENTS, 0, CUT),
    Fault(
        "cut-call-mended-streamed",
        answers_parts(_mended),
        "call-truncated",
        "truncated-call",
        RESPONSE_ARGUMENTS,
        0,
        CUT,
        variant="stream",
    ),
    Fault(
        "cut-call-ended",
        streams(_all_ended),
        "call-truncated",
        "truncated-call",
        RESPONSE_ARGUMENTS,
        0,
        CUT,
        variant="stream",
    ),
    Fault(
        "cut-call-made",
        answers_parts(_mended),
        "call-truncated-next-turn",
        "truncated-call",
        RESPONSE_ARGUMENTS,
        0,
        CUT,
    ),
    Fault("cut-answer-as-whole", answers(_ended), "call-truncated-next-turn", "stop-reason", BODY, 0),
    Fault("cut-answer-as-whole-streamed", answers(_ended), "call-truncated", "stop-reason", BODY, 0, variant="stream"),
    Fault("malformed-call-as-answer", answers(_ended), "call-malformed", "stop-reason", BODY, 0, GEMINI),
    Fault(
        "malformed-call-as-answer-streamed",
        answers(_ended),
        "call-malformed",
        "stop-reason",
        BODY,
        0,
        GEMINI,
        variant="stream",
    ),
)
