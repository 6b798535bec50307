"""Agents that ask the user whether a tool may run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bridge.clients.agents import AgentDrive, FunctionDrive, recognise_agent
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.user_answers import approve, callback_arguments, declined_questions, observe_asynchronously
from harness.checks.script_code import ScriptCode
from harness.model.messages import Message, Role, Text, ToolResult
from harness.model.protocols import Conversation, ConversationTool, Endpoint

HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

Load = Callable[[str, str], ModuleType]

CODE = """
from __future__ import annotations
import asyncio
from typing import Callable

SEEN = []


def ask_on_terminal(name):
    return input(f"Run {name}? ").lower() == "y"


class Agent:
    def __init__(self, PARAMETERS):
        self.functions = {each.__name__: each for each in tools}
        self.approve = approve

    def run(self, prompt: str) -> str:
        SEEN.append("yes" if DECISION else "no")
        return str(self.functions["weather"](city="Paris"))


def run_agent(prompt: str, tools: list[Callable], confirm_call):
    SEEN.append("yes" if confirm_call("weather", {}) else "no")
    return str(tools[0](city="Paris"))
"""

AWAITING = """

async def ask(self):
    return await self.approve("weather", {"city": "Paris"})
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import code as a module, with these parameters of its constructor and this condition for a tool to run."""
    monkeypatch.syspath_prepend(tmp_path)

    def load(parameters: str, decision: str) -> ModuleType:
        code = CODE.replace("PARAMETERS", parameters).replace("DECISION", decision)
        (tmp_path / "strangers_questions.py").write_text(code + (AWAITING if "ask(self)" in decision else ""))
        importlib.invalidate_caches()
        return importlib.import_module("strangers_questions")

    yield load
    sys.modules.pop("strangers_questions", None)


def conversation() -> Conversation:
    tool = ConversationTool("weather", "The weather.", SCHEMA, lambda _: ToolResult("", "weather", "sunny"))
    return Conversation(turns=(Message(Role.USER, (Text("Hello"),)),), tools=(tool,))


@pytest.mark.parametrize(
    ("parameters", "decision", "seen"),
    [
        ("tools: list[Callable], approve=ask_on_terminal", "self.approve('weather')", "yes"),
        ("tools: list[Callable], approve", "self.approve('weather', {'city': 'Paris'})", "yes"),
        ("tools: list[Callable], approve", "asyncio.run(ask(self))", "yes"),
        ("tools: list[Callable], approve=lambda name: False", "self.approve('weather')", "no"),
    ],
    ids=["on the terminal", "by the caller", "asynchronously", "never"],
)
def test_tools_of_harness_may_run_unless_the_code_decides_it_itself(
    load: Load, parameters: str, decision: str, seen: str
) -> None:
    module = load(parameters, decision)
    drive = recognise_agent(module.Agent, "openai-chat")
    assert isinstance(drive, AgentDrive)

    drive(HERE, "gpt", conversation())

    assert [*module.SEEN] == [seen]


def test_a_function_may_take_the_decision(load: Load) -> None:
    module = load("tools, approve=None", "True")
    drive = recognise_agent(module.run_agent, "openai-chat")
    assert isinstance(drive, FunctionDrive)

    drive(HERE, "gpt", conversation())

    assert module.SEEN == ["yes"]


def test_tools_of_the_user_do_not_run_without_consent() -> None:
    before = sys.stdin

    with declined_questions():
        assert [input(), input()] == ["n", "n"]

    assert sys.stdin is before


def test_a_script_approves_the_calls_too() -> None:
    code = ScriptCode(None, {})
    assert code.code([approve]) == "[lambda *_, **__: True]"
    assert "import asyncio" not in code.imports
    assert code.code([observe_asynchronously]) == "[lambda *_, **__: asyncio.sleep(0)]"
    assert "import asyncio" in code.imports


OBSERVED = """
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

SEEN = []


class Agent:
    def __init__(self, emit: EMIT, tools: list[Callable]):
        self.emit, self.functions = emit, {each.__name__: each for each in tools}

    async def run(self, prompt: str) -> str:
        made = self.emit({"type": "start"})
        SEEN.append(await made if asyncio.iscoroutine(made) else made)
        return str(self.functions["weather"](city="Paris"))
"""


@pytest.mark.usefixtures("load")
@pytest.mark.parametrize("emit", ["Callable[[Any], None]", "Callable[..., Awaitable[None]]"])
def test_an_agent_may_report_its_progress(tmp_path: Path, emit: str) -> None:
    (tmp_path / "strangers_questions.py").write_text(OBSERVED.replace("EMIT", emit))
    importlib.invalidate_caches()
    module = importlib.import_module("strangers_questions")
    drive = recognise_agent(module.Agent, "openai-chat")
    assert isinstance(drive, AgentDrive)

    drive(HERE, "gpt", conversation())

    assert module.SEEN == [None]


@pytest.mark.usefixtures("load")
def test_a_function_that_returns_a_value_is_no_observer(tmp_path: Path) -> None:
    (tmp_path / "strangers_questions.py").write_text(OBSERVED.replace("EMIT", "Callable[[Any], str]"))
    importlib.invalidate_caches()
    agent = importlib.import_module("strangers_questions").Agent

    assert not callback_arguments(method_of((), agent))
