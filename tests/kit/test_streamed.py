"""A file is shown while the model still writes it, and the thread knows nothing of that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.contract.errors import MalformedResponse
from harness.contract.model import (
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    Message,
    Role,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    ToolResult,
    Usage,
)
from harness.kit.streamed import PartialArguments, Streamed
from harness.kit.thread import Thread
from tests.kit.test_thread import says

WRITE = ToolCall("c1", "write_file", {"path": "a.ts", "content": "let x = 1;\nlet y = 2;"})
PIECES = ['{"path": "a.', 'ts", "content": "let x', " = 1;\\nlet y", ' = 2;"}']


class Writing:
    def __init__(self, *, finishes: bool = True) -> None:
        self.finishes = finishes
        self.closed = False
        self.asked = 0

    def chat(self, request: ChatRequest) -> ChatResponse:
        raise AssertionError("it streams")

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        self.asked += 1
        if self.asked > 1:
            yield TextDelta("Written.")
            yield Finish(says("Written."))
            return
        yield ToolCallStart(0, "c1", "write_file")
        for piece in PIECES:
            yield ArgumentsDelta(0, piece)
        yield ToolCallEnd(0)
        if self.finishes:
            yield Finish(ChatResponse(Message(Role.ASSISTANT, (WRITE,)), StopReason.TOOL_USE, Usage()))

    def close(self) -> None:
        self.closed = True


def test_the_content_of_a_file_is_seen_while_it_is_written() -> None:
    shown: list[object] = []
    partial = PartialArguments()

    def show(event: StreamEvent) -> None:
        if isinstance(event, ArgumentsDelta):
            partial.add(event.text)
            value = partial.value
            shown.append(value.get("content") if isinstance(value, dict) else None)

    ran: list[ToolCall] = []

    def run(call: ToolCall) -> ToolResult:
        ran.append(call)
        return ToolResult(call.id, call.name, "ok")

    client = Streamed(Writing(), show)
    answer = Thread(ChatRequest("m", ())).send(client, "Write a.ts", run)
    assert shown == [None, "let x", "let x = 1;\nlet y", "let x = 1;\nlet y = 2;"]
    assert (ran, answer.text) == ([WRITE], "Written.")


def test_a_stream_without_its_end_is_an_error() -> None:
    with pytest.raises(MalformedResponse, match="ended without its last event"):
        Streamed(Writing(finishes=False), lambda event: None).chat(ChatRequest("m", ()))


def test_closing_closes_the_client() -> None:
    inner = Writing()
    Streamed(inner, lambda event: None).close()
    assert inner.closed
