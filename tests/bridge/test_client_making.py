"""Clients that are made by context managers, take options by methods, or earlier turns or formats in other forms."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.model.errors import Unsupported
from harness.model.messages import ChatRequest, JsonSchema, Message, Role, Text, Tool
from harness.model.protocols import Endpoint

HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")
HELLO = ChatRequest("m", (Message(Role.USER, (Text("Hello"),)),))
TOOL = Tool("look", "Looks.", {"type": "object", "properties": {}})


class Fluent:
    """A client whose options are set by methods that return a copy of it."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = dict(options or {})

    def _with(self, **options: Any) -> Fluent:
        return Fluent({**self.options, **options})

    def with_system(self, text: str) -> Fluent:
        return self._with(system=text)

    def tools(self, *tools: dict[str, Any]) -> Fluent:
        return self._with(tools=[{"type": "function", "function": each} for each in tools])

    def temperature(self, value: float) -> Fluent:
        made = Fluent(self.options)
        made.options["temperature"] = value
        return made

    def system(self) -> str:
        """Return the system prompt. This sets no option."""
        return str(self.options.get("system"))

    def chat(self, messages: list[dict[str, Any]]) -> str:
        SENT.append({**self.options, "messages": messages})
        return "Yes."


SENT: list[dict[str, Any]] = []


def test_options_may_be_set_by_methods_that_return_the_client() -> None:
    shape = recognise_shape(Fluent, "mine:Fluent")
    SENT.clear()

    with closing(ShapedClient(shape, HERE, "m")) as client:
        client.chat(replace(HELLO, system="Be short.", tools=(TOOL,), temperature=0.5))
        client.chat(HELLO)

    function = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
    said = [{"role": "user", "content": "Hello"}]
    assert [
        {
            "system": "Be short.",
            "tools": [{"type": "function", "function": function}],
            "temperature": 0.5,
            "messages": said,
        },
        {"messages": said},
    ] == SENT


class Chat:
    """A client that is open only inside its context."""

    def __init__(self, base_url: str) -> None:
        self.base_url, self.is_open = base_url, True

    def chat(self, messages: list[dict[str, Any]]) -> str:
        return self.base_url if self.is_open else "closed"


@contextmanager
def opened(base_url: str) -> Iterator[Chat]:
    chat = Chat(base_url)
    yield chat
    chat.is_open = False


@asynccontextmanager
async def opened_asynchronously(base_url: str) -> AsyncIterator[Chat]:
    chat = Chat(base_url)
    try:
        yield chat
    finally:
        chat.is_open = False


@pytest.mark.parametrize("make", [opened, opened_asynchronously])
def test_a_client_may_be_made_by_a_context_manager(make: Callable[..., Any]) -> None:
    shape = recognise_shape(make, "mine:make")

    with closing(ShapedClient(shape, HERE, "m")) as client:
        texts = [client.chat(HELLO).text, client.chat(HELLO).text]

    assert texts == [HERE.base_url] * 2


def answer_pairs(question: str, earlier: list[tuple[str, str]], base_url: str = "") -> str:
    pairs = [{"question": asked, "answer": answered} for asked, answered in earlier]
    return json.dumps([pairs, question])


def answer_roles(question: str, earlier: Sequence[tuple[str, str]] = ()) -> str:
    turns = [{"role": role, "content": text} for role, text in earlier]
    return json.dumps([turns, question])


def test_earlier_turns_may_be_pairs_of_texts() -> None:
    said = [Message(Role.USER, (Text("Hello"),)), Message(Role.ASSISTANT, (Text("Hi."),))]
    request = ChatRequest("m", (*said, Message(Role.USER, (Text("How are you?"),))))
    pairs, roles = (ShapedClient(recognise_shape(each, "mine"), HERE, "m") for each in (answer_pairs, answer_roles))

    assert json.loads(pairs.chat(request).text) == [[{"question": "Hello", "answer": "Hi."}], "How are you?"]
    turns = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]
    assert json.loads(roles.chat(request).text) == [turns, "How are you?"]
    with pytest.raises(Unsupported, match="pairs of texts"):
        pairs.chat(replace(request, messages=(*said[:1], *request.messages)))


Made = TypeVar("Made", bound=BaseModel)


def extract(text: str, kind: type[Made]) -> Made:
    schema = kind.model_json_schema()
    return kind.model_validate(dict.fromkeys(schema["properties"], text))


def test_a_method_may_need_a_class_for_the_format_of_its_answer() -> None:
    shape = recognise_shape(extract, "mine:extract")
    schema = JsonSchema({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]})
    request = ChatRequest("m", (Message(Role.USER, (Text("Soup"),)),), response_format=schema)

    assert shape.needs_schema
    assert ShapedClient(shape, HERE, "m").chat(request).text == '{"title": "Soup"}'
