"""Parameters that clients take in unusual forms: lists of texts, objects to fill, texts or messages."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from harness.bridge.clients.filled_objects import filled_parameter
from harness.bridge.clients.forms import ANTHROPIC
from harness.bridge.clients.loop_methods import adding_methods, takes_only_a_prompt
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.own_keys import Declaration
from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.bridge.clients.sources import modules_of_package
from harness.bridge.clients.tool_declarations import wraps_tools
from harness.bridge.clients.tool_functions import make_handler
from harness.model.errors import PluginError
from harness.model.messages import (
    ChatRequest,
    Finish,
    Message,
    Role,
    Text,
    TextDelta,
    ThinkingSettings,
    Tool,
    ToolCall,
    ToolResult,
)
from harness.model.protocols import ConversationTool, Endpoint

REQUEST = ChatRequest("gpt", (Message(Role.USER, (Text("Hello"),)),))
HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")
NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
HTTP: Any = None


def condense(notes: Iterable[str]) -> str:
    return HTTP.post("/chat/completions", json=[*notes]).text


def label(tags: list[int]) -> str:
    return HTTP.post("/chat/completions", json=tags).text


class Editor:
    def condense(self, notes: list[str]) -> str:
        return condense(notes)


def test_a_prompt_may_be_a_list_of_texts() -> None:
    shape, method = recognise_shape(condense, "mine:condense"), method_of((), condense)

    assert shape.whole.prompt == "notes"
    assert shape.whole.prompt_list == "notes"
    assert method_of((), label).prompt is None
    assert not takes_only_a_prompt(method_of(("condense",), Editor.condense))
    assert method.without_unused(["notes"]).prompt_list == "notes"


@dataclass
class Answer:
    text: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass
class Thread:
    text: str = ""
    history: list[str] = field(default_factory=list[str])


def _collect(piece: str, into: Answer) -> None:
    into.text += piece
    into.calls.append({"id": piece, "name": piece, "arguments": "{}"})


class Streamer:
    def stream(self, messages: list[Any], *, answer: Answer) -> Iterator[str]:
        for piece in ("look", "listen"):
            _collect(piece, into=answer)
            yield piece


def fill(messages: list[Any], into: Answer) -> None:
    into.text = "Hi"


def read(messages: list[Any], answer: Answer) -> str:
    return answer.text


def talk(messages: list[Any], thread: Thread) -> str:
    thread.history.append(thread.text)
    thread.text = "Hi"
    return thread.text


def test_a_method_may_fill_an_object_of_its_caller() -> None:
    client = ShapedClient(recognise_shape(Streamer, "mine:Streamer"), HERE, "gpt")
    *texts, last = client.stream(REQUEST)

    assert [each.text for each in texts if isinstance(each, TextDelta)] == ["look", "listen"]
    assert isinstance(last, Finish)
    assert [each.name for each in last.response.tool_calls] == ["look", "listen"]
    whole = client.chat(REQUEST)
    assert (whole.text, len(whole.tool_calls)) == ("looklisten", 2)
    assert ShapedClient(recognise_shape(fill, "mine:fill"), HERE, "gpt").chat(REQUEST).text == "Hi"


@pytest.mark.parametrize("function", [read, talk])
def test_an_object_that_is_only_read_or_keeps_a_history_is_not_filled(function: Any) -> None:
    assert method_of((), function).filled is None
    with pytest.raises(PluginError):
        recognise_shape(function, "mine:function")


@pytest.mark.parametrize(
    ("code", "is_filled"),
    [
        ("answer.text = 'a'", True),
        ("answer.calls[0] = 'a'", True),
        ("answer.add_text('a')", True),
        ("fill(answer)", True),
        ("answer[0] = 'a'", False),
        ("other.text = answer.text", False),
        ("answer.show()", False),
        ("not code", False),
    ],
)
def test_the_code_shows_whether_an_object_is_filled(code: str, is_filled: bool) -> None:
    source = f"def ask(answer, other, fill):\n    {code}\n" if code != "not code" else "def ask("
    module = "def fill(it):\n    it.text = ''\n"

    found = filled_parameter({"answer": Answer, "return": Answer, "other": str}, source, module)

    assert found == (("answer", Answer) if is_filled else None)


FILLING = """
class Answer:
    def __init__(self):
        self.text, self.tool_calls = "", []


def ask(messages, answer=None, other=None):
    answer = answer if answer is not None else Answer()
    answer.text = other or str(len(messages))
    return answer.text
"""


def test_a_parameter_without_an_annotation_may_be_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "filling_client.py").write_text(FILLING)
    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("filling_client")

    assert method_of((), made.ask).filled == ("answer", made.Answer)


class Library:
    def embed(self, text: str) -> str:
        return HTTP.post("/embeddings", json=text).text

    def explain(self, topic: str) -> str:
        return HTTP.post("/chat/completions", json=[self.embed(topic), topic]).text


def test_a_method_for_embeddings_is_not_the_one_for_conversations() -> None:
    shape = recognise_shape(Library, "mine:Library")

    assert shape.whole.path == ("explain",)
    assert not shape.whole.sends_no_conversation
    assert method_of(("embed",), Library.embed).sends_no_conversation


@dataclass
class Outcome:
    id: str
    name: str
    response: dict[str, Any]


@dataclass
class Entry:
    role: str
    text: str = ""
    outcomes: list[Outcome] = field(default_factory=list[Outcome])


@dataclass
class Declared:
    name: str
    description: str = ""
    parameters: int | None = None
    parameters_json_schema: dict[str, Any] | None = None


def test_a_class_for_results_may_have_the_fields_of_geminis() -> None:
    call = Message(Role.ASSISTANT, (ToolCall("call_1", "look", {}),))
    results = [ToolResult("call_1", "look", {"sky": "blue"}), ToolResult("call_1", "look", "blue")]
    seen: list[Entry] = []

    def chat(messages: list[Entry], tools: list[Declared] | None = None) -> str:
        seen.extend(messages[2:])
        seen.extend(tools or [])  # type: ignore[arg-type]
        return "Fine."

    client = ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt")
    for each in results:
        client.chat(ChatRequest("gpt", (*REQUEST.messages, call, Message(Role.USER, (each,)))))
    client.chat(ChatRequest("gpt", REQUEST.messages, tools=(Tool("look", "Looks.", NO_PARAMETERS),)))

    assert [each.outcomes for each in seen[:2]] == [
        [Outcome("call_1", "look", {"sky": "blue"})],
        [Outcome("call_1", "look", {"result": "blue"})],
    ]
    assert seen[2:] == [Declared("look", "Looks.", None, NO_PARAMETERS)]


def test_messages_may_be_given_by_place() -> None:
    def chat(*messages: dict[str, Any], tools: Any = None) -> str:
        return json.dumps(messages)

    def join(*messages: str) -> str:
        return " ".join(messages)

    answer = ShapedClient(recognise_shape(chat, "mine:chat"), HERE, "gpt").chat(REQUEST)

    assert json.loads(answer.text) == [{"role": "user", "content": "Hello"}]
    assert "messages" not in method_of((), join).names


class Speaker:
    def user(self, text: str) -> str:
        return self._send(text)

    def user_message(self, text: str) -> None:
        self.text = text

    def _send(self, text: str) -> str:
        return HTTP.post("/responses", json=text).text


def test_a_method_that_sends_its_prompt_does_not_only_add_it() -> None:
    methods = [method_of((name,), getattr(Speaker, name)) for name in ("user", "user_message")]

    assert [each.path[0] for each in adding_methods(methods)] == ["user_message"]


def test_a_text_or_a_list_may_be_the_messages() -> None:
    def say(what: str | list[dict[str, Any]]) -> str:
        return HTTP.post("/responses", json=what).text

    def tell(what: str | list[str]) -> str:
        return HTTP.post("/responses", json=what).text

    assert [method_of((), each).text_or_list for each in (say, tell, condense)] == ["what", None, None]


def test_tools_that_a_registry_declares_are_not_bare() -> None:
    def generate(contents: list[Any], tools: Any = None) -> str:
        if hasattr(tools, "declarations"):
            tools = [{"functionDeclarations": tools.declarations()}]
        body = {"contents": contents}
        body["tools"] = tools
        return json.dumps(body)

    def bare(contents: list[Any], tools: Any = None) -> str:
        return json.dumps({"contents": contents, "tools": [{"functionDeclarations": list(tools)}]})

    assert [wraps_tools(method_of((), each)) for each in (generate, bare)] == [False, True]


BACKENDS = """
class OpenAIBackend:
    def complete(self, messages, tools):
        return {"messages": messages, "tools": [{"type": "function", "function": each} for each in tools]}


class Reader:
    def complete_all(self, messages, tools):
        return {"messages": messages, "tools": tools}
"""

FACADE = """
from backend_of_facade import OpenAIBackend, Reader


class Facade:
    def complete(self, messages, tools=None):
        return OpenAIBackend().complete(messages, tools or [])


class Passing:
    def complete(self, messages, tools=None):
        return Reader().complete_all(messages, tools or [])
"""


def test_code_in_another_file_of_a_project_may_wrap_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "backend_of_facade.py").write_text(BACKENDS)
    (tmp_path / "facade_of_project.py").write_text(FACADE)
    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("facade_of_project")

    methods = [recognise_shape(each, "facade_of_project").whole for each in (made.Facade, made.Passing)]

    assert [wraps_tools(each) for each in methods] == [True, False]


class Arguments(BaseModel):
    city: str


def test_a_handler_may_get_a_context_beside_its_arguments() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
    tool = ConversationTool("look", "Looks.", schema, lambda call: ToolResult("", "look", str(call.arguments["city"])))
    handler = make_handler(tool)

    assert [handler("customer", {"city": "Rome"}), handler({"city": "Rome"}, {"user": "Ada"})] == ["Rome", "Rome"]
    assert [handler("Rome"), handler(city="Rome")] == ["Rome", "Rome"]
    assert handler({"db": None}, Arguments(city="Rome")) == "Rome"


def test_a_declaration_has_other_keys_once_the_client_reads_one() -> None:
    schema = {"type": "object", "properties": {"at": {"type": "string"}}}
    tool = Declaration({"type": "function", "function": {"name": "look", "description": "", "parameters": schema}})

    assert ("parameters" in tool, "function" in tool) == (False, True)
    assert tool["name"] == "look"
    assert [key in tool for key in ("parameters", "schema", "description", "strict", "function")] == [
        *(True, True, True, False, True)
    ]


def test_an_effort_goes_to_a_method_that_takes_any_option() -> None:
    seen: list[Any] = []

    def chat(messages: list[Any], thinking: Any = None, **extra: Any) -> dict[str, str]:
        seen.append(extra.get("output_config"))
        return {"text": "Hello"}

    def closed(messages: list[Any], thinking: Any = None) -> dict[str, str]:
        seen.append(thinking)
        return {"text": "Hello"}

    request = ChatRequest("claude-opus-4-8", REQUEST.messages, thinking=ThinkingSettings(effort="low"))
    for function in (chat, closed):
        shape = recognise_shape(function, "mine").with_format(ANTHROPIC)
        with closing(ShapedClient(shape, HERE, "claude-opus-4-8", "anthropic")) as client:
            client.chat(request)

    assert seen == [{"effort": "low"}, {"type": "adaptive"}]


def test_a_registry_shows_the_modules_of_a_package_beside_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wires_beside").mkdir()
    (tmp_path / "wires_beside" / "claude_wire.py").write_text("def encode(): ...\n")
    (tmp_path / "wires_beside" / "__init__.py").write_text(
        "from wires_beside import claude_wire\nWIRES = {'anthropic': claude_wire, 'texts': ['a', 1]}\n"
    )
    code = "import json\nfrom pathlib import Path\nfrom wires_beside import WIRES\nCODES = {'json': json.loads}\n"
    (tmp_path / "client_with_wires.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("client_with_wires")

    assert modules_of_package("client_with_wires") == ["client_with_wires", "wires_beside.claude_wire"]
    assert modules_of_package("wires_beside") == ["wires_beside", "wires_beside.claude_wire"]
    assert modules_of_package("wires_beside.claude_wire") == ["wires_beside.claude_wire"]
