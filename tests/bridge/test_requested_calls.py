"""Calls that a client which keeps its history wants its caller to run."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from harness.bridge.clients.methods import public_methods
from harness.bridge.clients.requested_calls import RequestedCalls
from harness.bridge.clients.turns import EventList
from harness.model.messages import Message

TURN = Message("user", "Hello")


@dataclass
class Call:
    id: str
    name: str
    arguments: dict[str, Any]


@dataclass
class Event:
    kind: str
    text: str = ""
    call: Call | None = None


@dataclass
class Reply:
    text: str
    calls: list[Call] = field(default_factory=list[Call])


FIRST, SECOND = Call("a", "weather", {"city": "Paris"}), Call("b", "weather", {"city": "Rome"})

EVENTS: dict[str, list[object]] = {
    "objects": [Event("text", "Let"), Event("tool_call", call=FIRST), Event("tool_call", call=SECOND), Event("done")],
    "tuples": [("text", "Let"), ("tool_call", FIRST), ("tool_call", SECOND), ("done", None)],
    "dictionaries": [
        {"type": "text", "text": "Let"},
        {"type": "tool_calls", "calls": [FIRST, SECOND]},
        {"type": "done", "reason": "tool_calls"},
    ],
    "the reply at the end": ["Let", Reply("Let", [FIRST, SECOND])],
    "an event with the reply": [
        {"type": "text", "text": "Let"},
        {"type": "end", "reply": Reply("Let", [FIRST, SECOND])},
    ],
}


@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
def test_events_of_a_stream_have_the_calls(events: list[object]) -> None:
    found = RequestedCalls(SimpleNamespace(), [], "openai-chat").after(EventList(events), TURN)

    assert [(own, name, arguments["city"]) for own, _, name, arguments in found if arguments] == [
        (FIRST, "weather", "Paris"),
        (SECOND, "weather", "Rome"),
    ]


def test_an_answer_may_have_its_calls_in_an_object() -> None:
    answer = {"status": "waiting", "required_action": Reply("", [FIRST]), "history": [Reply("", [SECOND])]}

    found = RequestedCalls(SimpleNamespace(), [], "openai-chat").after(answer, TURN)

    assert [own for own, *_ in found] == [FIRST]


PIECES: list[object] = [
    {"type": "tool_start", "index": 0, "id": "a", "name": "weather"},
    {"type": "tool_delta", "index": 0, "arguments": '{"city": '},
    {"type": "tool_delta", "index": 0, "arguments": '"Paris"}'},
]


def test_a_call_may_arrive_in_pieces() -> None:
    found = RequestedCalls(SimpleNamespace(), [], "openai-chat").after(EventList(PIECES), TURN)

    assert [each[1:] for each in found] == [("a", "weather", {"city": "Paris"})]


class WithLast:
    """A client that keeps its last reply."""

    def __init__(self) -> None:
        self.last = Reply("", [FIRST])
        self.tools = [{"name": "weather", "parameters": {}}]


class WithProperty:
    """A client that finds its open calls in its messages."""

    @property
    def open_calls(self) -> list[Call]:
        return [FIRST]


class WithMethod:
    """A client that returns its open calls."""

    def get_pending_calls(self) -> list[Call]:
        return [FIRST]

    def run_pending_calls(self) -> None:
        raise AssertionError("it was called")


class WithSlot:
    """A client that keeps its open calls by their ids."""

    def __init__(self) -> None:
        self._pending = {"a": FIRST}


@pytest.mark.parametrize("kind", [WithLast, WithProperty, WithMethod, WithSlot])
@pytest.mark.parametrize("answer", [None, "Let", EventList(["Let"])])
def test_a_client_may_keep_its_calls(kind: type, answer: object) -> None:
    client = kind()
    requested = RequestedCalls(client, public_methods(kind), "openai-chat")

    assert [own for own, *_ in requested.after(answer, TURN)] == [FIRST]
    assert requested.after(answer, TURN) == []  # the same call, which has been read


def test_tools_and_the_history_are_no_calls() -> None:
    client = SimpleNamespace(tools=[{"name": "weather", "parameters": {}}], history=[Reply("", [FIRST])])

    assert RequestedCalls(client, [], "openai-chat").after("Done.", TURN) == []
