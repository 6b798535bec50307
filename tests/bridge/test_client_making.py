"""Clients that are made by context managers, and whose options are set by methods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.model.messages import ChatRequest, Message, Role, Text, Tool
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
