"""The terminal assistant's design by this library: a thread with handlers, interactive and one-shot.

Its `Thread.SendMessage` is `Thread.send`, its `MessageHandler` the protocol of that name, its `ConsoleMessageHandler`,
`ChannelMessageHandler` and `StringCollectorHandler` are `ConsoleHandler`, `QueueHandler` and `CollectingHandler`, and
its `SendMessageAndGetText` is `ask`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from queue import Queue
from threading import Thread as Worker

import pytest

from harness.apis.registry import Target
from harness.kit.handlers import (
    CollectingHandler,
    Done,
    HandlerEvent,
    QueueHandler,
    TextEvent,
    ToolResultEvent,
    ToolUseEvent,
)
from harness.kit.thread import Thread
from harness.model.messages import Message, ToolCall, ToolResult
from harness.model.protocols import MessageHandler
from harness.scenarios.canonical import event_word
from tests.backends import shipped_scenarios, shipped_targets
from tests.seeds.connected import Connected, connected

EVENTS = shipped_scenarios()["seeds-terminal-assistant-events"]
TEXT = str(EVENTS.turns[0].user)
ANSWERS = [step.text or "" for step in EVENTS.turns[0].model]


@pytest.fixture(params=shipped_targets())
def target(request: pytest.FixtureRequest) -> Target:
    return shipped_targets()[request.param]


@dataclass
class State:
    """The design's `tooltypes.State`: what the tools share over a conversation."""

    files: dict[str, str] = field(default_factory=lambda: {"pkg/llm/thread_test.go": 't.Fatal("not yet")\n'})
    commands: list[str] = field(default_factory=list[str])


def run(call: ToolCall, state: State) -> ToolResult:
    """The design's `tools.RunTool(ctx, t.state, block.Name, input)`."""
    if call.name == "file_read":
        return ToolResult(call.id, call.name, state.files[str(call.arguments["path"])])
    command = str(call.arguments["command"])
    state.commands.append(command)
    if command == "go test ./...":
        return ToolResult(call.id, call.name, "FAIL\tpkg/llm", is_error=True)
    return ToolResult(call.id, call.name, "")


def thread_of(made: Connected) -> tuple[Thread, State]:
    state = State()
    return Thread(made.template, state=state), state


def events_of_handler(handler: CollectingHandler) -> list[str]:
    return [event_word(event) for event in handler.events]


def test_a_handler_hears_text_calls_results_and_the_end_in_order(target: Target) -> None:
    handler = CollectingHandler()
    with connected(EVENTS.id, target) as made:
        thread, state = thread_of(made)
        thread.send(made.client, TEXT, run, handler)
    expected = EVENTS.turns[0].expect
    assert expected is not None
    assert events_of_handler(handler) == expected.events
    assert state.commands == ["go vet ./...", "go test ./..."]
    # events and history agree, down to the ids of the results
    calls = [call for message in thread.messages for call in message.tool_calls]
    results = [result for message in thread.messages for result in message.tool_results]
    assert [event.call for event in handler.events if isinstance(event, ToolUseEvent)] == calls
    assert [event.result for event in handler.events if isinstance(event, ToolResultEvent)] == results
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert handler.text == "\n".join(ANSWERS)


def test_a_user_interface_reads_a_queue_until_the_end(target: Target) -> None:
    events: Queue[HandlerEvent] = Queue()
    with connected(EVENTS.id, target) as made:
        thread, _ = thread_of(made)
        worker = Worker(target=thread.send, args=(made.client, TEXT, run, QueueHandler(events)))
        worker.start()
        seen: list[HandlerEvent] = []
        while not (seen and isinstance(seen[-1], Done)):
            seen.append(events.get(timeout=30))
        worker.join()
    assert [event_word(event) for event in seen] == (EVENTS.turns[0].expect and EVENTS.turns[0].expect.events)
    assert [event.text for event in seen if isinstance(event, TextEvent)] == ANSWERS
    assert events.empty()


@dataclass
class AssistantClient:
    """The design's terminal client: a thread for each message, which is given the messages of the one before."""

    made: Connected
    state: State
    messages: tuple[Message, ...] = ()

    def send_message(self, text: str, handler: MessageHandler) -> None:
        thread = Thread(self.made.template, state=self.state)
        thread.messages = self.messages
        try:
            thread.send(self.made.client, text, run, handler)
        finally:
            self.messages = thread.messages


def test_messages_are_given_from_thread_to_thread(target: Target) -> None:
    first, second = CollectingHandler(), CollectingHandler()
    with connected(EVENTS.id, target) as made:
        assistant = AssistantClient(made, State())
        assistant.send_message(TEXT, first)
        before = assistant.messages
        assistant.send_message(str(EVENTS.turns[1].user), second)
    assert events_of_handler(second) == ["text", "done"]
    assert assistant.messages[: len(before)] == before
    assert len(assistant.messages) == len(before) + 2
    assert len(made.asked[-1].results) == 3
    with connected(EVENTS.id, target) as again:
        thread, _ = thread_of(again)
        for turn in EVENTS.turns:
            thread.send(again.client, str(turn.user), run)
    assert thread.messages == assistant.messages
