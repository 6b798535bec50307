"""Streaming, rule by rule: what the shipped adapters do passes, and each way to break it is found by one rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.model.messages import (
    ArgumentsDelta,
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
)
from harness.results import Kind
from tests.rules.transcripts import (
    found,
    given,
    only,
    transcript_for,
    with_events,
)

STREAMED = ("anthropic", "openai-responses")
"""The targets whose calls come in pieces."""
CALLS = "call-parallel-same-tool"
THOUGHT = "thinking-tool-loop"
Events = list[Any]


def place(events: Events, kind: type, nth: int = 0) -> int:
    return [at for at, event in enumerate(events) if isinstance(event, kind)][nth]


def without(kind: type, nth: int = 0) -> Callable[[Events], None]:
    return lambda events: events.pop(place(events, kind, nth))


def twice(kind: type, nth: int = 0) -> Callable[[Events], None]:
    def edit(events: Events) -> None:
        at = place(events, kind, nth)
        events.insert(at, events[at])

    return edit


def moved(kind: type, to: int) -> Callable[[Events], None]:
    def edit(events: Events) -> None:
        event = events.pop(place(events, kind))
        events.insert(to if to >= 0 else len(events) + 1 + to, event)

    return edit


def renumbered(events: Events) -> Events:
    """Calls that count from 1."""
    return [replace(event, index=event.index + 1) if hasattr(event, "index") else event for event in events]


def keyed_by_block(events: Events) -> Events:
    """Indices of the wire in place of those of the calls."""
    return [replace(event, index=event.index * 3) if hasattr(event, "index") else event for event in events]


def mixed_up(events: Events) -> None:
    """Arguments behind the end of their call."""
    end = place(events, ToolCallEnd)
    events.insert(end + 1, ArgumentsDelta(events[end].index, " "))


def untyped(events: Events) -> None:
    events.insert(0, {"type": "text_delta"})


LIFE_CYCLE = [
    pytest.param(renumbered, "a call starts with the index 1, but has the index 0", id="from-one"),
    pytest.param(keyed_by_block, "a call starts with the index 3, but has the index 1", id="of-the-wire"),
    pytest.param(twice(ToolCallStart), "a call starts with the index 0, but has the index 1", id="started-twice"),
    pytest.param(mixed_up, "arguments of call 0, which has ended", id="behind-its-end"),
    pytest.param(twice(ToolCallEnd), "the end of call 0, which has ended", id="ended-twice"),
    pytest.param(
        without(ToolCallEnd),
        "call 0 (get_weather) is complete, but has no end event",
        id="first-without-end",
    ),
    pytest.param(
        without(ToolCallEnd, -1),
        "call 1 (get_weather) is complete, but has no end event",
        id="last-without-end",
    ),
    pytest.param(moved(ToolCallEnd, -1), "Finish, which must be the last event", id="end-behind-finish"),
    pytest.param(twice(Finish), "Finish, which must be the last event", id="finished-twice"),
    pytest.param(moved(Finish, 0), "Finish, which must be the last event", id="finished-first"),
    pytest.param(without(Finish), "the stream ends without Finish", id="never-finished"),
    pytest.param(untyped, "this is not an event of a stream", id="untyped"),
]


@pytest.mark.parametrize(("edit", "said"), LIFE_CYCLE)
def test_events_that_break_their_life_cycle(edit: Callable[[Events], object], said: str) -> None:
    finding = only(with_events(transcript_for(CALLS), edit), "stream-life-cycle")
    assert said in finding.message
    assert (finding.exchange, finding.pointer) == (0, "")


def test_another_order_of_all_the_events_is_ours_alone() -> None:
    """Numbers from one, ends that come where the calls start: nobody loses a piece by it."""
    transcript = transcript_for("call-after-text")
    for edit in (renumbered, without(ToolCallEnd), twice(ToolCallEnd), twice(Finish)):
        findings = found(with_events(transcript, edit))
        assert {(finding.rule, finding.kind) for finding in findings} == {("stream-life-cycle", Kind.CONVENTION)}


def test_what_was_streamed_before_an_error_has_its_order_too() -> None:
    broken = with_events(transcript_for("stream-error-in-arguments"), lambda events: [*events, ToolCallEnd(7)])
    assert "the end of call 7, which has not started" in only(broken, "stream-life-cycle").message


@pytest.mark.parametrize("edit", [without(TextDelta), twice(TextDelta)], ids=["lost", "doubled"])
def test_text_that_does_not_add_up(edit: Callable[[Events], object]) -> None:
    broken = with_events(transcript_for("call-after-text"), edit)
    finding = only(broken, "stream-text")
    assert finding.expected == given(broken).text
    assert finding.actual != finding.expected
    assert finding.pointer


def test_thinking_that_does_not_add_up() -> None:
    transcript = transcript_for(THOUGHT)
    assert any(isinstance(event, ThinkingDelta) for event in transcript.chats[0].events)
    finding = only(with_events(transcript, without(ThinkingDelta)), "stream-text")
    assert "thinking" in finding.message


@pytest.mark.parametrize(
    "edit",
    [without(ArgumentsDelta), twice(ArgumentsDelta), without(ArgumentsDelta, -1)],
    ids=["first-lost", "doubled", "last-lost"],
)
def test_arguments_that_do_not_add_up(edit: Callable[[Events], object]) -> None:
    finding = only(with_events(transcript_for(CALLS), edit), "stream-arguments")
    assert isinstance(finding.expected, dict)
    assert finding.pointer
    assert finding.actual != json.dumps(finding.expected)


def test_arguments_of_one_call_under_the_number_of_another() -> None:
    def edit(events: Events) -> Events:
        return [replace(e, index=1 - e.index) if isinstance(e, ArgumentsDelta) else e for e in _both_open(events)]

    findings = found(with_events(transcript_for(CALLS), edit))
    assert [finding.rule for finding in findings] == ["stream-arguments", "stream-arguments"]


def _both_open(events: Events) -> Events:
    starts = [event for event in events if isinstance(event, ToolCallStart)]
    return [*starts, *(e for e in events if isinstance(e, ArgumentsDelta)), ToolCallEnd(0), ToolCallEnd(1), events[-1]]


def test_two_calls_may_be_open_at_once() -> None:
    assert found(with_events(transcript_for(CALLS, "gemini-3"), _both_open)) == []


@pytest.mark.parametrize("pieces", [[], [""], ["{", "}"], [" {} "]])
def test_no_arguments_may_come_as_nothing_or_as_an_empty_object(pieces: list[str]) -> None:
    def edit(events: Events) -> Events:
        rest = [event for event in events if not isinstance(event, ArgumentsDelta)]
        at = place(rest, ToolCallEnd)
        return [*rest[:at], *(ArgumentsDelta(0, piece) for piece in pieces), *rest[at:]]

    assert found(with_events(transcript_for("call-empty-arguments"), edit)) == []


def test_arguments_that_are_no_object_in_a_stream_that_fails_later() -> None:
    def edit(events: Events) -> Events:
        call = [ToolCallStart(0, "toolu_1", "get_weather"), ArgumentsDelta(0, '{"city": "Par'), ToolCallEnd(0)]
        return [*call, *events]

    finding = only(with_events(transcript_for("stream-error-behind-text"), edit), "stream-arguments")
    assert finding.actual == '{"city": "Par'


def test_calls_that_no_event_announces() -> None:
    silent = with_events(transcript_for(CALLS), lambda events: [e for e in events if isinstance(e, TextDelta | Finish)])
    findings = found(silent)
    assert [finding.rule for finding in findings] == ["stream-call-identity"] * 2
    assert "has no start event" in findings[0].message


def started(**changes: Any) -> Callable[[Events], None]:
    def edit(events: Events) -> None:
        at = place(events, ToolCallStart)
        events[at] = replace(events[at], **changes)

    return edit


@pytest.mark.parametrize(
    "edit",
    [started(id="toolu_other"), started(id=""), started(name="get_")],
    ids=["other-id", "no-id", "part-of-the-name"],
)
def test_a_call_that_starts_as_another(edit: Callable[[Events], None]) -> None:
    transcript = transcript_for(CALLS)
    finding = only(with_events(transcript, edit), "stream-call-identity")
    call = given(transcript).tool_calls[0]
    assert finding.expected == f"{call.id} {call.name}"
    assert finding.pointer


@pytest.mark.parametrize("target", STREAMED)
def test_a_cut_call_has_no_end(target: str) -> None:
    def edit(events: Events) -> None:
        events.insert(-1, ToolCallEnd(0))

    finding = only(with_events(transcript_for("call-truncated", target), edit), "truncated-call")
    assert "the events contain an end for it" in finding.message
    assert finding.pointer
