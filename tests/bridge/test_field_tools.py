"""Agents whose tools are Pydantic models that run themselves."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bridge.clients.agents import AgentDrive, recognise_agent
from harness.bridge.clients.field_tools import field_tools
from harness.model.messages import Message, Role, Text, ToolCall, ToolResult
from harness.model.protocols import Conversation, ConversationTool, Endpoint

HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "day": {"type": "string"}},
    "required": ["city"],
}

Load = Callable[[str], ModuleType]

CODE = """
from __future__ import annotations
from pydantic import BaseModel

SEEN = []


class Tool(BaseModel):
    def run(PARAMETERS):
        raise NotImplementedError


class Agent:
    def __init__(self, tools: list[type[Tool]]):
        self.tools = {each.__name__: each for each in tools}

    def ask(self, prompt: str) -> str:
        (kind,) = self.tools.values()
        SEEN.append((kind.__doc__, sorted(kind.model_json_schema()["required"])))
        return kind(**{"city": "Paris"}).run()
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import code whose tools run with these parameters as a module."""
    monkeypatch.syspath_prepend(tmp_path)

    def load(parameters: str) -> ModuleType:
        (tmp_path / "strangers_models.py").write_text(CODE.replace("PARAMETERS", parameters))
        importlib.invalidate_caches()
        return importlib.import_module("strangers_models")

    yield load
    sys.modules.pop("strangers_models", None)


def test_a_tool_is_a_model_with_the_arguments_as_fields(load: Load) -> None:
    calls: list[Any] = []

    def run(call: ToolCall) -> ToolResult:
        calls.append(call.arguments)
        return ToolResult("", call.name, "sunny")

    module = load("self")
    drive = recognise_agent(module.Agent, "anthropic")
    assert isinstance(drive, AgentDrive)
    assert drive.ignored == ("loop-tools",)
    tool = ConversationTool("weather", "The weather.", SCHEMA, run)

    drive(HERE, "claude", Conversation(turns=(Message(Role.USER, (Text("Hello"),)),), tools=(tool,)))

    assert (module.SEEN, calls) == ([("The weather.", ["city"])], [{"city": "Paris"}])


REGISTERING = """
from pydantic import BaseModel

SEEN = []


class Command(BaseModel):
    DEFINITION execute(self):
        raise NotImplementedError


class Agent:
    def __init__(self):
        self.commands = {}

    def register(self, command: type[Command]) -> type[Command]:
        self.commands[command.__name__] = command
        return command

    DEFINITION ask(self, prompt: str) -> str:
        (kind,) = self.commands.values()
        SEEN.append((kind.__doc__, sorted(kind.model_json_schema()["required"])))
        return WAITING kind(**{"city": "Paris"}).execute()
"""


@pytest.mark.parametrize(("definition", "waiting"), [("def", ""), ("async def", "await ")])
@pytest.mark.usefixtures("load")
def test_a_model_may_be_registered_by_a_method(tmp_path: Path, definition: str, waiting: str) -> None:
    code = REGISTERING.replace("DEFINITION", definition).replace("WAITING ", waiting)
    (tmp_path / "strangers_models.py").write_text(code)
    importlib.invalidate_caches()
    module = importlib.import_module("strangers_models")
    drive = recognise_agent(module.Agent, "anthropic")
    assert isinstance(drive, AgentDrive)
    tool = ConversationTool("weather", "The weather.", SCHEMA, lambda call: ToolResult("", call.name, "sunny"))

    drive(HERE, "claude", Conversation(turns=(Message(Role.USER, (Text("Hello"),)),), tools=(tool,)))

    assert module.SEEN == [("The weather.", ["city"])]


def test_the_method_that_runs_a_model_may_take_a_context(load: Load) -> None:
    tool = ConversationTool("weather", "The weather.", SCHEMA, lambda call: ToolResult("", call.name, "sunny"))
    kind = load("self, shelf").Tool
    make = field_tools(list[type[kind]], kind)
    assert make is not None

    made: Any = make(tool)

    assert made(city="Paris").run(object()) == "sunny"


def test_other_models_have_no_arguments_as_fields(load: Load) -> None:
    tool = load("self, arguments").Tool

    assert field_tools(list[type[tool]], tool) is None
    assert field_tools(list[tool], tool) is None
