"""Clients that take requests in unusual forms: a whole body, one dictionary, or attributes for options."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NotRequired, TypedDict

import pytest

from harness.bridge.clients.client_state import setting_attributes
from harness.bridge.clients.forms import ANTHROPIC
from harness.bridge.clients.methods import body_method, method_of
from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.model.errors import PluginError
from harness.model.messages import ChatRequest, Message, Role, Text, Tool
from harness.model.protocols import Endpoint

HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")
TOOL = Tool("look", "Looks.", {"type": "object", "properties": {}})
HELLO = ChatRequest("m", (Message(Role.USER, (Text("Hello"),)),), tools=(TOOL,), max_tokens=7)
SENT: list[Any] = []


class Http:
    def post(self, path: str, json: Any) -> str:
        SENT.append(json)
        return "Yes."


class Payload:
    """A client whose caller writes the payload. `post` is no method for texts."""

    http = Http()

    def post(self, payload: dict[str, Any]) -> str:
        return self.http.post("/chat/completions", json=payload)


class Keywords:
    http = Http()

    def create(self, **body: Any) -> str:
        return self.http.post("/chat/completions", json=body)


class Chatting(Payload):
    """A client with a method for messages comes before that for payloads."""

    def talk(self, messages: list[dict[str, Any]]) -> str:
        return self.post({"said": messages})


class Events:
    """A client that sends no dictionary of its caller."""

    def post(self, payload: dict[str, Any]) -> str:
        return json.dumps([*payload])


@pytest.mark.parametrize("kind", [Payload, Keywords])
def test_a_method_may_take_the_whole_body(kind: Any) -> None:
    SENT.clear()
    ShapedClient(recognise_shape(kind, "mine"), HERE, "m").chat(HELLO)

    [body] = SENT
    assert (body["model"], body["messages"]) == ("m", [{"role": "user", "content": "Hello"}])
    assert (body["tools"][0]["function"]["name"], body["max_completion_tokens"]) == ("look", 7)


def test_a_method_for_messages_comes_before_one_for_a_body() -> None:
    SENT.clear()
    ShapedClient(recognise_shape(Chatting, "mine"), HERE, "m").chat(replace(HELLO, tools=(), max_tokens=None))

    assert SENT == [{"said": [{"role": "user", "content": "Hello"}]}]
    assert body_method(method_of((), Events().post)) is None
    with pytest.raises(PluginError):
        recognise_shape(Events, "mine")


class Asked(TypedDict):
    messages: list[dict[str, Any]]
    max_tokens: NotRequired[int]


def ask(asked: Asked, tools: list[Any] | None = None) -> str:
    return json.dumps([asked, len(tools or ())])


def test_one_dictionary_may_hold_the_messages() -> None:
    said = [{"role": "user", "content": "Hello"}]

    answer = ShapedClient(recognise_shape(ask, "mine"), HERE, "m").chat(HELLO)

    assert json.loads(answer.text) == [{"messages": said, "max_tokens": 7}, 1]


def test_an_open_method_of_anthropic_gets_the_names_of_the_api() -> None:
    def messages(messages: list[Any], **params: Any) -> str:
        return json.dumps(sorted(params))

    shape = recognise_shape(messages, "mine").for_api("anthropic")
    from_openai = ShapedClient(recognise_shape(messages, "mine"), HERE, "m").chat(HELLO)
    of_anthropic = ShapedClient(shape.with_format(ANTHROPIC), HERE, "m", "anthropic").chat(HELLO)

    assert json.loads(from_openai.text) == ["max_completion_tokens", "tools"]
    assert json.loads(of_anthropic.text) == ["max_tokens", "tools"]


class Bot:
    """A client whose caller sets its tools as an attribute."""

    def __init__(self, base_url: str = "") -> None:
        self.tools: list[Any] = []
        self.temperature: float | None = None
        self.history: list[Any] = []

    def send(self, messages: list[dict[str, Any]]) -> str:
        tools = [{"type": "function", "function": each} for each in self.tools]
        return json.dumps([tools, self.temperature, messages])


class Registry(Bot):
    """A client that adds its tools itself."""

    def add(self, tool: dict[str, Any]) -> None:
        self.tools.append(tool)


def test_options_may_be_attributes_that_the_caller_sets() -> None:
    client = ShapedClient(recognise_shape(Bot, "mine"), HERE, "m")
    first = json.loads(client.chat(replace(HELLO, temperature=0.5, max_tokens=None)).text)
    second = json.loads(client.chat(replace(HELLO, tools=(), max_tokens=None)).text)

    assert first[0][0]["function"] == {"name": "look", "description": "Looks.", "parameters": TOOL.parameters}
    assert (first[1], second[:2]) == (0.5, [[], None])
    assert setting_attributes(Registry()) == {}
