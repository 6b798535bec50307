"""Conversations that go on behind an answer that was cut, or end by a refusal before the failure in store for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.model.errors import ChatError
from harness.model.messages import (
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    Message,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from harness.results import CellResult, Verdict
from tests.broken.fault import Wrapped, client, sends
from tests.broken.playing import played, said

BEHIND_CALL = "stream-ends-behind-call"


class TakenForWhole(Wrapped):
    """A stream that breaks off is the answer, with the text and the calls that have arrived."""

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        events: list[StreamEvent] = []
        try:
            for event in super().stream(request):
                events.append(event)
                yield event
        except ChatError:
            begun = {event.index: event for event in events if isinstance(event, ToolCallStart)}
            ended = {event.index for event in events if isinstance(event, ToolCallEnd)}
            yield from (ToolCallEnd(at) for at in begun if at not in ended)
            text = "".join(event.text for event in events if isinstance(event, TextDelta))
            calls = [ToolCall(start.id, start.name, json.loads(_written(events, at))) for at, start in begun.items()]
            answer = Message(Role.ASSISTANT, (Text(text), *calls))
            yield Finish(ChatResponse(answer, StopReason.TOOL_USE, Usage()))


def _written(events: list[StreamEvent], index: int) -> str:
    return "".join(event.text for event in events if isinstance(event, ArgumentsDelta) and event.index == index)


def roots(cell: CellResult) -> set[str]:
    return {finding.rule for finding in cell.findings if finding.fails and finding.follows is None}


@pytest.mark.parametrize("target", ["openai-chat", "gemini-2.5"])
def test_all_that_comes_behind_a_cut_answer_is_the_cut(target: str) -> None:
    cell = played(BEHIND_CALL, target, client(TakenForWhole), variant="stream")
    assert cell.verdict is Verdict.FAIL
    assert roots(cell) == {"stream-cut"}, said(cell.findings)
    assert "request-unexpected" in {finding.rule for finding in cell.findings}


def test_what_comes_behind_an_answer_of_which_the_cut_is_contested_is_no_worse() -> None:
    cell = played(BEHIND_CALL, "anthropic", client(TakenForWhole), variant="stream")
    assert cell.verdict is Verdict.WARN, said(cell.findings)
    assert {"stream-cut", "request-unexpected"} <= {finding.rule for finding in cell.findings}


def test_a_second_request_behind_a_whole_answer_is_an_error() -> None:
    cell = played("call-not-needed", "anthropic", sends(lambda *_: None, times=2), variant="stream")
    assert "request-unexpected" in {finding.rule for finding in cell.findings if finding.fails}


def _reasoning(_api: str, body: dict[str, Any]) -> None:
    del body["reasoning_effort"]


@pytest.mark.parametrize("scenario", ["error-in-tool-loop", "iteration-limit"])
def test_a_refusal_that_comes_before_the_scenario_s_own_failure_is_the_cause(scenario: str) -> None:
    cell = played(scenario, "openai-chat", sends(_reasoning))
    assert roots(cell) == {"openai-chat-tools-with-reasoning"}, said(cell.findings)


def test_a_refusal_that_the_scenario_has_in_store_is_nobody_s_fault() -> None:
    assert played("error-400", "openai-chat").verdict is Verdict.PASS
