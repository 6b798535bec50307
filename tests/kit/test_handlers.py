"""Handlers: what each of them shows of a turn, in which order."""

from __future__ import annotations

import io
from queue import Queue

import pytest

from harness.kit.handlers import (
    CollectingHandler,
    ConsoleHandler,
    Done,
    HandlerEvent,
    QueueHandler,
    TextEvent,
    ToolResultEvent,
    ToolUseEvent,
)
from harness.kit.thread import Thread
from harness.model.errors import RateLimited
from harness.model.messages import ChatRequest, ToolCall, ToolResult
from harness.model.protocols import MessageHandler
from tests.kit.test_thread import Model, call, says


def add(call: ToolCall) -> ToolResult:
    if call.arguments["n"] == 2:
        raise ValueError("no such number")
    return ToolResult(call.id, call.name, {"sum": 1})


SCRIPT = (says("Let me see.", call(1), call(2)), says("Done: é"))
EVENTS = [
    TextEvent("Let me see."),
    ToolUseEvent(call(1)),
    ToolResultEvent(ToolResult("c1", "add", {"sum": 1})),
    ToolUseEvent(call(2)),
    ToolResultEvent(ToolResult("c2", "add", "no such number", is_error=True)),
    TextEvent("Done: é"),
    Done(),
]
PRINTED = """Let me see.
→ add {"n": 1}
← add {"sum":1}
→ add {"n": 2}
✗ add no such number
Done: é
"""


def run_turn(handler: MessageHandler) -> None:
    Thread(ChatRequest("m", ())).send(Model(SCRIPT), "Add", add, handler)


def test_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    run_turn(ConsoleHandler())
    assert capsys.readouterr().out == PRINTED


def test_another_file(capsys: pytest.CaptureFixture[str]) -> None:
    file = io.StringIO()
    run_turn(ConsoleHandler(file=file))
    assert file.getvalue() == PRINTED
    assert capsys.readouterr().out == ""


def test_the_console_says_what_ended_the_turn(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RateLimited):
        Thread(ChatRequest("m", ())).send(Model([RateLimited(429, "slow down")]), "Add", add, ConsoleHandler())
    assert capsys.readouterr().out == "✗ RateLimited: HTTP 429: slow down\n"


def test_the_queue() -> None:
    queue: Queue[HandlerEvent] = Queue()
    run_turn(QueueHandler(queue))
    assert [queue.get_nowait() for _ in range(queue.qsize())] == EVENTS


def test_the_collector(capsys: pytest.CaptureFixture[str]) -> None:
    handler = CollectingHandler()
    run_turn(handler)
    assert handler.events == EVENTS
    assert handler.text == "Let me see.\nDone: é"
    assert capsys.readouterr().out == ""
