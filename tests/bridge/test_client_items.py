"""Conversations of items: an answer has several of them, which are sent back as they are."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pytest

from harness.bridge.clients.answer_fields import as_completion, own_calls
from harness.bridge.clients.complete_answers import own_message
from harness.bridge.clients.message_classes import as_annotated
from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.model.messages import ChatRequest, Message, Role, Text, ToolResult
from harness.model.protocols import Endpoint

HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")
HELLO = ChatRequest("m", (Message(Role.USER, (Text("Hello"),)),))
LOOKED = ToolResult("c1", "look", "no such thing")


@dataclass
class Asking:
    text: str


@dataclass
class AssistantWords:
    text: str
    phase: str = ""


@dataclass
class Invocation:
    call_id: str
    name: str
    arguments: str


@dataclass
class InvocationOutput:
    call_id: str
    output: str


@dataclass
class Reasoned:
    text: str
    raw: dict[str, Any]


Item = Asking | AssistantWords | Invocation | InvocationOutput | Reasoned
MADE: list[Item] = [
    Reasoned("Hm.", {"id": "rs_1"}),
    AssistantWords("One moment.", "commentary"),
    Invocation("c1", "look", "{}"),
]


@dataclass
class Items:
    """An answer of a client with a conversation of items, and possibly with those of its request."""

    entries: list[Item]

    @property
    def text(self) -> str:
        return next(each.text for each in reversed(self.entries) if isinstance(each, AssistantWords))

    @property
    def calls(self) -> list[Invocation]:
        return [each for each in self.entries if isinstance(each, Invocation)]


@pytest.mark.parametrize(("api", "parameter"), [("openai-responses", "items"), ("openai-chat", "messages")])
@pytest.mark.parametrize("is_tuple", [False, True])
def test_the_items_of_an_answer_are_sent_back_as_they_are(api: str, parameter: str, *, is_tuple: bool) -> None:
    seen = list[list[Item]]()

    def respond(items: list[Item], instructions: str | None = None) -> Any:
        seen.append(items)
        return (MADE, {"input_tokens": 1}) if is_tuple else Items(MADE)

    def chat(messages: list[Item], system: str | None = None) -> Any:
        return respond(messages, system)

    shape = recognise_shape(respond if parameter == "items" else chat, "mine")
    with closing(ShapedClient(shape, HERE, "m", api)) as client:
        first = client.chat(HELLO)
        client.chat(replace(HELLO, messages=(*HELLO.messages, first.message, Message(Role.USER, (LOOKED,)))))

    assert [(each.id, each.name, each.arguments) for each in first.tool_calls] == [("c1", "look", {})]
    assert first.text == "One moment."
    assert seen == [[Asking("Hello")], [Asking("Hello"), *MADE, seen[1][-1]]]
    assert isinstance(seen[1][-1], InvocationOutput)
    assert all(any(each is one for one in seen[1]) for each in MADE)


def test_the_items_of_the_whole_conversation_are_no_answer() -> None:
    whole = Items([Asking("Hello"), *MADE])

    assert own_message(whole, list[Item], "openai-responses") is None
    assert own_message(Items([AssistantWords("Yes"), *MADE]), list[Item], "openai-responses") is None
    assert own_message(Items(MADE), list[Item], "openai-responses") == MADE


def test_a_result_is_no_call_although_both_have_the_id_of_the_call() -> None:
    result = {"role": "tool", "tool_call_id": "c1", "name": "look", "content": "Nothing."}

    assert as_annotated([result], list[Item]) == [InvocationOutput("c1", "Nothing.")]


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([AssistantWords("One "), AssistantWords("moment.")], "One moment."),
        ([AssistantWords("Yes."), Reasoned("Hm.", {})], "Yes."),
        ((MADE, "tool_calls"), "One moment."),
        (("Yes.", Invocation("c1", "look", "{}")), "Yes."),
        ([], ""),
    ],
)
def test_the_text_of_an_answer_is_that_of_its_items(items: Any, text: str) -> None:
    made: Any = as_completion(items)

    assert made["choices"][0]["message"]["content"] == text


class Entry:
    """A part of a conversation."""


@dataclass
class UserEntry(Entry):
    text: str


@dataclass
class ModelEntry(Entry):
    text: str


@dataclass
class ToolCallEntry(Entry):
    call_id: str
    tool: str
    arguments: dict[str, Any]


@dataclass
class ToolResultEntry(Entry):
    call_id: str
    output: str


def test_the_items_may_be_of_the_subclasses_of_one_class() -> None:
    seen, made = list[list[Entry]](), [ModelEntry("One moment."), ToolCallEntry("c1", "look", {})]

    def chat(log: list[Entry]) -> list[Entry]:
        seen.append(log)
        return [*made]

    with closing(ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "m", "anthropic")) as client:
        first = client.chat(HELLO)
        client.chat(replace(HELLO, messages=(*HELLO.messages, first.message, Message(Role.USER, (LOOKED,)))))

    assert (first.text, [each.name for each in first.tool_calls]) == ("One moment.", ["look"])
    assert seen[1] == [UserEntry("Hello"), *made, seen[1][-1]]
    assert isinstance(seen[1][-1], ToolResultEntry)


@pytest.mark.parametrize(
    ("fields", "call_id"),
    [
        ({"ref": "c1"}, "c1"),
        ({"handle": "c1", "status": "completed"}, "c1"),
        ({"thought_signature": "c1"}, ""),
        ({"ref": "c1", "group": "g"}, ""),
        ({"id": "c1", "ref": "r1"}, "c1"),
        ({"request_id": "c1", "ref": "r1"}, "c1"),
    ],
)
def test_the_id_of_a_call_may_be_its_only_other_text(fields: dict[str, str], call_id: str) -> None:
    ((_, found, name, arguments),) = own_calls([{**fields, "name": "look", "arguments": {}}])

    assert (found, name, arguments) == (call_id, "look", {})


@pytest.mark.parametrize(
    ("items", "is_found"),
    [
        ([{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}], True),
        ([{"type": "function", "function": {"name": "look", "parameters": {}}}], False),
    ],
    ids=["calls", "declarations"],
)
def test_a_list_of_calls_may_have_any_name(items: list[dict[str, Any]], *, is_found: bool) -> None:
    assert bool(own_calls({"text": "", "required_steps": items})) is is_found


@pytest.mark.parametrize(("key", "is_found"), [("action_id", True), ("description", False)])
def test_actions_are_calls_if_they_have_ids(key: str, *, is_found: bool) -> None:
    assert bool(own_calls({"text": "", "actions": [{key: "a", "tool": "look", "params": {}}]})) is is_found
