"""Clients whose messages of results have the client's own object for the call."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import pytest

from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.model.errors import Unsupported
from harness.model.messages import ChatRequest, Message, Role, Text, ToolCall, ToolResult
from harness.model.protocols import Endpoint


class Errand(NamedTuple):
    """A call of the client."""

    id: str
    name: str
    args: dict[str, Any]


class Reply(NamedTuple):
    """An answer of the client, whose method `message` returns the message for the history."""

    text: str
    calls: list[Errand]

    def message(self) -> dict[str, Any]:
        return {"role": "assistant", "content": self.text, "calls": self.calls}


class Client:
    """A client that keeps what it reads from the messages."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def chat(self, messages: list[dict[str, Any]], tools: Any = None) -> Reply:
        for each in messages:
            if each["role"] == "tool":
                self.seen.append((each["call"].id, each["content"], each.get("error")))
            elif each.get("calls"):
                self.seen += [call.id for call in each["calls"]]
        return Reply("", [Errand("c1", "look", {"at": "it"})])


@dataclass
class Order:
    id: str
    name: str
    arguments: dict[str, Any]
    origin: str = "another client"


@dataclass
class Entry:
    """A message with an unusual field for the call that it answers, which is recognised by its class."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    orders: list[Order] = field(default_factory=list[Order])
    settles: Order | None = None


class ClientOfEntries:
    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def chat(self, messages: list[Entry], tools: Any = None) -> Entry:
        settled = [(each.settles.id, each.text, each.settles.origin) for each in messages if each.settles is not None]
        self.seen += [*(order.id for each in messages for order in each.orders), *settled]
        return Entry("assistant", orders=[Order("c1", "look", {"at": "it"}, "own")])


HELLO = Message(Role.USER, (Text("Hello"),))
RESULT = Message(Role.USER, (ToolResult("c1", "look", "nothing", is_error=True),))
FOREIGN = Message(Role.ASSISTANT, (ToolCall("c1", "look", {"at": "it"}),))


def talk(seen: list[Any], api: str, *before: Message) -> None:
    """Send a request with `before`, or with the client's own answer to a first one, and then the result of its call."""
    send_and_answer(Client(seen).chat, api, *before)


def send_and_answer(chat: Any, api: str, *before: Message) -> None:
    shape = recognise_shape(chat, "mine:chat")
    with closing(ShapedClient(shape, Endpoint("http://127.0.0.1:9/v1", "no-key"), "m", api)) as client:
        own = before or (HELLO, client.chat(ChatRequest("m", (HELLO,))).message)
        client.chat(replace(ChatRequest("m", own), messages=(*own, RESULT)))


@pytest.mark.parametrize(
    ("api", "result"),
    [("anthropic", ("c1", "nothing", True)), ("openai-chat", ("c1", '{"error": "nothing"}', None))],
)
def test_a_result_may_have_the_call_that_it_answers_as_an_object(api: str, result: tuple[Any, ...]) -> None:
    seen: list[Any] = []
    talk(seen, api)

    assert seen == ["c1", result]


def test_calls_of_another_client_are_no_objects_of_this_one() -> None:
    with pytest.raises(Unsupported, match="'id', which no usual message has"):
        talk([], "openai-chat", HELLO, FOREIGN)


@pytest.mark.parametrize(("before", "origin"), [((), "own"), ((HELLO, FOREIGN), "another client")])
def test_a_field_for_the_answered_call_may_be_known_by_its_class(before: tuple[Message, ...], origin: str) -> None:
    seen: list[Any] = []
    send_and_answer(ClientOfEntries(seen).chat, "openai-chat", *before)

    assert seen == ["c1", ("c1", '{"error": "nothing"}', origin)]
