"""Recognition of classes that run their tools, or that hand their calls to the caller."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bridge.clients.agents import AgentDrive, recognise_agent, recognise_function_loop
from harness.bridge.clients.loop_methods import resuming_method
from harness.bridge.clients.methods import public_methods
from harness.bridge.clients.sessions import SessionDrive, recognise_session
from harness.bridge.clients.turns import EventList, answer_attributes, application_answer, changed_attributes
from harness.model.errors import Unsupported
from harness.model.messages import (
    ChatRequest,
    JsonSchema,
    Message,
    NamedTool,
    Role,
    StopReason,
    Text,
    ThinkingSettings,
    ToolCall,
    ToolResult,
)
from harness.model.protocols import Capability, Conversation, ConversationTool, Endpoint

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import code as a module, because its source shows how its class gets tools."""
    monkeypatch.syspath_prepend(tmp_path)

    def load(code: str) -> ModuleType:
        (tmp_path / "strangers_loop.py").write_text(f"from __future__ import annotations\n{COMMON}\n{code}")
        importlib.invalidate_caches()
        return importlib.import_module("strangers_loop")

    yield load
    sys.modules.pop("strangers_loop", None)


COMMON = """
import asyncio, inspect, json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, Literal, Mapping, Protocol, Sequence

SEEN = []
args = {"city": "Paris"}
"""


def weather(call: ToolCall) -> ToolResult:
    city = call.arguments["city"]
    return ToolResult("", "weather", f"no such city: {city}" if city == "Atlantis" else f"sunny in {city}")


def conversation(**given: Any) -> Conversation:
    turns = (Message(Role.USER, (Text("Hello"),)),)
    return Conversation(
        **{
            "turns": turns,
            "tools": (ConversationTool("weather", "The weather.", SCHEMA, weather),),
            **given,
        }
    )


REGISTRIES = {
    "add(name, description, parameters, fn)": """
class Toolbox:
    def __init__(self):
        self.known = {}
    def tool(self, fn):
        self.add(fn.__name__, fn.__doc__, {}, fn)
        return fn
    def add(self, name: str, description: str, parameters: dict, fn: Callable) -> None:
        self.known[name] = (fn, [name, description, parameters])
    def specs(self):
        return [spec for _, spec in self.known.values()]
    def invoke(self, name):
        return self.known[name][0](**args)

class Agent:
    def __init__(self, *, toolbox: Toolbox | None = None):
        self.toolbox = toolbox or Toolbox()
    def run(self, prompt: str, *, tool_choice=None):
        SEEN.extend(self.toolbox.specs())
        SEEN.append(self.toolbox.invoke("weather"))
""",
    "register(fn, name=, schema=), unannotated": """
class Registry:
    def __init__(self):
        self.functions, self.definitions = {}, []
    def register(self, fn=None, *, name=None, schema=None):
        def apply(f):
            self.functions[name or f.__name__] = f
            self.definitions.append([name or f.__name__, f.__doc__, schema])
            return f
        return apply(fn) if fn is not None else apply

class Agent:
    def __init__(self, registry=None):
        self.registry = Registry() if registry is None else registry
    def run(self, task):
        SEEN.extend(self.registry.definitions)
        SEEN.append(self.registry.functions["weather"](**args))
""",
    "a decorator with arguments, of an attribute": """
class Kit:
    def __init__(self):
        self.known = {}
    def tool(self, name, description, schema):
        def decorate(function):
            self.known[name] = (function, [name, description, schema])
            return function
        return decorate

class Agent:
    def __init__(self, system=None):
        self.kit = Kit()
    def ask(self, question):
        SEEN.extend(spec for _, spec in self.kit.known.values())
        SEEN.append(self.kit.known["weather"][0](**args))
""",
    "register(tool), whose class has a function": """
@dataclass
class ToolSpec:
    name: str
    description: str
    input_schema: dict
    handler: Callable[[dict], str]

class Agent:
    def __init__(self):
        self.known = {}
    def register_tool(self, spec: ToolSpec) -> None:
        self.known[spec.name] = spec
    def say(self, text):
        SEEN.extend([each.name, each.description, each.input_schema] for each in self.known.values())
        SEEN.append(self.known["weather"].handler(args))
""",
    "add(spec, fn)": """
class Tools:
    def __init__(self):
        self.specs, self.fns = [], {}
    def add(self, spec, fn):
        self.specs.append(spec)
        self.fns[spec["function"]["name"]] = fn

class Agent:
    def __init__(self, tools: Tools):
        self.tools = tools
    def run(self, prompt):
        functions = [each["function"] for each in self.tools.specs]
        SEEN.extend([each["name"], each["description"], each["parameters"]] for each in functions)
        SEEN.append(self.tools.fns["weather"](**args))
""",
}

OBJECTS = {
    "add_tools(list)": """
@dataclass
class Tool:
    name: str
    fn: Callable
    schema: dict
    description: str = ""

class Agent:
    def __init__(self):
        self.known = {}
    def add_tools(self, tools: list[Tool]) -> Agent:
        self.known.update({each.name: each for each in tools})
        return self
    def run(self, prompt):
        SEEN.extend([each.name, each.description, each.schema] for each in self.known.values())
        SEEN.append(self.known["weather"].fn(**args))
""",
    "objects of a class whose name shows it, next to a reader of signatures": """
def describe(fn):
    return fn.__name__, inspect.signature(fn)

class FunctionTool:
    def __init__(self, fn, name, description, schema):
        self.fn, self.name, self.description, self.schema = fn, name, description, schema
    def __call__(self, **kwargs):
        return self.fn(**kwargs)

class Agent:
    def __init__(self, tools):
        self.tools = {each.name: each for each in tools}
    def answer(self, call_id, output):
        SEEN.append(output)
    def run(self, prompt):
        SEEN.extend([each.name, each.description, each.schema] for each in self.tools.values())
        self.answer("a", self.tools["weather"](**args))
""",
    "declarations, and an object that executes a call": """
class ToolExecutor(Protocol):
    async def execute(self, name: str, arguments: dict) -> Any: ...

class Agent:
    def __init__(self, tools: list[dict], executor: ToolExecutor):
        self.tools, self.executor = tools, executor
    async def run(self, prompt):
        SEEN.extend([each["name"], each["description"], each["parameters"]] for each in self.tools)
        SEEN.append(await self.executor.execute("weather", args))
""",
    "declarations, and a callback for a call": """
class Agent:
    def __init__(self, tools: list[dict], on_tool_call: Callable[[dict], str]):
        self.tools, self.on_tool_call = tools, on_tool_call
    def run(self, prompt):
        SEEN.extend([each["name"], each["description"], each["parameters"]] for each in self.tools)
        SEEN.append(self.on_tool_call({"id": "a", "name": "weather", "arguments": args}))
""",
    "a protocol and a class with an asynchronous function": """
class Tool(Protocol):
    name: str
    description: str
    input_schema: dict[str, Any]
    async def run(self, **kwargs: Any) -> str: ...

@dataclass
class FunctionTool:
    name: str
    description: str
    input_schema: dict[str, Any]
    fn: Callable[..., Awaitable[str]]
    async def run(self, **kwargs: Any) -> str:
        return await asyncio.create_task(self.fn(**kwargs))

class Agent:
    def __init__(self, tools: list[Tool] | None = None):
        self.tools = {t.name: t for t in tools or []}
    async def send(self, prompt: str):
        for t in self.tools.values():
            SEEN.append([t.name, t.description, t.input_schema])
        yield "thinking"
        SEEN.append(await self.tools["weather"].run(**args))
        yield "done"
""",
    "an abstract class": """
class BaseTool(ABC):
    @property
    @abstractmethod
    def name(self) -> str: ...
    @property
    @abstractmethod
    def description(self) -> str: ...
    @abstractmethod
    def schema(self) -> dict: ...
    @abstractmethod
    def execute(self, **kwargs) -> str: ...

class Agent:
    def __init__(self, tools: Sequence[BaseTool] = ()):
        self.tools = list(tools)
    def run(self, goal):
        SEEN.extend([each.name, each.description, each.schema()] for each in self.tools)
        SEEN.append(self.tools[0].execute(**args))
""",
    "a base class with an attribute for each part": """
class Tool:
    name = ""
    description = ""
    parameters = {}
    def __call__(self, **kwargs):
        raise NotImplementedError

class Agent:
    def __init__(self, tools: list[Tool]):
        self.tools = tools
    def query(self, query):
        SEEN.extend([each.name, each.description, each.parameters] for each in self.tools)
        SEEN.append(self.tools[0](**args))
""",
    "a base class with a default for the name": """
class Tool(ABC):
    parameters: dict = {}
    def name(self):
        return type(self).__name__.lower()
    @abstractmethod
    def description(self): ...
    @abstractmethod
    def run(self, **kwargs): ...

class Agent:
    def __init__(self, tools: Sequence[Tool] = ()):
        self.tools = {each.name(): each for each in tools}
    def run(self, prompt):
        SEEN.extend([each.name(), each.description(), each.parameters] for each in self.tools.values())
        SEEN.append(self.tools["weather"].run(**args))
""",
    "a base class that writes the declaration itself": """
class Tool(ABC):
    name: str
    description: str = ""
    parameters: dict = {}
    @abstractmethod
    def run(self, **kwargs): ...
    def spec(self):
        return [self.name, self.description, self.parameters]

class Agent:
    def __init__(self, tools: Sequence[Tool] = ()):
        self.tools = {each.name: each for each in tools}
    def run(self, prompt):
        SEEN.extend(each.spec() for each in self.tools.values())
        SEEN.append(self.tools["weather"].run(**args))
""",
    "a class in a list without an annotation": """
class Tool:
    def __init__(self, name, description, parameters, func):
        self.name, self.description, self.parameters, self.func = name, description, parameters, func

class Agent:
    def __init__(self, tools=()):
        self.tools = {tool.name: tool for tool in tools}
    def run(self, prompt):
        SEEN.extend([each.name, each.description, each.parameters] for each in self.tools.values())
        SEEN.append(self.tools["weather"].func(**args))
""",
    "dictionaries with a function, for each call": """
class Agent:
    def run(self, prompt, tools=()):
        SEEN.extend([each["name"], each["description"], each["parameters"]] for each in tools)
        handlers = {each["name"]: each["handler"] for each in tools}
        SEEN.append(handlers["weather"](**args))
""",
    "declarations, and functions by name": """
class Agent:
    def __init__(self, tools=None, functions=None):
        self.tools, self.functions = tools or [], functions or {}
    def run(self, task):
        made = [each.get("function", each) for each in json.loads(json.dumps(self.tools))]
        SEEN.extend([each["name"], each["description"], each["parameters"]] for each in made)
        fn = self.functions.get("weather")
        SEEN.append(fn(**args))
""",
    "declarations, and a function that executes a call": """
class Agent:
    def __init__(self, tools: list[dict], tool_executor: Callable[[str, dict], Any]):
        self.tools, self.tool_executor = tools, tool_executor
    def run(self, prompt):
        made = [each.get("function", each) for each in json.loads(json.dumps(self.tools))]
        SEEN.extend([each["name"], each["description"], each["parameters"]] for each in made)
        SEEN.append(self.tool_executor("weather", args))
""",
    "annotated pairs of a declaration and a function": """
Pair = tuple[dict[str, Any], Callable[..., Any]]

class Agent:
    def ask(self, prompt: str, tools: list[Pair] | None = None):
        made = [each.get("function", each) for each in json.loads(json.dumps([spec for spec, _ in tools or []]))]
        SEEN.extend([each["name"], each["description"], each["parameters"]] for each in made)
        SEEN.append({spec["name"]: fn for spec, fn in tools}["weather"](**args))
""",
    "annotated pairs that start with the function": """
class Agent:
    def __init__(self, tools: Sequence[tuple[Callable, dict]] = ()):
        self.tools = [*tools]
    def ask(self, prompt: str):
        made = [each.get("function", each) for each in json.loads(json.dumps([spec for _, spec in self.tools]))]
        SEEN.extend([each["name"], each["description"], each["parameters"]] for each in made)
        SEEN.append(self.tools[0][0](**args))
""",
    "pairs by name, and an object that is called": """
class Agent:
    def __init__(self, tools=None):
        self.tools = tools or {}
    def __call__(self, prompt):
        made = [each.get("function", each) for each in [spec for spec, _ in self.tools.values()]]
        SEEN.extend([each["name"], each["description"], each["parameters"]] for each in made)
        SEEN.append(self.tools["weather"][1](**args))
""",
    "tuples of a function, a text and a schema by name": """
class Agent:
    def __init__(self, tools: Mapping[str, tuple[Callable, str, dict]] | None = None):
        self.tools = dict(tools or {})
    def ask(self, prompt: str):
        SEEN.extend([name, text, schema] for name, (_, text, schema) in self.tools.items())
        SEEN.append(self.tools["weather"][0](**args))
""",
    "objects without a name by name": """
@dataclass
class Tool:
    fn: Callable[..., Any]
    description: str
    parameters: dict[str, Any]

class Agent:
    def __init__(self, tools: dict[str, Tool] | None = None):
        self.tools = tools or {}
    def ask(self, prompt: str):
        SEEN.extend([name, each.description, each.parameters] for name, each in self.tools.items())
        SEEN.append(self.tools["weather"].fn(**args))
""",
    "pairs of an object of a class and a function": """
@dataclass
class Spec:
    name: str
    description: str
    parameters: dict[str, Any]

class Agent:
    def __init__(self, tools: Sequence[tuple[Spec, Callable[..., Any]]] = ()):
        self.specs = [spec for spec, _ in tools]
        self.functions = {spec.name: function for spec, function in tools}
    def ask(self, prompt: str):
        SEEN.extend([each.name, each.description, each.parameters] for each in self.specs)
        SEEN.append(self.functions["weather"](**args))
""",
    "tuples of a name, a text, a schema and a function": """
class Agent:
    def __init__(self, tools: list[tuple[str, str, dict, Callable]] = ()):
        self.tools = [*tools]
    def ask(self, prompt: str):
        SEEN.extend([name, text, schema] for name, text, schema, _ in self.tools)
        SEEN.append(self.tools[0][3](**args))
""",
    "tuples without an annotation that are unpacked into a declaration": """
class Agent:
    def __init__(self, tools):
        self.tools = tools
    def specs(self):
        return [{"name": n, "description": d, "input_schema": s} for n, (_f, d, s) in self.tools.items()]
    def ask(self, prompt):
        SEEN.extend([each["name"], each["description"], each["input_schema"]] for each in self.specs())
        SEEN.append(self.tools["weather"][0](**args))
""",
    "tool(fn, spec) of a builder in whose context the prompt is sent": """
class Agent:
    def __init__(self):
        self.known, self.specs, self.is_open = {}, [], False
    def __enter__(self):
        self.is_open = True
        return self
    def __exit__(self, *_):
        self.is_open = False
    def tool(self, fn, spec=None):
        self.known[spec["name"]] = fn
        self.specs.append({"type": "function", "function": spec})
        return self
    def ask(self, question):
        made = [each["function"] for each in json.loads(json.dumps(self.specs))]
        SEEN.extend([each["name"], each["description"], each["parameters"]] for each in made)
        SEEN.append(self.known["weather"](**args) if self.is_open else "closed")
""",
    "a method that adds the prompt, and one that sends it": """
@dataclass
class Tool:
    name: str
    description: str
    schema: dict[str, Any]
    fn: Callable[..., Any]

@dataclass
class Agent:
    tools: list[Tool] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    def add_user(self, text: str):
        self.messages.append(text)
        return self
    def complete(self):
        if self.messages == ["Hello"]:
            SEEN.extend([each.name, each.description, each.schema] for each in self.tools)
            SEEN.append(self.tools[0].fn(**args))
""",
}


@pytest.mark.parametrize("code", [*REGISTRIES.values(), *OBJECTS.values()], ids=[*REGISTRIES, *OBJECTS])
def test_an_agent_gets_tools_in_the_way_of_its_author(load: Load, code: str) -> None:
    module = load(code)
    drive = recognise_agent(module.Agent, "openai-chat")
    assert drive is not None
    assert recognise_session(module.Agent, "openai-chat") is None
    drive(HERE, "gpt", conversation())

    assert [["weather", "The weather.", SCHEMA], "sunny in Paris"] == module.SEEN
    assert drive.ignored == ()
    assert "which runs the tools" in drive.sentence


MADE = """
class Agent:
    def __init__(self, url, persona):
        self.url, self.persona, self.tools = url, persona, {}
    def equip(self, fn, *, name=None, description=None, schema=None):
        self.tools[name] = fn, [name, description, schema]
    def say(self, text):
        SEEN.extend(spec for _, spec in self.tools.values())
        SEEN.append([self.url, self.persona, self.tools["weather"][0](**args)])

def open_agent(url="https://example.org", *, persona="", **kw):
    return Agent(url, persona)

AGENTS = {"openai": Agent, "anthropic": Agent}

def get_agent(name, **kw):
    return AGENTS[name](kw["base_url"], kw.get("persona", ""))

class ByOptions(Agent):
    def __init__(self, persona="", **options):
        self.connect(**options)
        self.persona, self.tools = persona, {}
    def connect(self, api_url=None, model="gpt-5"):
        self.url = api_url

def extract(text, base_url=None):
    return Agent(base_url, text)

def broken(base_url):
    raise OSError("no such host")
"""


@pytest.mark.parametrize("name", ["open_agent", "get_agent", "ByOptions"])
def test_a_function_or_a_method_for_the_options_makes_the_client(load: Load, name: str) -> None:
    module = load(MADE)
    drive = recognise_agent(getattr(module, name), "openai-chat")
    assert drive is not None

    drive(HERE, "gpt", conversation(system="Be brief."))

    assert [["weather", "The weather.", SCHEMA], [HERE.base_url, "Be brief.", "sunny in Paris"]] == module.SEEN


PAIRED = """
def build(tools=(), system="", base_url=None, api_key=None):
    return Runner([{"name": schema["name"], "schema": schema["parameters"]} for schema, _ in tools],
                  {schema["name"]: fn for schema, fn in tools}, system, base_url)

class Runner:
    def __init__(self, declarations, functions, system, url):
        self.declarations, self.functions, self.told = declarations, functions, [system, url]
    def run(self, prompt):
        for call in [{"name": "weather", "args": args}]:
            SEEN.append(self.functions[call["name"]](**call.get("args", {})))
        SEEN.extend([self.declarations, self.told])
"""


@pytest.mark.parametrize("api", ["openai-chat", "gemini"])
def test_a_function_that_makes_an_agent_may_take_the_tools_in_its_own_form(load: Load, api: str) -> None:
    module = load(PAIRED)
    drive = recognise_agent(module.build, api)
    assert drive is not None

    drive(HERE, "gpt", conversation(system="Be brief."))

    declared = [{"name": "weather", "schema": SCHEMA}]
    assert ["sunny in Paris", declared, ["Be brief.", HERE.base_url]] == module.SEEN
    assert drive.ignored == ()


@pytest.mark.parametrize("name", ["extract", "broken"])
def test_a_function_that_takes_a_prompt_or_fails_makes_no_client(load: Load, name: str) -> None:
    assert recognise_agent(getattr(load(MADE), name), "openai-chat") is None


BY_SIGNATURE = {
    "a class for a function": """
class Tool:
    def __init__(self, fn):
        self.fn, self.name, self.signature = fn, fn.__name__, inspect.signature(fn)
    def call(self, arguments: dict):
        return self.fn(**arguments)

class Agent:
    def __init__(self, tools: list[Tool]):
        self.tools = {each.name: each for each in tools}
    def run(self, prompt):
        SEEN.append(self.tools["weather"].call(args))
""",
    "a decorator without arguments": """
class Toolbox:
    def __init__(self):
        self.known = {}
    def tool(self, fn):
        self.known[fn.__name__] = fn
        return fn

class Agent:
    def __init__(self, toolbox: Toolbox):
        self.toolbox = toolbox
    def run(self, prompt):
        SEEN.append(self.toolbox.known["weather"](**args))
""",
    "a list": """
class Agent:
    def __init__(self, tools):
        self.tools = {each.__name__: inspect.signature(each) and each for each in tools}
    def run(self, prompt):
        SEEN.append(self.tools["weather"](**args))
""",
    "one argument each, for the constructor": """
class Agent:
    def __init__(self, url="http://127.0.0.1:9", *functions, model="gpt"):
        self.tools = {each.__name__: each for each in functions}
    def run(self, prompt):
        SEEN.append(self.tools["weather"](**args))
""",
    "one argument each, for the prompt": """
class Agent:
    def run(self, prompt, *fns):
        known = {each.__name__: each for each in fns}
        SEEN.append(known["weather"](**args))
""",
}


@pytest.mark.parametrize("code", BY_SIGNATURE.values(), ids=[*BY_SIGNATURE])
def test_the_signature_of_a_function_is_not_the_whole_schema(load: Load, code: str) -> None:
    module = load(code)
    drive = recognise_agent(module.Agent, "openai-chat")
    assert drive is not None
    drive(HERE, "gpt", conversation())

    assert (module.SEEN, drive.ignored) == (["sunny in Paris"], ("loop-tools",))
    odd = ConversationTool("odd", "Odd.", {"properties": {"from": {}}}, weather)
    with pytest.raises(Unsupported, match="no Python function has such a parameter"):
        drive(HERE, "gpt", conversation(tools=(odd,)))


CALLS = """
@dataclass(frozen=True)
class Ref:
    number: int

@dataclass(frozen=True)
class Call:
    ref: Ref
    id: str
    name: str
    args: str

@dataclass
class Reply:
    text: str
    calls: list[Call] = field(default_factory=list)

@dataclass
class Output:
    call: Call
    value: Any
    error: str | None = None

FIRST = Call(Ref(1), "a", "weather", '{"city": "Paris"}')
SECOND = Call(Ref(2), "b", "weather", '{"city": "Atlantis"}')

class Base:
    def __init__(self, functions: list[dict] | None = None):
        self.functions = functions
    def ask(self, text: str, **options: Any) -> Reply:
        return Reply("", [FIRST, SECOND])
"""

SESSIONS = {
    "objects with the call": """
class Session(Base):
    def submit(self, results: list[Output], *, temperature: float | None = None) -> Reply:
        SEEN.extend((each.call.id, each.value) for each in results)
""",
    "objects with the id, of a class that is not named": """
@dataclass
class ToolOutput:
    tool_call_id: str
    output: str

class Session(Base):
    def reply(self, outputs):
        for each in outputs:
            SEEN.append((each.tool_call_id, each.output))
""",
    "a dictionary by the client's own ids": """
class Session(Base):
    def reply(self, results: Mapping[Ref, Any], **options: Any) -> Reply:
        SEEN.extend(("ab"[ref.number - 1], value) for ref, value in results.items())
""",
    "a dictionary by calls, read by each call": """
class Session(Base):
    def resume(self, results: dict[Call, str]):
        SEEN.extend((call.id, results[call]) for call in (FIRST, SECOND))
""",
    "pairs of a call and a text": """
class Session(Base):
    def answer_calls(self, results: list[tuple[Call, str]]) -> Reply:
        SEEN.extend((call.id, value) for call, value in results)
""",
    "pairs of a call that has a field for a result": """
class Session(Base):
    def answer_calls(self, results: list[tuple[Output, str]]) -> Reply:
        SEEN.extend(("ab"[place], value) for place, (_, value) in enumerate(results))
""",
    "each result with its call": """
class Session(Base):
    def add_result(self, call: Call, result: str) -> None:
        SEEN.append((call.id, result))
    def go_on(self) -> Reply:
        return Reply("done")
""",
    "the method for prompts": """
class Session:
    def __init__(self, tools=None):
        self.tools = tools
    def send(self, text: str) -> Reply:
        return Reply("", [FIRST, SECOND])
    def step(self, message: str | list[Output]):
        SEEN.extend((each.call.id, each.value) for each in message)
""",
    "a method that only adds the prompt, and one that sends it": """
class Session:
    def __init__(self, tools=None):
        self.tools, self.prompts = tools, []
    def add_user(self, text: str) -> None:
        self.prompts.append(text)
    def run(self) -> Reply:
        return Reply("", [FIRST, SECOND] if self.prompts == ["Hello"] else [])
    def submit(self, results: list[Output]) -> Reply:
        SEEN.extend((each.call.id, each.value) for each in results)
        return Reply("done")
""",
}

SESSIONS |= {
    "one by one, under an id of its own, and a method of another name": """
class Session(Base):
    def tool_finished(self, request_id: str, output: str, failed: bool = False) -> None:
        SEEN.append((request_id, output))
    def next_reply(self) -> Reply:
        if not SEEN:
            return self.http.post("/chat")
        return Reply("done")
""",
    "by place": """
class Session(Base):
    def submit(self, *outputs: Output) -> Reply:
        SEEN.extend((each.call.id, each.value) for each in outputs)
""",
    "a dictionary whose items are sorted": """
class Session(Base):
    def hand_over(self, found):
        made = [{"role": "tool", "tool_call_id": key, "content": each} for key, each in sorted(found.items())]
        SEEN.extend((each["tool_call_id"], each["content"]) for each in made)
""",
    "a list that is read in part": """
class Session(Base):
    def hand_over(self, found):
        for key, content in found[:1] + found[1:]:
            SEEN.append((key, content))
            self.functions.append({"role": "tool", "tool_call_id": key, "content": content})
        for key, content in found[:9]:
            pass
""",
    "objects by ids": """
@dataclass
class Outcome:
    content: str
    is_error: bool = False

class Session(Base):
    def resolve(self, outcomes: dict[str, Outcome]) -> Reply:
        SEEN.extend((key, each.content) for key, each in outcomes.items())
        return [{"type": "tool_result", "tool_use_id": key} for key in outcomes]
""",
    "objects whose call has a class with another name for the tool": """
@dataclass
class Invocation:
    id: str
    function: str
    arguments: dict[str, Any]

@dataclass
class Outcome:
    invocation: Invocation
    value: Any

class Session(Base):
    def chat(self, message: str | list[Outcome]) -> Reply | list[Invocation]:
        if isinstance(message, str):
            return [Invocation(each.id, each.name, json.loads(each.args)) for each in (FIRST, SECOND)]
        SEEN.extend((each.invocation.id, each.value) for each in message)
""",
    "all together, before another method that continues": """
class Session(Base):
    def __init__(self, functions=None):
        self.functions, self.results = functions, []
    def add_results(self, results: list[tuple[str, str]]) -> None:
        self.results += results
    def proceed(self) -> Reply:
        SEEN.extend(self.results)
        return Reply("done")
""",
}


TEXT_OR_RESULTS = {
    "a class": """
    def send(self, message: str | list[Output]) -> Reply:
        if isinstance(message, str):
            return self.first(message)
        SEEN.extend((each.call.id, each.value) for each in message)
""",
    "a class, by its annotation alone": """
    def send(self, content: Sequence[Output] | str, *, temperature: float | None = None) -> Reply:
        try:
            SEEN.extend((each.call.id, each.value) for each in content)
        except AttributeError:
            return self.first(content)
""",
    "dictionaries, read by a helper": """
    def ask(self, content):
        items = self.items(content)
        return self.first(content) if "role" in items[0] else SEEN.extend((i["call_id"], i["output"]) for i in items)
    def items(self, content):
        if not isinstance(content, (list, tuple)):
            return [{"role": "user", "content": content}]
        return [{"type": "function_call_output", "call_id": i["id"], "output": i["result"]} for i in content]
""",
    "a dictionary by ids": """
    def chat(self, message: str | dict[str, Any]) -> Reply:
        if isinstance(message, str):
            return self.first(message)
        made = [{"role": "tool", "tool_call_id": key, "content": value} for key, value in message.items()]
        SEEN.extend((each["tool_call_id"], each["content"]) for each in made)
""",
}


@pytest.mark.parametrize("code", TEXT_OR_RESULTS.values(), ids=[*TEXT_OR_RESULTS])
def test_one_method_may_take_the_prompt_or_the_results(load: Load, code: str) -> None:
    module = load(f"""
{CALLS}
class Session:
    def __init__(self, tools: list[dict] | None = None):
        self.tools = tools
    def first(self, text):
        SEEN.append((text, self.tools[0]["function"]["name"]))
        return Reply("", [FIRST, SECOND])
{code}
        return Reply("done")
""")
    drive = recognise_session(module.Session, "openai-chat")
    assert isinstance(drive, SessionDrive)
    assert recognise_agent(module.Session, "openai-chat") is None
    drive(HERE, "gpt", conversation())

    assert module.SEEN == [("Hello", "weather"), ("a", "sunny in Paris"), ("b", "no such city: Atlantis")]


@pytest.mark.parametrize(
    "code",
    [
        """
    def complete(self, prompt: str | list[Entry]):
        return self.http.post([{"role": each.role, "content": each.content} for each in prompt])
""",
        """
    def complete(self, prompt):
        entries = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        for each in prompt:
            if each["role"] == "tool":
                entries.append({"type": "tool_result", "tool_use_id": each["tool_call_id"]})
        return self.http.post(entries)
""",
        """
    def ask(self, message: str | list[dict]):
        parts = [{"type": "text", "text": message}] if isinstance(message, str) else message
        self.http.post([{"role": "user", "content": parts}])
""",
    ],
    ids=["messages of a class", "messages", "content parts"],
)
def test_a_text_or_other_values_are_no_results(load: Load, code: str) -> None:
    module = load(f"""
@dataclass
class Entry:
    role: str
    content: str
    tool_call_id: str | None = None

class Client:
    def __init__(self, http=None, tools=None):
        self.http, self.tools = http, tools
{code}
""")
    assert recognise_session(module.Client, "openai-chat") is None


DECLARING = {
    "its parts": """
    def add_tool(self, name, parameters, description=""):
        self.tools.append(name)
""",
    "the whole": """
    def registerTool(self, tool: dict[str, Any]):
        self.tools.append({"name": tool["name"], "schema": tool["parameters"]}["name"])
""",
}


@pytest.mark.parametrize("code", DECLARING.values(), ids=[*DECLARING])
def test_a_session_may_have_a_method_that_declares_a_tool(load: Load, code: str) -> None:
    module = load(f"""
{CALLS}
class Session:
    def __init__(self):
        self.tools = []
{code}
    def send(self, text: str) -> Reply:
        SEEN.append(tuple(self.tools))
        return Reply("", [FIRST])
    def send_results(self, results: list[dict[str, Any]]) -> Reply:
        SEEN.extend((each["id"], each["output"]) for each in results)
        return Reply("done")
""")
    drive = recognise_session(module.Session, "openai-chat")
    assert isinstance(drive, SessionDrive)
    drive(HERE, "gpt", conversation())

    assert module.SEEN == [("weather",), ("a", "sunny in Paris")]


@pytest.mark.parametrize("code", SESSIONS.values(), ids=[*SESSIONS])
def test_a_session_gets_results_in_the_form_of_its_author(load: Load, code: str) -> None:
    module = load(CALLS + code)
    drive = recognise_session(module.Session, "openai-chat")
    assert isinstance(drive, SessionDrive)
    assert recognise_agent(module.Session, "openai-chat") is None
    drive(HERE, "gpt", conversation())

    assert sorted(module.SEEN) == [("a", "sunny in Paris"), ("b", "no such city: Atlantis")]


@pytest.mark.parametrize(("check", "order"), [("True", "ba"), ("call_id == 'ab'[len(self.results)]", "ab")])
def test_results_that_come_one_by_one_come_in_reverse_order_if_the_client_permits(
    load: Load, check: str, order: str
) -> None:
    code = f"""
class Session(Base):
    def __init__(self, functions=None):
        self.functions, self.results = functions, []
    def add_result(self, call_id: str, result: str):
        if not {check}:
            raise ValueError("another call comes first")
        self.results.append(call_id)
        SEEN.append(call_id)
    def resume(self):
        return Reply("done")
"""
    module = load(CALLS + code)
    drive = recognise_session(module.Session, "openai-chat")
    assert drive is not None
    drive(HERE, "gpt", conversation())

    assert "".join(module.SEEN) == order


OTHERS = {
    "a client with a function by which its caller runs tools": """
class Client:
    def ask(self, prompt, tools=()):
        return {"text": "", "calls": [prompt, tools]}

def run_all(calls, handlers):
    return [handlers[each.name](**each.args) for each in calls]
""",
    "an observer of calls": """
class Client:
    def __init__(self, tools: list[dict] = (), on_call: Callable[[str, dict], None] | None = None):
        self.tools, self.on_call = tools, on_call
    def ask(self, prompt):
        return prompt
""",
    "a client that keeps nothing, whose static method makes a message of a result": """
class Client:
    def respond(self, items, instructions=None, tools=None):
        return self.http.post("/responses", json={"input": items})

    @staticmethod
    def tool_output(call, value):
        return {"type": "function_call_output", "call_id": call["id"], "output": value}
""",
    "a client whose tools have no function": """
class Client:
    def __init__(self, tools: list[dict]):
        self.tools = tools
    def ask(self, prompt):
        return type(prompt).__name__
""",
    "a client for messages, with an observer": """
class Client:
    def chat(self, messages, tools: list[dict] = (), on_tool_call: Callable | None = None):
        on_tool_call(**args)
    def ask(self, prompt, tools: list[dict] = ()):
        return self.chat([{"content": prompt}], tools)
""",
    "a class with another kind of registry": """
class Events:
    def __init__(self):
        self.known = []
    def add_listener(self, callback):
        self.known.append(callback)

class Client:
    def __init__(self, events: Events | None = None):
        self.events = events or Events()
    def ask(self, prompt):
        return prompt
""",
}


@pytest.mark.parametrize("code", OTHERS.values(), ids=[*OTHERS])
def test_other_clients_run_no_tools(load: Load, code: str) -> None:
    module = load(code)
    assert (recognise_agent(module.Client, "openai-chat"), recognise_session(module.Client, "openai-chat")) == (
        None,
        None,
    )


def test_settings_are_given_by_methods_that_set_them(load: Load) -> None:
    module = load("""
class Agent:
    def __init__(self, tools: list[Callable] = (), known=()):
        self.tools, self.known = tools, dict(known)
    def model(self, name):
        return Agent(self.tools, {**self.known, "model": name})
    def with_system(self, text):
        return Agent(self.tools, {**self.known, "system": text})
    def max_tokens(self, number):
        self.known["max_tokens"] = number
    def ask(self, question):
        SEEN.append(self.known)
""")
    drive = recognise_agent(module.Agent, "openai-chat")
    assert drive is not None
    drive(HERE, "gpt", conversation(system="Be brief.", max_tokens=7))

    assert module.SEEN == [{"model": "gpt", "system": "Be brief.", "max_tokens": 7}]


REGISTERED = """
TOOLS = {}

def tool(fn=None, *, name=None, schema=None, description=None):
    def register(f):
        TOOLS[name or f.__name__] = (f, [name, description, schema])
        return f
    return register(fn) if fn is not None else register

def execute(name, arguments):
    return TOOLS[name][0](**arguments)

def run(prompt, *, model="gpt", base_url=None, api_key=None, messages=None, **options):
    messages = messages if messages is not None else []
    messages.append(prompt)
    SEEN.append([model, base_url, options.get("system"), len(messages)])
    SEEN.extend([each for _, each in TOOLS.values()] + [execute("weather", args)])

def greet(prompt):
    return prompt
"""


def test_a_function_runs_the_tools_that_are_registered_in_its_module(load: Load) -> None:
    module = load(REGISTERED)
    drive = recognise_agent(module.run, "anthropic")
    assert drive is not None
    drive(HERE, "claude", conversation())
    drive(HERE, "claude", conversation(turns=(Message(Role.USER, (Text("Hi"),)),) * 2, system="Be brief."))

    ran = [["weather", "The weather.", SCHEMA], "sunny in Paris"]
    heads = [["claude", HERE.base_url, *each] for each in ((None, 1), ("Be brief.", 1), ("Be brief.", 2))]
    assert [each for head in heads for each in (head, *ran)] == module.SEEN
    assert drive.ignored == ()
    assert drive.sentence == "which runs the tools that are registered by tool"
    with pytest.raises(Unsupported, match="max"):
        drive(HERE, "claude", conversation(max_tokens=9))


def test_a_function_without_such_a_registry_is_no_loop(load: Load) -> None:
    module = load(REGISTERED.replace("[name or f.__name__] =", ".get(name)").replace("TOOLS[name][0]", "print"))

    assert recognise_agent(module.run, "anthropic") is None
    assert recognise_agent(load, "anthropic") is None


@pytest.mark.parametrize("calls", [True, False])
def test_a_method_for_streams_counts_only_if_the_class_calls_it(load: Load, calls: bool) -> None:
    module = load(f"""
class Agent:
    def __init__(self, tools: list[Callable]):
        self.tools = tools
    def run(self, prompt):
        return {"self.run_stream(prompt)" if calls else "prompt"}
    def run_stream(self, prompt):
        SEEN.append(dict(stream=True))
""")
    drive = recognise_agent(module.Agent, "anthropic")

    assert isinstance(drive, AgentDrive)
    assert drive.prompt.path == ("run",)
    assert (Capability.STREAMING in drive.capabilities) is calls


@pytest.mark.parametrize("streams", [True, False])
def test_an_agent_that_may_stream_is_also_run_with_streams(load: Load, streams: bool) -> None:
    module = load(f"""
class Agent:
    def __init__(self, tools: list[Callable]):
        self.tools = tools
    def run(self, prompt):
        SEEN.append(dict(stream={streams}))
""")
    drive = recognise_agent(module.Agent, "anthropic")

    assert drive is not None
    assert ("stream-requested" in drive.ignored) is streams
    assert (Capability.STREAMING in drive.capabilities) is streams


def test_arguments_that_are_no_json_get_a_failed_result(load: Load) -> None:
    module = load(CALLS.replace('{"city": "Paris"}', '{"city": ') + SESSIONS["objects with the call"])
    drive = recognise_session(module.Session, "openai-chat")
    assert drive is not None
    drive(HERE, "gpt", conversation())

    assert module.SEEN == [("a", "the arguments are no JSON object"), ("b", "no such city: Atlantis")]


@pytest.mark.parametrize(
    ("parameter", "attribute"), [("max_tokens=9", "max_tokens"), ("model='m'", "9"), ("model='m'", "self.max_tokens")]
)
def test_a_limit_of_tokens_goes_where_the_class_has_one(load: Load, parameter: str, attribute: str) -> None:
    code = f"""
class Agent:
    def __init__(self, tools: dict[str, Callable[..., Any]], {parameter}):
        {"self.max_tokens = 9" if attribute == "self.max_tokens" else "pass"}
        self.limit = lambda: {attribute}

    def run(self, prompt):
        SEEN.append(self.limit())
"""
    module = load(code)
    drive = recognise_agent(module.Agent, "openai-chat")
    assert drive is not None
    if attribute == "9":
        with pytest.raises(Unsupported, match="max_tokens"):
            drive(HERE, "m", conversation(max_tokens=7))
    else:
        drive(HERE, "m", conversation(max_tokens=7))
        assert module.SEEN == [7]


def test_a_parameter_of_several_types_is_none_of_a_function(load: Load) -> None:
    module = load("""
class Agent:
    def __init__(self, tools: dict[str, Callable[..., Any]]):
        self.tools = tools

    def run(self, prompt):
        SEEN.append(self.tools["look"](city=None))
""")
    drive = recognise_agent(module.Agent, "openai-chat")
    assert drive is not None
    schema: dict[str, Any] = {"type": "object", "properties": {"city": {"type": ["string", "null"]}}}
    look = ConversationTool("look", "Looks.", schema, lambda call: ToolResult("", "look", "seen"))
    with pytest.raises(Unsupported, match="no Python function has such a parameter"):
        drive(HERE, "m", conversation(tools=(look,)))


CONVERTING = """
class Agent:
    def __init__(self, tools: dict[str, Callable]):
        self.tools = tools
    def run(self, prompt):
        value = self.tools["weather"](**args)
        SEEN.append(CONVERTED)
"""


@pytest.mark.parametrize(
    ("converted", "result", "seen"),
    [
        ("value if isinstance(value, str) else json.dumps(value)", False, "false"),
        ("(value or 'OK', value if isinstance(value, str) else json.dumps(value))", False, ("OK", "false")),
        ("value if isinstance(value, str) else json.dumps(value)", "sunny", "sunny"),
        ("value if isinstance(value, str) else json.dumps(value)", (Text("sunny"), Text(" here")), "sunny here"),
        ("json.dumps(value)", False, '"false"'),
        ("{'result': value}['result']", False, False),
        ("{'result': value or 'ok'}['result']", 0, "ok"),
        ("{'result': str(value)}['result']", False, "false"),
        ("{'result': value[:3]}['result']", False, "fal"),
    ],
)
def test_a_class_that_converts_values_itself_gets_them(load: Load, converted: str, result: Any, seen: object) -> None:
    module = load(CONVERTING.replace("CONVERTED", converted))
    drive = recognise_agent(module.Agent, "openai-chat")
    assert drive is not None

    tool = ConversationTool("weather", "The weather.", SCHEMA, lambda _: ToolResult("", "weather", result))
    drive(HERE, "gpt", conversation(tools=(tool,)))

    assert [seen] == module.SEEN


def test_a_turn_needs_a_history(load: Load) -> None:
    module = load(OBJECTS["declarations, and functions by name"])
    drive = recognise_agent(module.Agent, "openai-chat")
    assert isinstance(drive, AgentDrive)
    with pytest.raises(Unsupported, match="each call of its method is a conversation"):
        drive(HERE, "gpt", conversation(turns=conversation().turns * 2))


SETTINGS = {
    "parameters": """
class Agent:
    def __init__(self, tools: list[Callable]):
        self.tools = tools
    def run(self, prompt, *, tool_choice: str | None = None, output_schema: dict | None = None):
        SEEN.append((tool_choice, output_schema))
        return {"name": tool_choice}
""",
    "options": """
class Agent:
    def __init__(self, tools: list[Callable]):
        self.tools = tools
    def run(self, prompt, **options):
        choice = options.get("tool_choice")
        SEEN.append((choice, options.get("schema")))
        return choice in ("auto", "none", "required") or {"name": choice}
""",
    "a session": """
class Agent:
    def __init__(self, tools=()):
        self.tools = tools
    def ask(self, prompt, tool_choice: Literal["auto", "none"] | str = "auto", schema=None):
        SEEN.append((tool_choice, schema))
        return {"name": tool_choice}
    def answer_calls(self, results):
        return "done"
""",
}


@pytest.mark.parametrize("code", SETTINGS.values(), ids=[*SETTINGS])
def test_a_loop_gets_the_settings_that_its_method_takes(load: Load, code: str) -> None:
    module = load(code)
    drive = recognise_agent(module.Agent, "openai-responses") or recognise_session(module.Agent, "openai-responses")
    assert drive is not None
    assert Capability.NAMED_TOOL_CHOICE in drive.capabilities
    assert Capability.JSON_WITH_TOOLS in drive.capabilities
    assert Capability.JSON_MODE not in drive.capabilities
    drive(HERE, "gpt", conversation(tool_choice=NamedTool("weather"), response_format=JsonSchema(SCHEMA)))

    assert module.SEEN == [("weather", SCHEMA)]


def test_a_tool_choice_may_have_the_form_of_the_api(load: Load) -> None:
    module = load("""
class Agent:
    def __init__(self, tools: list[Callable]):
        self.tools = tools
    def run(self, prompt, tool_choice: dict[str, Any] | None = None, schema: type | None = None):
        SEEN.append(tool_choice)
""")
    drive = recognise_agent(module.Agent, "anthropic")
    assert drive is not None
    assert Capability.JSON_SCHEMA not in drive.capabilities
    drive(HERE, "claude", conversation(tool_choice="required"))

    assert module.SEEN == [{"type": "any"}]


def test_declarations_are_bare_if_the_class_adds_the_enclosing_object(load: Load) -> None:
    module = load("""
class Session:
    def __init__(self, tools=()):
        self.tools = [{"type": "function", "function": each} for each in tools]
    def ask(self, prompt):
        SEEN.extend(json.loads(json.dumps(self.tools)))
    def submit(self, results: list[dict]):
        return "done"
""")
    drive = recognise_session(module.Session, "openai-chat")
    assert drive is not None
    drive(HERE, "gpt", conversation())

    declared = {"name": "weather", "description": "The weather.", "parameters": SCHEMA}
    assert [{"type": "function", "function": declared}] == module.SEEN


@dataclass
class Reply:
    text: str
    stop: str = "stop"
    error: str | None = None


ANSWERS: dict[str, tuple[object, str | None]] = {
    "a text": ("It opens at six.", "It opens at six."),
    "an object": (Reply("It opens at six."), "It opens at six."),
    "a dictionary inside": ({"data": {"reply": "It opens at six."}, "model": "gpt-5"}, "It opens at six."),
    "a stream": (EventList(["It opens ", "at six."]), "It opens at six."),
    "events": (EventList([{"type": "text", "text": "It opens "}, {"type": "text", "text": "at six."}]), "at six."),
    "an error in a field": (Reply("", error="status 400"), "status 400"),
    "an empty text": ("", ""),
    "an empty object": (Reply(""), ""),
    "nothing": (None, None),
}


@pytest.mark.parametrize(("returned", "text"), ANSWERS.values(), ids=ANSWERS)
def test_what_an_application_may_show_is_the_answer(returned: object, text: str | None) -> None:
    request = ChatRequest("", (Message("user", "When does it open?"),))

    answer = application_answer(returned, request, "openai-chat", "")

    assert (answer is None) is (text is None)
    if answer is not None and text is not None:
        assert text in answer.text
        assert bool(answer.text) is bool(text)


@pytest.mark.parametrize("flag", [{"truncated": True}, {"complete": False}, {"error": {"code": 400}}])
def test_a_field_may_report_what_the_stop_reason_does_not(flag: dict[str, object]) -> None:
    request = ChatRequest("", (Message("user", "When does it open?"),))

    answer = application_answer({"text": "It", "finish_reason": "stop", **flag}, request, "openai-chat", "")
    usual = application_answer({"text": "It", "finish_reason": "stop"}, request, "openai-chat", "")

    assert answer is not None
    assert usual is not None
    assert (answer.stop_reason, usual.stop_reason) == (StopReason.UNKNOWN, StopReason.END_TURN)
    assert ("error-field" in answer.reported, "error-field" in usual.reported) == (True, False)


def test_an_error_may_be_reported_by_a_handler() -> None:
    request = ChatRequest("", (Message("user", "When does it open?"),))

    assert application_answer("", request, "openai-chat", "self.emit('error', failure)") is None


def test_the_history_beside_an_answer_shows_no_signatures() -> None:
    request = ChatRequest("", (Message("user", "When does it open?"),))
    parts = [{"text": "At six.", "thoughtSignature": "NnfA9x"}]

    answer = application_answer(("At six.", [{"role": "model", "parts": parts}]), request, "gemini", "")

    assert answer is not None
    assert "At six." in answer.text
    assert "NnfA9x" not in answer.text


def test_a_returned_text_may_be_that_of_the_user() -> None:
    request = ChatRequest("", (Message("user", "Good night."),))
    call = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    items = [call, {"type": "message", "content": [{"type": "output_text", "text": "Good night."}]}]

    answer = application_answer(("Good night.", items), request, "openai-responses", "")

    assert answer is not None
    assert answer.text.startswith("Good night.")


def test_the_stop_reason_and_the_counts_are_those_that_the_application_gets() -> None:
    request = ChatRequest("", (Message("user", "When does it open?"),))
    returned = {"text": "It opens", "finish_reason": "length", "usage": {"input_tokens": 3, "output_tokens": 2}}

    answer = application_answer(returned, request, "openai-chat", "")

    assert answer is not None
    assert (answer.stop_reason, answer.usage.input_tokens, answer.usage.output_tokens) == (StopReason.MAX_TOKENS, 3, 2)


@dataclass
class Assistant:
    last_finish_reason: str | None = None
    last_usage: dict[str, int] | None = None
    last_refusal: str | None = None
    usage_limit: int = 9
    spent: dict[str, int] | None = None
    last_text: str = ""


def test_what_a_call_changes_in_its_object_is_part_of_the_answer() -> None:
    request = ChatRequest("", (Message("user", "When does it open?"),))
    assistant = Assistant()
    before = answer_attributes(assistant)
    assistant.last_finish_reason, assistant.last_usage = "length", {"prompt_tokens": 3, "completion_tokens": 2}

    changed = changed_attributes(before, answer_attributes(assistant))
    answer = application_answer("It opens", request, "openai-chat", "", changed)

    assert answer is not None
    assert (answer.stop_reason, answer.usage.input_tokens, answer.usage.output_tokens) == (StopReason.MAX_TOKENS, 3, 2)


def test_token_counts_of_a_session_may_have_another_name() -> None:
    request, assistant = ChatRequest("", (Message("user", "When does it open?"),)), Assistant()
    assistant.spent = {"input": 3, "output": 2}

    answer = application_answer("It opens", request, "openai-chat", "", answer_attributes(assistant))

    assert answer is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (3, 2)


@pytest.mark.parametrize("returned", [None, "It opens", EventList(["It ", "opens"])])
def test_token_counts_of_a_session_belong_to_a_text_or_its_pieces(returned: object) -> None:
    request = ChatRequest("", (Message("user", "When does it open?"),))

    answer = application_answer(returned, request, "openai-chat", "", {"usage": {"input": 3, "output": 2}})

    assert answer is not None
    assert answer.usage.input_tokens == 3
    assert {*answer.text.splitlines()} == (set() if returned is None else {"It opens"})


def test_the_text_of_an_answer_may_be_an_attribute_of_the_object() -> None:
    request, assistant = ChatRequest("", (Message("user", "When does it open?"),)), Assistant(last_text="It opens")
    attributes = answer_attributes(assistant)

    shown = [application_answer(each, request, "openai-chat", "", attributes) for each in ([], "At nine", ["call"])]

    assert [{*each.text.splitlines()} for each in shown if each is not None] == [{"It opens"}, {"At nine"}, {"call"}]
    assert changed_attributes(attributes, attributes) == {"text": "It opens"}


def test_a_refusal_may_be_an_attribute_of_the_object() -> None:
    request = ChatRequest("", (Message("user", "When does it open?"),))

    answer = application_answer("", request, "openai-chat", "", {"refusal": "I cannot help."})

    assert answer is not None
    assert "I cannot help." in answer.text


def test_an_attribute_that_a_call_did_not_change_tells_nothing_about_it() -> None:
    assistant = Assistant("stop", {"prompt_tokens": 0, "completion_tokens": 0})

    assert changed_attributes(answer_attributes(assistant), answer_attributes(assistant)) == {}


REASONING = """
class Agent:
    def __init__(self, functions, {parameter}=0):
        self.functions, self.amount = functions, {parameter}
    def run(self, prompt):
        SEEN.append(self.amount)
        SEEN.append(self.functions[0](**args))
"""


@pytest.mark.parametrize(
    ("parameter", "setting", "sent"),
    [("thinking_budget", {"budget_tokens": 2000}, 2000), ("reasoning_effort", {"effort": "low"}, "low")],
)
def test_an_agent_gets_an_amount_of_reasoning_by_its_own_parameter(
    load: Load, parameter: str, setting: dict[str, Any], sent: object
) -> None:
    module = load(REASONING.replace("{parameter}", parameter))
    drive = recognise_agent(module.Agent, "anthropic")
    assert isinstance(drive, AgentDrive)
    assert Capability.THINKING in drive.capabilities

    drive(HERE, "claude-haiku-4-5", conversation(thinking=ThinkingSettings(**setting)))

    assert module.SEEN[0] == sent


REASONING_SESSION = """
class Session:
    def __init__(self, base_url="", tools=None, {made}):
        self.amounts = {amount}
    def ask(self, text, {asked}):
        SEEN.append({seen})
        return {"text": "", "calls": [{"id": "a", "name": "weather", "args": args}]}
    def submit(self, results, {asked}):
        SEEN.append({seen})
        return {"text": "Done."}
"""


@pytest.mark.parametrize(
    ("made", "amount", "asked", "seen"),
    [
        ("thinking_budget=None", "thinking_budget", "model=None", "self.amounts"),
        ("model=None", "None", "thinking_budget=None", "thinking_budget"),
    ],
)
def test_a_session_gets_an_amount_of_reasoning(load: Load, made: str, amount: str, asked: str, seen: str) -> None:
    code = REASONING_SESSION.replace("{made}", made).replace("{amount}", amount)
    module = load(code.replace("{asked}", asked).replace("{seen}", seen))
    drive = recognise_session(module.Session, "anthropic")
    assert drive is not None
    assert Capability.THINKING in drive.capabilities

    drive(HERE, "claude-haiku-4-5", conversation(thinking=ThinkingSettings(budget_tokens=2000)))

    assert module.SEEN == [2000, 2000]


def test_an_agent_is_given_no_other_kind_of_reasoning(load: Load) -> None:
    drive = recognise_agent(load(REASONING.replace("{parameter}", "thinking_budget")).Agent, "anthropic")
    assert drive is not None

    with pytest.raises(Unsupported, match="thinking_budget"):
        drive(HERE, "claude-haiku-4-5", conversation(thinking=ThinkingSettings("low")))


OWN_NAMES = """
import httpx2

class Agent:
    def __init__(self):
        self.known = {}
    def teach(self, fn, description, **params):
        self.known[fn.__name__] = fn, {"properties": {key: {"type": kind} for key, kind in params.items()}}
    def forget(self, wish):
        self.known.pop(wish)
    def tend(self, wish):
        return self._send(wish)
    def _send(self, wish):
        for fn, schema in self.known.values():
            SEEN.append(schema)
            SEEN.append(fn(**args))
        return wish or httpx2.post("")
"""


def test_the_method_that_sends_a_request_takes_the_prompt_whatever_its_name_is(load: Load) -> None:
    module = load(OWN_NAMES)
    drive = recognise_agent(module.Agent, "openai-chat")
    assert isinstance(drive, AgentDrive)
    assert (drive.prompt.path, drive.prompt.prompt) == (("tend",), "wish")

    drive(HERE, "model", conversation())

    assert module.SEEN == [{"properties": {"city": {"type": "string"}}}, "sunny in Paris"]


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        ('"properties": params}', {}),
        ('"properties": dict(params)}', {}),
        (
            '"properties": params, "additionalProperties": False}, "strict": True',
            {"required": [], "additionalProperties": False},
        ),
    ],
)
def test_a_method_may_take_the_schema_of_each_property(load: Load, schema: str, closed: dict[str, Any]) -> None:
    code = OWN_NAMES.replace('{"properties": {key: {"type": kind} for key, kind in params.items()}}', "DECLARED")
    module = load(code.replace("DECLARED", f'{{"parameters": {{{schema}}}'))
    drive = recognise_agent(module.Agent, "openai-chat")
    assert isinstance(drive, AgentDrive)
    given = {"type": "object", "properties": {"city": {"type": "object", "properties": {}}}, "required": ["city"]}

    drive(HERE, "model", conversation(tools=(ConversationTool("weather", "", given, weather),)))

    found = module.SEEN[0]["parameters"]["properties"]["city"]
    assert found == {"type": "object", "properties": {}} | closed


def test_a_prompt_of_a_usual_name_comes_first(load: Load) -> None:
    code = OWN_NAMES + "\n    def create(self, items):\n        return httpx2.post('', json=items)\n"
    code += "    def respond(self, text):\n        return self.create([text])\n"
    drive = recognise_agent(load(code).Agent, "openai-chat")

    assert isinstance(drive, AgentDrive)
    assert drive.prompt.path == ("respond",)


OWN_PROPERTIES = """
@dataclass
class Skill:
    name: str
    func: Callable[..., Any]
    description: str = ""
    properties: dict = field(default_factory=dict)

class Agent:
    def __init__(self, skills: Sequence[Skill] = ()):
        self.skills = skills
    def run(self, prompt):
        SEEN.extend([skill.properties, skill.func(**args)] for skill in self.skills)
"""


def test_a_tool_may_take_the_properties_of_its_schema(load: Load) -> None:
    module = load(OWN_PROPERTIES)
    drive = recognise_agent(module.Agent, "openai-chat")
    assert isinstance(drive, AgentDrive)

    drive(HERE, "model", conversation())

    assert module.SEEN == [[{"city": {"type": "string"}}, "sunny in Paris"]]
    assert "loop-tools" in drive.ignored  # what is required is the client's own


WITH_CONTEXT = """
class Tool(Protocol):
    name: str
    description: str
    parameters: dict
    def invoke(self, context, **arguments): ...

class Agent:
    def __init__(self, tools: Sequence[Tool]):
        self.tools = tools
    def run(self, prompt, context=None):
        SEEN.extend(tool.invoke(context, **args) for tool in self.tools)
"""


def test_a_tool_may_get_a_context_in_front_of_its_arguments(load: Load) -> None:
    module = load(WITH_CONTEXT)
    drive = recognise_agent(module.Agent, "openai-chat")
    assert drive is not None

    drive(HERE, "model", conversation())

    assert module.SEEN == ["sunny in Paris"]


UNPACKED = """
class Agent:
    def __init__(self, tools=None):
        self.specs, self.functions = [], {}
        for t in tools or []:
            self.add_tool(**t)
    def add_tool(self, name, description, parameters, fn):
        self.specs.append([name, description, parameters])
        self.functions[name] = fn
    def run(self, prompt):
        SEEN.extend(self.specs)
        SEEN.extend(fn(**args) for fn in self.functions.values())
"""


def test_tools_may_be_dictionaries_that_are_unpacked_into_a_method(load: Load) -> None:
    module = load(UNPACKED)
    drive = recognise_agent(module.Agent, "openai-chat")
    assert drive is not None

    drive(HERE, "model", conversation())

    assert module.SEEN == [["weather", "The weather.", SCHEMA], "sunny in Paris"]


BUDGET = """
class Agent:
    def __init__(self, functions, thinking_budget=2000, max_tokens=6000):
        self.functions = functions
    def run(self, prompt):
        return self.functions[0](**args)
"""


def test_an_agent_whose_reasoning_has_its_own_budget_gets_no_small_limit(load: Load) -> None:
    drive = recognise_agent(load(BUDGET).Agent, "anthropic")
    assert drive is not None

    with pytest.raises(Unsupported, match="max_tokens"):
        drive(HERE, "claude-haiku-4-5", conversation(max_tokens=64))


TEXTS_BY_PLACE = """
class Answer:
    def __init__(self, pieces):
        self.pieces, self.content = iter(pieces), ""
    def __iter__(self):
        return self
    def __next__(self):
        piece = next(self.pieces)
        self.content += piece
        return piece

class Talk:
    def __init__(self):
        self.known = {}
    def show(self, *, content: Literal["text", "all"] = "all"):
        raise ImportError("no window")
    def on_tool_request(self, callback: Callable[[str], None]):
        raise AssertionError("it was called with a tool")
    def on_tool_result(self, callback: Callable[[str], None]):
        raise AssertionError("it was called with a result")
    def register_tool(self, func: Callable, *, name: str | None = None):
        self.known[name or func.__name__] = func
    def chat(self, *parts: str, echo: bool = False):
        SEEN.extend([parts, self.known["weather"](**args)])
        answer = Answer([*parts])
        return answer if [*answer] else None
"""


def test_a_method_may_take_its_texts_by_place_and_return_an_object_that_it_has_read(load: Load) -> None:
    module = load(TEXTS_BY_PLACE)
    drive = recognise_agent(module.Talk, "openai-chat")
    assert isinstance(drive, AgentDrive)

    answers = drive(HERE, "model", conversation())

    assert module.SEEN == [("Hello",), "sunny in Paris"]
    assert [each.text if each else None for each in answers] == ["Hello"]  # the model repeats the prompt


def test_an_iterator_that_still_yields_is_an_answer_in_pieces(load: Load) -> None:
    code = TEXTS_BY_PLACE.replace("return answer if [*answer] else None", "return answer")
    drive = recognise_agent(load(code).Talk, "openai-chat")
    assert isinstance(drive, AgentDrive)

    assert [each.text if each else None for each in drive(HERE, "model", conversation())] == ["Hello"]


TYPED = """
class FunctionTool(TypedDict, total=False):
    name: str
    description: str
    schema: dict[str, Any]
    strict: bool

class Wrapped(TypedDict):
    type: Literal["function"]
    function: FunctionTool

class Runnable(TypedDict):
    name: str
    parameters: dict[str, Any]
    run: Callable[..., Any]

class Base:
    def __init__(self, model: str = "gpt", base_url: str | None = None):
        SEEN.clear()
"""

FLAT = {"name": "weather", "description": "The weather.", "schema": SCHEMA}

TYPED_TOOLS = {
    "of a session's constructor": (
        FLAT,
        """
class Session(Base):
    def __init__(self, model: str = "gpt", tools: list[FunctionTool] | None = None):
        SEEN.append(tools)
    def ask(self, text: str) -> Reply:
        return Reply("done")
    def submit(self, results: list[Output]) -> Reply:
        return Reply("done")
""",
    ),
    "of a session's method": (
        {"type": "function", "function": FLAT},
        """
class Session(Base):
    def ask(self, text: str, tools: Sequence[Wrapped] = ()) -> Reply:
        SEEN.append([*tools])
        return Reply("done")
    def submit(self, results: list[Output]) -> Reply:
        return Reply("done")
""",
    ),
    "of an agent with an executor": (
        FLAT,
        """
class Session(Base):
    def ask(self, text: str, tools: list[FunctionTool], execute_tool: Callable[[str, dict], str]) -> Reply:
        SEEN.append(tools)
        return Reply(execute_tool("weather", args))
""",
    ),
    "of an agent with pairs": (
        FLAT,
        """
class Session(Base):
    def ask(self, text: str, tools: list[tuple[FunctionTool, Callable[..., Any]]]) -> Reply:
        SEEN.append([each for each, _ in tools])
        return Reply(tools[0][1](**args))
""",
    ),
}


@pytest.mark.parametrize("api", ["openai-chat", "anthropic", "gemini"])
@pytest.mark.parametrize(("tool", "code"), TYPED_TOOLS.values(), ids=[*TYPED_TOOLS])
def test_tools_have_the_keys_of_their_typed_dictionary(load: Load, tool: object, code: str, api: str) -> None:
    module = load(f"from typing import TypedDict\n{CALLS}{TYPED}{code}")
    drive = recognise_session(module.Session, api) or recognise_agent(module.Session, api)
    assert drive is not None
    drive(HERE, "gpt", conversation())

    seen = module.SEEN
    assert seen == [[tool]]


def test_a_tool_that_runs_may_be_a_typed_dictionary(load: Load) -> None:
    code = """
class Agent(Base):
    def ask(self, text: str, tools: list[Runnable]) -> Reply:
        SEEN.extend([sorted(tools[0]), tools[0]["run"](**args)])
        return Reply("done")
"""
    module = load(f"from typing import TypedDict\n{CALLS}{TYPED}{code}")
    drive = recognise_agent(module.Agent, "openai-chat")
    assert drive is not None
    drive(HERE, "gpt", conversation())

    assert module.SEEN == [["name", "parameters", "run"], "sunny in Paris"]


SETTINGS_AND_RESULTS = """
@dataclass
class Settings:
    base_url: str | None = None
    api_key: str | None = None
    model: str = "gpt"
    system_prompt: str | None = None
    max_tokens: int | None = None

@dataclass
class Spec:
    name: str
    description: str
    parameters: dict[str, Any]

@dataclass
class Request:
    id: str
    name: str
    args: dict[str, Any]

@dataclass
class Outcome:
    request: Request
    value: Any = None
    error: str | None = None

@dataclass
class Turn:
    text: str
    requests: list[Request] = field(default_factory=list)

class Session:
    def __init__(self, settings: Settings):
        SEEN.append(settings)
    def ask(self, text: str, *, functions: list[Spec] | None = None) -> Turn:
        SEEN.append(functions)
        return Turn("", [Request("a", "weather", {"city": "Paris"}), Request("b", "weather", {"city": "Atlantis"})])
    def reply(self, results: list[Outcome], *, functions: list[Spec] | None = None) -> Turn:
        SEEN.extend([functions, *results])
        return Turn("done")

def build_client(settings: Settings | None = None) -> Session:
    return Session(settings or Settings())
"""


@pytest.mark.parametrize("name", ["Session", "build_client"])
def test_a_session_gets_settings_tools_and_results_of_its_own_classes(load: Load, name: str) -> None:
    module = load(SETTINGS_AND_RESULTS)
    drive = recognise_session(getattr(module, name), "openai-chat")
    assert drive is not None
    module.SEEN.clear()
    drive(HERE, "gpt-5", conversation(system="Be brief.", max_tokens=50))

    tools = [module.Spec("weather", "The weather.", SCHEMA)]
    first, second = (
        module.Request(*each) for each in [("a", "weather", {"city": "Paris"}), ("b", "weather", {"city": "Atlantis"})]
    )
    seen = module.SEEN
    assert seen == [
        module.Settings(HERE.base_url, HERE.api_key, "gpt-5", "Be brief.", 50),
        *(tools, tools),
        module.Outcome(first, "sunny in Paris"),
        module.Outcome(second, "no such city: Atlantis"),
    ]
    assert drive.ignored == ()


def test_a_message_with_calls_is_no_result(load: Load) -> None:
    module = load(
        SETTINGS_AND_RESULTS
        + """
@dataclass
class Note:
    role: str
    content: str
    request: Request | None = None

class Other(Session):
    reply = None
    def keep(self, note: Note) -> None: ...
"""
    )
    assert recognise_session(module.Other, "openai-chat") is None


RESULT_FORMS = {
    "tuples of a call and a value, in a helper": """
    def hand_in(self, done):
        return self._add([self._message(call, value) for call, value in done])

    def _message(self, call, value):
        return {"role": "tool", "tool_call_id": call.id, "content": value}
""",
    "tuples of an id and a value": """
    def hand_in(self, done):
        return self._add([{"role": "tool", "tool_call_id": key, "content": text} for key, text in done])
""",
    "tuples of an id, a name and a value": """
    def hand_in(self, done):
        parts = []
        for call_id, name, text in done:
            parts.append({"functionResponse": {"id": call_id, "name": name, "response": text}})
        made = [each["functionResponse"] for each in parts]
        return self._add([{"tool_call_id": each["id"], "content": each["response"]} for each in made])
""",
    "a dictionary by id": """
    def hand_in(self, done):
        ids = ["a", "b"]
        return self._add([{"role": "tool", "tool_call_id": each, "content": done[each]} for each in ids])
""",
    "a dictionary by id, beside the name of the conversation": """
    def hand_in(self, channel_id, done):
        SEEN.append(channel_id)
        SEEN.remove("example")
        return self._add([{"tool_call_id": key, "content": text} for key, text in done.items()])
""",
    "dictionaries in camel case": """
    def hand_in(self, done):
        return self._add([{"tool_call_id": each["callId"], "content": each.get("output")} for each in done])
""",
    "dictionaries with a key of its own": """
    def hand_in(self, done):
        return self._add([{"tool_call_id": each["id"], "content": each["found"]} for each in done])
""",
    "dictionaries with the text of an error": """
    def hand_in(self, done):
        texts = [each["error"] if "error" in each else each["output"] for each in done]
        return self._add([{"tool_call_id": each["id"], "content": text} for each, text in zip(done, texts)])
""",
    "objects without a class": """
    def hand_in(self, done):
        for each in done:
            self._add([dict(tool_call_id=each.call_id, content=each.output)])
        return {"text": "done"}
""",
    "values in the order of the calls": """
    def hand_in(self, done):
        return self._add([{"tool_call_id": key, "content": text} for key, text in zip(["a", "b"], done)])
""",
    "messages in the API's own format": """
    def send_tool_results(self, messages):
        for each in messages:
            self.messages.append(each)
        return self._add(messages)
""",
    "the form that its docstring shows": '''
    def send_tool_results(self, done):
        """Go on. done: {call.id: value} for the calls of the last answer."""
        return self._add([{"tool_call_id": key, "content": text} for key, text in HELPERS["read"](done)])
''',
}


@pytest.mark.parametrize("code", RESULT_FORMS.values(), ids=[*RESULT_FORMS])
def test_the_code_of_a_method_shows_the_form_of_its_results(load: Load, code: str) -> None:
    module = load(f"""
HELPERS = {{"read": lambda done: done.items()}}

@dataclass
class Job:
    id: str
    action: str
    args: dict

class Session:
    def __init__(self, actions=None):
        self.actions, self.messages = actions, []

    def say(self, text):
        SEEN.append(self._body()["tools"][0]["function"]["name"])
        jobs = [Job("a", "weather", {{"city": "Paris"}}), Job("b", "weather", {{"city": "Atlantis"}})]
        return {{"text": "", "jobs": jobs}}

    def _body(self):
        body = {{"messages": self.messages}}
        body["tools"] = [{{"type": "function", "function": each}} for each in self.actions]
        return body

    def _add(self, messages):
        SEEN.extend((each["tool_call_id"], each["content"]) for each in messages)
        return {{"text": "done"}}
{code}""")
    drive = recognise_session(module.Session, "openai-chat")
    assert drive is not None
    drive(HERE, "gpt", conversation())

    assert module.SEEN == ["weather", ("a", "sunny in Paris"), ("b", "no such city: Atlantis")]


def test_a_prompt_that_gets_into_the_messages_is_no_result(load: Load) -> None:
    module = load("""
class Agent:
    def __init__(self):
        self.messages = []
    def ask(self, question):
        self.messages.append({"role": "user", "content": question})
        for call in self.http.post(self.messages).calls:
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny"})
    def note(self, remark):
        self.messages.append({"role": "user", "content": remark})
""")
    assert recognise_session(module.Agent, "openai-chat") is None


FACTORIES = {
    "a factory with options": """
class Session(Base):
    def __init__(self, api_key, base_url=None, model=None, system=None, functions=None):
        SEEN.append([api_key, base_url, model, system, functions[0]["function"]["name"] if functions else None])

def make(kind="one", **options):
    return {"one": Session}[kind](**options)
""",
    "a factory that makes an object of its options": """
@dataclass
class Options:
    system: str | None = None
    functions: Sequence[dict] = ()

class Session(Base):
    def __init__(self, spec, options, base_url, api_key):
        functions = [each["function"]["name"] for each in options.functions]
        SEEN.append([api_key, base_url, spec, options.system, *functions])

def make(spec: str, *, base_url: str | None = None, api_key: str | None = None, **options):
    return Session(spec, Options(**options), base_url, api_key)
""",
    "a constructor that makes an object of its options": """
@dataclass
class Options:
    system: str | None = None
    functions: Sequence[dict] = ()
    retries: int = 2

class Session(Base):
    def __init__(self, model, base_url=None, api_key=None, **options):
        self.options = Options(retries=0, **{"system": None, **options})
        functions = [each["function"]["name"] for each in self.options.functions]
        SEEN.append([api_key, base_url, model, self.options.system, *functions])
make = Session
""",
    "options that the constructor reads": """
class Session(Base):
    def __init__(self, **options):
        functions = options.get("functions")
        SEEN.append([*map(options.get, ["api_key", "base_url"]), options.pop("model"), options.get("system")])
        SEEN[-1].append(functions[0]["function"]["name"] if functions else None)
make = Session
""",
    "a dictionary in camel case": """
class Session(Base):
    def __init__(self, config=None):
        self.config = {"timeout": 9, **(config or {})}
        functions = self.config.get("functions")
        self.system = self.config.get("systemPrompt")
        SEEN.append([self.config["apiKey"], self.config.get("baseUrl", "none"), self.config["model"], self.system])
        SEEN[-1].append(functions[0]["function"]["name"] if functions else None)
make = Session
""",
}


@pytest.mark.parametrize("code", FACTORIES.values(), ids=[*FACTORIES])
def test_a_session_gets_options_as_its_constructor_reads_them(load: Load, code: str) -> None:
    module = load(f"""
{CALLS}
{code}
Session.submit = lambda self, results: Reply("done")
""")
    drive = recognise_session(module.make, "openai-chat")
    assert drive is not None
    module.SEEN.clear()
    drive(HERE, "gpt-5", conversation(system="Be brief."))

    seen = module.SEEN
    assert seen == [[HERE.api_key, HERE.base_url, "gpt-5", "Be brief.", "weather"]]


@pytest.mark.parametrize("made", ["Options(functions=(), **options)", "dict(**options)"])
def test_options_that_the_author_sets_or_that_have_no_class_are_not_given(load: Load, made: str) -> None:
    module = load(f"""
{CALLS}
@dataclass
class Options:
    functions: Sequence[dict] = ()
    system: str | None = None

class Session(Base):
    def __init__(self, model, options):
        SEEN.append(options)
    def submit(self, results):
        return Reply("done")

def make(model, **options):
    return Session(model, {made})
""")
    drive = recognise_session(module.make, "openai-chat")
    assert drive is not None
    with pytest.raises(Unsupported, match="tools"):
        drive(HERE, "gpt-5", conversation())


def test_a_result_has_no_id_if_its_call_has_none(load: Load) -> None:
    module = load("""
class Session:
    def __init__(self, tools=None):
        self.tools = tools
    def ask(self, text):
        return {"text": "", "calls": [{"id": None, "name": "weather", "args": args}]}
    def reply(self, results):
        parts = [{"functionResponse": {"name": each["name"], "response": each["result"]}} for each in results]
        SEEN.extend([*parts, *(each.get("id") for each in results)])
        return {"text": "done"}
""")
    drive = recognise_session(module.Session, "gemini")
    assert drive is not None
    drive(HERE, "gemini", conversation())

    assert module.SEEN == [{"functionResponse": {"name": "weather", "response": {"result": "sunny in Paris"}}}, None]


RESPONSES_OF_GEMINI = {
    "a key": ("submit(self, done: list[dict]):", '{"name": each["call"]["name"], "response": each["response"]}', True),
    "a variable": ("submit(self, results):", '{"name": each["name"], "response": value}', True),
    "a class": ("submit(self, results: list[Done]):", "FunctionResponse(each.name, response=each.output)", True),
    "wrapped": ("submit(self, results):", '{"name": each["name"], "response": {"result": each["result"]}}', False),
    "tested": (
        "submit(self, results: list[Done]):",
        '{"response": {"error": each.output} if each.is_error else {"output": each.output}}',
        False,
    ),
    "a text": ("submit(self, results: list[Text]):", '{"name": each.name, "response": each.output}', False),
}


@pytest.mark.parametrize(("method", "part", "is_object"), RESPONSES_OF_GEMINI.values(), ids=[*RESPONSES_OF_GEMINI])
def test_a_result_is_an_object_where_gemini_takes_it_unchanged(
    load: Load, method: str, part: str, is_object: bool
) -> None:
    module = load(f"""
class FunctionResponse(dict):
    def __init__(self, name, response):
        super().__init__(name=name, response=response)
@dataclass
class Done:
    call_id: str | None
    name: str
    output: Any
    is_error: bool = False
@dataclass
class Text:
    call_id: str | None
    name: str
    output: str
class Session:
    def __init__(self, tools=None):
        self.tools = tools
    def ask(self, text):
        return {{"text": "", "calls": [{{"id": "a", "name": "weather", "args": args}}]}}
    def {method}
        for each in {"done" if "done" in method else "results"}:
            value = each.get("response") if isinstance(each, dict) else None
            part = {{"functionResponse": {part}}}
            SEEN.append(part["functionResponse"]["response"])
        return {{"text": "done"}}
""")
    drive = recognise_session(module.Session, "gemini")
    assert drive is not None
    drive(HERE, "gemini", conversation())

    (response,) = module.SEEN
    text = response if isinstance(response, str) else next(iter(response.values()))
    assert text == "sunny in Paris"
    assert (response == {"result": text}) == (is_object or part.endswith('["result"]}}'))


@pytest.mark.parametrize(("put", "content"), [("value", {"result": "sunny in Paris"}), ("made", "sunny in Paris")])
def test_one_result_is_an_object_where_gemini_takes_it_unchanged(load: Load, put: str, content: object) -> None:
    module = load(f"""
class Session:
    def __init__(self, tools=None):
        self.tools = tools
    def ask(self, text):
        return {{"text": "", "calls": [{{"id": "a", "name": "weather", "args": args}}]}}
    def add_tool_result(self, name, call_id, value):
        made = {{"result": value}}
        SEEN.extend([value, {{"functionResponse": {{"name": name, "response": {put}}}}}])
        return {{"text": "done"}}
""")
    drive = recognise_session(module.Session, "gemini")
    assert drive is not None
    drive(HERE, "gemini", conversation())

    assert module.SEEN[0] == content


OBJECT = """
import threading

class Wire:
    def __init__(self):
        self.lock, self.is_closed = threading.Lock(), False

class Memory:
    def __init__(self):
        self.wire, self.texts = wire, []

class Agent:
    def __init__(self):
        self.tools, self.memory, self.messages = {}, Memory(), []
    def __enter__(self):
        return self
    def __exit__(self, *_):
        self.memory.wire.is_closed = True
    def register_tool(self, name: str, description: str, parameters: dict, function: Callable):
        self.tools[name] = function
    def run(self, prompt: str) -> str:
        self.memory.texts.append(prompt)
        self.messages.append(prompt)
        SEEN.append((self.memory.texts[:], [*self.tools], self.memory.wire.is_closed))
        return self.tools["weather"](**args)

wire = Wire()
agent = Agent()

def make_agent():
    return Agent()

def main():
    SEEN.append("main")
"""
"""An agent that cannot be copied as a whole, because of its lock."""


def test_each_conversation_gets_a_copy_of_an_object(load: Load) -> None:
    module = load(OBJECT)
    for value in (module.agent, module.make_agent):
        drive = recognise_agent(value, "openai-chat")
        assert drive is not None
        drive(HERE, "gpt", conversation())
        drive(HERE, "gpt", conversation())
        module.wire.is_closed = False

    made = [(["Hello"], ["weather"], False), (["Hello"], ["weather"], True)]  # a made one is closed, as its caller does
    assert [made[0], made[0], *made] == module.SEEN
    assert (module.agent.memory.texts, module.agent.messages, module.agent.tools) == ([], [], {})


def test_a_function_that_makes_nothing_is_not_called(load: Load) -> None:
    module = load(OBJECT)

    assert recognise_agent(module.main, "openai-chat") is None
    assert recognise_session(module.wire, "openai-chat") is None
    assert module.SEEN == []


FUNCTION_FACTORIES = {
    "a dictionary whose items are read": """
def make(tools, system=None, model="m", base_url=None):
    schemas = [inspect.signature(each) for _, each in tools.items()]
    return asking(lambda name: tools[name](**args), schemas, system)
""",
    "a dictionary that another function reads": """
def run(known, name):
    return known[name](**args) if name in known else None
def make(tools, system=None, base_url=None):
    schemas = [describe(name, tools[name]) for name in tools]
    return asking(lambda name: run(tools, name), schemas, system)
def describe(name, tool):
    return name, inspect.signature(tool)
""",
    "a list of functions": """
def run(tools, name):
    return tools[name](**args) if tools.get(name) else None
def make(tools, system=None, base_url=None):
    by_name = {each.__name__: each for each in tools}
    schemas = [describe(each) for each in tools]
    return asking(lambda name: run(by_name, name), schemas, system)
def describe(tool):
    return inspect.signature(tool)
""",
    "a list of functions that becomes a dictionary": """
def make(functions, system=None, api_key=None):
    functions = {each.__name__: each for each in functions}
    schemas = [inspect.signature(each) for each in functions.values()]
    return asking(lambda name: functions[name](**args), schemas, system)
""",
    "a dictionary with an unusual name": """
def make(handlers, system=None):
    schemas = [inspect.getdoc(handlers[each]) for each in handlers.keys()]
    return asking(lambda name: handlers[name](**args), schemas, system)
""",
}


@pytest.mark.parametrize("code", FUNCTION_FACTORIES.values(), ids=[*FUNCTION_FACTORIES])
def test_a_factory_may_return_a_function_that_takes_a_prompt(load: Load, code: str) -> None:
    module = load(f"""
def asking(run, schemas, system):
    messages = []
    def ask(question):
        messages.append(question)
        SEEN.append((system, [*messages], run("weather"), len(schemas)))
        return "done"
    return ask
{code}""")
    drive = recognise_agent(module.make, "openai-chat")
    assert isinstance(drive, AgentDrive)
    assert drive.may_be_client
    again = Message(Role.USER, (Text("Again"),))
    answers = drive(HERE, "gpt", conversation(system="Be brief.", turns=(*conversation().turns, again)))

    assert [each.text for each in answers if each is not None] == ["done", "done"]
    seen = module.SEEN
    assert seen == [("Be brief.", messages, "sunny in Paris", 1) for messages in (["Hello"], ["Hello", "Again"])]


def test_a_function_without_history_takes_one_turn_only(load: Load) -> None:
    module = load("""
def make(tools, base_url=None):
    schemas = {name: inspect.signature(each) for name, each in tools.items()}
    return lambda question: tools["weather"](**args)
""")
    drive = recognise_agent(module.make, "openai-chat")
    assert drive is not None
    (answer,) = drive(HERE, "gpt", conversation())

    assert answer is not None
    assert answer.text == "sunny in Paris"
    with pytest.raises(Unsupported, match="a second turn"):
        drive(HERE, "gpt", conversation(turns=conversation().turns * 2))


BUILDER = """
class Prompt:
    def __init__(self, base_url="https://api.openai.com/v1", model="gpt"):
        self.messages, self.functions = [], {}
    def _copy(self, *lines, **functions):
        made = Prompt()
        made.messages, made.functions = [*self.messages, *lines], {**self.functions, **functions}
        return made
    def system(self, text):
        return self._copy(text)
    def user(self, text):
        return self._copy(text)
    def tool(self, name, description, parameters, handler):
        return self._copy(**{name: handler})
    def tool_output(self, call_id, output):
        return self._copy(output)
    def send(self):
        raise LookupError("it runs no tools")
    def run(self):
        SEEN.append(self.messages)
        return self.functions["weather"](city="Paris")
"""


def test_methods_of_a_builder_return_copies(load: Load) -> None:
    module = load(BUILDER)
    drive = recognise_agent(module.Prompt, "openai-chat")
    assert isinstance(drive, AgentDrive)
    (answer,) = drive(HERE, "gpt", conversation(system="Be brief."))

    assert answer is not None
    assert answer.text == "sunny in Paris"
    assert module.SEEN == [["Be brief.", "Hello"]]
    with pytest.raises(Unsupported, match="each of its copies is a conversation"):
        drive(HERE, "gpt", conversation(turns=conversation().turns * 2, system="Be brief."))


@pytest.mark.parametrize(("system", "sent"), [(None, "You are a helpful assistant."), ("Be brief.", "Be brief.")])
def test_a_system_prompt_that_is_required_is_never_empty(load: Load, system: str | None, sent: str) -> None:
    module = load("""
class Agent:
    def __init__(self, persona: str, tools: dict[str, Callable]):
        self.persona, self.tools = persona, tools
    def run(self, prompt):
        SEEN.append(self.persona)
        return self.tools["weather"](**args)
""")
    drive = recognise_agent(module.Agent, "anthropic")
    assert drive is not None
    drive(HERE, "claude", conversation(system=system))

    assert [sent] == module.SEEN


@pytest.mark.parametrize(
    ("parameters", "seen"),
    [
        ("functions: dict[str, Callable], cards: list[dict]", "weather"),
        ("functions: dict[str, Callable], cards=()", None),
        ("functions: dict[str, Callable], cards: str = ''", None),
    ],
)
def test_a_list_that_is_sent_as_the_tools_holds_the_declarations(load: Load, parameters: str, seen: str | None) -> None:
    module = load(f"""
class Agent:
    def __init__(self, {parameters}):
        self.functions, self.cards = functions, cards
    def run(self, prompt):
        body = {{"tools": self.cards, "input": prompt}}
        SEEN.append(body["tools"][0]["name"] if body["tools"] else None)
        return self.functions["weather"](**args)
""")
    drive = recognise_agent(module.Agent, "openai-responses")
    assert drive is not None
    drive(HERE, "gpt", conversation())

    assert [seen] == module.SEEN


def test_a_function_may_get_one_that_executes_all_calls(load: Load) -> None:
    module = load("""
async def run(task: str, tools: list[dict], execute: Callable[[str, dict], Any], *, system: str = ""):
    return await execute("weather", args)
""")
    drive = recognise_function_loop(module.run, "anthropic")
    assert drive is not None
    (answer,) = drive(HERE, "claude", conversation())

    assert answer is not None
    assert answer.text == "sunny in Paris"


HISTORIES = {
    "as an argument": "history.append(prompt)",
    "in a tuple": "return 'done', [*history, {'role': 'user', 'content': prompt}]",
    "in a field": "return {'text': 'done', 'messages': [*history, prompt]}",
}


@pytest.mark.parametrize("code", HISTORIES.values(), ids=[*HISTORIES])
def test_a_function_gets_the_history_that_it_returned(load: Load, code: str) -> None:
    module = load(f"""
def ask(prompt, tools=None, handlers=None, history=None):
    history = [] if history is None else history
    SEEN.append([*history])
    handlers.get("weather")(**args)
    {code}
""")
    drive = recognise_function_loop(module.ask, "openai-chat")
    assert drive is not None
    drive(HERE, "gpt", conversation(turns=conversation().turns * 2))

    assert [len(each) for each in module.SEEN] == [0, 1]


def test_a_function_that_returns_only_texts_takes_one_turn(load: Load) -> None:
    module = load("""
def ask(prompt, tools=None, handlers=None, history=()):
    handlers.get("weather")(**args)
    return prompt, ["a note"]
""")
    drive = recognise_function_loop(module.ask, "openai-chat")
    assert drive is not None
    with pytest.raises(Unsupported, match="each call is a conversation"):
        drive(HERE, "gpt", conversation(turns=conversation().turns * 2))


def test_a_factory_of_a_class_may_need_its_tools(load: Load) -> None:
    module = load("""
class Agent:
    def __init__(self, tools):
        self.tools = tools
        self.names = [*tools.keys()]
    def run(self, prompt):
        return self.tools["weather"](**args)
def make(tools, base_url=None):
    return Agent(tools)
""")
    assert recognise_agent(module.make, "openai-chat") is not None


STEPS = """
class Chat:
    def __init__(self, tools: list[Callable] = ()):
        self.tools, self.messages = tools, []
    def __call__(self, prompt: str) -> str:
        SEEN.append("step")
        return ""
    def toolloop(self, prompt: str):
        return Steps(self.steps())
    def steps(self):
        SEEN.append("loop")
        yield self.tools[0](**args)

class Steps:
    def __init__(self, items):
        self.items = items
    def __iter__(self):
        yield from self.items
"""
"""A client whose loop begins when its answer is iterated."""


def test_a_method_named_after_its_loop_is_called_and_not_the_one_for_a_step(load: Load) -> None:
    module = load(STEPS)
    drive = recognise_agent(module.Chat, "openai-chat")
    assert drive is not None
    drive(HERE, "gpt", conversation())

    assert module.SEEN == ["loop"]


SETTINGS_OF_CONSTRUCTORS = """
class Loop:
    def __init__(self, tools: list[Callable[..., Any]], *, {parameters}):
        self.tools = tools
        SEEN.append({seen})

    def run(self, prompt: str) -> str:
        {code}
        return "done"

@dataclass
class Reply:
    text: str
    calls: list = field(default_factory=list)

class Session:
    def __init__(self, tools=None, *, {parameters}):
        self.tools = tools
        SEEN.append({seen})

    def send(self, text: str) -> Reply:
        {code}
        return Reply("done")

    def send_outputs(self, outputs: dict[str, Any]) -> Reply:
        return Reply("done")
"""

JSON = {"response_format": "json"}
WITH_SCHEMA = {"response_format": JsonSchema(SCHEMA)}
CONSTRUCTORS = {
    "temperature": ("temperature: float | None = None", "pass", {"temperature": 0}, 0),
    "temp, among unknown options": ("temp=1.0, **options", "pass", {"temperature": 0}, 0),
    "json_output": ("json_output: bool = False", "pass", JSON, True),
    "json": ("json=False", "pass", JSON, True),
    "response_format": ("response_format: dict | None = None", "pass", JSON, {"type": "json_object"}),
    "json_schema": (
        "json_schema: dict | None = None",
        "body = {'type': 'json_schema', 'schema': None}",
        WITH_SCHEMA,
        SCHEMA,
    ),
}
"""Parameters, code of a method, fields of the conversation, and what the constructor gets."""


@pytest.mark.parametrize("kind", ["Loop", "Session"])
@pytest.mark.parametrize(("parameters", "code", "given", "expected"), CONSTRUCTORS.values(), ids=[*CONSTRUCTORS])
def test_a_constructor_gets_the_settings_of_a_loop(  # noqa: PLR0917 - the parts of a case
    load: Load, kind: str, parameters: str, code: str, given: dict[str, Any], expected: object
) -> None:
    name = re.match(r"\w+", parameters)
    assert name is not None
    made = SETTINGS_OF_CONSTRUCTORS.replace("{parameters}", parameters).replace("{seen}", name[0])
    module = load(made.replace("{code}", code))
    drive = {"Loop": recognise_agent, "Session": recognise_session}[kind](getattr(module, kind), "openai-chat")
    assert drive is not None
    wanted = {"temperature": Capability.TEMPERATURE} if "temperature" in given else {}
    is_schema = given is WITH_SCHEMA
    wanted |= {"response_format": Capability.JSON_SCHEMA if is_schema else Capability.JSON_MODE} if not wanted else {}

    drive(HERE, "gpt", conversation(**given))

    assert drive.capabilities >= {*wanted.values()}
    seen = module.SEEN
    assert seen == [expected]


OTHER_SETTINGS = {
    "a class": ("output_schema=None", "self.form and isinstance(output_schema, type)"),
    "an annotated class": ("output_schema: type | None = None", "'json_schema'"),
    "a schema that no request has": ("output_schema: dict | None = None", "pass"),
    "a text": ("response_format: str = 'text'", "pass"),
    "a text of JSON": ("json=''", "pass"),
}


@pytest.mark.parametrize(("parameters", "code"), OTHER_SETTINGS.values(), ids=[*OTHER_SETTINGS])
def test_a_constructor_gets_no_setting_that_it_takes_differently(load: Load, parameters: str, code: str) -> None:
    made = SETTINGS_OF_CONSTRUCTORS.replace("{parameters}", parameters).replace("{seen}", "'made'")
    module = load(made.replace("{code}", code))
    drive = recognise_agent(module.Loop, "openai-chat")
    assert drive is not None

    refused = {Capability.JSON_MODE, Capability.JSON_SCHEMA, Capability.TEMPERATURE}
    assert not drive.capabilities & refused


def test_a_method_gets_the_temperature_of_a_loop(load: Load) -> None:
    code = """
def ask(question: str, tools: list[Callable[..., Any]], base_url=None, temperature=None):
    SEEN.append(temperature)
    return tools[0](**args)
"""
    drive = recognise_agent(load(code).ask, "openai-chat")
    assert drive is not None
    drive(HERE, "gpt", conversation(temperature=0))

    assert Capability.TEMPERATURE in drive.capabilities
    assert sys.modules["strangers_loop"].SEEN == [0]


def test_a_method_that_sends_the_results_is_not_followed_by_another_request(load: Load) -> None:
    module = load(f"""
{CALLS}
class Session(Base):
    def __init__(self, functions=None):
        self.functions, self.http = functions, type("Http", (), {{"post": lambda *_: None}})()
    def submit(self, results: list[Output]) -> None:
        SEEN.extend((each.call.id, each.value) for each in results)
        self.http.post("/chat")
    def resume(self) -> None:
        raise AssertionError("a second request")
""")
    drive = recognise_session(module.Session, "openai-chat")
    assert drive is not None
    drive(HERE, "gpt", conversation())

    assert module.SEEN == [("a", "sunny in Paris"), ("b", "no such city: Atlantis")]


SENDING = """
    def warm_up(self):
        self.http.post("/chat")
"""


@pytest.mark.parametrize(
    ("others", "name"),
    [("", "next_reply"), ("def count_tokens(self):\n        self.http.post()", "next_reply"), (SENDING, None)],
)
def test_the_only_method_that_sends_a_request_continues(load: Load, others: str, name: str | None) -> None:
    module = load(f"""
class Session:
    def next_reply(self):
        return self.http.post("/chat")
    {others}
""")

    found = resuming_method(public_methods(module.Session))

    assert (found.path[0] if found is not None else None) == name
