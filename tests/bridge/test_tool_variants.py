"""Choice by a trial between the ways in which a third-party class or function may take its tools."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from harness.apis.view import ModelStep, TextView
from harness.bridge.clients.agents import AgentDrive, FunctionDrive
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.sessions import SessionDrive
from harness.bridge.clients.sources import ClassSource
from harness.bridge.clients.tool_variants import tool_variants
from harness.checks.recognition import recognise_here
from harness.model.errors import Unsupported
from harness.model.messages import Message, Role, Text, ToolCall, ToolResult
from harness.model.protocols import Conversation, ConversationTool, Endpoint, FinalCall
from harness.stdio import loop_trials
from harness.stdio.answered_requests import requests_with_steps
from harness.stdio.loop_trials import final_call_of, loop_of, obstacle_of, tried_loop

Load = Callable[[str], ModuleType]

COMMON = """
import inspect
import json
import os
import urllib.request
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Callable, NamedTuple, TypedDict, TypeVar

from pydantic import BaseModel


class Failed(Exception):
    pass


def post(body):
    url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"authorization": "Bearer no-key"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]


class Base:
    specs = ()

    def answer(self, call):
        raise NotImplementedError

    def run(self, question: str) -> str:
        messages = [{"role": "user", "content": question}]
        for _ in range(9):
            message = post({"model": "gpt-5.4", "messages": messages} | ({"tools": self.specs} if self.specs else {}))
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                content = self.answer(call["function"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(content)})
        raise Failed("too many rounds")


def loads(function):
    return json.loads(function["arguments"])
"""

RIGHT = {
    "a table named as a function that executes calls": """
class Agent(Base):
    def __init__(self, dispatch, specs):
        self.dispatch, self.specs = dispatch, specs
    def answer(self, function):
        run = self.dispatch.get(function["name"])
        return run(**loads(function)) if run is not None else "unknown"
""",
    "a dictionary whose key for the function is one of the API": """
class Agent(Base):
    def __init__(self, tools):
        self.tools = tools
        self.specs = [{"type": "function", "function": {
            "name": name, "description": each["description"], "parameters": each["parameters"]
        }} for name, each in tools.items()]
    def answer(self, function):
        return self.tools[function["name"]]["function"](**loads(function))
""",
    "functions that know their names, and schemas": """
class Agent(Base):
    def __init__(self, functions: list[Callable[..., Any]], schemas: list[dict[str, Any]]):
        self.functions = {each.__name__: each for each in functions}
        self.specs = schemas
    def answer(self, function):
        return self.functions[function["name"]](**loads(function))
""",
    "a class with a model of the arguments": """
@dataclass
class Step:
    name: str
    model: type[BaseModel]
    handler: Callable[[Any], Any]
    description: str = ""
class Agent(Base):
    def __init__(self, actions: list[Step]):
        self.steps = {each.name: each for each in actions}
        self.specs = [{"type": "function", "function": {
            "name": each.name, "description": each.description, "parameters": each.model.model_json_schema()
        }} for each in actions]
    def answer(self, function):
        step = self.steps[function["name"]]
        return step.handler(step.model.model_validate_json(function["arguments"]))
""",
    "a server with tools, and a name that means nothing": """
class Agent(Base):
    def __init__(self, name: str, server, retries: int):
        if retries < 2:
            raise Failed("too few")
        self.server, self.specs, self.name = server, server.list_tools() if server else (), name.title()
    def answer(self, function):
        return self.server.call_tool(function["name"], loads(function))
""",
    "pairs with names, whose declaration has only its parts": """
class Entry(NamedTuple):
    spec: dict[str, Any]
    call: Callable[..., Any]
class Agent(Base):
    def __init__(self, tools: list[Entry]):
        self.entries = {each.spec["name"]: each for each in tools}
        self.specs = [{"type": "function", "function": each.spec} for each in tools]
    def answer(self, function):
        return self.entries[function["name"]].call(**loads(function))
""",
    "a configuration object with objects of a class": """
@dataclass
class Skill:
    name: str
    what_for: str
    form: dict[str, Any]
    on_use: Callable[[dict[str, Any]], Any]
@dataclass
class Settings:
    title: str
    model: str = "gpt-5.4"
    tools: list[Skill] = field(default_factory=list)
class Agent(Base):
    def __init__(self, settings: Settings):
        self.skills = {each.name: each for each in settings.tools}
        self.specs = [{"type": "function", "function": {
            "name": each.name, "description": each.what_for, "parameters": each.form
        }} for each in settings.tools]
    def answer(self, function):
        return self.skills[function["name"]].on_use(loads(function))
""",
    "a schema with a description, and a function": """
class Agent(Base):
    def __init__(self, tools: dict[str, tuple[dict[str, Any], Callable[..., Any]]]):
        self.tools = tools
        self.specs = [{"type": "function", "function": {
            "name": name, "description": one["description"],
            "parameters": {key: value for key, value in one.items() if key != "description"}
        }} for name, (one, _) in tools.items()]
    def answer(self, function):
        return self.tools[function["name"]][1](**loads(function))
""",
    "the functions of a module": """
class Agent(Base):
    def __init__(self, toolset: ModuleType | object):
        self.functions = {name: each for name, each in inspect.getmembers(toolset, inspect.isroutine) if name[0] != "_"}
        self.specs = [{"type": "function", "function": {
            "name": name, "description": inspect.getdoc(each), "parameters": {"type": "object", "properties": {
                one: {"type": "string"} for one in inspect.signature(each).parameters}}
        }} for name, each in self.functions.items()]
    def answer(self, function):
        return self.functions[function["name"]](**loads(function))
""",
    "the methods of an object": """
class Agent(Base):
    def __init__(self, service):
        self.functions = dict(inspect.getmembers(service, inspect.ismethod))
        self.specs = [{"type": "function", "function": {
            "name": name, "description": each.__doc__, "parameters": {"type": "object", "properties": {
                one: {"type": "string"} for one in inspect.signature(each).parameters}}
        }} for name, each in self.functions.items()]
    def answer(self, function):
        return self.functions[function["name"]](**loads(function))
""",
    "the methods of a subclass": """
class Box:
    def __members__(self):
        return dict(inspect.getmembers(self, inspect.ismethod))
class Agent(Base):
    def __init__(self, toolbox: Box):
        self.functions = {name: each for name, each in toolbox.__members__().items() if name[0] != "_"}
        self.specs = [{"type": "function", "function": {
            "name": name, "description": each.__doc__, "parameters": {"type": "object", "properties": {
                one: {"type": "string"} for one in inspect.signature(each).parameters}}
        }} for name, each in self.functions.items()]
    def answer(self, function):
        return self.functions[function["name"]](**loads(function))
""",
    "a class of the caller that lists and runs tools": """
class ToolHost(ABC):
    @abstractmethod
    def catalogue(self): ...
    @abstractmethod
    def perform(self, name, arguments): ...
class Agent(Base):
    def __init__(self, hosts: list[ToolHost] = ()):
        self.hosts, self.specs = hosts, [each for host in hosts for each in host.catalogue()]
    def answer(self, function):
        return self.hosts[0].perform(function["name"], loads(function))
""",
    "a decorator that gets a model of the arguments": """
A = TypeVar("A", bound=BaseModel)
class Agent(Base):
    def __init__(self):
        self.commands, self.specs = {}, []
    def command(self, args: type[A]) -> Callable[..., Any]:
        def register(handler):
            self.commands[args.__name__] = (args, handler)
            self.specs = [*self.specs, {"type": "function", "function": {
                "name": args.__name__, "description": args.__doc__, "parameters": args.model_json_schema()}}]
            return handler
        return register
    def answer(self, function):
        model, handler = self.commands[function["name"]]
        return handler(model.model_validate(loads(function)))
""",
    "another object of its module for its requests": """
class Model:
    def __init__(self, model: str = "gpt-5.4", **options):
        self.model, self.options = model, options
    def complete(self, messages, tools):
        return post({"model": self.model, "messages": messages, "tools": tools, **self.options})
@dataclass
class Tool:
    name: str
    description: str
    parameters: dict[str, Any]
    run: Callable[..., Any]
class Agent(Base):
    def __init__(self, llm: Model, tools: list[Tool]):
        self.llm, self.tools = llm, {each.name: each for each in tools or ()}
        self.specs = [{"type": "function", "function": {
            "name": name, "description": each.description, "parameters": each.parameters
        }} for name, each in self.tools.items()]
    def answer(self, function):
        return self.tools[function["name"]].run(**loads(function))
""",
    "a builder": """
class Built(Base):
    def __init__(self, functions, specs):
        self.functions, self.specs = functions, specs
    def answer(self, function):
        return self.functions[function["name"]](**loads(function))
class Agent:
    def __init__(self):
        self.functions, self.specs = {}, []
    def system(self, text: str):
        return self
    def tool(self, function: Callable[..., Any], name: str, description: str, parameters: dict[str, Any]):
        self.functions[name] = function
        self.specs.append({"type": "function", "function": {
            "name": name, "description": description, "parameters": parameters}})
        return self
    def build(self) -> Built:
        return Built(self.functions, self.specs)
""",
    "an attribute of the object": """
@dataclass
class Tool:
    name: str
    description: str
    parameters: dict[str, Any]
    function: Callable[..., Any]
class Agent(Base):
    def __init__(self) -> None:
        self.tools: list[Tool] = []
    @property
    def specs(self):
        return [{"type": "function", "function": {
            "name": each.name, "description": each.description, "parameters": each.parameters
        }} for each in self.tools]
    def answer(self, function):
        return next(each for each in self.tools if each.name == function["name"]).function(**loads(function))
""",
    "base classes that pass their options on": """
class Remembers:
    def __init__(self, **options):
        super().__init__(**options)
        self.kept = []
class HasTools:
    def __init__(self, functions: dict[str, Callable[..., Any]] | None = None, schemas=None, **options):
        super().__init__(**options)
        self.functions, self.specs = functions or {}, schemas or []
class Agent(Remembers, HasTools, Base):
    def answer(self, function):
        return self.functions[function["name"]](**loads(function))
""",
    "typed dictionaries with the rest of the declaration": """
class ToolDict(TypedDict):
    schema: dict[str, Any]
    run: Callable[..., Any]
class Agent(Base):
    def __init__(self, tools: dict[str, ToolDict] | None = None):
        self.tools = tools or {}
        self.specs = [{"type": "function", "function": {"name": name, **each["schema"]}}
                      for name, each in self.tools.items()]
    def answer(self, function):
        return self.tools[function["name"]]["run"](**loads(function))
""",
    "objects that list declarations with their functions": """
class Agent(Base):
    def __init__(self, plugins: list[object] | None = None):
        self.table, self.specs = {}, []
        for plugin in plugins or []:
            for definition, function in plugin.tools():
                self.table[definition["function"]["name"]] = function
                self.specs.append(definition)
    def answer(self, function):
        return self.table[function["name"]](**loads(function))
""",
    "declarations by name": """
class Agent(Base):
    def __init__(self, commands, implementations):
        self.commands, self.specs = implementations, [
            {"type": "function", "function": {"name": name, **{key: one[key] for key in ("description", "parameters")}}}
            for name, one in commands.items()
        ]
    def answer(self, function):
        return self.commands[function["name"]](**loads(function))
""",
}

FUNCTION = """
def run(question, tools, registry):
    agent = Base()
    agent.specs = [{"type": "function", "function": each} for each in tools]
    agent.answer = lambda function: registry[function["name"]](**loads(function))
    return agent.run(question)
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import code as a module, because its source shows how it may take tools."""
    monkeypatch.syspath_prepend(tmp_path)

    def load(code: str) -> ModuleType:
        (tmp_path / "loop_under_trial.py").write_text(f"{COMMON}\n{code}")
        importlib.invalidate_caches()
        return importlib.import_module("loop_under_trial")

    yield load
    sys.modules.pop("loop_under_trial", None)


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT)
def test_a_trial_shows_how_a_class_takes_its_tools(load: Load, code: str) -> None:
    found = loop_of(load(code).Agent, "openai-chat")
    assert isinstance(found, AgentDrive)
    assert loop_trials._try(found, "openai-chat").is_right


def test_a_trial_shows_how_a_function_takes_its_tools(load: Load) -> None:
    found = loop_of(load(FUNCTION).run, "openai-chat")
    assert isinstance(found, FunctionDrive)
    assert loop_trials._try(found, "openai-chat").is_right


def test_a_schema_of_the_answer_is_no_parameter_for_tools(load: Load) -> None:
    names = tool_variants_of(
        load("""
def run(question, functions=None, schema=None):
    return Base().run(question) if functions else schema
""").run
    )

    assert "functions" in names
    assert "schema" not in names


def tool_variants_of(function: Callable[..., object]) -> set[str]:
    method = method_of((), function)
    variants = tool_variants(function, method, ClassSource(function, method.source, method.module, ""), "openai-chat")
    return {name for each in variants for name in each}


def test_third_party_code_does_not_wait_before_it_repeats_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = list[float]()

    async def wait(delay: float, _result: object = None) -> None:
        waits.append(delay)

    monkeypatch.setattr(time, "sleep", waits.append)
    monkeypatch.setattr(asyncio, "sleep", wait)

    def send(_url: str) -> None:
        time.sleep(60)
        asyncio.run(asyncio.sleep(60))

    requests_with_steps(send, "openai-chat", [])

    assert waits == [0, 0]


def test_a_class_that_runs_no_tool_keeps_its_first_form(load: Load) -> None:
    agent = load("""
class Agent(Base):
    def __init__(self, specs, functions):
        self.functions, self.specs = functions, specs
    def answer(self, function):
        return "done" if function["name"] in self.functions or not loads(function) else self.functions["x"](**loads({}))
""").Agent
    assert tried_loop(agent, "openai-chat") is None
    assert loop_of(agent, "openai-chat") is None or isinstance(loop_of(agent, "openai-chat"), AgentDrive)


def test_a_class_without_tools_is_no_loop(load: Load) -> None:
    agent = load("""
class Agent(Base):
    def __init__(self, model="gpt-5.4"):
        self.model = model
""").Agent
    assert loop_of(agent, "openai-chat") is None


ENDING = """
class Agent(Base):
    def __init__(self, tools: list[Callable[..., Any]] | None = None):
        self.functions = {each.__name__: each for each in tools or []}
        self.specs = [{"type": "function", "function": {
            "name": name, "description": each.__doc__, "parameters": {"type": "object", "properties": {
                one: {"type": "string"} for one in inspect.signature(each).parameters}}
        }} for name, each in self.functions.items()]
        self.specs.append({"type": "function", "function": {"name": "final_answer", "parameters": {
            "type": "object", "required": ["sure", "reply"],
            "properties": {"sure": {"type": "boolean"}, "reply": {"type": "string"}},
        }}})
    def answer(self, function):
        return self.functions[function["name"]](**loads(function))
    def run(self, question):
        messages = [{"role": "user", "content": question}]
        while True:
            message = post({"model": "gpt-5.4", "messages": messages, "tools": self.specs})
            messages.append(message)
            for call in message.get("tool_calls") or ():
                if call["function"]["name"] == "final_answer":
                    return loads(call["function"])["reply"]
                content = self.answer(call["function"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(content)})
            if not message.get("tool_calls"):
                WITHOUT_CALL
"""


@pytest.mark.parametrize("without_call", ["raise Failed('no call')", "messages.append(messages[0])"])
def test_a_loop_may_have_to_end_with_a_call_of_its_own_tool(load: Load, without_call: str) -> None:
    agent = load(ENDING.replace("WITHOUT_CALL", without_call)).Agent
    assert isinstance(found := loop_of(agent, "openai-chat"), AgentDrive)
    assert final_call_of(found, "openai-chat") == FinalCall("final_answer", "reply", {"sure": True})


def test_a_loop_that_also_ends_with_a_text_needs_no_call(load: Load) -> None:
    agent = load(ENDING.replace("WITHOUT_CALL", "return message['content']")).Agent
    assert isinstance(found := loop_of(agent, "openai-chat"), AgentDrive)
    assert final_call_of(found, "openai-chat") is None


def test_a_required_path_is_that_of_a_new_file(load: Load) -> None:
    agent = load("""
class Agent(Base):
    def __init__(self, history_path: str, specs, functions):
        assert os.path.isabs(history_path) and not os.path.exists(history_path)
        self.functions, self.specs = functions, specs
    def answer(self, function):
        return self.functions[function["name"]](**loads(function))
""").Agent
    assert tried_loop(agent, "openai-chat") is not None


GEMINI_AGENT = """
SEEN = []
class Agent:
    def __init__(self, declarations=None, handlers=None):
        self.declarations, self.handlers = declarations or [], handlers or {}
        self.contents = []
    def ask(self, question):
        self.contents.append({"role": "user", "parts": [{"text": question}]})
        while True:
            body = {"contents": self.contents}
            if self.declarations:
                body["tools"] = [{"functionDeclarations": self.declarations}]
                SEEN.append(self.declarations)
            url = os.environ.get("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com")
            url += "/v1beta/models/gemini-3-pro:generateContent"
            with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())) as answer:
                content = json.load(answer)["candidates"][0]["content"]
            self.contents.append(content)
            calls = [each["functionCall"] for each in content["parts"] if "functionCall" in each]
            if not calls:
                return content["parts"][0]["text"]
            self.contents.append({"role": "user", "parts": [{"functionResponse": {
                "name": each["name"], "response": {"result": self.handlers[each["name"]](**each.get("args", {}))}
            }} for each in calls]})
"""


def test_a_bare_declaration_of_gemini_has_a_json_schema_under_its_own_key(load: Load) -> None:
    module = load(GEMINI_AGENT)
    found = tried_loop(module.Agent, "gemini")
    assert found is not None
    assert loop_trials._try(found, "gemini").is_right
    assert "parametersJsonSchema" in module.SEEN[-1][0]


def test_a_function_may_make_an_object_that_opens_conversations(load: Load) -> None:
    module = load("""
class Talk(Base):
    def __init__(self, maker):
        self.functions, self.specs = maker.functions, maker.specs
    def answer(self, function):
        return self.functions[function["name"]](**loads(function))
class Maker:
    def __init__(self, functions, specs):
        self.functions, self.specs = functions, specs
    def new_conversation(self):
        return Talk(self)
def make(functions, tools, model="gpt-5.4"):
    return Maker(functions, tools)
""")
    found = loop_of(module.make, "openai-chat")
    assert isinstance(found, AgentDrive)
    assert loop_trials._try(found, "openai-chat").is_right


STORED = """
class Agent:
    def __init__(self, functions, tools):
        self.functions, self.specs, self.kept = functions, tools, {}
    def run(self, session_id: str, question: str) -> str:
        messages = json.loads(self.kept.get(KEY, "[]")) + [{"role": "user", "content": question}]
        while True:
            message = post({"model": "gpt-5.4", "messages": messages} | ({"tools": self.specs} if self.specs else {}))
            messages.append(message)
            if not message.get("tool_calls"):
                self.kept[session_id] = json.dumps(messages)
                return message["content"]
            for call in message["tool_calls"]:
                content = self.functions[call["function"]["name"]](**loads(call["function"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(content)})
"""


@pytest.mark.parametrize(("key", "continues"), [("session_id", True), ("question", False)])
def test_a_trial_shows_whether_calls_continue_one_conversation(load: Load, key: str, *, continues: bool) -> None:
    found = loop_of(load(STORED.replace("KEY", key)).Agent, "openai-chat")
    assert isinstance(found, AgentDrive)
    assert found.continues is continues


CONVERSING = """
@dataclass
class Said:
    role: str
    text: str = ""
    raw: Any = None
@dataclass
class Skill:
    name: str
    description: str
    parameters: dict[str, Any]
    func: Callable[..., Any]
def work(messages: list[Said], tools: list[Skill], keep=True):
    given, added, skills = [each.raw or {"role": each.role, "content": each.text} for each in messages], [], {}
    skills = {each.name: each for each in tools}
    specs = [{"type": "function", "function": {"name": each.name, "description": each.description,
                                               "parameters": each.parameters}} for each in tools]
    while True:
        message = post({"model": "gpt-5.4", "messages": given} | ({"tools": specs} if specs else {}))
        added.append(Said("assistant", message["content"] or "", message))
        given.append(message)
        if not message.get("tool_calls"):
            messages.extend(added if keep else ())
            return added[-1]
        for call in message["tool_calls"]:
            content = str(skills[call["function"]["name"]].func(**loads(call["function"])))
            given.append({"role": "tool", "tool_call_id": call["id"], "content": content})
            added.append(Said("tool", content, given[-1]))
class Agent:
    def run(self, messages: list[Said], tools: list[Skill] = ()):
        return work(messages, tools)
class Keeper:
    def __init__(self, tools: list[Skill]):
        self.tools = tools
    def run(self, messages: list[Said]):
        return work(messages, self.tools)
class Forgetful:
    def run(self, messages: list[Said], tools: list[Skill] = ()):
        return work(messages, tools, keep=False).text
class Returning:
    def run(self, messages: list[Said], tools: list[Skill] = ()):
        answer = work(messages, tools, keep=False)
        return answer.text, [*messages, answer]
class Adding:
    def run(self, messages: list[Said], tools: list[Skill] = ()):
        return [work(messages, tools, keep=False)]
class Client:
    def run(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] = ()):
        return post({"model": "gpt-5.4", "messages": messages, "tools": tools})
"""

TWO_TURNS = Conversation(
    system="Be brief.", turns=(Message(Role.USER, (Text("Hello"),)), Message(Role.USER, (Text("And now?"),)))
)


@pytest.mark.parametrize(
    ("name", "has_second"),
    [("Agent", True), ("Keeper", True), ("work", True), ("Returning", True), ("Adding", True), ("Forgetful", False)],
)
def test_a_loop_may_take_the_conversation_of_its_caller(load: Load, name: str, *, has_second: bool) -> None:
    found = loop_of(getattr(load(CONVERSING), name), "openai-chat")
    assert isinstance(found, AgentDrive | FunctionDrive)
    assert found.conversation is not None

    steps = [ModelStep(text="Yes."), ModelStep(text="No.")]
    requests = requests_with_steps(
        lambda url: found(Endpoint(url, "no-key"), "gpt-5.4", TWO_TURNS), "openai-chat", steps
    )

    assert [len(each.turns) for each in requests] == ([1, 3] if has_second else [1])
    assert [[part.text for part in each.system] for each in requests] == [["Be brief."]] * len(requests)


def test_a_client_that_takes_messages_is_no_loop(load: Load) -> None:
    assert tried_loop(load(CONVERSING).Client, "openai-chat") is None


OF_OTHER_APIS = """
def send(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"x-goog-api-key": "no-key"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)
class Gemini:
    def __init__(self, base_url):
        self.url = base_url
    def run(self, contents, functions, declarations):
        tools = {"tools": [{"functionDeclarations": declarations}]} if declarations else {}
        while True:
            answer = send(self.url, "/v1beta/models/gemini-2.5-flash:generateContent", {"contents": contents, **tools})
            content = answer["candidates"][0]["content"]
            contents.append(content)
            calls = [each["functionCall"] for each in content["parts"] if "functionCall" in each]
            if not calls:
                return content["parts"][-1]["text"]
            results = [{"name": each["name"], "response": {"result": functions[each["name"]](**each["args"])}}
                       for each in calls]
            contents.append({"role": "user", "parts": [{"functionResponse": each} for each in results]})
class Responses:
    def __init__(self, base_url):
        self.url = base_url + "/v1"
    def run(self, input_items, tools, functions):
        while True:
            body = {"model": "gpt-5.4", "input": input_items} | ({"tools": tools} if tools else {})
            output = send(self.url, "/responses", body)["output"]
            input_items.extend(output)
            calls = [each for each in output if each["type"] == "function_call"]
            if not calls:
                return output[-1]["content"][0]["text"]
            input_items.extend(
                {"type": "function_call_output", "call_id": each["call_id"],
                 "output": str(functions[each["name"]](**json.loads(each["arguments"])))}
                for each in calls
            )
"""


@pytest.mark.parametrize(
    ("name", "api", "system"), [("Gemini", "gemini", None), ("Responses", "openai-responses", "Be brief.")]
)
def test_a_conversation_has_the_form_of_its_api(load: Load, name: str, api: str, system: str | None) -> None:
    found = loop_of(getattr(load(OF_OTHER_APIS), name), api)
    assert isinstance(found, AgentDrive)

    steps = [ModelStep(text="Yes."), ModelStep(text="No.")]
    conversation = replace(TWO_TURNS, system=system)
    requests = requests_with_steps(lambda url: found(Endpoint(url, "no-key"), "model", conversation), api, steps)

    assert [len(each.turns) for each in requests] == [1, 3]
    assert {part.text for each in requests for part in each.system} == ({system} if system else set())


def test_contents_of_gemini_carry_no_system_prompt(load: Load) -> None:
    found = loop_of(load(OF_OTHER_APIS).Gemini, "gemini")
    assert isinstance(found, AgentDrive)

    with pytest.raises(Unsupported, match="system"):
        found(Endpoint("http://localhost:9", "no-key"), "model", TWO_TURNS)


def test_a_loop_over_a_conversation_may_lose_the_schemas_of_its_tools(load: Load) -> None:
    lossy = load(CONVERSING.replace('"parameters": each.parameters', '"strict": False'))

    found = tried_loop(lossy.Agent, "openai-chat")

    assert isinstance(found, AgentDrive)
    assert found.conversation is not None
    assert tried_loop(lossy.Client, "openai-chat") is None


DECLARING = """
class Agent:
    def run(self, messages, tools=()):
        specs, known = [each.KEY for each in tools], {each.KEY["function"]["name"]: each for each in tools}
        while True:
            message = post({"model": "gpt-5.4", "messages": messages} | ({"tools": specs} if specs else {}))
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                content = known[call["function"]["name"]](**loads(call["function"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(content)})
"""


@pytest.mark.parametrize("key", ["spec", "schema", "definition"])
def test_an_attribute_of_a_tool_may_be_its_declaration(load: Load, key: str) -> None:
    assert isinstance(tried_loop(load(DECLARING.replace("KEY", key)).Agent, "openai-chat"), AgentDrive)


EXECUTING = """
class Agent:
    def run(self, messages, tools, call_tool):
        while True:
            message = post({"model": "gpt-5.4", "messages": messages} | ({"tools": tools} if tools else {}))
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                content = call_tool(call["function"]["name"], loads(call["function"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(content)})
"""


def test_a_loop_over_a_conversation_may_take_a_function_for_all_calls(load: Load) -> None:
    found = tried_loop(load(EXECUTING).Agent, "openai-chat")

    assert isinstance(found, AgentDrive)
    assert found.conversation is not None


INJECTED = """
def answer(client, messages, functions, schemas):
    while True:
        tools = {"tools": schemas} if schemas else {}
        message = client.chat.completions.create(model="gpt-4.1", messages=messages, **tools).choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            content = str(functions[call.function.name](**json.loads(call.function.arguments)))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
def ask(client, prompt, functions, schemas):
    messages = [{"role": "user", "content": prompt}]
    while True:
        tools = {"tools": schemas} if schemas else {}
        message = client.chat.completions.create(model="gpt-4.1", messages=messages, **tools).choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            content = str(functions[call.function.name](**json.loads(call.function.arguments)))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
def send(client, prompt, schemas):
    messages = [{"role": "user", "content": prompt}]
    return client.chat.completions.create(model="gpt-4.1", messages=messages, tools=schemas)
"""


@pytest.mark.parametrize(("name", "is_loop"), [("answer", True), ("ask", True), ("send", False)])
def test_a_function_may_get_the_client_of_an_sdk(load: Load, name: str, *, is_loop: bool) -> None:
    assert isinstance(tried_loop(getattr(load(INJECTED), name), "openai-chat"), FunctionDrive) is is_loop


BOX = """
class Box:
    def __init__(self):
        self.functions = {}
    def add(self, model):
        self.functions[model.__name__] = model
    def describe(self):
        return [{"type": "function", "function": {"name": each}} for each in self.functions]
    def call(self, name, arguments):
        CALLED


class Agent(Base):
    def __init__(self, toolbox: Box | None = None):
        self.toolbox = toolbox or Box()
    @property
    def specs(self):
        return self.toolbox.describe()
    def answer(self, function):
        return self.toolbox.call(function["name"], function["arguments"])
"""


def _weather(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, "the station is closed", is_error=True)


@pytest.mark.parametrize(
    ("called", "is_caught"),
    [
        ("return self.functions[name]()", False),
        ("try:\n            return self.functions[name]()\n        except Exception:\n            return ''", True),
    ],
)
def test_an_object_in_place_of_a_toolbox_reports_failures_as_the_toolbox_does(
    load: Load, called: str, is_caught: bool
) -> None:
    agent = load(BOX.replace("CALLED", called)).Agent
    found = loop_of(agent, "openai-chat")
    assert isinstance(found, AgentDrive)
    tool = ConversationTool("weather", "The weather.", {"type": "object", "properties": {}}, _weather)
    talk = Conversation(turns=(Message(Role.USER, (Text("Hello"),)),), tools=(tool,))
    steps = [ModelStep(calls=(("weather", {}),)), ModelStep(text="Done.")]

    requests = requests_with_steps(lambda url: found(Endpoint(url, "no-key"), "gpt-5.4", talk), "openai-chat", steps)

    payloads = [each.payload for request in requests for each in request.results]
    texts = [part.text for payload in payloads for part in payload if isinstance(part, TextView)]
    assert texts == (["Error: the station is closed"] if is_caught else [])


SESSION = """
class Session:
    def __init__(self, tools=None):
        self.tools, self.messages = tools, []
    def ask(self, question: str):
        self.messages.append({"role": "user", "content": question})
        return self.send()
    def submit(self, results: list[dict[str, str]]):
        for each in results:
            self.messages.append({"role": "tool", "tool_call_id": each["id"], "content": each["output"]})
        return self.send()
    def send(self):
        message = post({"model": "gpt-5.4", "messages": self.messages, "tools": self.tools})
        self.messages.append(message)
        RETURNED
"""


@pytest.mark.parametrize(
    ("returned", "is_asked"),
    [
        ("return message", False),
        ("self.pending = message.get('tool_calls')", False),
        ("return [each['function']['name'] for each in message['tool_calls'] or ()]", True),
        ("raise Failed('no text') if not message['content'] else None", False),
    ],
)
def test_a_session_whose_calls_cannot_be_read_gets_a_question(load: Load, returned: str, *, is_asked: bool) -> None:
    kind = load(SESSION.replace("RETURNED", returned)).Session
    session = loop_of(kind, "openai-chat")
    assert isinstance(session, SessionDrive)

    found = recognise_here(f"{kind.__module__}:Session")

    assert bool(obstacle_of(session, "openai-chat")) is is_asked
    assert ("ask returned no call that harness can read" in found.question) is is_asked
    assert bool(found.spec) is not is_asked


GEMINI_SESSION = """
class Session:
    def __init__(self, DECLARED: list[dict[str, Any]] | None = None):
        self.own = DECLARED
        self.contents = []
    def ask(self, question: str) -> dict[str, Any]:
        return self.send([{"text": question}])
    def answer(self, results: list[dict[str, Any]]) -> dict[str, Any]:
        return self.send([{"functionResponse": {"name": "look", "response": each}} for each in results])
    def send(self, parts):
        self.contents.append({"role": "user", "parts": parts})
        url = os.environ.get("GEMINI_BASE_URL", "https://generativelanguage.googleapis.com")
        body = {"contents": self.contents, "tools": SENT}
        request = urllib.request.Request(f"{url}/v1beta/models/gemini-2.5-flash:generateContent",
                                         json.dumps(body).encode(), {"x-goog-api-key": "no-key"})
        with urllib.request.urlopen(request) as answer:
            content = json.load(answer)["candidates"][0]["content"]
        self.contents.append(content)
        calls = [each["functionCall"] for each in content["parts"] if "functionCall" in each]
        return {"text": "".join(each.get("text", "") for each in content["parts"]), "calls": calls}
"""


@pytest.mark.parametrize(
    ("declared", "sent", "form"),
    [
        ("tools", "self.own", ""),
        ("declarations", "[{'functionDeclarations': self.own}]", "gemini"),
        ("tools", "[{'functionDeclarations': [each['function'] for each in self.own]}]", "openai-chat"),
        ("tools", "None", ""),
    ],
)
def test_a_trial_shows_the_format_of_the_tools_of_a_session(load: Load, declared: str, sent: str, form: str) -> None:
    code = GEMINI_SESSION.replace("DECLARED", declared).replace("SENT", sent)

    session = loop_of(load(code).Session, "gemini")

    assert isinstance(session, SessionDrive)
    assert session.form == form
