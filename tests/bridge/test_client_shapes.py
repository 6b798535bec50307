from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.bridge.client_shapes import ShapedClient, as_completion, recognise
from harness.model.errors import MalformedResponse, PluginError, Unsupported
from harness.model.messages import ChatRequest, Finish, JsonMode, Message, Role, Text, Tool, ToolCall
from harness.model.protocols import Capability, Endpoint

CALL = {"id": "call_1", "name": "weather", "args": '{"city": "Paris"}'}
INNER = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
BLOCK = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}}
REQUEST = ChatRequest("gpt", (Message(Role.USER, (Text("Hello"),)),), system="Be short.")
HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": [{"message": {"content": None, "tool_calls": [INNER]}, "finish_reason": "tool_calls"}]},
        {"message": {"content": "", "tool_calls": [INNER]}},
        {"text": "", "tool_calls": [CALL]},
        SimpleNamespace(text=None, tool_calls=[SimpleNamespace(**CALL)], stop_reason="tool_use"),
        {"content": [{"type": "text", "text": ""}, BLOCK]},
        {"content": "", "calls": [{"id": "call_1", "name": "weather", "arguments": {"city": "Paris"}}]},
    ],
)
def test_a_call_is_found_in_any_usual_answer(answer: object) -> None:
    def chat(messages: list[Any], base_url: str) -> object:
        assert (messages[0]["role"], base_url) == ("system", HERE.base_url)
        return answer

    got = ShapedClient(recognise(chat, "mine:chat"), HERE, "gpt").chat(REQUEST)

    assert got.message.tool_calls == (ToolCall("call_1", "weather", {"city": "Paris"}),)


def test_a_text_is_an_answer_and_an_object_without_text_and_calls_is_none() -> None:
    body: Any = as_completion("Hello.")
    assert body["choices"][0]["message"]["content"] == "Hello."
    with pytest.raises(MalformedResponse, match="returned dict, with no text and no tool calls"):
        as_completion({"status": "ok"})


class Sdk:
    """A client of the form of OpenAI's SDK."""

    def __init__(self, *, api_key: str, base_url: str, max_retries: int = 2) -> None:
        assert (api_key, max_retries) == ("no-key", 0)
        self.base_url = base_url
        self.chat = SimpleNamespace(completions=self)

    def create(self, **arguments: Any) -> object:
        return {"choices": [{"message": {"content": ",".join(sorted(arguments))}}]}


class Narrow:
    """A client whose method takes a system prompt apart, and no response format."""

    def __init__(self, url: str, model: str) -> None:
        self.place = url, model

    async def ask(self, messages: list[Any], system_prompt: str, tools: object = None) -> str:
        assert self.place == (HERE.base_url, "gpt")
        return f"{system_prompt} {len(messages)} {tools}"


def test_arguments_have_the_names_that_the_method_has() -> None:
    sdk, narrow = (ShapedClient(recognise(each, "mine"), HERE, "gpt") for each in (Sdk, Narrow))
    request = ChatRequest("gpt", REQUEST.messages, system="Be short.", max_tokens=5)

    assert sdk.chat(request).text == "max_completion_tokens,messages,model"
    assert narrow.chat(REQUEST).text == "Be short. 1 None"
    with pytest.raises(Unsupported, match="response_format is not supported"):
        narrow.chat(ChatRequest("gpt", REQUEST.messages, response_format=JsonMode()))


def test_capabilities_follow_from_the_parameters() -> None:
    assert Capability.STREAMING in recognise(Sdk, "mine").capabilities
    found = recognise(Narrow, "mine").capabilities
    assert Capability.TOOLS in found
    assert not found & {Capability.JSON_MODE, Capability.STREAMING, Capability.TOOL_CHOICE}


def no_url(messages: list[Any]) -> str:
    return str(messages)


class NoMethod:
    """A client without a method that takes messages."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url


class Demanding(NoMethod):
    """A client that needs more than a URL, a key and a model."""

    def __init__(self, base_url: str, region: str) -> None:
        super().__init__(base_url + region)


@pytest.mark.parametrize(
    ("value", "question"),
    [
        (object(), "connected already. Name its class"),
        (no_url, "takes no base URL, so its requests cannot be redirected"),
        (NoMethod, "none of its methods chat, complete, completion, create, generate ... has a parameter 'messages'"),
        (Demanding, "it needs region. Write a function"),
    ],
)
def test_what_is_not_recognised_gets_the_question_that_decides_it(value: Callable[..., Any], question: str) -> None:
    with pytest.raises(PluginError, match=question):
        recognise(value, "mine:it")


def test_tools_go_in_the_form_of_openai() -> None:
    sent: list[Any] = []

    def chat(base_url: str, messages: list[Any], tools: list[Any]) -> str:
        sent.extend((base_url, messages, *tools))
        return "done"

    tool = Tool("weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
    ShapedClient(recognise(chat, "mine:chat"), HERE, "gpt").chat(ChatRequest("gpt", REQUEST.messages, tools=(tool,)))

    assert sent[2]["function"]["name"] == "weather"


def test_a_stream_is_asked_for_its_usage_where_the_client_can() -> None:
    sent: list[dict[str, Any]] = []

    class Streaming:
        """A client of the form of OpenAI's SDK, with named parameters."""

        def __init__(self, *, api_key: str, base_url: str) -> None:
            self.place = api_key, base_url
            self.chat = SimpleNamespace(completions=self)

        def create(
            self, *, model: str, messages: list[Any], stream: bool = False, stream_options: Any = None
        ) -> list[Any]:
            sent.append({"model": model, "messages": len(messages), "stream": stream, "options": stream_options})
            return [{"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}]

    events = [*ShapedClient(recognise(Streaming, "mine"), HERE, "gpt").stream(REQUEST)]

    assert isinstance(events[-1], Finish)
    assert sent == [{"model": "gpt", "messages": 2, "stream": True, "options": {"include_usage": True}}]
