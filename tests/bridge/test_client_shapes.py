from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypedDict, Unpack, cast

import httpx2
import pytest
from pydantic import BaseModel

from harness.bridge.call_log import logged_calls
from harness.bridge.clients.agents import recognise_agent
from harness.bridge.clients.answer_fields import as_completion
from harness.bridge.clients.answers import read_answer, read_stream
from harness.bridge.clients.constructors import constructor_names, default_base_url
from harness.bridge.clients.forms import ANTHROPIC, GEMINI
from harness.bridge.clients.message_classes import as_annotated
from harness.bridge.clients.message_dictionaries import with_joined_results, with_joined_texts
from harness.bridge.clients.methods import Method, method_of
from harness.bridge.clients.provider_arguments import divided_model, prefix_of, selectable_providers
from harness.bridge.clients.sessions import recognise_session
from harness.bridge.clients.shape_recognition import load_client, rank_of_candidate, recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.bridge.clients.sources import fields_given
from harness.bridge.clients.tool_choices import choice_as_text, takes_choice_as_text
from harness.bridge.clients.tool_declarations import wraps_tools
from harness.bridge.openai_messages import Memory, plain
from harness.model.errors import ChatError, InvalidRequest, MalformedResponse, PluginError, RateLimited, Unsupported
from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    Finish,
    Image,
    JsonMode,
    Message,
    NamedTool,
    Role,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ThinkingSettings,
    Tool,
    ToolCall,
    ToolCallStart,
    ToolResult,
)
from harness.model.protocols import Capability, Conversation, ConversationTool, Endpoint

CALL = {"id": "call_1", "name": "weather", "args": '{"city": "Paris"}'}
INNER = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
BLOCK = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}}
GEMINI_CALL = {"id": "call_1", "name": "weather", "args": {"city": "Paris"}}
REQUEST = ChatRequest("gpt", (Message(Role.USER, (Text("Hello"),)),), system="Be short.")
NO_ARGUMENTS = {"type": "object", "properties": {}}
LOOK = Tool("look", "Looks.", {"type": "object"})
HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")


Connect = Callable[..., ShapedClient]


@pytest.fixture
def connect() -> Iterator[Connect]:
    made: list[ShapedClient] = []

    def connect(value: object, model: str = "gpt") -> ShapedClient:
        made.append(ShapedClient(recognise_shape(value, "mine"), HERE, model))
        return made[-1]

    yield connect
    for client in made:
        client.close()


@dataclass(slots=True)
class Reply:
    """An answer of a client's own class."""

    text: str
    tool_calls: list[Any] = field(default_factory=list[Any])


@pytest.mark.parametrize(("status", "raised"), [(None, Unsupported), (400, InvalidRequest)])
def test_an_option_that_only_a_provider_refuses_is_an_error(status: int | None, raised: type[Exception]) -> None:
    def chat(messages: list[Any], **options: Any) -> str:
        assert messages
        error = ValueError(f"{status or ''} Argument 'temperature' is not known: {options['temperature']}")
        if status is not None:
            error.__dict__["status_code"] = status
        raise error

    client = ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt")
    with pytest.raises(raised):
        client.chat(replace(REQUEST, temperature=0.5))


@dataclass
class Outcome:
    """The result of an agent. Its messages end with the request."""

    raw: str
    messages: list[dict[str, str]]
    generated: list[dict[str, str]] = field(default_factory=list[dict[str, str]])


class Printed(Outcome):
    def __str__(self) -> str:
        return self.raw


def test_the_request_at_the_end_of_a_conversation_is_no_answer() -> None:
    asked, answered = [{"role": "user", "content": "Hello?"}], [{"role": "assistant", "content": "Hello."}]

    for each in (Printed("Hello.", asked), Outcome("", asked, answered), Outcome("", [*asked, *answered])):
        body: Any = as_completion(each)
        assert body["choices"][0]["message"]["content"] == "Hello."
    with pytest.raises(MalformedResponse, match="returned Outcome"):
        as_completion(Outcome("Hello.", asked))


def test_a_parameter_for_a_class_takes_no_schema() -> None:
    def chat(messages: list[Any], response_format: type[BaseModel] | None = None) -> str: ...

    def ask(messages: list[Any], response_format: type[BaseModel] | dict[str, Any] | None = None) -> str: ...

    known = [recognise_shape(each, "mine:chat").capabilities for each in (chat, ask)]
    assert [Capability.JSON_SCHEMA in each for each in known] == [False, True]


def test_objects_that_contain_each_other_are_no_answer() -> None:
    unsent = SimpleNamespace(usage=None)
    unsent.chat = SimpleNamespace(stop_reason=None, parent=unsent)

    with pytest.raises(MalformedResponse, match="with no text and no tool calls"):
        as_completion(unsent)


def test_a_text_in_place_of_an_annotated_object_is_no_answer() -> None:
    def chat(messages: list[Any]) -> Reply:
        return cast("Any", f"<html>{len(messages)}</html>")

    def ask(messages: list[Any]) -> Reply | str:
        return chat(messages)

    client, either = (ShapedClient(recognise_shape(each, "mine:chat"), HERE, "gpt") for each in (chat, ask))

    assert either.chat(REQUEST).text == "<html>2</html>"
    with pytest.raises(MalformedResponse, match="returned a text in place of an answer"):
        client.chat(REQUEST)


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": [{"message": {"content": None, "tool_calls": [INNER]}, "finish_reason": "tool_calls"}]},
        {"message": {"content": "", "tool_calls": [INNER]}},
        {"text": "", "tool_calls": [CALL]},
        SimpleNamespace(text=None, tool_calls=[SimpleNamespace(**CALL)], stop_reason="tool_use"),
        {"content": [{"type": "text", "text": ""}, BLOCK]},
        {"content": "", "calls": [{"id": "call_1", "name": "weather", "arguments": {"city": "Paris"}}]},
        {"content": [BLOCK], "stop_reason": "tool_use"},
        {"candidates": [{"content": {"parts": [{"function_call": GEMINI_CALL}]}, "finish_reason": "STOP"}]},
        ("", [("call_1", "weather", {"city": "Paris"})]),
        (None, [INNER], {"total_tokens": 5}),
        [INNER],
        {"type": "tool_call", "call_id": "call_1", "tool_name": "weather", "tool_args": {"city": "Paris"}},
        {"turn": Reply("", [CALL]), "complete": True},
        ({"content": "", "tool_calls": [INNER]}, "tool_calls"),
        Reply("", [CALL]),
    ],
)
def test_a_call_is_found_in_any_usual_answer(answer: object) -> None:
    def chat(messages: list[Any], base_url: str) -> object:
        assert (messages[0]["role"], base_url) == ("system", HERE.base_url)
        return answer

    got = ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt").chat(REQUEST)

    assert got.message.tool_calls == (ToolCall("call_1", "weather", {"city": "Paris"}),)


def test_a_text_is_an_answer_and_an_object_without_text_and_calls_is_none() -> None:
    body: Any = as_completion("Hello.")
    assert body["choices"][0]["message"]["content"] == "Hello."
    with pytest.raises(MalformedResponse, match="returned dict, with no text and no tool calls"):
        as_completion({"status": "ok"})


def test_a_text_and_a_call_may_come_in_a_tuple_without_a_list() -> None:
    call = {"id": "c1", "name": "weather", "arguments": "{}"}
    body: Any = as_completion(("Hello.", call))
    message = body["choices"][0]["message"]
    assert (message["content"], [each["id"] for each in message["tool_calls"]]) == ("Hello.", ["c1"])


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


def test_arguments_have_the_names_that_the_method_has(connect: Connect) -> None:
    sdk, narrow = connect(Sdk), connect(Narrow)
    request = ChatRequest("gpt", REQUEST.messages, system="Be short.", max_tokens=5)

    assert sdk.chat(request).text == "max_completion_tokens,messages,model"
    assert narrow.chat(REQUEST).text == "Be short. 1 None"
    with pytest.raises(Unsupported, match="response_format is not supported"):
        narrow.chat(ChatRequest("gpt", REQUEST.messages, response_format=JsonMode()))


def test_capabilities_follow_from_the_parameters() -> None:
    assert Capability.STREAMING in recognise_shape(Sdk, "mine").capabilities
    found = recognise_shape(Narrow, "mine").capabilities
    assert Capability.TOOLS in found
    assert not found & {Capability.JSON_MODE, Capability.STREAMING, Capability.TOOL_CHOICE}

    def chat(messages: list[Any], tools: list[Any], json_mode: bool = False) -> None: ...

    assert Capability.JSON_WITH_TOOLS in recognise_shape(chat, "mine").capabilities


class NoMethod:
    """A client without a method that takes messages."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def show(self) -> str:
        return self.base_url


class Demanding(NoMethod):
    """A client that needs more than a URL, a key and a model."""

    def __init__(self, base_url: str, region: str) -> None:
        super().__init__(base_url + region)


def received(system: str, history: list[Any]) -> Generator[str, str]:
    """A session whose messages are sent to its generator."""
    prompt = yield ""
    history.append(prompt)


@pytest.mark.parametrize(
    ("value", "question"),
    [
        (object(), "it is an object of object without methods. Name the class or function"),
        (NoMethod, "none of its methods .show. takes messages .a parameter messages, msgs, conversation"),
        (Demanding, "its constructor needs region. Write a function that makes it, as in try_it.py"),
        (received, "it is a generator that gets its messages by 'send'. Write a function 'def chat"),
    ],
)
def test_what_is_not_recognised_gets_the_question_that_decides_it(value: Callable[..., Any], question: str) -> None:
    with pytest.raises(PluginError, match=question):
        recognise_shape(value, "mine:it")


def test_tools_go_in_the_form_of_openai() -> None:
    sent: list[Any] = []

    def chat(base_url: str, messages: list[Any], tools: list[Any]) -> str:
        sent.extend((base_url, messages, *tools))
        return "done"

    tool = Tool("weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
    client = ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt")
    client.chat(ChatRequest("gpt", REQUEST.messages, tools=(tool,)))

    assert sent[2]["function"]["name"] == "weather"


@pytest.mark.parametrize(
    ("read", "answered"),
    [
        (lambda tool: [tool["name"], tool["description"], tool["parameters"]], ["look", "Looks.", NO_ARGUMENTS]),
        (lambda tool: [tool.get("name"), tool["input_schema"], tool.get("strict")], ["look", NO_ARGUMENTS, None]),
        (lambda tool: [tool["name"], tool["desc"], tool["schema"]], ["look", "Looks.", NO_ARGUMENTS]),
        (lambda tool: [tool["function"]["name"], *tool], ["look", "type", "function"]),
        (lambda tool: [tool.get("function", tool)["name"], len({**tool})], ["look", 2]),
    ],
)
def test_a_tool_may_be_read_with_or_without_its_enclosing_object(
    read: Callable[[Any], Any], answered: list[Any]
) -> None:
    def chat(messages: list[Any], tools: list[Any]) -> str:
        return json.dumps(read(tools[0]))

    request = ChatRequest("gpt", REQUEST.messages, tools=(LOOK,))
    assert json.loads(ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt").chat(request).text) == answered


def test_a_key_that_no_tool_has_is_missing() -> None:
    def chat(messages: list[Any], tools: list[Any]) -> str:
        return tools[0]["title"]

    with pytest.raises(KeyError, match="title"):
        ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt").chat(
            ChatRequest("gpt", REQUEST.messages, tools=(LOOK,))
        )


class Voice(Enum):
    """The roles of a client whose messages have calls."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


@dataclass
class Spoken:
    """A message of a client, with calls of their own."""

    role: Voice
    content: str
    tool_calls: list[dict[str, Any]] = field(default_factory=list[Any])


def test_own_messages_with_calls_keep_their_form_when_the_tools_have_that_of_the_api() -> None:
    sent: list[Any] = []

    def ask(messages: list[Spoken], tools: list[dict[str, Any]]) -> str:
        sent.extend([*messages, *tools])
        return "done"

    shape = recognise_shape(ask, "mine:ask").with_format(ANTHROPIC)
    call = Message(Role.ASSISTANT, (ToolCall("call_1", "look", {}),))
    ShapedClient(shape, HERE, "claude", "anthropic").chat(
        ChatRequest("claude", (*REQUEST.messages, call, *REQUEST.messages), system="Be short.", tools=(LOOK,))
    )

    assert [each.role for each in sent[:3]] == [Voice.SYSTEM, Voice.USER, Voice.ASSISTANT]
    assert sent[2].tool_calls[0]["id"] == "call_1"
    assert {**sent[-1]}["input_schema"] == {"type": "object"}


@pytest.mark.parametrize(
    ("answer", "reason", "raw"),
    [
        (SimpleNamespace(text="Hi.", finish="MAX_TOKENS"), StopReason.MAX_TOKENS, "MAX_TOKENS"),
        (SimpleNamespace(text="Hi.", status="max_output_tokens"), StopReason.MAX_TOKENS, "max_output_tokens"),
        ({"text": "Hi.", "finishReason": "MAX_TOKENS"}, StopReason.MAX_TOKENS, "MAX_TOKENS"),
        (SimpleNamespace(text="Hi.", finish=True, status="ok"), StopReason.END_TURN, None),
        (
            SimpleNamespace(content={"parts": [{"text": "Hi."}]}, finish="MAX_TOKENS"),
            StopReason.MAX_TOKENS,
            "MAX_TOKENS",
        ),
        (SimpleNamespace(content={"parts": [{"text": "Hi."}]}, text="Hi."), StopReason.END_TURN, None),
    ],
)
def test_a_stop_reason_may_have_other_names(answer: object, reason: StopReason, raw: str | None) -> None:
    got = read_answer(answer, REQUEST, Memory(), "gemini")

    assert (got.text, got.stop_reason, got.raw_stop_reason) == ("Hi.", reason, raw)
    assert ("no-stop-reason" in got.reported) == (raw is None)


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

    events = [*ShapedClient(recognise_shape(Streaming, "mine"), HERE, "gpt").stream(REQUEST)]

    assert isinstance(events[-1], Finish)
    assert sent == [{"model": "gpt", "messages": 2, "stream": True, "options": {"include_usage": True}}]


class Claude:
    """A client of the form of Anthropic's SDK."""

    def __init__(self, base_url: str, api_key: str) -> None:
        self.sent: list[dict[str, Any]] = []
        self.messages = self

    def create(self, *, model: str, max_tokens: int, messages: Any, system: Any = None, tools: Any = None) -> Any:
        self.sent.append({"model": model, "messages": messages, "system": system, "tools": tools})
        usage = SimpleNamespace(input_tokens=1, output_tokens=2)
        block = SimpleNamespace(type="text", text=str(self.sent))
        return SimpleNamespace(content=[block], stop_reason="end_turn", usage=usage)

    def stream(self, **_arguments: Any) -> Any:
        start = {"role": "assistant", "content": [], "usage": {"input_tokens": 1}}
        return nullcontext(
            [
                {"type": "message_start", "message": start},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi."}},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
                {"type": "message_stop"},
            ]
        )


class Gemini:
    """An asynchronous client of the form of Google's SDK."""

    def __init__(self, http_options: Any = None, *, base_url: str) -> None:
        self.models = self

    async def generate_content(self, *, model: str, contents: Any, config: Any = None) -> Any:
        return _chunk(f"{model} {contents} {config}")

    async def generate_content_stream(self, **_arguments: Any) -> AsyncIterator[Any]:
        async def chunks() -> AsyncIterator[Any]:
            yield _chunk("Hi.")

        return chunks()


def _chunk(text: str) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}]}


def _streamed(client: ShapedClient) -> ChatResponse:
    end = [*client.stream(REQUEST)][-1]
    assert isinstance(end, Finish)
    return end.response


def test_a_client_like_an_sdk_gets_the_messages_of_its_api(connect: Connect) -> None:
    tool = Tool("weather", "The weather.", {"type": "object"})
    with_tool = ChatRequest("m", REQUEST.messages, system="Be short.", tools=(tool,))
    claude, gemini = connect(Claude, "claude-opus-4-8"), connect(Gemini)

    assert "'system': 'Be short.', 'tools': [{'name': 'weather'" in claude.chat(with_tool).text
    assert claude.chat(REQUEST).usage.input_tokens == 1
    assert gemini.chat(with_tool).text == (
        "gpt [{'role': 'user', 'parts': [{'text': 'Hello'}]}] {'system_instruction': 'Be short.', 'tools': "
        "[{'functionDeclarations': [{'name': 'weather', 'description': 'The weather.', "
        "'parametersJsonSchema': {'type': 'object'}}]}]}"
    )
    assert (_streamed(claude).text, _streamed(gemini).text) == ("Hi.", "Hi.")


class Completions:
    """A client of the form of OpenAI's SDK, with code that looks as if it took the name of a tool."""

    def __init__(self, base_url: str, api_key: str) -> None:
        self.chat = self.completions = self

    def create(self, *, model: str, messages: Any, tools: Any = None, tool_choice: Any = None) -> Any:
        named = {"name": tool_choice}
        return {"choices": [{"message": {"content": f"{named['name']}"}, "finish_reason": "stop"}]}


def test_an_sdk_gets_the_tool_choice_of_its_api(connect: Connect) -> None:
    request = replace(REQUEST, tools=(LOOK,), tool_choice=NamedTool("look"))

    assert connect(Completions).chat(request).text == str({"type": "function", "function": {"name": "look"}})


def test_a_stream_may_consist_of_texts_and_end_with_the_whole_answer(connect: Connect) -> None:
    class Streaming:
        """A client with a method that streams."""

        def __init__(self, base_url: str) -> None: ...

        def chat(self, messages: Any) -> Reply:
            raise NotImplementedError

        async def stream(self, messages: Any) -> AsyncIterator[Any]:
            for piece in ("He", "llo"):
                yield piece
            yield Reply("Hello", [CALL])

    got = _streamed(connect(Streaming))

    assert (got.text, [call.id for call in got.message.tool_calls]) == ("Hello", ["call_1"])
    lacks = {"no-stop-reason": True, "no-usage": True, "no-refusal": True}
    settings = ["max_tokens", "temperature", "top_p", "stop"]
    assert (got.stop_reason, got.reported) == (StopReason.TOOL_USE, {**lacks, "no-settings": settings})


def test_a_stream_may_end_with_the_answer_of_the_api(connect: Connect) -> None:
    def ask(messages: Any, stream: bool = False) -> Iterator[Any]:
        yield "Hi."
        part = {"type": "refusal", "refusal": "No."}
        text = {"type": "output_text", "text": "Hi."}
        yield {"output": [{"type": "message", "role": "assistant", "content": [text, part]}], "status": "completed"}

    got = _streamed(connect(ask))

    assert (got.text, got.stop_reason, len(got.message.parts)) == ("Hi.", StopReason.REFUSAL, 2)


def test_own_fields_beside_the_items_of_responses_count() -> None:
    items = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}]
    answer = {
        "output": items,
        "status": "incomplete",
        "usage": {"input": 3, "output": 4},
    }
    got = read_answer({**answer, "reason": "max_output_tokens"}, REQUEST, Memory(), "openai-responses")
    other = read_answer({**answer, "incomplete_reason": "max_output_tokens"}, REQUEST, Memory(), "openai-responses")

    assert (got.text, got.stop_reason, other.stop_reason) == ("Hi", StopReason.MAX_TOKENS, StopReason.MAX_TOKENS)
    assert (got.usage.input_tokens, got.usage.output_tokens) == (3, 4)


def test_a_stream_may_end_with_the_message_of_anthropic() -> None:
    message = {"type": "message", "role": "assistant", "content": [THOUGHT, USE], "stop_reason": "tool_use"}
    whole = {**message, "id": "msg_1", "model": "claude", "usage": {"input_tokens": 3, "output_tokens": 4}}
    *_, last = read_stream([whole], REQUEST, Memory(), "anthropic")

    assert isinstance(last, Finish)
    assert [type(each) for each in last.response.message.parts] == [Thinking, ToolCall]
    assert last.response.usage.output_tokens == 4


@dataclass
class Config:
    """Settings of a client."""

    base_url: str = "https://api.openai.com/v1"
    model: str = "m"


class Configured:
    """A client that takes a configuration, and is called itself."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, msgs: Any) -> str:
        return f"{self.config.base_url} {self.config.model} {len(msgs)}"


def test_a_configuration_gets_the_base_url_and_the_model(connect: Connect) -> None:
    assert connect(Configured).chat(REQUEST).text == "http://127.0.0.1:9/v1 gpt 2"


def test_an_object_and_a_method_are_called_as_they_are() -> None:
    shape = recognise_shape(Configured(Config("mine")), "mine:client")
    assert (shape.has_base_url, ShapedClient(shape, HERE, "gpt").chat(REQUEST).text) == (False, "mine m 2")
    assert recognise_shape(Narrow, "mine:Narrow.ask", "ask").whole.path == ("ask",)


class Closing:
    """A client like those of the SDKs: a context manager that sends nothing once it is closed."""

    def __init__(self, base_url: str = "") -> None:
        self.base_url, self.is_closed = base_url, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True

    def chat(self, messages: list[dict[str, Any]]) -> str:
        return f"{len(messages)} {self.is_closed}"


def test_only_a_client_that_was_created_here_is_closed() -> None:
    own, made = Closing("mine"), list[Closing]()
    object_shape, shape = recognise_shape(own, "mine:client"), recognise_shape(Closing, "mine:Closing")
    for each in (object_shape, object_shape, shape):
        client = ShapedClient(each, HERE, "gpt")
        assert client.chat(REQUEST).text == "2 False"
        made.append(cast("Any", client)._client)
        client.close()

    assert [each.is_closed for each in made] == [False, False, True]
    assert made[0] is own


class OpenedOnce:
    """A client that opens its HTTP client, which refuses to be opened twice."""

    def __init__(self) -> None:
        self.is_open = False

    def __enter__(self) -> Self:
        if self.is_open:
            raise RuntimeError("Cannot open a client instance more than once.")
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    def chat(self, messages: list[dict[str, Any]]) -> str:
        return f"{len(messages)} {self.is_open}"


class AsynchronousOpenedOnce:
    """The same for an asynchronous client."""

    def __init__(self) -> None:
        self.inner = OpenedOnce()

    async def __aenter__(self) -> Self:
        self.inner.__enter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.inner.__exit__()

    async def chat(self, messages: list[dict[str, Any]]) -> str:
        return self.inner.chat(messages)


@pytest.mark.parametrize("own", [OpenedOnce(), AsynchronousOpenedOnce()])
def test_an_object_of_the_user_is_opened_once_and_stays_open(own: object) -> None:
    shape = recognise_shape(own, "mine:client")
    for _ in range(2):
        client = ShapedClient(shape, HERE, "gpt")
        assert client.chat(REQUEST).text == "2 True"
        client.close()


def test_an_object_that_keeps_its_history_begins_each_conversation_without_one() -> None:
    own = Session()
    shape = recognise_shape(own, "mine:session")
    texts = [ShapedClient(shape, HERE, "gpt").chat(REQUEST).text for _ in range(2)]

    assert texts == ["Be short. ['Hello']", "Be short. ['Hello']"]
    assert own.history == []


def _delegating(function: Any) -> Any:
    """Give a function the parameters of the method that gets its options, as some decorators do."""
    own = signature(function)
    extra = [each for each in signature(_sent).parameters.values() if each.name not in own.parameters]
    kept = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
    function.__signature__ = own.replace(parameters=[*kept, *extra])
    return function


def _sent(*, system: str = "", temperature: float = 1) -> None: ...


class Part:
    """A part of a client, which may be called itself."""

    def __call__(self, messages: list[Any], system: str = "") -> str:
        return "part"


class Delegating:
    """A client with short names of its own, beside those of the method that gets its options."""

    def __init__(self) -> None:
        self.c = Part()

    @classmethod
    def parse(cls, messages: list[Any]) -> Delegating:
        return cls()

    @_delegating
    def transmit(self, msgs: list[Any], sp: str = "", **options: Any) -> str:
        return f"{len(msgs)} {sp} {options}"


def test_parameters_of_the_code_come_before_those_that_only_the_signature_shows(connect: Connect) -> None:
    client = connect(Delegating)

    assert recognise_shape(Delegating, "mine").whole.path == ("transmit",)
    assert client.chat(REQUEST).text == "1 Be short. {}"


class Hosted:
    """A client that passes its options on to an HTTP client, which takes no key."""

    def __init__(self, host: str = "", **options: Any) -> None:
        self.http = self.connect(host, **options)

    @staticmethod
    def connect(host: str, timeout: float = 1) -> str:
        return f"{host} {timeout}"

    def chat(self, messages: Any) -> str:
        return f"{self.http} {len(messages)}"


class HostedWithKey(Hosted):
    def __init__(self, host: str, api_key: str) -> None:
        super().__init__(host, key=api_key)


def test_options_of_a_constructor_that_its_http_client_rejects_are_left_out() -> None:
    shape = recognise_shape(Hosted, "mine:Hosted")
    assert ShapedClient(shape, HERE, "gpt").chat(REQUEST).text == "http://127.0.0.1:9/v1 1 2"

    with pytest.raises(TypeError, match="'key'"):
        recognise_shape(HostedWithKey, "mine:Keyed")


def test_a_function_that_never_reads_its_tools_takes_none() -> None:
    def chat(messages: Any, tools: Any = None) -> str:
        """Answer without tools."""
        return str(messages)

    def passing(messages: Any, tools: Any = None) -> str:
        return chat(**locals())

    def defined(messages: Any, tools: Any = None) -> str:
        def answer() -> str:
            return f"{messages} {tools}"

        return answer()

    shape = recognise_shape(chat, "mine:chat")
    assert shape.takes("tools") is False
    assert shape.sentence.endswith("(without tools, because its code does not use the parameter 'tools')")
    assert [recognise_shape(each, "mine:chat").takes("tools") for each in (passing, defined)] == [True, True]


def test_a_prompt_is_the_only_text_of_a_conversation() -> None:
    def ask(question: str, system: str = "Be nice.", json_mode: bool = False) -> str:
        return f"{question} {system} {json_mode}"

    shape = recognise_shape(ask, "mine:ask")
    client = ShapedClient(shape, HERE, "gpt")

    assert client.chat(REQUEST).text == "Hello Be short. False"
    assert client.chat(ChatRequest("gpt", REQUEST.messages, response_format=JsonMode())).text == "Hello Be nice. True"
    assert (shape.has_default_system, Capability.TOOLS in shape.capabilities) == (True, False)
    with pytest.raises(Unsupported, match="a conversation of several turns"):
        client.chat(ChatRequest("gpt", REQUEST.messages * 2))


def test_a_batch_gets_the_prompt_in_a_list_and_its_only_answer_counts() -> None:
    def run(prompts: Sequence[str], system: str | None = None) -> list[Reply]:
        return [Reply(f"{each} {system}") for each in prompts]

    shape = recognise_shape(run, "mine:run")

    assert ShapedClient(shape, HERE, "gpt").chat(REQUEST).text == "Hello Be short."
    assert Capability.HISTORY not in shape.capabilities


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (RuntimeError("HTTP 429: slow down"), RateLimited),
        (ValueError("HTTP 429: slow down"), RateLimited),
        (KeyError("429"), KeyError),
        (OSError("no 4290"), ChatError),
        (ValueError("the answer was cut off"), ChatError),
    ],
    ids=repr,
)
def test_a_status_in_the_text_of_an_exception_is_the_providers(
    connect: Connect, raised: Exception, expected: type[Exception]
) -> None:
    def chat(messages: Any) -> str:
        raise raised

    with pytest.raises(expected):
        connect(chat).chat(REQUEST)


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [(int, "x", MalformedResponse), (json.loads, "{", MalformedResponse), (open, "/no/such/file", FileNotFoundError)],
)
def test_an_exception_that_a_client_does_not_raise_itself_is_a_crash_or_a_malformed_answer(
    connect: Connect, function: Callable[[str], object], value: str, expected: type[Exception]
) -> None:
    def chat(messages: Any) -> str:
        return str(function(value))

    with pytest.raises(expected):
        connect(chat).chat(REQUEST)


class Picky:
    """A client that looks its model up, and has a property that fails."""

    def __init__(self, base_url: str, model: str) -> None:
        self.price = {"gpt-4.1": 2}[model]

    @property
    def cost(self) -> float:
        raise KeyError("no request yet")

    def talk(self, conversation: Any, temp: float = 1.0) -> str:
        return f"{len(conversation)} {temp}"


def test_a_client_that_knows_few_models_is_made_with_one_of_them(connect: Connect) -> None:
    shape = recognise_shape(Picky, "mine")

    assert (shape.model, shape.whole.path) == ("gpt-4.1", ("talk",))
    asked = ChatRequest("gpt-4.1", REQUEST.messages, temperature=0.5)
    assert connect(Picky, "gpt-4.1").chat(asked).text == "1 0.5"


class Omitted:
    """A class for arguments that are left out, as the SDKs have it."""


class Speaker(Enum):
    """Role of a message of a client's own class."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass
class OwnCall:
    """A tool call of a client's own class."""

    id: str
    name: str
    args: dict[str, Any]


@dataclass
class OwnMessage:
    """A message of a client's own class."""

    role: Speaker
    content: str = ""
    tool_calls: list[OwnCall] = field(default_factory=list[OwnCall])


def test_messages_and_calls_are_of_the_classes_that_a_method_names(connect: Connect) -> None:
    class Typed:
        """A client with annotations."""

        def __init__(self, base_url: str) -> None: ...

        def complete(self, messages: Omitted | list[Omitted | OwnMessage]) -> OwnMessage:
            assert isinstance(messages, list)
            said = [
                (each.role.name, each.content, *(call.args for call in each.tool_calls))
                for each in messages
                if isinstance(each, OwnMessage)
            ]
            return OwnMessage(Speaker.ASSISTANT, str(said))

    call = Message(Role.ASSISTANT, (ToolCall("call_1", "weather", {"city": "Paris"}),))
    history = ChatRequest("gpt", (*REQUEST.messages, call), system="Be short.")

    assert connect(Typed).chat(history).text == (
        "[('SYSTEM', 'Be short.'), ('USER', 'Hello'), ('ASSISTANT', '', {'city': 'Paris'})]"
    )


@dataclass
class OwnResult:
    """A result of a client's own class."""

    call_id: str
    content: str
    is_error: bool = False


@dataclass
class Batch:
    """A message of a client's own class that holds all results of a turn."""

    role: str
    content: str = ""
    tool_results: list[OwnResult] = field(default_factory=list[OwnResult])


def test_results_go_into_the_list_of_a_message_with_their_marks_of_errors() -> None:
    seen: list[Batch] = []

    async def stream(messages: list[Batch]) -> AsyncIterator[dict[str, Any]]:
        seen.extend(messages)
        yield {"text": "Do"}
        yield {"text": "ne.", "stop_reason": None}
        yield {"stop_reason": "max_tokens", "text": ""}

    shape = recognise_shape(stream, "mine:stream")
    results = (ToolResult("a", "f", "1"), ToolResult("b", "f", "broken", is_error=True))
    with closing(ShapedClient(shape, HERE, "gpt")) as client:
        got = client.chat(ChatRequest("gpt", (Message(Role.USER, results),)))

    assert shape.marks_errors
    assert Capability.VISION not in shape.capabilities
    assert [each.tool_results for each in seen] == [[OwnResult("a", "1"), OwnResult("b", "broken", is_error=True)]]
    assert (got.text, got.stop_reason) == ("Done.", StopReason.MAX_TOKENS)


@dataclass
class AnsweredCall:
    name: str
    args: dict[str, Any]
    id: str = ""


@dataclass
class Done:
    """What became of a call."""

    call: AnsweredCall
    value: Any


@dataclass
class Asked:
    text: str


@dataclass
class Called:
    text: str
    calls: list[AnsweredCall]


@dataclass
class ToolTurn:
    done: list[Done]


def test_a_result_may_have_its_call() -> None:
    seen: list[Any] = []

    def chat(turns: Sequence[Asked | Called | ToolTurn]) -> Called:
        seen.append(turns)
        return Called("", [AnsweredCall("f", {"a": 1}, "c1"), AnsweredCall("f", {"a": 2}, "c2")])

    with closing(ShapedClient(recognise_shape(chat, "mine"), HERE, "gpt")) as client:
        request = replace(REQUEST, system=None)
        results = Message(Role.USER, (ToolResult("c1", "f", "one"), ToolResult("c2", "f", "two")))
        client.chat(replace(request, messages=(*request.messages, client.chat(request).message, results)))

    calls = [AnsweredCall("f", {"a": 1}, "c1"), AnsweredCall("f", {"a": 2}, "c2")]
    assert seen[-1] == [Asked("Hello"), Called("", calls), ToolTurn([Done(calls[0], "one"), Done(calls[1], "two")])]


def test_a_result_that_stays_a_dictionary_has_no_further_key() -> None:
    def chat(turns: Sequence[Called | dict[str, Any]]) -> str:
        return str([sorted(each) for each in turns if isinstance(each, dict)])

    calls = Message(Role.ASSISTANT, (ToolCall("c1", "f", {"a": 1}),))
    results = Message(Role.USER, (ToolResult("c1", "f", "one"),))
    with closing(ShapedClient(recognise_shape(chat, "mine"), HERE, "gpt")) as client:
        said = client.chat(replace(REQUEST, system=None, messages=(*REQUEST.messages, calls, results))).text

    assert said == "[['content', 'role'], ['content', 'name', 'role', 'tool_call_id']]"


def test_a_parameter_that_switches_reasoning_on_takes_no_amount() -> None:
    def chat(messages: list[Any], thinking: bool = False) -> str:
        return str(thinking)

    shape = recognise_shape(chat, "mine").with_format(ANTHROPIC)
    small = replace(REQUEST, model="claude-opus-5-5", system=None, max_tokens=8192)
    with closing(ShapedClient(shape, HERE, "claude-opus-5-5", "anthropic")) as client:
        assert client.chat(replace(small, thinking=ThinkingSettings(effort="low"))).text == "True"
        assert client.chat(small).text == "False"
        amount = replace(small, model="claude-haiku-4-5", thinking=ThinkingSettings(budget_tokens=2000))
        with pytest.raises(Unsupported, match="thinking only switches it"):
            client.chat(amount)


class Switched:
    def __init__(self, base_url: str, thinking: bool = False) -> None:
        self.thinking = thinking

    def chat(self, messages: list[Any]) -> str:
        return str(self.thinking)


def test_an_attribute_may_switch_reasoning_on() -> None:
    shape = recognise_shape(Switched, "mine:Switched").with_format(ANTHROPIC)
    request = replace(REQUEST, model="claude-opus-5-5", system=None, max_tokens=8192)
    with closing(ShapedClient(shape, HERE, "claude-opus-5-5", "anthropic")) as client:
        given = [client.chat(replace(request, thinking=each)).text for each in (ThinkingSettings(effort="low"), None)]

    assert given == ["True", "False"]


def _by_pairs(messages: list[Any]) -> str:
    pairs = [(call["name"], call["args"], value) for call, value in messages[-1]["results"]]
    return str((len(messages), pairs))


def _by_other_key(messages: list[Any]) -> str:
    return str(messages[-1]["outcomes"])


@pytest.mark.parametrize(
    ("chat", "text"),
    [
        (_by_pairs, "(2, [('f', {'a': 1}, 'one'), ('f', {'a': 2}, 'two')])"),
        (_by_other_key, "reads 'outcomes', which no usual message has"),
    ],
)
def test_the_results_of_a_turn_may_be_a_list(chat: Callable[..., str], text: str) -> None:
    calls = Message(Role.ASSISTANT, (ToolCall("c1", "f", {"a": 1}), ToolCall("c2", "f", {"a": 2})))
    results = Message(Role.USER, (ToolResult("c1", "f", "one"), ToolResult("c2", "f", "two")))
    with closing(ShapedClient(recognise_shape(chat, "mine"), HERE, "gpt")) as client:
        try:
            said = client.chat(replace(REQUEST, system=None, messages=(calls, results))).text
        except Unsupported as error:
            said = str(error)

    assert text in said


def test_the_results_of_a_turn_may_be_a_list_of_dictionaries() -> None:
    wire = [{"role": "tool", "tool_call_id": name, "name": "f", "content": name.upper()} for name in ("a", "b")]
    ((turn),) = with_joined_results(wire, REQUEST, 'for result in message["results"]:')

    assert [(each["id"], each["output"]) for each in turn["results"]] == [("a", "A"), ("b", "B")]
    source = 'for t in turns:\n    if t["role"] == "results":\n        yield from t["results"]'
    assert [each["role"] for each in with_joined_results(wire, REQUEST, source)] == ["results"]
    assert with_joined_results(wire, REQUEST, 'message["content"]') == wire


def test_only_a_result_has_an_output() -> None:
    def chat(messages: list[Any]) -> str:
        return str(["output" in each for each in messages])

    said = Message(Role.ASSISTANT, (Text("Yes."),))
    result = Message(Role.USER, (ToolResult("c1", "f", "one"),))
    with closing(ShapedClient(recognise_shape(chat, "mine"), HERE, "gpt")) as client:
        assert client.chat(replace(REQUEST, system=None, messages=(said, result))).text == "[False, True]"


def test_a_message_in_the_clients_own_form_goes_back_as_it_came() -> None:
    seen: list[Any] = []
    own = {"role": "assistant", "content": "", "calls": [{**CALL, "signature": "s"}]}

    def chat(messages: Any, functions: Any = None, temperature: float | None = None) -> Any:
        seen.extend([*messages, functions])
        return own

    client = ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt")
    tools = (Tool("weather", "The weather.", {}),)
    answer = client.chat(ChatRequest("gpt", REQUEST.messages, tools=tools))
    client.chat(ChatRequest("gpt", (*REQUEST.messages, answer.message)))

    assert seen[1][0]["name"] == "weather"
    assert seen[3] is own
    assert answer.reported["no-settings"] == ["max_tokens", "top_p", "stop"]


def _calls_by_name(messages: list[Any]) -> list[Any]:
    return [(each["id"], each["name"], each["arguments"]) for each in messages[1].get("tool_calls") or []]


def _calls_as_texts(messages: list[Any]) -> list[Any]:
    return [(each["id"], each["name"], json.loads(each["arguments"])) for each in messages[1]["tool_calls"]]


def _calls_with_signatures(messages: list[Any]) -> list[Any]:
    assert (messages[0]["text"], messages[1]["text"], messages[2]["result"]) == ("Hello", "", "18 C")
    assert (messages[1]["role"], messages[2]["call_id"]) == ("model", "call_1")
    assert [each.get("signature", "s") for each in messages[1].copy()["calls"]] == ["s"]
    return [(each["id"], each["name"], each["args"]) for each in messages[1]["calls"]]


def _calls_in_openais_form(messages: list[Any]) -> list[Any]:
    sent = json.loads(json.dumps(messages))
    assert sent[1] == {"role": "assistant", "content": sent[1]["content"], "tool_calls": [INNER]}
    assert messages[0].get("calls", "none") == "none"
    functions = [each["function"] for each in sent[1]["tool_calls"]]
    return [(sent[1]["tool_calls"][0]["id"], each["name"], json.loads(each["arguments"])) for each in functions]


OWN = {"id": "call_1", "name": "weather", "arguments": {"city": "Paris"}}
SIGNED = {"id": "call_1", "name": "weather", "args": {"city": "Paris"}, "signature": "s"}


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("read", "answer"),
    [
        (_calls_by_name, {"content": "", "tool_calls": [OWN]}),
        (_calls_as_texts, {"text": "", "tool_calls": [{**OWN, "arguments": '{"city": "Paris"}'}]}),
        (_calls_with_signatures, {"text": "", "calls": [SIGNED]}),
        (_calls_in_openais_form, ("", [CALL])),
    ],
)
def test_a_client_may_read_calls_in_the_history_as_it_returned_them(
    read: Callable[[Any], Any], answer: Any, is_known: bool
) -> None:
    seen: list[Any] = []

    def chat(messages: list[Any], tools: Any = None) -> Any:
        seen.extend(read(messages) if len(messages) > 1 else ())
        return answer

    shape = recognise_shape(chat, "mine:chat")
    source = (
        "json.loads(each['arguments'])" if read is _calls_as_texts else "m['role'] == 'model'" * ("calls" in answer)
    )
    client = ShapedClient(replace(shape, whole=replace(shape.whole, module=source)), HERE, "gpt")
    asked = (Message(Role.USER, (Text("Hello"),)),)
    called = Message(Role.ASSISTANT, (ToolCall("call_1", "weather", {"city": "Paris"}),))
    if is_known:
        called = client.chat(ChatRequest("gpt", asked)).message
    results = Message(Role.USER, (ToolResult("call_1", "weather", "18 C"),))
    if is_known or read is not _calls_with_signatures:
        client.chat(ChatRequest("gpt", (*asked, called, results)))
        assert seen == [("call_1", "weather", {"city": "Paris"})]


class Turn(BaseModel):
    """A message of a client's own class, as a pydantic model."""

    role: Speaker
    content: str | None = None
    tool_calls: list[OwnCall] = []


class OwnAnswer(BaseModel):
    """An answer of a client, with a message of its own class."""

    message: Turn


def test_messages_of_pydantic_models_go_back_as_they_came() -> None:
    seen: list[Turn] = []
    own = Turn(role=Speaker.ASSISTANT, tool_calls=[OwnCall("call_1", "weather", {"city": "Paris"})])

    def chat(messages: list[Turn]) -> OwnAnswer:
        seen.extend(messages)
        return OwnAnswer(message=own)

    client = ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt")
    answer = client.chat(REQUEST)
    other = Message(Role.ASSISTANT, (ToolCall("call_2", "weather", {"city": "Rome"}),))
    client.chat(ChatRequest("gpt", (*REQUEST.messages, answer.message, other)))

    assert seen[3] is own
    assert seen[4].tool_calls == [OwnCall("call_2", "weather", {"city": "Rome"})]


class Convertible(BaseModel):
    """An answer of a client that becomes a message by a method."""

    text: str

    def as_message(self) -> Turn:
        return Turn(role=Speaker.ASSISTANT, content=f"From as_message: {self.text}")

    def as_system(self, name: str) -> Turn:
        raise AssertionError(name)


def test_an_answer_with_a_method_for_its_message_goes_back_as_that_message() -> None:
    seen: list[Turn] = []

    def chat(messages: list[Turn]) -> Convertible:
        seen.extend(messages)
        return Convertible(text="Paris.")

    client = ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt")
    answer = client.chat(REQUEST)
    client.chat(ChatRequest("gpt", (*REQUEST.messages, answer.message)))

    assert (answer.text, seen[-1].content) == ("Paris.", "From as_message: Paris.")


class Blocks(BaseModel):
    """An answer of a client with the blocks of the API, of which its message has the joined text."""

    message: Turn
    blocks: list[dict[str, Any]]


def test_a_message_goes_back_as_it_came_if_the_answer_also_has_the_blocks_of_its_text() -> None:
    seen: list[Turn] = []
    own = Turn(role=Speaker.ASSISTANT, content="I look. One call.")

    def chat(messages: list[Turn]) -> Blocks:
        seen.extend(messages)
        return Blocks(message=own, blocks=[{"type": "text", "text": "I look. "}, {"type": "text", "text": "One call."}])

    client = ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "claude", "anthropic")
    answer = client.chat(REQUEST)
    client.chat(ChatRequest("claude", (*REQUEST.messages, answer.message)))

    assert len(answer.message.parts) == 2
    assert seen[-1] is own


class BlockTurn(BaseModel):
    """A message whose content is a list of the API's blocks."""

    role: Literal["user", "assistant"]
    blocks: list[dict[str, Any]]


class BlockAnswer(BaseModel):
    turn: BlockTurn
    calls: list[dict[str, Any]]


def test_a_message_class_may_list_the_blocks_of_the_api_as_dictionaries() -> None:
    seen: list[list[BlockTurn]] = []
    calls: list[dict[str, Any]] = [{"type": "tool_use", "id": each, "name": "get", "input": {}} for each in "ab"]

    def chat(turns: list[BlockTurn]) -> BlockAnswer:
        seen.append(turns)
        return BlockAnswer(turn=BlockTurn(role="assistant", blocks=calls), calls=calls)

    client = ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "claude", "anthropic")
    answer = client.chat(replace(REQUEST, system=None))
    results = (Message(Role.USER, (ToolResult(each.id, each.name, "sunny"),)) for each in answer.tool_calls)
    client.chat(ChatRequest("claude", (*REQUEST.messages, answer.message, *results)))

    assert seen[0][0].blocks == [{"type": "text", "text": "Hello"}]
    assert [each.role for each in seen[-1]] == ["user", "assistant", "user"]
    assert seen[-1][1].blocks == calls
    assert [each["tool_use_id"] for each in seen[-1][-1].blocks] == ["a", "b"]


def test_texts_are_joined_for_clients_that_take_one_except_in_their_own_messages() -> None:
    memory, texts = Memory(), (Text("One."), Text("Two."))
    own = Message(Role.ASSISTANT, texts)
    memory.keep(ChatRequest("gpt", REQUEST.messages), own, {"role": "assistant", "content": [*texts]})

    joined = with_joined_texts(ChatRequest("gpt", (*REQUEST.messages, own, Message(Role.USER, texts))), memory)

    assert joined.messages[1:] == (own, Message(Role.USER, (Text("One.\nTwo."),)))


class Injected:
    """A client that gets an SDK's client, without an annotation."""

    def __init__(self, client: Any, model: str = "gpt") -> None:
        self.client, self.model = client, model

    def ask(self, messages: Any) -> Any:
        return self.client.chat.completions.create(model=self.model, messages=messages)


def test_a_client_gets_the_sdk_that_it_calls() -> None:
    shape = recognise_shape(Injected, "mine:Injected")
    made: Any = shape.make(HERE.base_url, "no-key", "gpt")

    assert (shape.whole.path, str(made.client.base_url)) == (("ask",), f"{HERE.base_url}/")


def test_the_default_model_shows_the_prefix_that_models_need() -> None:
    def chat(messages: Any, model: str = "openai/gpt-4.1") -> str:
        return model

    assert ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt").chat(REQUEST).text == "openai/gpt"


def chat_with_texts(messages: Any) -> str:
    return str(messages[0]["content"].strip())


def chat_with_texts_or_bytes(messages: Any) -> str:
    parts = [each if isinstance(each, bytes) else {"text": str(each)} for each in messages[0]["content"]]
    return json.dumps(parts)


@pytest.mark.parametrize("function", [chat_with_texts, chat_with_texts_or_bytes])
def test_a_client_that_fails_for_images_does_not_take_them(function: Callable[..., object]) -> None:
    client = ShapedClient(recognise_shape(function, "mine:chat"), HERE, "gpt")

    with pytest.raises(Unsupported, match="a list of content parts"):
        client.chat(ChatRequest("gpt", (Message(Role.USER, (Image("image/png", b"i"), Text("What is it?"))),)))


class Responses:
    """A client of the form of OpenAI's SDK for Responses."""

    def __init__(self, base_url: str) -> None:
        self.responses = self

    def create(self, *, model: str, input: Any, instructions: Any = None, stream: bool = False) -> Any:  # noqa: A002
        message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": instructions}]}
        answer = {"object": "response", "status": "completed", "model": model, "output": [message], "input": input}
        return [{"type": "response.completed", "response": answer}] if stream else answer


def test_a_client_like_the_sdk_for_responses_gets_items(connect: Connect) -> None:
    client = connect(Responses, "gpt-5.4")

    assert (client.chat(REQUEST).text, _streamed(client).text) == ("Be short.", "Be short.")


EVENTS = [
    pytest.param([("text", "Hi"), ("tool_call", CALL), ("finish", "tool_calls")], id="tuples"),
    pytest.param(
        [{"kind": "text", "delta": "Hi"}, {"type": "tool_use", **BLOCK}, {"type": "stop", "reason": "x"}], id="kinds"
    ),
    pytest.param([{"event": "token", "data": "Hi"}, {"event": "tool_call", "data": CALL}], id="data"),
    pytest.param(["Hi", {"type": "ping"}, {"type": "function_call", **CALL}], id="unknown"),
    pytest.param(
        [{"text": "Hi"}, {"tool_calls": [CALL]}, {"message": {"content": "Hi", "tool_calls": [CALL]}}], id="repeated"
    ),
    pytest.param(
        [
            {"text": "Hi"},
            {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": '{ "city" : "P\\u0061ris" }'},
            {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": "Paris"}},
        ],
        id="respelled",
    ),
    pytest.param(
        [{"type": "text", "text": "Hi"}, {"type": "call_start", "id": "call_1", "name": "weather", "args": ""}]
        + [
            {"type": "call_delta", "id": "call_1", "name": "weather", "args": each} for each in ('{"city":', '"Paris"}')
        ],
        id="pieces",
    ),
]


@pytest.mark.parametrize("items", EVENTS)
def test_events_of_a_client_are_put_together(items: list[Any], connect: Connect) -> None:
    def chat(messages: list[Any]) -> Iterator[object]:
        yield from items

    got = connect(chat).chat(REQUEST)

    assert got.text == "Hi"
    assert got.message.tool_calls == (ToolCall("call_1", "weather", {"city": "Paris"}),)


def test_state_in_events_of_a_client_is_kept() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s1"}
    part = {"functionCall": GEMINI_CALL, "thoughtSignature": "s2"}

    claude = read_answer(iter([thought, BLOCK, {"type": "end"}]), REQUEST, Memory(), "anthropic")
    gemini = read_answer(iter([("call", part), ("finish", "STOP")]), REQUEST, Memory(), "gemini")
    content = read_answer(({"role": "model", "parts": [part]}, "STOP"), REQUEST, Memory(), "gemini")
    thoughts: list[Any] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
    items = read_answer(thoughts, REQUEST, Memory(), "openai-responses")
    pair = read_answer((thoughts, "Hi"), REQUEST, Memory(), "openai-responses")

    assert claude.message.parts[0] == Thinking("Hm.", {"anthropic": {"signature": "s1"}})
    assert gemini.message.tool_calls[0].provider_metadata == content.message.tool_calls[0].provider_metadata
    assert "s2" in str(gemini.message.tool_calls[0].provider_metadata)
    assert isinstance(items.message.parts[0], Thinking)
    assert pair.message == items.message


@dataclass
class Base:
    content: str


@dataclass
class HumanMessage(Base): ...


@dataclass
class SystemMessage(Base): ...


class Bound:
    """A client with a class per role, and with tools that are bound before."""

    def __init__(self) -> None:
        self.tools: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def bind_tools(self, tools: list[Any]) -> Bound:
        other = Bound()
        other.tools = tools
        return other

    def invoke(self, inputs: list[Base], **_: object) -> str:
        return f"{[type(each).__name__ for each in inputs]} {len(self.tools)}"


class Session:
    """A client that keeps its history."""

    def __init__(self, system: str | None = None) -> None:
        self.system, self.history = system, list[str]()

    def send(self, text: str) -> str:
        self.history.append(text)
        return f"{self.system} {self.history}"


def test_clients_of_other_styles_are_called_as_they_need_it(connect: Connect) -> None:
    def make(api_key: str) -> Callable[..., str]:
        return lambda messages: f"{api_key} {len(messages)}"

    later = (*REQUEST.messages, Message(Role.ASSISTANT, (Text("a"),)), Message(Role.USER, (Text("Bye"),)))
    session = connect(Session)

    assert connect(Bound).chat(replace(REQUEST, tools=(LOOK,))).text == "['SystemMessage', 'HumanMessage'] 1"
    assert connect(make).chat(REQUEST).text == "no-key 2"
    assert session.chat(REQUEST).text == "Be short. ['Hello']"
    assert session.chat(replace(REQUEST, messages=later)).text == "Be short. ['Hello', 'Bye']"
    assert session.chat(REQUEST).text == "Be short. ['Hello']"


BOT = """
class Bot:
    def __init__(self, persona: str = "Be friendly."):
        self.persona = persona

    def chat(self, messages, tools=None):
        return str([{"role": "system", "content": self.persona}, *messages])
"""


def test_the_system_prompt_goes_into_the_attribute_that_the_client_sends(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "persona_bot.py").write_text(BOT)
    monkeypatch.syspath_prepend(tmp_path)
    value, _ = load_client("persona_bot:Bot")
    bot, without_system = connect(value), replace(REQUEST, system=None)

    assert bot.chat(REQUEST).text.count("Be short.") == 1
    assert "Be friendly." not in bot.chat(REQUEST).text
    assert "Be friendly." in bot.chat(without_system).text
    assert recognise_shape(value, "mine").has_default_system


def test_open_parameters_of_another_api_get_no_openai_settings() -> None:
    class Claude:
        def complete(self, messages: list[Any], tools: list[Any] | None = None, **params: Any) -> Any:
            return self.sdk.messages.create(messages=messages, **params)

        sdk: Any = None

    class Translating(Claude):
        def complete(self, messages: list[Any], tools: list[Any] | None = None, **params: Any) -> Any:
            return self.sdk.messages.create(messages=messages, output_config=params.pop("response_format"), **params)

    def talk(messages: list[Any], **config: Any) -> Any:
        return [messages, {"generationConfig": config}, "/v1beta/models/gemini:streamGenerateContent"]

    assert not recognise_shape(talk, "mine").for_api("gemini").takes("max_tokens")
    shapes = [recognise_shape(each, "mine").for_api("anthropic") for each in (Claude, Translating)]
    taken = [[each.takes(name) for name in ("response_format", "stop", "temperature")] for each in shapes]
    assert taken == [[False, False, True], [True, False, True]]
    assert recognise_shape(Claude, "mine").for_api("openai-chat").takes("response_format")


@dataclass
class Delta:
    text: str


@dataclass
class End:
    finish: str
    message: dict[str, Any]


def test_the_last_event_may_have_the_message_to_send_back() -> None:
    own = {"role": "assistant", "content": "Hi", "parts": [{"text": "Hi", "thoughtSignature": "c2ln"}]}
    memory, other = Memory(), Memory()

    answer = read_answer(iter([Delta("Hi"), End("STOP", own)]), REQUEST, memory, "gemini")
    read_answer(iter([Delta("Hi"), End("STOP", {**own, "content": "Ho"})]), REQUEST, other, "gemini")

    assert memory.own(len(REQUEST.messages), answer.message) is own
    assert other.own(len(REQUEST.messages), answer.message) is None


def test_an_answer_may_have_the_message_with_the_parts_of_gemini_in_a_field() -> None:
    own = {"role": "assistant", "content": "Hi", "parts": [{"text": "Hi", "thoughtSignature": "c2ln"}]}
    memory = Memory()

    answer = read_answer({"message": own, "text": "Hi", "finish_reason": "STOP"}, REQUEST, memory, "gemini")

    assert memory.own(len(REQUEST.messages), answer.message) is own


def test_a_dictionary_with_the_parts_of_gemini_may_be_the_message_to_send_back() -> None:
    parts = [{"text": "Hi", "thought_signature": "c2ln"}]
    own = {"role": "assistant", "content": "Hi", "tool_calls": [], "parts": parts, "finish_reason": "STOP"}
    memory = Memory()

    answer = read_answer(own, REQUEST, memory, "gemini")

    assert answer.message.text == "Hi"
    assert memory.own(len(REQUEST.messages), answer.message) is own


def test_a_prompt_may_come_with_names_and_a_schema() -> None:
    def on_message(channel_id: int, author: str, text: str) -> str:
        return f"{channel_id} {author}: {text}"

    def label(text: str, schema: dict[str, Any], question: str | None = None) -> str:
        return json.dumps([text, schema, question])

    def read(document: str | Path, schema: dict[str, Any]) -> str:
        return httpx2.post("/chat/completions", json=[document, schema]).text

    known, labelled, document = (recognise_shape(each, "mine") for each in (on_message, label, read))

    assert ShapedClient(known, HERE, "gpt").chat(replace(REQUEST, system=None)).text.startswith("1 example: ")
    assert labelled.needs_schema
    assert not known.needs_schema
    assert (labelled.whole.prompt, document.whole.prompt) == ("text", "document")


def test_a_whole_answer_does_not_repeat_the_text_that_a_callback_got() -> None:
    def ask(messages: list[Any], on_text: Callable[[str], None] | None = None) -> dict[str, Any]:
        if on_text is not None:
            on_text("Hel")
            on_text("lo")
        return {"text": "Hello", "tool_calls": [], "stop": "end_turn"}

    events = [*ShapedClient(recognise_shape(ask, "mine"), HERE, "gpt").stream(replace(REQUEST, system=None))]

    assert [each.text for each in events if isinstance(each, TextDelta)] == ["Hel", "lo"]


def test_an_answer_without_a_text_is_returned_whole_beside_a_callback() -> None:
    call = {"id": "c1", "name": "look", "args": {}}

    def ask(messages: list[Any], on_text: Callable[[str], None] | None = None) -> dict[str, Any]:
        return {"role": "assistant", "text": "", "calls": [call], "usage": {"input_tokens": 3, "output_tokens": 4}}

    *_, finish = ShapedClient(recognise_shape(ask, "mine"), HERE, "gpt").stream(replace(REQUEST, system=None))

    assert isinstance(finish, Finish)
    assert [each.id for each in finish.response.tool_calls] == ["c1"]
    assert finish.response.usage.input_tokens == 3


def test_a_callback_may_be_awaited() -> None:
    async def ask(messages: list[Any], on_token: Callable[[str], Awaitable[None]] | None = None) -> dict[str, Any]:
        for piece in ("Hel", "lo"):
            if on_token is not None:
                await on_token(piece)
        return {"text": "Hello", "tool_calls": [], "stop": "end_turn"}

    client = ShapedClient(recognise_shape(ask, "mine"), HERE, "gpt")
    events = [*client.stream(replace(REQUEST, system=None))]
    client.close()

    assert [each.text for each in events if isinstance(each, TextDelta)] == ["Hel", "lo"]


def test_tools_may_be_declared_one_by_one() -> None:
    def declaration(tool: dict[str, Any]) -> dict[str, Any]:
        return {"name": tool["name"]}

    def send(turns: list[Any], tools: list[Any] | None = None, **generation_config: Any) -> dict[str, Any]:
        body = {"contents": turns, "tools": [{"functionDeclarations": [declaration(tool) for tool in tools or []]}]}
        return {"text": json.dumps(body), "at": "/v1beta/models/gemini:generateContent"}

    shape = recognise_shape(send, "mine").with_format(GEMINI).for_api("gemini")

    assert wraps_tools(shape.whole)
    assert not shape.takes("tool_config")


def test_the_code_of_a_method_shows_the_form_of_tools_and_results() -> None:
    def chat(contents: list[Any], tools: list[Any], system: str) -> Any:
        return {"text": json.dumps({"functionDeclarations": tools})}

    def claude(messages: list[Any], tools: list[Any], system: str = "") -> str:
        return str([m["tool_use_id"] for m in messages if m["role"] == "tool"])

    bare = ShapedClient(recognise_shape(chat, "mine"), HERE, "gpt").chat(replace(REQUEST, tools=(LOOK,)))
    both = Message(Role.USER, (ToolResult("t1", "f", "x"), ToolResult("t2", "f", "y")))
    shape = replace(recognise_shape(claude, "mine"), form=ANTHROPIC)
    done = ShapedClient(shape, HERE, "gpt").chat(replace(REQUEST, messages=(both,), tools=(LOOK,)))

    assert json.loads(bare.text)["functionDeclarations"][0]["name"] == "look"
    assert done.text == "['t1', 't2']"


class Agent:
    """An agent whose tools are functions, which it describes by their signatures."""

    def __init__(self, base_url: str, instructions: str, tools: list[Callable[..., str]]) -> None:
        self.given = [base_url, instructions, *((each.__name__, str(signature(each)), each.__doc__) for each in tools)]
        self.tools = tools

    def run(self, prompt: str) -> None:
        SEEN.append((prompt, *self.given, self.tools[0](city="Paris")))


SEEN: list[tuple[Any, ...]] = []


def test_the_prompt_of_an_agent_may_be_a_task() -> None:
    class Coder:
        def __init__(self, tools: dict[str, Callable[..., str]]) -> None:
            self.tools = tools

        def run(self, task: str) -> str:
            return task

    assert recognise_agent(Coder, "openai-chat") is not None


def test_an_agent_keeps_its_own_system_prompt_unless_it_gets_one() -> None:
    class Coder:
        def __init__(self, tools: list[Callable[..., str]], system: str = "You write code.") -> None:
            self.seen.append(system)

        def run(self, task: str) -> str:
            return task

        seen: ClassVar[list[str]] = []

    drive = recognise_agent(Coder, "openai-chat")
    assert drive is not None
    drive(HERE, "gpt", Conversation(turns=(REQUEST.messages[0],)))
    drive(HERE, "gpt", Conversation(turns=(REQUEST.messages[0],), system="Be short."))
    assert Coder.seen == ["You write code.", "Be short."]


def test_an_agent_gets_its_tools_as_functions() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"days": {"type": "integer"}, "city": {"type": "string"}}}
    weather = ConversationTool(
        "weather",
        "Weather.",
        {**schema, "required": ["city"]},
        lambda call: ToolResult("1", "weather", {**call.arguments}),
    )
    odd = replace(weather, parameters={"properties": {"from": {}}})
    turn, drive = REQUEST.messages[0], recognise_agent(Agent, "openai-chat")
    assert drive is not None
    assert (recognise_agent(Sdk, "openai-chat"), recognise_agent(Reply, "openai-chat")) == (None, None)

    drive(HERE, "gpt", Conversation(turns=(turn,), tools=(weather,), system="Be short."))
    with pytest.raises(Unsupported, match="each call of its method is a conversation"):
        drive(HERE, "gpt", Conversation(turns=(turn, turn), tools=(weather,)))
    with pytest.raises(Unsupported, match="no Python function has such a parameter"):
        drive(HERE, "gpt", Conversation(turns=(turn,), tools=(odd,)))

    shown = "(city: str, days: int = None)"
    assert [("Hello", HERE.base_url, "Be short.", ("weather", shown, "Weather."), '{"city":"Paris"}')] == SEEN


@dataclass
class Ask:
    function: str
    arguments: dict[str, Any]


@dataclass
class Say:
    who: str
    what: str | None
    asks: tuple[Any, ...] = ()
    answers: str | None = None


def test_fields_of_own_messages_are_found_by_their_meaning() -> None:
    def chat(messages: list[Say], tools: list[Any]) -> str:
        assert tools == []
        return json.dumps([(each.who, each.what, each.answers) for each in messages])

    texts = Message(Role.USER, (Text("One."), Text("Two.")))
    result = Message(Role.USER, (ToolResult("t1", "f", "x"),))
    done = ShapedClient(recognise_shape(chat, "mine"), HERE, "gpt").chat(replace(REQUEST, messages=(texts, result)))

    assert json.loads(done.text) == [
        ["system", "Be short.", None],
        ["user", "One.\nTwo.", None],
        ["tool", "x", "t1"],
    ]


@pytest.mark.parametrize(
    ("answer", "api", "parts"),
    [
        ([{"type": "thinking", "thinking": "Hm.", "signature": "s"}, BLOCK], "anthropic", 2),
        ([], "anthropic", 0),
        (([], "refusal"), "anthropic", 0),
        (([{"type": "text", "text": "Hello."}], "end_turn"), "anthropic", 1),
        (iter([{"text": "Hel"}, {"text": "lo."}, "STOP"]), "gemini", 1),
        (iter(["SAFETY"]), "gemini", 0),
        ({"text": "", "invocations": [{"call_id": "1", "tool": "weather", "args": {}}]}, "openai-chat", 1),
        ({"text": "", "content": {"parts": [{"functionCall": GEMINI_CALL}]}, "finish_reason": "STOP"}, "gemini", 1),
        ({"content": [SimpleNamespace(id="1", name="weather", arguments="{}")]}, "openai-chat", 1),
    ],
)
def test_blocks_and_parts_of_the_api_may_be_the_answer(answer: object, api: str, parts: int) -> None:
    got = read_answer(answer, REQUEST, Memory(), api)

    assert (len(got.message.parts), got.text in ("", "Hello.")) == (parts, True)


def test_the_log_of_a_call_has_the_tools_as_the_client_reads_them() -> None:
    def chat(messages: list[Any], tools: list[Any]) -> str:
        return " ".join(each["name"] + str(each["parameters"]) for each in tools)

    client = ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt")
    with logged_calls(lambda: 0) as calls:
        client.chat(ChatRequest("gpt", REQUEST.messages, tools=(LOOK,)))

    assert calls[0].kwargs["tools"] == [{"name": "look", "parameters": NO_ARGUMENTS}]


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
USE = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}}
REASONED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
CALLED = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"city": "Paris"}',
}


@pytest.mark.parametrize(
    ("api", "answer", "parts"),
    [
        ("anthropic", ("", [USE], {"role": "assistant", "content": [THOUGHT, USE]}), 2),
        ("anthropic", SimpleNamespace(text="", calls=[CALL], blocks=[THOUGHT, USE], usage=None), 2),
        ("anthropic", SimpleNamespace(message=SimpleNamespace(text="", calls=[CALL], blocks=[THOUGHT, USE])), 2),
        ("openai-responses", SimpleNamespace(text="", calls=[CALL], items=[REASONED, CALLED]), 2),
        ("openai-responses", ("", [REASONED, CALLED]), 2),
        # what the client shows is not what the API's format has: its own fields count
        ("anthropic", SimpleNamespace(text="", calls=[{**CALL, "id": "call_2"}], blocks=[THOUGHT, USE]), 1),
        ("openai-responses", SimpleNamespace(text="", calls=[{**CALL, "args": "{}"}], items=[REASONED, CALLED]), 1),
    ],
)
def test_an_answer_may_also_contain_the_message_in_the_form_of_the_api(api: str, answer: object, parts: int) -> None:
    got = read_answer(answer, REQUEST, Memory(), api)

    assert (len(got.message.parts), len(got.tool_calls), got.text) == (parts, 1, "")


@pytest.mark.parametrize("calls", [[], [USE]])
def test_a_text_in_a_tuple_with_calls_of_anthropic_is_the_text(calls: list[Any]) -> None:
    got = read_answer(("Hello.", calls, {"role": "assistant", "content": []}), REQUEST, Memory(), "anthropic")

    assert (got.text, len(got.tool_calls)) == ("Hello.", len(calls))


class Talk:
    """A client that keeps its history. Its model calls a tool twice and then ends."""

    heard: ClassVar[list[Any]] = []

    def __init__(self, instructions: str | None = None, tools: list[Any] | None = None) -> None:
        self.heard.append((instructions, [{**each}["name"] for each in tools or ()]))

    def send(self, text: str) -> Any:
        return {"text": "", "tool_calls": [CALL, {**CALL, "id": "call_2", "args": {"city": "Rome"}}]}

    def tools_of(self, tools: Any) -> Any:
        return [{"type": "function", **each} for each in tools]


class ByIds(Talk):
    """It takes all results in a dictionary."""

    async def submit_tool_outputs(self, outputs: dict[str, str]) -> str:
        self.heard.append(outputs)
        return "done"


class Itself(Talk):
    """It returns itself, and keeps its declarations and, by their ids, the calls that have no results."""

    def __init__(self, instructions: str | None = None, tools: list[Any] | None = None) -> None:
        super().__init__(instructions, tools)
        self.tools = [{**each} for each in tools or ()]
        self._pending = dict[str, Any]()

    def send(self, text: str) -> Self:
        self._pending = {each["id"]: each for each in super().send(text)["tool_calls"]}
        return self

    def submit_tool_outputs(self, outputs: dict[str, str]) -> Self:
        self._pending = {}
        self.heard.append(outputs)
        return self


class InList(Talk):
    """It takes all results in a list."""

    def submit_results(self, results: Any) -> None: ...

    def submit_tool_results(self, results: list[Any]) -> str:
        self.heard.append({each["call_id"]: each["output"] for each in results})
        return "done"


class OneByOne(Talk):
    """It takes each result with its call, and continues by another method."""

    def __init__(self, instructions: str | None = None, tools: list[Any] | None = None) -> None:
        super().__init__(instructions, tools)
        self.pending_calls: list[Any] = []
        self.results: dict[str, Any] = {}

    def send(self, text: str) -> Any:
        self.pending_calls = super().send(text)["tool_calls"]
        return "Let me look."

    def add_tool_result(self, call: Any, result: str, is_error: bool = False) -> None:
        assert not is_error
        self.results[call["id"]] = result

    def resume(self) -> str:
        self.pending_calls = []
        self.heard.append(self.results)
        return "done"


class Declaring(Talk):
    """It declares each tool by a method, and cannot mark errors."""

    def __init__(self, instructions: str | None = None) -> None:
        super().__init__(instructions)
        self.heard.clear()
        self.declared, self.results = list[str](), dict[str, str]()

    def add_tool(self, name: str, description: str, input_schema: Any) -> None:
        self.declared.append(name)

    def send(self, text: str) -> Any:
        self.heard.append(self.declared)
        return super().send(text)

    def add_tool_result(self, tool_use_id: str, content: str) -> None:
        self.results[tool_use_id] = content

    def proceed(self) -> str:
        self.heard.append(self.results)
        return "done"


class Handling:
    """It runs the tools itself, by handlers."""

    def __init__(self) -> None:
        self.system, self.handlers = "", dict[str, Any]()

    def add_handler(self, name: str, handler: Any, parameters: Any, description: str = "") -> None:
        self.handlers[name] = handler, parameters, description

    def say(self, text: str) -> str:
        handler, *declared = self.handlers["weather"]
        Talk.heard.append((self.system, declared))
        Talk.heard.append({"call_1": handler(city="Paris"), "call_2": handler({"city": "Rome"})})
        return text


@pytest.mark.parametrize(
    ("kind", "begun"),
    [
        (ByIds, ("Be short.", ["weather"])),
        (Itself, ("Be short.", ["weather"])),
        (InList, ("Be short.", ["weather"])),
        (OneByOne, ("Be short.", ["weather"])),
        (Declaring, ["weather"]),
        (Handling, ("Be short.", [NO_ARGUMENTS, "The weather."])),
    ],
)
def test_a_client_that_keeps_its_history_gets_the_results_of_its_calls(kind: type, begun: object) -> None:
    def run(made: ToolCall) -> ToolResult:
        return ToolResult("", "weather", f"sunny in {made.arguments['city']}")

    tools = (ConversationTool("weather", "The weather.", NO_ARGUMENTS, run),)
    drive = recognise_agent(kind, "openai-responses") or recognise_session(kind, "openai-responses")
    assert drive is not None
    Talk.heard.clear()
    drive(HERE, "gpt", Conversation(turns=REQUEST.messages, tools=tools, system="Be short."))

    assert Talk.heard == [begun, {"call_1": "sunny in Paris", "call_2": "sunny in Rome"}]


class Apart(Talk):
    """It takes the results of failed tools apart from the others."""

    def submit_tool_outputs(self, outputs: dict[str, str], errors: dict[str, str] | None = None) -> str:
        self.heard.append((outputs, errors))
        return "done"


def test_results_of_failed_tools_may_have_a_parameter_of_their_own() -> None:
    def run(made: ToolCall) -> ToolResult:
        return ToolResult("", "weather", "none", is_error=made.arguments["city"] == "Rome")

    drive = recognise_session(Apart, "openai-responses")
    assert drive is not None
    Talk.heard.clear()
    tools = (ConversationTool("weather", "The weather.", NO_ARGUMENTS, run),)
    drive(HERE, "gpt", Conversation(turns=REQUEST.messages, tools=tools))

    assert drive.ignored == ()
    assert Talk.heard[-1] == ({"call_1": "none"}, {"call_2": "none"})


class DocumentedFailures:
    """A session whose results are documented: reply_tools(results) takes {"id": "a", "output": "", "error": True}."""

    def say(self, text: str) -> Any: ...

    def reply_tools(self, results: Any) -> Any:
        """Give the results."""
        content = [{"type": "tool_result", "tool_use_id": each["id"], "content": each["output"]} for each in results]
        return self.post(content)

    def post(self, content: Any) -> Any: ...


class WithFailures:
    """A session that gets the results with a flag for failures, which it drops."""

    def say(self, text: str) -> Any: ...

    def reply_tools(self, results: Any) -> Any:
        content = [{"type": "tool_result", "tool_use_id": call, "content": text} for call, text, failed in results]
        return self.post(content)

    def post(self, content: Any) -> Any: ...


@pytest.mark.parametrize(
    ("kind", "ignored"),
    [(OneByOne, ()), (Declaring, ("error-flag",)), (Handling, ()), (WithFailures, ()), (DocumentedFailures, ())],
)
def test_a_session_without_an_error_flag_need_not_set_it(kind: type, ignored: tuple[str, ...]) -> None:
    drive = recognise_agent(kind, "anthropic") or recognise_session(kind, "anthropic")
    assert drive is not None
    assert drive.ignored == ignored


@pytest.mark.parametrize("kind", [Sdk, Session, Talk, Narrow, Reply])
def test_other_classes_are_no_such_clients(kind: type) -> None:
    assert recognise_session(kind, "openai-chat") is None


@pytest.mark.parametrize(("api", "flags"), [("anthropic", [None, True]), ("openai-chat", [None, None])])
def test_a_client_that_reads_an_error_flag_gets_it_where_the_api_has_one(api: str, flags: list[Any]) -> None:
    seen: list[Any] = []

    def chat(messages: Any) -> str:
        seen.extend(each.get("is_error") for each in messages)
        return "done"

    def write(messages: Any) -> str:
        block: dict[str, Any] = {}
        block["is_error"] = True
        return str(block)

    shape = recognise_shape(chat, "mine:chat")
    shape = replace(shape, whole=replace(shape.whole, module=shape.whole.source))
    results = (ToolResult("a", "f", "1"), ToolResult("b", "f", "broken", is_error=True))
    ShapedClient(shape, HERE, "m", api).chat(ChatRequest("m", (Message(Role.USER, results),)))

    assert (shape.reads_error_flag, seen) == (True, flags)
    other = recognise_shape(write, "mine:write")
    assert not replace(other, whole=replace(other.whole, module=other.whole.source)).reads_error_flag


class Vendor(Enum):
    """Providers of a client for several of them."""

    LOCAL = "local"
    CLAUDE = "claude-api"
    OPENAI = 1


def from_enumeration(provider: Vendor | str, messages: Any) -> str:
    return str(provider)


def from_literal(backend: Literal["azure", "google", "anthropic"], messages: Any) -> str:
    return backend


def from_source(vendor: str, messages: Any) -> str:
    return {"GEMINI": "g", "open-ai": "o"}[vendor]


def with_default(messages: Any, provider: str = "anthropic") -> str:
    return provider


def with_own_default(messages: Any, provider: str = "proxy") -> str:
    return provider


def with_default_member(messages: Any, vendor: Vendor = Vendor.OPENAI) -> str:
    return str(vendor)


@pytest.mark.parametrize(
    ("chat", "api", "chosen"),
    [
        (from_enumeration, "", Vendor.OPENAI),
        (from_enumeration, "anthropic", Vendor.CLAUDE),
        (from_literal, "gemini", "google"),
        (from_literal, "openai-chat", "anthropic"),
        (from_source, "gemini", "g"),
        (from_source, "openai-responses", "o"),
        (with_default, "", "anthropic"),
        (with_default, "gemini", "gemini"),
        (with_own_default, "gemini", "proxy"),
        (with_default_member, "", Vendor.OPENAI),
        (with_default_member, "anthropic", Vendor.CLAUDE),
    ],
)
def test_a_client_for_several_providers_gets_that_of_the_api(
    chat: Callable[..., str], api: str, chosen: object
) -> None:
    shape = recognise_shape(chat, "mine:chat", "", api)
    if chat is from_source:
        shape = replace(shape, whole=replace(shape.whole, module='{"GEMINI": "g", "open-ai": "o"}' + 'log("azure")'))

    answer = ShapedClient(shape, HERE, "m", api).chat(REQUEST)

    assert answer.text == str(chosen)
    assert ShapedClient(shape, HERE, "m").chat(REQUEST).text == str(chosen)  # recognition does not know the API


def test_a_factory_without_the_first_provider_makes_the_next_one() -> None:
    def make(provider: Literal["openai", "anthropic"], base_url: str, model: str) -> Prefixed:
        if provider == "openai":
            raise ImportError("no module named openai")
        return Prefixed(f"claude:{model}", base_url)

    made: Any = recognise_shape(make, "mine:make").make(HERE.base_url, "no-key", "m")

    assert made.url.startswith("c")


@dataclass
class Sheet:
    name: str
    age: int


def test_a_constructor_gets_a_simple_object_of_its_own_class() -> None:
    class Character:
        def __init__(self, sheet: Sheet, base_url: str) -> None:
            self.sheet = sheet

        def chat(self, messages: list[dict[str, Any]]) -> str:
            return f"{self.sheet.name}: {messages}"

    made: Any = recognise_shape(Character, "mine:Character").make(HERE.base_url, "no-key", "m")

    assert made.sheet == Sheet("example", 1)


def test_an_object_for_the_provider_must_be_made_by_the_user() -> None:
    class Made:
        def __init__(self, backend: Reply, base_url: str) -> None:
            self.backend = backend

    with pytest.raises(PluginError, match="its constructor needs backend"):
        recognise_shape(Made, "mine:Made")


class Prefixed:
    """A client whose models need the prefix of their provider."""

    def __init__(self, model: str, base_url: str) -> None:
        provider, self.model = model.split(":")
        self.url = {"openai": "o", "claude": "c"}[provider] + base_url

    def chat(self, messages: Any) -> str:
        return f"{self.url[0]} {self.model}"


@pytest.mark.parametrize(("api", "answer"), [("", "o gpt"), ("anthropic", "c gpt")])
def test_a_model_gets_the_prefix_of_its_provider_if_it_is_rejected_without(api: str, answer: str) -> None:
    shape = recognise_shape(Prefixed, "mine", "", api)

    assert ShapedClient(shape, HERE, "gpt", api).chat(REQUEST).text == answer
    with pytest.raises(KeyError, match="gemini"):
        recognise_shape(Prefixed, "mine", "", "gemini")


BASE_URLS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com/v1/"}


@pytest.mark.parametrize(
    ("provider_url", "expected"),
    [("https://api.anthropic.com", "https://api.anthropic.com/v1"), ("https://models.example", "")],
)
def test_the_source_shows_how_a_base_url_ends_without_a_default(provider_url: str, expected: str) -> None:
    assert default_base_url(Prefixed, provider_url) == expected


class Annotated:
    """A base class whose method has annotations."""

    def chat(self, messages: list[Wrap]) -> str:
        raise NotImplementedError


@dataclass
class Wrap:
    role: str
    content: str


class Overriding(Annotated):
    def chat(self, messages):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        return messages[-1].content


def test_a_method_without_annotations_has_those_that_it_overrides(connect: Connect) -> None:
    assert connect(Overriding).chat(REQUEST).text == "Hello"


class Wrapping:
    """A client that wraps the given functions, in a method of its own."""

    def chat(self, messages: Any, tools: Any = None) -> str:
        return json.dumps(self.body(messages, tools))

    def body(self, messages: Any, tools: Any) -> Any:
        return [{"type": "function", "function": tool} for tool in tools]


def test_a_client_that_wraps_functions_gets_them_bare(connect: Connect) -> None:
    sent = json.loads(connect(Wrapping).chat(replace(REQUEST, tools=(LOOK,))).text)

    assert sent[0]["function"]["name"] == "look"


class Building(Wrapping):
    """A client of Gemini that makes each declaration from the name of a function."""

    def body(self, messages: Any, tools: Any) -> Any:
        made = [{"name": each["name"], "description": each.get("description", "")} for each in tools]
        return [{"functionDeclarations": made}]


def test_a_client_that_makes_declarations_gets_functions_in_the_form_of_gemini(connect: Connect) -> None:
    shape = recognise_shape(Building, "mine").with_format(GEMINI)
    with closing(ShapedClient(shape, HERE, "gemini", "gemini")) as client:
        (sent,) = json.loads(client.chat(replace(REQUEST, system=None, tools=(LOOK,))).text)

    assert sent == {"functionDeclarations": [{"name": "look", "description": "Looks."}]}


class Choice(Enum):
    AUTO = "auto"
    ANY = "any"


def _words(messages: list[Any], tools: list[Any], tool_choice: str | None = None) -> str:
    return str({"type": "tool", "name": tool_choice})


def _key(messages: list[Any], tools: list[Any], tool_choice: str | None = None) -> str:
    return {"auto": "AUTO", "required": "ANY"}[str(tool_choice)] if tool_choice in _MODES else _MODES[tool_choice]


_MODES: dict[Any, str] = {"required": "REQUIRED"}


def _listed(messages: list[Any], tools: list[Any], tool_mode: Literal["auto", "required"] = "auto") -> str:
    return tool_mode


def _enumerated(messages: list[Any], tools: list[Any], tool_choice: Choice | None = None) -> str:
    return str(tool_choice)


def _given(messages: list[Any], tools: list[Any], tool_choice: dict[str, Any] | str | None = None) -> str:
    return str(tool_choice)


NAMED = NamedTool("look")


@pytest.mark.parametrize(
    ("chat", "choice", "given"),
    [
        (_words, "required", "{'type': 'tool', 'name': 'required'}"),
        (_words, NAMED, "{'type': 'tool', 'name': 'look'}"),
        (_key, "required", "ANY"),
        (_listed, "required", "required"),
        (_enumerated, "required", "Choice.ANY"),
        (_given, NAMED, "{'type': 'function', 'function': {'name': 'look'}}"),
    ],
)
def test_a_tool_choice_is_given_in_the_words_of_the_parameter(
    chat: Callable[..., str], choice: Any, given: str, connect: Connect
) -> None:
    assert connect(chat).chat(replace(REQUEST, tools=(LOOK,), tool_choice=choice)).text == given


@pytest.mark.parametrize(("chat", "choice"), [(_listed, NAMED), (_enumerated, "none")])
def test_a_tool_choice_that_the_parameter_has_no_word_for_is_not_given(
    chat: Callable[..., str], choice: Any, connect: Connect
) -> None:
    with pytest.raises(Unsupported):
        connect(chat).chat(replace(REQUEST, tools=(LOOK,), tool_choice=choice))


def test_a_text_callback_gets_the_texts_of_a_stream(connect: Connect) -> None:
    def chat(messages: list[Any], on_text: Callable[[str], None] | None = None) -> SimpleNamespace:
        for piece in ("Hel", "lo") if on_text else ():
            cast("Any", on_text)(piece)
        return SimpleNamespace(text="Hello", calls=[CALL])

    events = [*connect(chat).stream(REQUEST)]
    assert [each.text for each in events if isinstance(each, TextDelta)] == ["Hel", "lo"]
    assert [each.id for each in events if isinstance(each, ToolCallStart)] == ["call_1"]
    assert connect(chat).chat(REQUEST).text == "Hello"


class Named(NamedTuple):
    """An answer that can be iterated, but is no stream."""

    text: str
    thoughts: str = "Let me think."


class Modelled(BaseModel):
    """An answer of the same kind that Pydantic reads."""

    text: str


@pytest.mark.parametrize("answer", [Named("Hello"), Modelled(text="Hello"), ("Hello", "stop")])
def test_an_answer_that_can_be_iterated_need_be_no_stream(answer: object, connect: Connect) -> None:
    def ask(question: str, system: str, on_text: Callable[[str], None] | None = None) -> object:
        return answer

    assert [each.text for each in connect(ask).stream(REQUEST) if isinstance(each, TextDelta)] == ["Hello"]


class Remembering:
    """A client whose stream has only texts. The whole answer is in an attribute afterwards."""

    def __init__(self) -> None:
        self.last: SimpleNamespace | None = None

    def chat(self, messages: list[Any]) -> str:
        return ""

    def stream(self, messages: list[Any]) -> Iterator[str]:
        yield from []
        self.last = SimpleNamespace(text="", calls=[CALL])


@dataclass
class Computed:
    """An answer that computes its calls."""

    text: str = ""

    @property
    def calls(self) -> list[Any]:
        return [CALL]


class Computing(Remembering):
    """A client whose stream has no text. The answer computes its calls."""

    def stream(self, messages: list[Any]) -> Iterator[str]:
        yield from []
        self.last = cast("Any", Computed())


class Returning:
    """A client whose generator returns the whole answer."""

    def chat(self, messages: list[Any]) -> str:
        return ""

    def stream(self, messages: list[Any]) -> Generator[str, None, SimpleNamespace]:
        yield "Hello"
        return SimpleNamespace(text="Hello", calls=[CALL])


@pytest.mark.parametrize(("kind", "text"), [(Remembering, ""), (Computing, ""), (Returning, "Hello")])
def test_the_whole_answer_of_a_stream_may_come_another_way(kind: type, text: str, connect: Connect) -> None:
    finish = [*connect(kind).stream(REQUEST)][-1]
    assert isinstance(finish, Finish)
    assert (finish.response.text, [each.id for each in finish.response.tool_calls]) == (text, ["call_1"])


@dataclass
class Entry:
    """A message of a client's own class, with state that harness does not know."""

    role: str
    content: str
    tool_calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    tool_call_id: str = ""
    state: str = ""


class Chunked:
    """A client whose stream ends with a chunk that has its message."""

    def __init__(self) -> None:
        self.sent: list[Entry] = []

    def chat(self, messages: list[Entry]) -> Entry:
        return Entry("assistant", "Hello")

    def stream(self, messages: list[Entry]) -> Iterator[Any]:
        self.sent = messages
        yield SimpleNamespace(content="Hello", message=None)
        yield SimpleNamespace(content="", message=Entry("assistant", "Hello", [CALL], state="signed"))


@pytest.mark.parametrize("text", ["Hello", "Bye"])
def test_the_message_at_the_end_of_a_stream_is_sent_back_if_it_is_the_whole_answer(text: str, connect: Connect) -> None:
    made: list[Chunked] = []

    def make(base_url: str, api_key: str) -> Chunked:
        made.append(Chunked())
        return made[-1]

    client = connect(make)
    finish = [*client.stream(REQUEST)][-1]
    assert isinstance(finish, Finish)
    answer = finish.response.message
    if text != "Hello":  # the caller changed the message
        answer = Message(Role.ASSISTANT, (Text(text), *answer.tool_calls))
    results = Message(Role.USER, (ToolResult("call_1", "sunny", "weather"),))
    list(client.stream(replace(REQUEST, messages=(*REQUEST.messages, answer, results))))

    (sent,) = [each for each in made[-1].sent if each.role == "assistant"]
    assert (sent.state, sent.content) == (("signed", "Hello") if text == "Hello" else ("", text))


def test_what_a_client_says_it_does_not_support_is_no_failure(connect: Connect) -> None:
    def chat(messages: list[Any], response_format: Any = None) -> str:
        if response_format:
            raise ValueError("output formats are not supported yet")
        raise RuntimeError(f"The provider answered 400: {refusal}")

    refusal = "tool choices are unsup" + "ported by this model"  # the provider's words, which no source contains
    with pytest.raises(Unsupported, match="not supported yet"):
        connect(chat).chat(replace(REQUEST, response_format=JsonMode()))
    with pytest.raises(InvalidRequest, match="by this model"):
        connect(chat).chat(REQUEST)


def test_a_client_may_refuse_an_option_by_its_name(connect: Connect) -> None:
    def chat(messages: list[Any], json_mode: bool = False) -> str:
        if json_mode:
            raise ValueError("json_mode needs another provider")
        raise ValueError(answer)

    answer = "unknown field " + "json_mode" + ": error"  # the provider's words, which no source contains
    client = connect(chat)
    with pytest.raises(Unsupported, match="json_mode here is not supported: json_mode needs"):
        client.chat(replace(REQUEST, response_format=JsonMode()))
    with pytest.raises(ChatError, match="unknown field"):
        client.chat(REQUEST)


@dataclass
class UserEntry:
    text: str


@dataclass
class OutputEntry:
    tool_use_id: str
    content: str


@dataclass
class AssistantEntry:
    pieces: list[dict[str, Any]]

    @property
    def text(self) -> str:
        return "".join(each["text"] for each in self.pieces if each["type"] == "text")

    @property
    def tool_uses(self) -> list[dict[str, Any]]:
        return [each for each in self.pieces if each["type"] == "tool_use"]


@dataclass
class HumanEntry:
    content: str


@dataclass
class SystemEntry:
    content: str


@dataclass
class AIEntry:
    content: str
    tool_calls: list[Any] = field(default_factory=list[Any])


def test_an_acronym_in_the_name_of_a_class_shows_its_role() -> None:
    seen: list[Any] = []

    def chat(messages: Sequence[SystemEntry | HumanEntry | AIEntry]) -> str:
        seen.extend(messages)
        return ""

    history = (*REQUEST.messages, Message(Role.ASSISTANT, (Text("Hi."),)), *REQUEST.messages)
    ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt").chat(replace(REQUEST, messages=history))

    assert [type(each) for each in seen] == [SystemEntry, HumanEntry, AIEntry, HumanEntry]


def test_each_kind_of_message_may_have_a_class_and_an_answer_compute_its_text() -> None:
    def send(entries: Sequence[UserEntry | OutputEntry | AssistantEntry]) -> AssistantEntry:
        seen.append([type(each).__name__ for each in entries])
        return AssistantEntry([{"type": "text", "text": "Hi"}, BLOCK])

    seen: list[list[str]] = []
    client = ShapedClient(recognise_shape(send, "mine"), HERE, "claude", "anthropic")
    request = replace(REQUEST, system=None)
    answer = client.chat(request)
    result = Message(Role.USER, (ToolResult("call_1", "weather", "Sunny."),))
    client.chat(replace(request, messages=(*request.messages, answer.message, result)))

    assert (answer.text, answer.tool_calls[0].name) == ("Hi", "weather")
    assert seen[-1] == ["UserEntry", "AssistantEntry", "OutputEntry"]
    foreign = Message(Role.ASSISTANT, (Text("I was not returned by this client."),))
    with pytest.raises(Unsupported, match="a history"):
        client.chat(replace(request, messages=(*request.messages, foreign, *request.messages)))


def test_a_method_that_passes_its_options_on_has_those_of_the_other_method() -> None:
    class Client:
        def complete(self, messages: list[Any], **options: Any) -> list[str]:
            return [*self.stream(messages, **options)]

        def stream(self, messages: list[Any], system: str = "") -> Iterator[str]:
            yield system

    shape = recognise_shape(Client, "mine")
    assert (shape.takes("system"), shape.takes("tools")) == (True, False)


def test_the_method_that_streams_may_pass_its_options_on_too() -> None:
    class Client:
        def complete(self, messages: list[Any], **options: Any) -> str:
            return self.body(**options)

        def stream(self, messages: list[Any], **options: Any) -> Iterator[str]:
            yield self.body(**options)

        def body(self, max_output_tokens: int = 5) -> str:
            return str(max_output_tokens)

    with closing(ShapedClient(recognise_shape(Client, "mine"), HERE, "gpt")) as client:
        *_, end = client.stream(replace(REQUEST, system=None, max_tokens=7))
    assert isinstance(end, Finish)
    assert end.response.text == "7"


@pytest.mark.parametrize(
    ("finish", "calls", "reason", "names"),
    [
        ("stop", [GEMINI_CALL], StopReason.TOOL_USE, ["weather"]),
        ("length", [GEMINI_CALL], StopReason.MAX_TOKENS, ["weather"]),
        ("stop", [], StopReason.TOOL_USE, []),
    ],
)
def test_the_clients_own_fields_count_beside_the_content_of_the_api(
    finish: str, calls: list[Any], reason: StopReason, names: list[str]
) -> None:
    content = {"role": "model", "parts": [{"functionCall": GEMINI_CALL}]}
    answer = SimpleNamespace(text="", calls=calls, finish=finish, content=content)
    read = read_answer(answer, REQUEST, Memory(), "gemini")
    assert (read.stop_reason, [each.name for each in read.tool_calls]) == (reason, names)
    (*_, end) = read_stream(iter(["", answer]), REQUEST, Memory(), "gemini")
    assert isinstance(end, Finish)
    assert [each.name for each in end.response.tool_calls] == names


@dataclass
class Prompt:
    text: str


@dataclass
class Results:
    outputs: dict[str, str]


class Stop(Enum):
    """Stop reasons of a client, in its own words."""

    END = auto()
    TOOLS = "tools"
    LENGTH = "truncated"
    REFUSED = "refused"
    OTHER = "other"


@dataclass
class Completion:
    text: str
    calls: list[Any]
    stop: Stop
    native: Any = None


def test_results_of_one_turn_may_be_a_dictionary_by_the_ids_of_the_calls(connect: Connect) -> None:
    seen: list[Any] = []

    def chat(turns: list[Prompt | Results | Completion]) -> Completion:
        seen.append([*turns])
        call = {"id": "a", "name": "look", "arguments": {}}
        return Completion("", [call, {**call, "id": "b"}], Stop.TOOLS, native="mine")

    client = connect(chat)
    answer = client.chat(ChatRequest("gpt", REQUEST.messages))
    results = Message(Role.USER, (ToolResult("a", "look", "1"), ToolResult("b", "look", "2")))
    client.chat(ChatRequest("gpt", (*REQUEST.messages, answer.message, results)))

    assert seen[1][0] == Prompt("Hello")
    assert seen[1][1].native == "mine"
    assert seen[1][2] == Results({"a": "1", "b": "2"})
    foreign = Message(Role.ASSISTANT, (Text("Hello."),))
    with pytest.raises(Unsupported, match="a message that it did not write"):
        client.chat(ChatRequest("gpt", (*REQUEST.messages, foreign, *REQUEST.messages)))


def test_an_answer_with_a_message_of_gemini_is_sent_back_itself() -> None:
    memory, request = Memory(), ChatRequest("gemini", REQUEST.messages)
    content = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "s"}]}
    own = Completion("", [{"id": "a", "name": "look", "input": {}}], Stop.TOOLS, native=content)

    found = read_answer(own, request, memory, "gemini", hint=list[Prompt | Results | Completion])

    assert memory.own(1, found.message) is own


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (Stop.END, StopReason.END_TURN),
        (Stop.TOOLS, StopReason.TOOL_USE),
        (Stop.LENGTH, StopReason.MAX_TOKENS),
        (Stop.REFUSED, StopReason.REFUSAL),
        (Stop.OTHER, StopReason.UNKNOWN),
    ],
)
def test_a_stop_reason_may_be_a_word_of_the_client(connect: Connect, own: Stop, expected: StopReason) -> None:
    def chat(messages: Any) -> Completion:
        return Completion("Hello.", [], own)

    assert connect(chat).chat(REQUEST).stop_reason is expected


def _choosing(code: str, name: str = "tool_choice", hint: object = None) -> Method:
    """A method with a parameter for the tool choice, in a module with this code."""
    return Method((), frozenset({name}), is_open=False, hints={name: hint} if hint else {}, module=code)


def test_a_word_for_the_tool_choice_is_one_that_the_client_compares() -> None:
    made = _choosing('{"auto": "auto", "any": "required"}.get(tool_mode, {"name": tool_mode})', "tool_mode", str)
    compared = _choosing('if tool_mode == "required": return {"type": "any"}', "tool_mode", str)

    assert choice_as_text("required", made, "tool_mode", "openai-chat") == "any"
    assert choice_as_text("required", compared, "tool_mode", "anthropic") == "required"


HELPING = """
def as_object(which):
    return which if which in ("auto", "none", "any") else {"function": {"name": %s}}

def send(messages, tool_choice=None):
    return as_object(%s)
"""
"""A module with a function that makes the API's object for a tool choice."""


@pytest.mark.parametrize("given", ["tool_choice", "which=options.tool_choice"])
def test_a_tool_choice_may_become_the_name_of_a_tool_in_another_function(given: str) -> None:
    method = _choosing(HELPING % ("which", given))

    assert takes_choice_as_text(method, "tool_choice")
    assert choice_as_text(NAMED, method, "tool_choice", "openai-chat") == "look"
    assert choice_as_text("required", method, "tool_choice", "openai-chat") == "any"


KEEPING = """
class Request:
    tool_choice: str = "auto"

def as_object(req):
    kind = {"auto": "auto", "required": "any"}.get(req.tool_choice)
    return {"type": kind} if kind else {"type": "tool", "name": req.tool_choice}

def send(messages, tool_choice="auto"):
    return as_object(Request(tool_choice=%s))
"""
"""A module whose class for a request keeps the tool choice."""


def test_a_tool_choice_may_be_kept_by_an_object_that_other_code_reads() -> None:
    method = _choosing(KEEPING % "tool_choice")

    assert takes_choice_as_text(method, "tool_choice")
    assert choice_as_text("required", method, "tool_choice", "anthropic") == "required"
    assert choice_as_text(NAMED, method, "tool_choice", "anthropic") == "look"


def test_an_object_that_does_not_get_the_tool_choice_shows_nothing_of_its_words() -> None:
    assert fields_given(KEEPING % "'auto'", "tool_choice") == ()
    assert fields_given("def send(", "tool_choice") == ()


def test_a_tool_choice_may_be_the_only_allowed_function() -> None:
    code = 'types.FunctionCallingConfig(mode="ANY", allowed_function_names=[%s])'

    assert takes_choice_as_text(_choosing(code % "tool_choice"), "tool_choice")
    assert not takes_choice_as_text(_choosing(code % 'tool_choice["name"]'), "tool_choice")


def test_a_tool_choice_of_which_a_key_is_read_is_an_object() -> None:
    assert not takes_choice_as_text(_choosing(HELPING % ('which["function"]["name"]', "tool_choice")), "tool_choice")
    assert not takes_choice_as_text(_choosing(HELPING % ("which", "'other'")), "tool_choice")


def test_words_may_be_mapped_beside_an_object() -> None:
    code = """
def convert(choice):
    if isinstance(choice, dict):
        return {"type": "tool", "name": choice["function"]["name"]}
    return {"type": {"auto": "auto", "none": "none", "required": "any"}[choice]}
def send(messages, tool_choice=None):
    return convert(tool_choice)
"""
    assert not takes_choice_as_text(_choosing(code), "tool_choice")


@pytest.mark.parametrize(("sent", "word"), [("tool_mode", "ANY"), ("tool_mode.upper()", "any")])
def test_the_mode_of_gemini_is_in_capitals_unless_the_client_converts_it(sent: str, word: str) -> None:
    method = _choosing(f'{{"functionCallingConfig": {{"mode": {sent}}}, "keys": ["required"]}}', "tool_mode", str)

    assert choice_as_text("required", method, "tool_mode", "gemini").replace("required", "any") == word


def test_a_tool_choice_with_a_name_of_its_own_is_no_name() -> None:
    method = _choosing(HELPING % ("which.name", "tool_choice"))

    assert takes_choice_as_text(method, "tool_choice")
    with pytest.raises(Unsupported, match="an object that has the name"):
        choice_as_text(NAMED, method, "tool_choice", "openai-chat")


@pytest.mark.parametrize(
    ("code", "takes"),
    [
        ('if isinstance(content, list):\n    return " ".join(p["text"] for p in content if p.get("text"))', True),
        ('if isinstance(content, list):\n    return "".join(p["text"] for p in content if p["type"] == "text")', True),
        ('if isinstance(content, list):\n    return "".join(p["text"] for p in content)', False),
        ('if isinstance(text, list):\n    return "".join(p["text"] for p in blocks if p["type"] == "text")', False),
        ('return "".join(p["text"] for p in content if p["type"] == "text")', False),
    ],
)
def test_a_client_that_skips_parts_without_texts_takes_images(code: str, takes: bool) -> None:
    assert _choosing(code).joins_parts is takes


def test_a_tool_may_be_copied_into_its_enclosing_object() -> None:
    def chat(messages: list[Any], tools: list[Any]) -> str:
        return json.dumps([{"type": "function", "function": dict(each)} for each in tools])

    answered = ShapedClient(recognise_shape(chat, "mine"), HERE, "gpt").chat(replace(REQUEST, tools=(LOOK,)))
    assert json.loads(answered.text)[0]["function"]["name"] == "look"


@dataclass
class ConvertedAnswer:
    text: str
    calls: list[SimpleNamespace]

    def to_message(self) -> dict[str, Any]:
        return {"role": "assistant", "content": self.text, "tool_calls": self.calls}


def test_the_dictionary_of_an_answers_method_goes_back_with_its_own_calls() -> None:
    def chat(messages: list[Any], tools: list[Any]) -> ConvertedAnswer:
        seen.extend(each.id for message in messages for each in message.get("tool_calls", ()))
        return ConvertedAnswer("", [SimpleNamespace(**CALL)])

    seen: list[str] = []
    client, request = ShapedClient(recognise_shape(chat, "mine"), HERE, "gpt"), replace(REQUEST, tools=(LOOK,))
    answer = client.chat(request)
    client.chat(replace(request, messages=(*request.messages, answer.message)))
    assert seen == ["call_1"]


BLOCKS = """
from types import SimpleNamespace


class Claude:
    def chat(self, messages, tools=None):
        self.seen = [each["content"] for each in messages if each["role"] == "assistant"]
        block = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}}
        return SimpleNamespace(text="", content=[block], stop_reason="tool_use")
"""


def test_blocks_go_back_as_the_message_of_a_client_that_reads_no_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "claude_blocks.py").write_text(BLOCKS)
    monkeypatch.syspath_prepend(tmp_path)
    value, _ = load_client("claude_blocks:Claude")
    made = cast("Any", value)()
    client = ShapedClient(recognise_shape(made, "mine"), HERE, "claude", "anthropic")
    request = replace(REQUEST, tools=(LOOK,), system=None)
    answer = client.chat(request)
    client.chat(replace(request, messages=(*request.messages, answer.message)))

    assert made.seen == [[BLOCK]]
    foreign = Message(Role.ASSISTANT, (ToolCall("c", "look", {}),))
    with pytest.raises(Unsupported, match="a history with calls"):
        client.chat(replace(request, messages=(*request.messages, foreign)))


class Conversations:
    """A resource of an SDK, whose methods take messages."""

    def complete(self, model: str, messages: Any, tools: Any = None, stream: bool = False) -> dict[str, Any]:
        return {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}

    def stream(self, model: str, messages: Any, tools: Any = None) -> Iterator[Any]:
        chunk = SimpleNamespace(choices=[{"delta": {"content": "streamed"}, "finish_reason": "stop"}])
        yield SimpleNamespace(data=chunk)


class WithResource:
    """A client with a resource for chats, and a property that takes long."""

    def __init__(self, server_url: str, api_key: str) -> None:
        self.chat = Conversations()

    @property
    def models(self) -> Any:
        raise AssertionError("a property is not evaluated")

    def create(self, messages: Any) -> str:
        return "other"


class WithMethod(WithResource):
    """A client whose `chat` is a method, not a resource."""

    def __init__(self, server_url: str) -> None:
        self.server_url = server_url

    def chat(self, messages: Any) -> str:
        return "method"


@pytest.mark.parametrize(
    ("kind", "path", "text"),
    [(WithResource, ("chat", "complete"), "whole"), (WithMethod, ("chat",), "method")],
)
def test_a_resource_for_chats_has_the_method_that_takes_messages(
    kind: type, path: tuple[str, ...], text: str, connect: Connect
) -> None:
    assert recognise_shape(kind, "mine").whole.path == path
    assert connect(kind).chat(REQUEST).text == text


def test_events_of_a_resource_may_contain_chunks_of_the_api(connect: Connect) -> None:
    assert _streamed(connect(WithResource)).text == "streamed"


@dataclass
class EitherFunction:
    """A called function whose arguments are an object or a text of JSON."""

    name: str
    arguments: dict[str, Any] | str


@dataclass
class ObjectFunction:
    """A called function whose arguments are an object."""

    name: str
    arguments: dict[str, Any]


@pytest.mark.parametrize(
    ("kind", "expected"), [(EitherFunction, '{"city": "Paris"}'), (ObjectFunction, {"city": "Paris"})]
)
def test_arguments_stay_a_text_where_the_annotation_allows_it(kind: type, expected: object) -> None:
    assert as_annotated(INNER["function"], kind).arguments == expected


class Addressed:
    """A class that takes a base URL."""

    def __init__(self, base_url: str) -> None: ...


def Keyed(api_key: str) -> None: ...  # noqa: N802 - a function named as a class


def fetch(base_url: str) -> None: ...


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (Addressed, 0),
        (Keyed, 1),
        (from_source, 3),
        (fetch, None),  # it may do anything when it is called
        (Reply, None),
        (json.JSONDecoder, None),
        (Addressed("http://127.0.0.1:9"), None),
    ],
)
def test_members_of_a_library_are_candidates_by_their_parameters(value: object, place: int | None) -> None:
    assert rank_of_candidate(value, __name__) == place


def test_a_client_of_a_library_takes_messages_or_a_prompt_for_a_model() -> None:
    def post(content: str, url: str) -> str:
        return content

    def ask(prompt: str, model: str) -> str:
        return prompt

    assert [recognise_shape(each, "mine").may_call_a_model for each in (post, ask, from_source)] == [False, True, True]


def _unlisted(messages: Any, provider: object = None) -> str:
    return "openai"


def test_a_provider_that_is_not_given_is_not_named() -> None:
    every = (_unlisted, with_default, with_default_member)
    assert [bool(selectable_providers(method_of((), each))) for each in every] == [False, True, True]


def test_the_keys_of_a_table_are_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "BACKENDS = dict(openai=str, genai=str, other=str)\n\n\nclass LLM:\n"
    (tmp_path / "backed_client.py").write_text(f"{code}    def __init__(self, provider='openai', base_url=''): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("backed_client").LLM

    assert selectable_providers(method_of((), made)) == {
        "openai-chat": "openai",
        "openai-responses": "openai",
        "gemini": "genai",
    }


@pytest.mark.parametrize(
    ("calls", "apis"),
    [
        ("client.responses.create", {"openai-responses", "anthropic"}),
        ("client.chat.completions.create, client.responses.create", {"openai-chat", "openai-responses", "anthropic"}),
    ],
)
def test_a_provider_has_the_apis_that_the_code_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: str, apis: set[str]
) -> None:
    name = f"calling_{len(calls)}"
    code = f"def make(client, provider='openai'):\n    return {{'openai': ({calls},), 'anthropic': client}}[provider]\n"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)

    assert selectable_providers(method_of((), importlib.import_module(name).make)).keys() == apis


CONNECTING = """
PROVIDERS = {"openai": str, "anthropic": str}


def connect(name, base_url=None):
    provider, _, model = name.partition("/")
    return PROVIDERS[provider](model)


def open_target(target):
    kind, _, model = target.partition(":")
    return PROVIDERS[kind](model)


def open_route(route="anthropic", base_url=None):
    backend, _, model = route.partition(":")
    return PROVIDERS[backend](model)


def without_provider(name):
    folder, _, file = name.partition("/")


class Client:
    def __init__(self, name, base_url=None):
        self.provider, _, self.model = name.partition("/")
"""


def test_a_model_may_have_its_provider_in_front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "connecting_client.py").write_text(CONNECTING)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("connecting_client")
    method, other = (method_of((), each) for each in (module.connect, module.without_provider))

    assert constructor_names(module.connect) == {"base_url": "base_url", "model": "name"}
    assert [prefix_of(method, each) for each in ("", "anthropic", "gemini")] == ["openai/", "anthropic/", ""]
    assert selectable_providers(method).keys() == {"openai-chat", "openai-responses", "anthropic"}
    assert (divided_model(other), prefix_of(other)) == (None, "")
    assert selectable_providers(method_of((), module.Client)) == selectable_providers(method)
    assert divided_model(method_of((), module.open_target)) == ("target", ":")
    assert constructor_names(module.open_route) == {"base_url": "base_url", "model": "route"}
    assert prefix_of(method_of((), module.open_route), "openai-chat") == "openai:"


class Settings(TypedDict, total=False):
    """Options of a constructor."""

    model: str
    base_url: str
    api_key: str


class WithUnpacked:
    """A client whose constructor takes the keys of a `TypedDict`, and whose methods include some that send nothing."""

    def __init__(self, **options: Unpack[Settings]) -> None:
        self.options = options

    def abatch(self, inputs: list[Any], tools: Any = None) -> str: ...

    def set_turns(self, turns: list[Any]) -> None: ...

    def talk(self, messages: list[Any]) -> str:
        return self.options.get("model", "")


def test_a_constructor_may_take_the_keys_of_a_dictionary(connect: Connect) -> None:
    assert recognise_shape(WithUnpacked, "mine").whole.path == ("talk",)
    assert connect(WithUnpacked, "gpt").chat(REQUEST).text == "gpt"


def test_a_method_is_guessed_if_its_name_is_unknown() -> None:
    assert [recognise_shape(each, "mine").is_guess for each in (WithUnpacked, WithResource, from_source)] == [
        True,
        False,
        False,
    ]


class Desk:
    """An agent whose tools are methods, too."""

    def __init__(self, base_url: str, model: str = "m") -> None:
        self.url = base_url

    def find_device(self, query: str) -> str:
        return query

    def handle(self, text: str) -> str:
        return self.sent([{"role": "user", "content": text}])

    def sent(self, body: Any) -> str:
        return cast("Any", self).http.post(self.url, json=body)


def test_a_tool_of_an_agent_is_not_its_method_for_a_prompt() -> None:
    assert recognise_shape(Desk, "desk:Desk").whole.path == ("handle",)


def test_the_whole_conversation_of_an_agent_ends_with_its_answer() -> None:
    asked = {"source": "user", "content": "Hello"}
    ended = SimpleNamespace(messages=[asked, {"source": "agent", "content": "Hi."}], stop_reason=None)

    assert read_answer(ended, REQUEST, Memory()).text == "Hi."
    assert read_answer({"messages": [asked], "text": "Hi."}, REQUEST, Memory()).text == "Hi."


class WithAttribute:
    """A client with an SDK in a parameter, and an annotated attribute for it."""

    client: Addressed

    def __init__(self, model: str, own_client: Addressed | None = None) -> None:
        self.client = own_client or Addressed("")

    def chat(self, messages: Any) -> str:
        return "Hi."


def test_annotated_attributes_are_no_parameters(connect: Connect) -> None:
    assert connect(WithAttribute).chat(REQUEST).text == "Hi."


class Binding:
    """A client of tools that another method binds. Its first method takes several conversations at once."""

    max_tokens = None

    def __init__(self, base_url: str, api_key: str, model: str) -> None:
        self.tools: list[Any] = []

    def bind_tools(self, tools: list[Any]) -> Binding:
        bound = Binding("", "", "")
        bound.tools = tools
        return bound

    def generate(self, messages: list[list[Any]]) -> str: ...

    def complete(self, messages: Sequence[list[Any]]) -> str: ...

    def invoke(self, given: Any, config: Any = None, **kwargs: Any) -> dict[str, Any]:
        return {"text": f"{given[0]['content']} {len(self.tools)} {sorted(kwargs)}", "tool_calls": []}

    def stream(self, given: Any, config: Any = None, **kwargs: Any) -> Iterator[dict[str, Any]]:
        for piece in ('{"city":', '"Paris"}'):
            part = {"name": "look" if piece[0] == "{" else None, "args": piece, "id": None, "index": 0}
            yield {"content": "", "tool_calls": [{"name": "look", "args": {}}], "tool_call_chunks": [part]}


def test_a_method_for_several_conversations_is_not_called_with_one(connect: Connect) -> None:
    request = replace(REQUEST, tools=(LOOK,), max_tokens=9)

    assert recognise_shape(Binding, "mine").whole.path == ("invoke",)
    assert connect(Binding, "gpt").chat(request).text == "Be short. 1 ['max_tokens']"


def test_pieces_of_calls_are_read_before_the_calls_that_a_client_parses_from_them(connect: Connect) -> None:
    *_, end = connect(Binding, "gpt").stream(replace(REQUEST, tools=(LOOK,)))

    assert isinstance(end, Finish)
    assert [(each.name, each.arguments) for each in end.response.tool_calls] == [("look", {"city": "Paris"})]


class Resource:
    """An SDK with a resource for chats. Its messages are sent unchanged."""

    def __init__(self, base_url: str, api_key: str) -> None:
        self.chat = SimpleNamespace(complete=self.complete)

    def complete(self, messages: list[Any], model: str, tools: Any = None) -> str:
        return str(messages[-1].get("tool_call_id"))

    ask = complete


@pytest.mark.parametrize(
    ("server", "method", "expected"),
    [("mistral", "", 9), (None, "", len("toolu_0123456789")), ("mistral", "ask", len("toolu_0123456789"))],
)
def test_the_caller_of_an_sdk_chooses_ids_that_its_server_accepts(
    server: str | None, method: str, expected: int
) -> None:
    called = Message(Role.ASSISTANT, (ToolCall("toolu_0123456789", "look", {}),))
    returned = Message(Role.USER, (ToolResult("toolu_0123456789", "look", "2"),))
    request = replace(REQUEST, messages=(*REQUEST.messages, called, returned), tools=(LOOK,))
    endpoint = replace(HERE, server=server)

    with closing(ShapedClient(recognise_shape(Resource, "mine", method), endpoint, "gpt")) as client:
        assert len(client.chat(request).text) == expected


class EitherAddressOrModel:
    """A client whose constructor takes a base URL or a model, and whose attributes are those of another object."""

    def __init__(self, model: str | None = None, base_url: str | None = None) -> None:
        if model and base_url:
            raise ValueError("either a model or a base URL")

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace()

    async def acount_tokens(self, messages: list[Any], tools: Any = None) -> int: ...

    def talk(self, messages: list[Any], model: str) -> str:
        return model


def test_a_constructor_may_take_either_a_base_url_or_a_model(connect: Connect) -> None:
    assert recognise_shape(EitherAddressOrModel, "mine").whole.path == ("talk",)
    assert connect(EitherAddressOrModel, "gpt-4.1").chat(REQUEST).text == "gpt-4.1"


@pytest.mark.parametrize(("path", "is_answer"), [(("chat", "completions", "create"), False), ((), True)])
def test_the_method_of_an_sdk_never_returns_a_text(path: tuple[str, ...], is_answer: bool) -> None:
    def create(messages: list[Any], model: str) -> str:
        return "<html>Bad gateway</html>"

    sdk = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))

    client = ShapedClient(recognise_shape(sdk if path else create, "mine"), HERE, "gpt")
    expected = nullcontext() if is_answer else pytest.raises(MalformedResponse, match="a text in place of an answer")
    with closing(client), expected:
        assert client.chat(REQUEST).text.startswith("<html>")


class PassedOn:
    def __init__(self, create: Callable[..., object]) -> None:
        raw = SimpleNamespace(create=lambda **given: SimpleNamespace(parse=lambda: create(**given)))
        self.client = SimpleNamespace(completions=SimpleNamespace(create=create, with_raw_response=raw))

    def chat(self, messages: list[Any], tools: Any = None) -> Any:
        answer = self.client.completions.create(messages=messages, tools=tools)
        self.count = len(messages)
        return answer

    def converse(self, messages: list[Any], tools: Any = None) -> Any:
        return self.client.completions.create(messages=messages, tools=tools)

    def parse(self, messages: list[Any], tools: Any = None) -> Any:
        raw = self.client.completions.with_raw_response.create(messages=messages, tools=tools)
        return raw.parse()

    def text_of(self, messages: list[Any], tools: Any = None) -> Any:
        answer = self.client.completions.create(messages=messages, tools=tools)
        return str(answer)


@pytest.mark.parametrize(
    ("name", "is_answer"), [("chat", False), ("converse", False), ("parse", False), ("text_of", True)]
)
def test_the_answer_of_an_sdk_that_is_returned_unchanged_is_never_a_text(name: str, is_answer: bool) -> None:
    shape = recognise_shape(PassedOn(lambda **_: "<html>Bad gateway</html>"), "mine", name)
    expected = nullcontext() if is_answer else pytest.raises(MalformedResponse, match="a text in place of an answer")
    with closing(ShapedClient(shape, HERE, "gpt")) as client, expected:
        assert client.chat(REQUEST).text.startswith("<html>")


class SetsTools:
    def complete(self, messages: list[Any], **options: Any) -> str:
        return self._send(messages, **options)

    def _send(self, messages: list[Any], **options: Any) -> str:
        return send(messages=messages, tools=None, **({"top_p": 1.0} | options))


class ReadsTools(SetsTools):
    def _send(self, messages: list[Any], **options: Any) -> str:
        tools = options.pop("tools", None)
        return send(messages=messages, tools=tools, **options)


class SetsModel:
    model = "own"

    def complete(self, messages: list[Any], **options: Any) -> str:
        return self._call(self.model, messages, **options)

    def _call(self, model_id: str, messages: list[Any], tools: list[Any] | None = None) -> str:
        return f"{model_id} {bool(tools)}"


def send(messages: list[Any], tools: object = None, **options: Any) -> str:
    return f"{bool(tools)} {sorted(options)}"


@pytest.mark.parametrize(
    ("kind", "text"),
    [(SetsTools, "False ['top_p']"), (ReadsTools, "True []"), (SetsModel, "own True")],
)
def test_what_a_method_sets_beside_its_options_is_not_given(kind: type, text: str, connect: Connect) -> None:
    request = replace(REQUEST, system=None, tools=(LOOK,))
    assert recognise_shape(kind, "mine").takes("tools") == (kind is not SetsTools)
    assert connect(kind).chat(request if kind is not SetsTools else replace(request, tools=())).text == text


def with_checks(function: Callable[..., Any], check: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*args: Any, **options: Any) -> Any:
        check(options)
        return function(*args, **options)

    checked.__name__ = function.__name__
    return checked


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    def inner(*args: Any, **options: Any) -> Any:
        return function(*args, **options)

    return inner


class Decorated:
    def __init__(self) -> None:
        self.chat = with_checks(with_checks(self.chat, lambda _: None), lambda _: None)

    def chat(self, *, messages: list[Any], model: str, tools: list[Any] | None = None) -> str:
        return f"{model} {bool(tools)}"


class Traced:
    @traced
    def chat(self, messages: list[Any], model: str, tools: list[Any] | None = None) -> str:
        return f"{model} {bool(tools)}"


@pytest.mark.parametrize("kind", [Decorated, Traced])
def test_a_decorator_may_hide_the_signature_of_a_method(kind: type, connect: Connect) -> None:
    shape = recognise_shape(kind, "mine")
    assert (shape.whole.path, shape.whole.is_open, shape.takes("temperature")) == (("chat",), False, False)
    assert connect(kind).chat(replace(REQUEST, system=None, tools=(LOOK,))).text == "gpt True"


class TakesTextsByPlace:
    def chat(self, *texts: str, echo: bool = False) -> str:
        return " | ".join(texts)


def test_a_text_may_be_given_by_place(connect: Connect) -> None:
    assert connect(TakesTextsByPlace).chat(replace(REQUEST, system=None)).text == "Hello"


@dataclass
class Extended(dict[str, Any]):
    """A dictionary whose items are older than its fields."""

    content: str
    tool_calls: list[Any] | None = None

    def __post_init__(self) -> None:
        self.update({"content": "", "tool_calls": None})
        self.refusal = "No."


def test_the_fields_of_an_object_take_precedence_over_its_items() -> None:
    assert plain(Extended("Hello")) == {"content": "Hello", "tool_calls": None, "refusal": "No."}
    assert plain(given := {"content": "Hello"}) is given


def test_a_function_need_not_be_a_constructor() -> None:
    def weather_at(place: str) -> str:
        return f"sunny in {place}"

    def make_client(base_url: str, session: object) -> None: ...

    with pytest.raises(PluginError, match="it takes place, but no messages and no prompt"):
        recognise_shape(weather_at, "mine:weather_at")
    with pytest.raises(PluginError, match="its constructor needs session"):
        recognise_shape(make_client, "mine:make_client")


def test_a_function_that_a_decorator_replaced_takes_a_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_a_library.py").write_text(
        "import functools\n\ndef prompted(function):\n    @functools.wraps(function)\n"
        "    def call(*args, **options):\n        return f'{args} {options}'\n    return call\n"
    )
    (tmp_path / "of_the_user.py").write_text(
        "from of_a_library import prompted\n\n@prompted\ndef greet(person):\n    '''Greet {person}.'''\n"
        "\ndef look_up(person):\n    return person\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("of_the_user")

    assert recognise_shape(module.greet, "of_the_user:greet").whole.prompt == "person"
    with pytest.raises(PluginError, match="it takes person, but no messages"):
        recognise_shape(module.look_up, "of_the_user:look_up")


class Addressed:
    def __init__(self, client: Any) -> None:
        self.client = client

    def answer(self, thread_ts: str, user: str, text: str) -> str:
        return self.client.chat.completions.create(messages=[{"role": "user", "content": f"{user}: {text}"}])

    def ask(self, thread: str, text: str) -> str:
        return self.client.chat.completions.create(messages=[{"role": "user", "content": f"{thread}: {text}"}])

    def settle(self, tool_call_id: str, text: str) -> str:
        return self.client.chat.completions.create(messages=[{"role": "user", "content": f"{tool_call_id}: {text}"}])

    def enrich(self, rows: Any) -> list[str]:
        return [self.client.chat.completions.create(messages=[{"role": "user", "content": row}]) for row in rows]

    def judge(self, row: Any) -> str:
        return self.client.chat.completions.create(messages=[{"role": "user", "content": row}])


@pytest.mark.parametrize(
    ("name", "prompt", "examples"),
    [
        ("answer", "text", {"thread_ts": "example", "user": "example"}),
        ("ask", "text", {"thread": "example"}),
        ("settle", "text", {}),
        ("enrich", None, {}),
        ("judge", "row", {}),
    ],
)
def test_parameters_beside_the_prompt_may_name_something(
    name: str, prompt: str | None, examples: dict[str, object]
) -> None:
    method = method_of((name,), getattr(Addressed(None), name))
    bare = {each: hint for each, hint in method.hints.items() if hint is not Any}  # as if `Any` were no annotation
    method = replace(method, hints=bare, annotations=dict.fromkeys(bare, "str"))

    assert (method.prompt, method.examples) == (prompt, examples)
