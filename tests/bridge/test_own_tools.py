"""Recognition of classes that get their tools by parameters, methods and classes with names of their own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bridge.clients.agents import AgentDrive, guess_agent, recognise_agent
from harness.bridge.clients.declared_parts import parts_by_name
from harness.model.errors import Unsupported
from harness.model.messages import Message, Role, Text, ToolCall, ToolResult
from harness.model.protocols import Conversation, ConversationTool, Endpoint

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OPTIONAL: dict[str, Any] = {**SCHEMA, "required": []}
HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import code as a package with two modules, because its source shows how its class gets tools."""
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "stranger"
    folder.mkdir()

    def load(code: str) -> ModuleType:
        tools, _, agent = code.partition("# agent\n")
        (folder / "parts.py").write_text(f"{COMMON}\n{tools}")
        (folder / "agent.py").write_text(f"{COMMON}\nfrom stranger import parts\nfrom stranger.parts import *\n{agent}")
        (folder / "__init__.py").write_text("from stranger.agent import Butler, SEEN\n")
        importlib.invalidate_caches()
        return importlib.import_module("stranger.agent")

    yield load
    for name in [each for each in sys.modules if each.partition(".")[0] == "stranger"]:
        del sys.modules[name]


COMMON = """
import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Type

from pydantic import BaseModel

SEEN = []
args = {"city": "Paris"}
"""


def weather(call: ToolCall) -> ToolResult:
    return ToolResult("", "weather", f"sunny in {call.arguments['city']}")


def conversation(parameters: dict[str, Any], system: str | None = None) -> Conversation:
    turns, tool = (
        (Message(Role.USER, (Text("Hello"),)),),
        ConversationTool("weather", "The weather.", parameters, weather),
    )
    return Conversation(turns=turns, tools=(tool,), system=system)


def drive_of(module: ModuleType) -> AgentDrive:
    drive = guess_agent(module.Butler, "openai-chat")
    assert drive is not None
    assert recognise_agent(module.Butler, "openai-chat") is None
    return drive


BY_ITSELF = {
    "classes with a model of their input, in the constructor": """
class Chore:
    Form: Type[BaseModel] = BaseModel
    @property
    def title(self):
        return type(self).__name__
    @property
    def blurb(self):
        return type(self).__doc__
    def carry_out(self, order):
        raise NotImplementedError
    def card(self):
        return {"name": self.title, "description": self.blurb, "input_schema": self.Form.model_json_schema()}
# agent
class Butler:
    def __init__(self, chores: Iterable[Chore | Type[Chore]] = ()):
        self.chores = [each() if isinstance(each, type) else each for each in chores]
    def ring(self, text: str):
        SEEN.append([each.card() for each in self.chores])
        chore = self.chores[0]
        SEEN.append(chore.carry_out(chore.Form.model_validate(args)))
""",
    "classes that are created by the client": """
class Chore(ABC):
    title = ""
    blurb = ""
    form = {}
    @abstractmethod
    def carry_out(self, **order): ...
# agent
class Butler:
    def __init__(self, chores=None):
        self.chores = [kind() for kind in chores or []]
    def ring(self, text):
        each = self.chores[0]
        SEEN.append([{"name": each.title, "description": each.blurb, "input_schema": each.form}])
        SEEN.append(each.carry_out(**args))
""",
    "objects of a class in a module that the client does not import": """
@dataclass
class Chore:
    title: str
    blurb: str
    form: dict
    act: Callable
    def carry_out(self, order):
        return self.act(**order)
# agent
class Butler:
    def __init__(self, character="", chores=()):
        self.chores = {each.title: each for each in chores}
    def ring(self, text):
        cards = [dict(name=each.title, description=each.blurb, input_schema=each.form) for each in self.chores.values()]
        SEEN.append(cards)
        SEEN.append(self.chores["weather"].carry_out(args))
""",
    "a method with the parts in an order of its own": """
# agent
class Chore:
    def __init__(self, act, title, form, blurb):
        self.act, self.title, self.form, self.blurb = act, title, form, blurb
class Butler:
    def __init__(self, persona=""):
        self.opening = [persona] if persona else []
        self.chores = {}
    def chore(self, act: Callable, title: str, form: dict, blurb: str):
        self.chores[title] = Chore(act, title, form, blurb)
        return self
    def ring(self, text):
        each = self.chores["weather"]
        SEEN.append([{"name": each.title, "description": each.blurb, "input_schema": each.form}])
        SEEN.append(each.act(**args))
""",
    "a decorator with the properties as keywords, of an object that the constructor creates": """
class Pantry:
    def __init__(self):
        self.shelves = {}
    def stock(self, label, about, **fields):
        def keep(fn):
            form = {"type": "object", "properties": fields, "required": list(fields)}
            self.shelves[label] = about, form, fn
            return fn
        return keep
# agent
class Butler:
    def __init__(self, pantry=None):
        self.pantry = pantry or Pantry()
    def ring(self, text):
        SEEN.append([{"name": n, "description": a, "input_schema": s} for n, (a, s, _) in self.pantry.shelves.items()])
        SEEN.append(self.pantry.shelves["weather"][2](**args))
""",
}


@pytest.mark.parametrize("code", BY_ITSELF.values(), ids=[*BY_ITSELF])
def test_the_use_of_its_parts_shows_what_a_tool_is(load: Load, code: str) -> None:
    module = load(code)
    drive = drive_of(module)
    drive(HERE, "gpt", conversation(SCHEMA))

    assert module.SEEN == [
        [{"name": "weather", "description": "The weather.", "input_schema": SCHEMA}],
        "sunny in Paris",
    ]
    assert drive.ignored == ()


def test_a_tool_that_is_described_by_a_function_is_not_judged_by_its_schema(load: Load) -> None:
    module = load(
        """
class Helper:
    def __init__(self, fn, label=None):
        self.fn, self.label, self.fields = fn, label or fn.__name__, [*inspect.signature(fn).parameters]
# agent
class Butler:
    def __init__(self, helpers: Iterable[Helper | Callable] = ()):
        self.helpers = {}
        for each in helpers:
            self.employ(each)
    def employ(self, helper: Helper | Callable) -> Helper:
        helper = helper if isinstance(helper, Helper) else Helper(helper)
        self.helpers[helper.label] = helper
        return helper
    def ring(self, text: str) -> str:
        SEEN.append([each.fields for each in self.helpers.values()])
        SEEN.append(self.helpers["weather"].fn(**args))
"""
    )
    drive = drive_of(module)
    drive(HERE, "gpt", conversation(SCHEMA))

    assert module.SEEN == [[["city"]], "sunny in Paris"]
    assert drive.ignored == ("loop-tools",)


def test_a_method_that_takes_only_properties_gets_no_other_schema(load: Load) -> None:
    module = load([*BY_ITSELF.values()][-1])
    drive = drive_of(module)
    with pytest.raises(Unsupported):
        drive(HERE, "gpt", conversation(OPTIONAL))


SYSTEM = {
    "a message that the constructor makes": """
class Line:
    def __init__(self, who, what):
        self.who, self.what = who, what
# agent
class Butler:
    def __init__(self, opening=None, greeting="Good day."):
        self.lines = [Line("system", opening)] if opening else []
        self.lines.append(Line("assistant", greeting))
        self.chores = {}
    def chore(self, title: str, blurb: str, form: dict, act: Callable):
        self.chores[title] = blurb, form, act
    def ring(self, text):
        SEEN.extend(each.what for each in self.lines)
""",
    "an argument of a function of another module": """
def request(lines, character):
    return dict(system_instruction=character or None, lines=lines)
# agent
class Butler:
    def __init__(self, character="", greeting=None):
        self.character, self.greeting, self.chores = character, greeting or "Good day.", {}
    def chore(self, title: str, blurb: str, form: dict, act: Callable):
        self.chores[title] = blurb, form, act
    def ring(self, text):
        SEEN.extend([request([], self.character)["system_instruction"], self.greeting])
""",
}


@pytest.mark.parametrize("code", SYSTEM.values(), ids=[*SYSTEM])
def test_the_parameter_that_is_sent_as_the_system_prompt_gets_it(load: Load, code: str) -> None:
    module = load(code)
    drive_of(module)(HERE, "gpt", conversation(SCHEMA, "Be brief."))

    assert module.SEEN == ["Be brief.", "Good day."]


def test_two_parameters_for_a_system_prompt_are_not_told_apart(load: Load) -> None:
    code = SYSTEM["an argument of a function of another module"].replace(
        "self.greeting])", "self.greeting, wire(self)])"
    )
    module = load(f"{code}\ndef wire(each):\n    return {{'system': each.greeting}}\n")
    with pytest.raises(Unsupported):
        drive_of(module)(HERE, "gpt", conversation(SCHEMA, "Be brief."))


OTHERS = {
    "callbacks": """
# agent
class Butler:
    def __init__(self, listeners: Iterable[Callable] = (), opening=None):
        self.listeners, self.lines = list(listeners), [opening] if opening else []
    def on(self, event, fn):
        self.listeners.append(fn)
    def ring(self, text: str):
        for each in self.listeners:
            each(text)
""",
    "layers around the request": """
class Layer:
    name = "layer"
    def __call__(self, exchange, inner):
        return inner(exchange)
# agent
class Butler:
    def __init__(self, layers=None):
        self.layers = list(layers or [])
    def wrap(self, layer):
        self.layers.insert(0, layer)
        return self
    def ring(self, text):
        for each in self.layers:
            SEEN.append(each.name)
""",
}


@pytest.mark.parametrize("code", OTHERS.values(), ids=[*OTHERS])
def test_other_objects_and_functions_are_no_tools(load: Load, code: str) -> None:
    assert guess_agent(load(code).Butler, "openai-chat") is None


def test_the_keys_of_a_declaration_show_the_parts() -> None:
    code = """
def declared(each):
    made = {"name": each.title, "description": each.about}
    needed = list(each.fields) if each.needed is None else list(each.needed)
    made["parametersJsonSchema"] = {"type": "object", "properties": each.fields, "required": needed}
    return made

def result(call):
    return {"name": call.label, "response": call.value}

def converted(each):
    return Declaration(name=each.title, description=each.about, parameters_json_schema=tidy(each.form))
"""
    assert parts_by_name(code) == {
        "title": "name",
        "about": "description",
        "fields": "properties",
        "needed": "required",
        "form": "parameters",
    }
    assert parts_by_name("def f(:") == {}
