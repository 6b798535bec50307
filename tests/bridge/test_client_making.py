"""Clients that are made by context managers, take options by methods, or earlier turns or formats in other forms."""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import pytest
from pydantic import BaseModel

from harness.bridge.clients.constructors import configuration_method, make_client
from harness.bridge.clients.forms import FORMS
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.provider_arguments import providers_of, routed_providers
from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.model.errors import MalformedResponse, Overloaded, PluginError, Unsupported
from harness.model.messages import ChatRequest, JsonSchema, Message, Role, StopReason, Text, Tool, ToolCall, ToolResult
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


@contextmanager
def opened_function(base_url: str) -> Iterator[Callable[..., str]]:
    chat = Chat(base_url)
    yield chat.chat
    chat.is_open = False


def _answer(base_url: str, messages: list[dict[str, Any]]) -> str:
    return base_url


def bound(base_url: str) -> Callable[..., str]:
    return partial(_answer, base_url)


@pytest.mark.parametrize("make", [opened, opened_asynchronously, opened_function, bound])
def test_a_client_may_be_made_by_a_context_manager(make: Callable[..., Any]) -> None:
    shape = recognise_shape(make, "mine:make")

    with closing(ShapedClient(shape, HERE, "m")) as client:
        texts = [client.chat(HELLO).text, client.chat(HELLO).text]

    assert texts == [HERE.base_url] * 2


async def made_later(base_url: str) -> Chat:
    return Chat(base_url)


async def failing(base_url: str) -> Chat:
    raise ValueError(base_url)


async def counting(base_url: str) -> int:
    return len(base_url)


def test_a_client_may_be_made_by_an_asynchronous_function() -> None:
    with closing(ShapedClient(recognise_shape(made_later, "mine:made_later"), HERE, "m")) as client:
        assert client.chat(HELLO).text == HERE.base_url
    for function in (failing, counting):
        with pytest.raises(PluginError, match="no parameter for messages"):
            recognise_shape(function, "mine:function")


class Pages:
    """A client whose annotation shows that its answer is never a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def submit(self, thread: Thread) -> Ok:
        return cast("Ok", self.text)

    def write(self, thread: Thread) -> str:
        return self.text


def test_a_method_that_takes_one_object_shows_by_its_annotation_what_it_returns() -> None:
    submit, write = (
        ShapedClient(recognise_shape(Pages("<html>"), "mine", name), HERE, "m") for name in ("submit", "write")
    )

    assert write.chat(HELLO).text == "<html>"
    with pytest.raises(MalformedResponse, match="a text in place of an answer"):
        submit.chat(HELLO)


class ByMethod:
    """Its providers are the names of its methods."""

    def __init__(self, name: str, base_url: str = "") -> None:
        vendor, _, self.model = name.partition("/")
        self.ask = getattr(self, f"_{vendor}")

    def _anthropic(self, messages: list[Any]) -> str:
        return self.model

    def chat(self, messages: list[Any]) -> str:
        return str(self.ask(messages))


def test_a_provider_may_be_the_name_of_a_method() -> None:
    shape = recognise_shape(ByMethod, "mine:ByMethod", api="anthropic")

    assert ShapedClient(shape, HERE, "claude-opus-4-8", "anthropic").chat(HELLO).text == "claude-opus-4-8"


@dataclass(frozen=True)
class Ok:
    value: dict[str, Any]


@dataclass(frozen=True)
class Err:
    error: Exception


class Trouble(Exception): ...


def attempt(messages: list[dict[str, Any]]) -> Ok | Err:
    failed = messages[-1]["content"] == "Fail"
    return Err(Trouble("HTTP 529 Overloaded")) if failed else Ok({"text": "Yes.", "error": None})


def test_a_client_may_return_its_exceptions() -> None:
    client = ShapedClient(recognise_shape(attempt, "mine:attempt"), HERE, "m")

    assert client.chat(HELLO).text == "Yes."
    with pytest.raises(Overloaded):
        client.chat(ChatRequest("m", (Message(Role.USER, (Text("Fail"),)),)))


MERGING = """
class Merging:
    def __init__(self, profile="fast", **overrides):
        self.options = {"model": profile, **overrides}

    def chat(self, messages):
        return str(self.options)


class Passing:
    def __init__(self, **options):
        self.inner = Merging(**options)

    def chat(self, messages):
        return str(self.inner.options)
"""


def test_options_that_are_only_merged_into_others_get_no_base_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "merging_client.py").write_text(MERGING)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("merging_client")
    merging, passing = (
        ShapedClient(recognise_shape(each, "mine"), HERE, "m") for each in (module.Merging, module.Passing)
    )

    assert merging.chat(HELLO).text == "{'model': 'fast'}"
    assert "base_url" in passing.chat(HELLO).text


READING = """
from collections import namedtuple
from dataclasses import dataclass

Said = namedtuple("Said", "role text calls call_id", defaults=("", (), None))
Known = namedtuple("Known", "name doc schema")


@dataclass
class Mark:
    role: str


def encode(said):
    return [said.role, said.text]


def chat(messages, tools=()):
    return str([[*map(encode, messages)], [(each.name, each.doc, each.schema) for each in tools]])

"""

OTHERWISE = """

def talk(messages):
    return str([each["role"] for each in messages])
"""


def test_the_attributes_that_code_reads_show_the_classes_of_messages_and_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reading_client.py").write_text(READING)
    (tmp_path / "other_client.py").write_text(READING + OTHERWISE)
    monkeypatch.syspath_prepend(tmp_path)
    functions = importlib.import_module("reading_client").chat, importlib.import_module("other_client").talk
    chat, talk = (ShapedClient(recognise_shape(each, "mine"), HERE, "m") for each in functions)

    assert chat.chat(replace(HELLO, tools=(TOOL,))).text == str(
        [[["user", "Hello"]], [("look", "Looks.", TOOL.parameters)]]
    )
    assert talk.chat(HELLO).text == "['user']"


@dataclass
class State:
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    stop_reason: str = ""


def take_step(state: State) -> State:
    state.messages.append({"role": "assistant", "content": [{"type": "text", "text": f"{len(state.tools)} tools"}]})
    state.stop_reason = "max_tokens"
    return state


def test_a_function_may_add_its_answer_to_the_conversation_that_it_gets() -> None:
    shape = recognise_shape(take_step, "mine:take_step")

    answer = ShapedClient(shape, HERE, "m", "anthropic").chat(replace(HELLO, tools=(TOOL,)))

    assert (shape.takes("tools"), answer.text, answer.stop_reason) == (True, "1 tools", StopReason.MAX_TOKENS)


class EndpointSettings(BaseModel):
    url: str = "https://api.openai.com/v1"


class ModelSettings(BaseModel):
    name: str = "gpt-4.1"


class AllSettings(BaseModel):
    model: ModelSettings = ModelSettings()
    endpoint: EndpointSettings = EndpointSettings()


class WithSettings:
    def __init__(self, settings: AllSettings | None = None) -> None:
        self.settings = settings or AllSettings()

    def chat(self, messages: list[dict[str, Any]]) -> str:
        return f"{self.settings.endpoint.url} {self.settings.model.name}"


def test_settings_may_be_in_objects_inside_the_configuration() -> None:
    client = ShapedClient(recognise_shape(WithSettings, "mine:WithSettings"), HERE, "m")

    assert client.chat(HELLO).text == f"{HERE.base_url} gpt-4.1"


class Provider(Protocol):
    def converse(self, messages: list[Said]) -> str: ...


class Duck:
    """It has the method of a protocol, without its annotations."""

    def converse(self, messages: list[Said]) -> str:
        return " ".join(each.role for each in messages)


Duck.converse.__annotations__.clear()


def test_a_method_without_annotations_has_those_of_a_protocol() -> None:
    assert ShapedClient(recognise_shape(Duck, "mine:Duck"), HERE, "m").chat(HELLO).text == "user"


@dataclass(frozen=True)
class Talk:
    """A conversation that is never changed: each step returns a new one."""

    items: tuple[dict[str, Any], ...] = ()
    instructions: str | None = None
    status: str = "new"


class Stepping:
    def __init__(self, added: list[dict[str, Any]]) -> None:
        self.added = added

    def advance(self, talk: Talk) -> Talk:
        return replace(talk, items=(*talk.items, *self.added), status="incomplete")


SPOKEN = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
}
CALLED = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}


@pytest.mark.parametrize(
    ("added", "found"), [([SPOKEN], ("Yes.", [])), ([SPOKEN, CALLED], ("Yes.", ["c1"])), ([CALLED], ("", ["c1"]))]
)
def test_a_method_may_return_the_conversation_with_its_answer(added: list[Any], found: object) -> None:
    shape = recognise_shape(Stepping(added), "mine:stepping").with_format(FORMS["openai-responses"])

    answer = ShapedClient(shape, HERE, "m", "openai-responses").chat(HELLO)

    assert (answer.text, [each.id for each in answer.tool_calls]) == found
    assert answer.stop_reason is StopReason.MAX_TOKENS


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


@dataclass(frozen=True)
class Outcome:
    tool_use_id: str
    content: str
    is_error: bool = False


@dataclass(frozen=True)
class Said:
    role: str
    text: str = ""
    outcomes: tuple[Outcome, ...] = ()


@dataclass(frozen=True)
class Thread:
    messages: tuple[Said, ...] = ()
    system: str | None = None


def run(thread: Thread, tools: Sequence[Mapping[str, Any]] = (), max_tokens: int = 100) -> str:
    RUNS.append((thread, [*tools], max_tokens))
    return "Yes."


RUNS: list[Any] = []


def test_an_object_for_the_messages_may_stand_beside_other_parameters() -> None:
    result = Message(Role.USER, (ToolResult("c1", "look", "no", is_error=True), ToolResult("c2", "look", "yes")))
    calls = Message(Role.ASSISTANT, (Text("Well."), ToolCall("c1", "look", {}), ToolCall("c2", "look", {})))
    request = ChatRequest("m", (*HELLO.messages, calls, result), system="Be short.", tools=(TOOL,), max_tokens=7)
    shape = recognise_shape(run, "mine:run")

    client = ShapedClient(shape, HERE, "m", "anthropic")
    client.chat(replace(HELLO, tools=(TOOL,)))
    client.chat(replace(request, messages=(request.messages[0], request.messages[2])))

    assert shape.takes("tools")
    (first, _, limit), (second, tools, own_limit) = RUNS
    assert (first, limit) == (Thread((Said("user", "Hello"),)), 100)
    assert second.system == "Be short."
    outcomes = (Outcome("c1", "no", is_error=True), Outcome("c2", "yes"))
    assert [each.outcomes for each in second.messages] == [(), outcomes]
    assert ([each["name"] for each in tools], own_limit) == (["look"], 7)  # another client of this file wraps its tools


class Transport(Protocol):
    def post(self, path: str) -> str: ...


class OtherTransport:
    """A transport of another kind: it has no such method."""

    def __init__(self, base_url: str) -> None: ...


class HttpTransport:
    def __init__(self, base_url: str, api_key: str) -> None:
        self.base_url, self.api_key = base_url, api_key

    def post(self, path: str) -> str:
        return f"{self.base_url}{path} {self.api_key}"


class Service:
    def __init__(self, transport: Transport, model: str = "gpt-4.1") -> None:
        self.transport, self.model = transport, model

    def chat(self, messages: list[dict[str, Any]]) -> str:
        return f"{self.transport.post('/chat')} {self.model}"


def test_a_constructor_gets_an_object_of_the_class_that_has_the_methods_of_a_protocol() -> None:
    client = ShapedClient(recognise_shape(Service, "mine:Service"), HERE, "m")

    assert client.chat(HELLO).text == f"{HERE.base_url}/chat no-key m"


ROUTER = """
class Router:
    def chat(self, messages, model="gpt-4.1"):
        if TEST:
            return self.post("/v1/messages", messages)
        return self.post("/chat/completions", messages)
"""


@pytest.mark.parametrize(
    ("test", "apis"),
    [
        ('model.startswith("claude-")', {"openai-chat": "openai", "anthropic": "anthropic"}),
        ('"claude" in model.lower()', {"openai-chat": "openai", "anthropic": "anthropic"}),
        ('model.startswith("my-")', {}),
        ("self.is_claude", {}),
    ],
)
def test_a_client_may_choose_its_provider_by_the_name_of_the_model(test: str, apis: Mapping[str, str]) -> None:
    def chat(messages: list[Any], model: str = "gpt-4.1") -> str:
        return model

    method = replace(method_of((), chat), module=ROUTER.replace("TEST", test), module_name="")

    assert routed_providers(method) == apis
    assert routed_providers(replace(method, names=frozenset({"messages"}))) == {}


def pieces(messages: list[Any]) -> Iterator[str]:
    yield "Ye"
    yield "s."


def speak(messages: list[Any]) -> Generator[str, None, dict[str, Any]]:
    """Yield pieces of the text, and return the message: `message = yield from speak(messages)`."""
    done = yield from pieces(messages)
    return {"role": "assistant", "content": "Yes.", "stop_reason": "end_turn", "done": done}


def conduct(messages: list[Any] | None = None) -> Generator[str, list[Any], None]:
    while messages != []:
        messages = yield "Yes."


def test_a_generator_that_returns_its_message_gets_the_messages_as_arguments() -> None:
    client = ShapedClient(recognise_shape(speak, "mine:speak"), HERE, "m")

    assert client.chat(HELLO).text == "Yes."
    with pytest.raises(PluginError, match="by 'send'"):
        recognise_shape(conduct, "mine:conduct")


@dataclass
class FunctionSchema:
    function: str
    doc: str
    schema: dict[str, Any]


def offer(messages: list[Any], functions: list[FunctionSchema]) -> str:
    return json.dumps([[each.function, each.doc, each.schema] for each in functions])


def test_the_name_of_a_tool_may_be_called_its_function() -> None:
    client = ShapedClient(recognise_shape(offer, "mine:offer"), HERE, "m")

    assert json.loads(client.chat(replace(HELLO, tools=(TOOL,))).text) == [["look", "Looks.", TOOL.parameters]]


class _HostedBackend:
    def __init__(self, prompt: str, model: str = "gpt-5.4") -> None:
        self.prompt = prompt


class _RestBackend(_HostedBackend):
    def __init__(self, prompt: str, model: str = "gemini-2.5-flash", base_url: str = "", api_key: str = "") -> None:
        super().__init__(prompt, model)
        self.base_url = base_url


class _OpenBackend(_HostedBackend):
    def __init__(self, prompt: str, **settings: Any) -> None:
        super().__init__(prompt)
        self.base_url = settings.get("base_url")


_BACKENDS = {"openai": _HostedBackend, "gemini": _RestBackend, "anthropic": _OpenBackend}


class _Rooms:
    """Passes its options on when a room is opened, to the back end that it looks up in _BACKENDS."""

    def __init__(self, provider: str = "openai", **options: Any) -> None:
        self.provider, self.options = provider, options

    def open(self) -> _HostedBackend:
        return _BACKENDS[self.provider]("Be brief.", **self.options)


@pytest.mark.parametrize(
    ("api", "base_url"),
    [("openai-responses", None), ("gemini", "http://127.0.0.1:9/v1"), ("anthropic", "http://127.0.0.1:9/v1")],
)
def test_options_that_a_class_keeps_are_those_of_the_back_end_of_its_provider(api: str, base_url: str | None) -> None:
    rooms = cast("_Rooms", make_client(_Rooms, "http://127.0.0.1:9/v1", "no-key", "gpt-5.4", api=api))

    assert getattr(rooms.open(), "base_url", None) == base_url


class _OwnGemini:
    """Has the model in the constructor, although its method is called like that of the SDK."""

    def __init__(self, model: str = "gemini-2.5-flash", base_url: str = "") -> None:
        self.model = model

    def generate_content(self, contents: list[dict[str, Any]], *, system_instruction: str | None = None) -> str:
        return f"{self.model}: {contents[0]['parts'][0]['text']}"


class _LikeTheSDK(_OwnGemini):
    def generate_content(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, model: str, contents: list[dict[str, Any]], config: dict[str, Any] | None = None
    ) -> str:
        return f"{model}: {contents[0]['parts'][0]['text']}"


@pytest.mark.parametrize(("kind", "is_sdk"), [(_OwnGemini, False), (_LikeTheSDK, True)])
def test_a_method_is_that_of_an_sdk_only_if_it_takes_the_model(kind: type, *, is_sdk: bool) -> None:
    shape = recognise_shape(kind, "mine:Gemini")

    assert shape.is_sdk is is_sdk
    if not is_sdk:
        assert ShapedClient(shape, HERE, "gemini-2.5-pro").chat(HELLO).text == "gemini-2.5-pro: Hello"


@pytest.mark.parametrize(
    ("read", "found"), [("from .backends import REGISTRY\n", {"openai", "gemini"}), ("", {"openai"})]
)
def test_the_providers_may_be_keys_of_a_dictionary_of_another_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str, found: set[str]
) -> None:
    package = f"several{len(read)}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / package / "backends.py").write_text("REGISTRY = {'openai': object, 'gemini': object}\n")
    code = "class Client:\n    def __init__(self, provider='openai'):\n        self.provider = provider\n"
    (tmp_path / package / "client.py").write_text(f"{read}\n{code}")
    monkeypatch.syspath_prepend(tmp_path)

    client = importlib.import_module(f"{package}.client").Client

    assert {*providers_of(method_of((), client)).values()} == found


SETTINGS = """
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    provider: str = "openai"
    base_url: str | None = None
    model: str = "gpt-4.1"
"""


@pytest.mark.parametrize(("other", "provider"), [("anthropic", "anthropic"), ("none", "openai")])
def test_the_provider_may_be_in_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, provider: str
) -> None:
    code = (
        f"from settings_of_{other} import Settings\n\n\nclass LLM:\n"
        "    def __init__(self, settings: Settings | None = None):\n        self.settings = settings or Settings()\n\n"
        f"    def chat(self, messages):\n        return self.settings.provider == '{other}'\n"
    )
    (tmp_path / f"settings_of_{other}.py").write_text(SETTINGS)
    (tmp_path / f"llm_of_{other}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    kind = importlib.import_module(f"llm_of_{other}").LLM

    client = cast("Any", make_client(kind, "http://127.0.0.1:9/v1", "no-key", "m", api="anthropic"))

    assert client.settings.provider == provider
    assert client.settings.base_url == "http://127.0.0.1:9/v1"
    assert configuration_method(kind) is not None
