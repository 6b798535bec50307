"""Methods and functions that take an object for the conversation, or the name of a user, next to the prompt."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bridge.clients.agents import AgentDrive, FunctionDrive, recognise_agent
from harness.bridge.clients.sessions import SessionDrive, recognise_session
from harness.model.errors import Unsupported
from harness.model.messages import Message, Role, Text, ToolResult
from harness.model.protocols import Conversation, ConversationTool, Endpoint

HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

Load = Callable[[str], ModuleType]

CODE = """
from __future__ import annotations
from dataclasses import dataclass, field

SEEN = []


@dataclass
class Thread:
    messages: list = field(default_factory=list)


@dataclass
class Profile:
    words: list = field(default_factory=list)


@dataclass
class Session:
    user: str
    messages: list = field(default_factory=list)


class Agent:
    def __init__(self, tools):
        self.tools = {each.__name__: each for each in tools}

    def reply(self, PARAMETERS) -> str:
        thread.messages.append(text)
        SEEN.append([*thread.messages])
        return str(self.tools["weather"](city="Paris"))


class Client:
    def __init__(self, tools=None):
        self.tools = tools

    def ask(self, thread: Thread, text: str):
        thread.messages.append(text)
        return {"tool_calls": [{"id": "call_1", "name": "weather", "arguments": {"city": "Paris"}}]}

    def submit_tool_results(self, thread: Thread, results: list[dict]):
        SEEN.append([*thread.messages, *results])
        return "done"


def answer(user_id, prompt, functions):
    SEEN.append(user_id)
    schemas = [{"name": name, "description": each.__doc__} for name, each in functions.items()]
    return str(functions["weather"](city="Paris"))
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import code whose method takes these parameters as a module."""
    monkeypatch.syspath_prepend(tmp_path)

    def load(parameters: str) -> ModuleType:
        (tmp_path / "strangers_threads.py").write_text(CODE.replace("PARAMETERS", parameters))
        importlib.invalidate_caches()
        return importlib.import_module("strangers_threads")

    yield load
    sys.modules.pop("strangers_threads", None)


def conversation(*texts: str) -> Conversation:
    turns = tuple(Message(Role.USER, (Text(each),)) for each in texts)
    tool = ConversationTool("weather", "The weather.", SCHEMA, lambda _: ToolResult("", "weather", "sunny"))
    return Conversation(turns=turns, tools=(tool,))


@pytest.mark.parametrize("parameters", ["thread: Thread, text: str", "text: str, thread: Thread | None"])
def test_each_conversation_gets_an_object_of_its_own(load: Load, parameters: str) -> None:
    module = load(parameters)
    drive = recognise_agent(module.Agent, "openai-chat")
    assert isinstance(drive, AgentDrive)

    drive(HERE, "gpt", conversation("Hello", "And now?"))
    drive(HERE, "gpt", conversation("Good morning"))

    assert module.SEEN == [["Hello"], ["Hello", "And now?"], ["Good morning"]]


@pytest.mark.parametrize("parameters", ["thread: Profile, text: str", "thread: Session, text: str"])
def test_an_object_of_another_kind_or_one_that_needs_arguments_is_not_made(load: Load, parameters: str) -> None:
    assert recognise_agent(load(parameters).Agent, "openai-chat") is None


def test_the_method_for_results_gets_the_object_of_the_prompt(load: Load) -> None:
    module = load("thread: Thread, text: str")
    drive = recognise_session(module.Client, "openai-chat")
    assert isinstance(drive, SessionDrive)

    drive(HERE, "gpt", conversation("Hello"))

    assert module.SEEN[0][0] == "Hello"
    assert len(module.SEEN[0]) == 2


def test_a_function_gets_the_name_of_a_user(load: Load) -> None:
    module = load("thread: Thread, text: str")
    drive = recognise_agent(module.answer, "openai-chat")
    assert isinstance(drive, FunctionDrive)

    drive(HERE, "gpt", conversation("Hello"))

    assert module.SEEN == ["example"]
    with pytest.raises(Unsupported, match="a second turn"):
        drive(HERE, "gpt", conversation("Hello", "And now?"))


OPENING = """
from __future__ import annotations
import contextlib

SEEN = []


class Chat:
    def __init__(self, agent):
        self.agent, self.messages = agent, []

    def ask(self, prompt: str) -> str:
        self.messages.append(prompt)
        SEEN.append([*self.messages])
        return str(self.agent.functions["weather"](city="Paris"))


class Agent:
    def __init__(self, functions: dict[str, Callable]):
        self.functions = functions
        self.history = []

    OPENER
"""


@pytest.mark.parametrize(
    "opener",
    [
        "def start_chat(self): return Chat(self)",
        "async def new_session(self, title: str = '') -> Chat: return Chat(self)",
        "@contextlib.contextmanager\n    def conversation(self): yield Chat(self)",
    ],
    ids=["returned", "asynchronous", "entered"],
)
def test_a_method_may_open_the_session_that_takes_the_prompts(load: Load, tmp_path: Path, opener: str) -> None:
    module = load_opener(tmp_path, opener)
    drive = recognise_agent(module.Agent, "openai-chat")
    assert isinstance(drive, AgentDrive)

    drive(HERE, "gpt", conversation("Hello", "And now?"))
    drive(HERE, "gpt", conversation("Good morning"))

    assert module.SEEN == [["Hello"], ["Hello", "And now?"], ["Good morning"]]
    assert "in the session that" in drive.sentence


CONTEXT = """
    def __enter__(self):
        self.history.append("entered")
        return self

    def __exit__(self, *_):
        SEEN.append("left")

    def start_chat(self):
        assert self.history == ["entered"]
        return Chat(self)
"""


@pytest.mark.parametrize("is_async", [False, True])
def test_an_object_that_opens_sessions_is_entered_first(load: Load, tmp_path: Path, is_async: bool) -> None:
    names = {"def __enter__": "async def __aenter__", "def __exit__": "async def __aexit__"}
    opener = CONTEXT
    for sync, own in names.items() if is_async else ():
        opener = opener.replace(sync, own)
    module = load_opener(tmp_path, opener.strip())
    drive = recognise_agent(module.Agent, "openai-chat")
    assert isinstance(drive, AgentDrive)

    drive(HERE, "gpt", conversation("Hello"))

    assert module.SEEN == [["Hello"], "left"]


@pytest.mark.parametrize(
    "opener",
    [
        "def start_chat(self, user_id): return Chat(self)",
        "def start_chat(self): return {}",
        "def start_chat(self): return Chat(self)\n    def run(self, prompt): return self.functions['weather'](prompt)",
    ],
    ids=["needs an argument", "is no object of the module", "is not needed"],
)
def test_other_methods_open_no_session(load: Load, tmp_path: Path, opener: str) -> None:
    drive = recognise_agent(load_opener(tmp_path, opener).Agent, "openai-chat")

    assert drive is None or "session" not in drive.sentence


def load_opener(folder: Path, opener: str) -> ModuleType:
    code = OPENING.replace("OPENER", opener).replace(
        "import contextlib", "import contextlib\nfrom typing import Callable"
    )
    (folder / "strangers_threads.py").write_text(code)
    importlib.invalidate_caches()
    return importlib.import_module("strangers_threads")


STATES = """
SEEN = []


def new_state(**options):
    return {"messages": [], **options}


def make_context(user):
    return {"messages": [], "user": user}


def new_memory():
    return requests.Session()


def converse(PARAMETERS, prompt, functions=()):
    PARAMETERS["messages"].append(prompt)
    SEEN.append([*PARAMETERS["messages"]])
    schemas = [{"name": name, "description": each.__doc__} for name, each in functions.items()]
    return str(functions["weather"](city="Paris"))
"""


@pytest.mark.usefixtures("load")
def test_a_function_of_the_module_makes_the_state_of_a_conversation(tmp_path: Path) -> None:
    (tmp_path / "strangers_threads.py").write_text(STATES.replace("PARAMETERS", "state"))
    module = importlib.import_module("strangers_threads")
    drive = recognise_agent(module.converse, "openai-chat")
    assert isinstance(drive, FunctionDrive)

    drive(HERE, "gpt", conversation("Hello", "And now?"))
    drive(HERE, "gpt", conversation("Good morning"))

    assert module.SEEN == [["Hello"], ["Hello", "And now?"], ["Good morning"]]


@pytest.mark.usefixtures("load")
@pytest.mark.parametrize("parameter", ["context", "memory"])
def test_a_state_that_needs_arguments_or_holds_no_messages_is_not_made(tmp_path: Path, parameter: str) -> None:
    (tmp_path / "strangers_threads.py").write_text(STATES.replace("PARAMETERS", parameter))

    assert recognise_agent(importlib.import_module("strangers_threads").converse, "openai-chat") is None


NAMED = """
from typing import Callable

SEEN = []


class Agent:
    def __init__(self, functions: dict[str, Callable]):
        self.functions = functions

    def reply(self, PARAMETERS) -> str:
        SEEN.append([PARAMETERS])
        return str(self.functions["weather"](city="Paris"))
"""


@pytest.mark.parametrize(
    ("parameters", "seen"),
    [
        ("user, content", ["example", "Hello"]),
        ("room, sender_id, text", ["example", "example", "Hello"]),
        ("user", ["Hello"]),
    ],
)
def test_a_user_may_be_named_next_to_the_prompt(load: Load, tmp_path: Path, parameters: str, seen: list[str]) -> None:
    (tmp_path / "strangers_threads.py").write_text(NAMED.replace("PARAMETERS", parameters))
    importlib.invalidate_caches()
    module = importlib.import_module("strangers_threads")
    drive = recognise_agent(module.Agent, "openai-chat")
    assert isinstance(drive, AgentDrive)

    drive(HERE, "gpt", conversation("Hello"))

    assert [seen] == module.SEEN


INCOMING = """
from dataclasses import dataclass
from typing import Callable

SEEN = []


@dataclass
class Incoming:
    FIELDS


class Bot:
    def __init__(self, functions: dict[str, Callable]):
        self.functions = functions

    async def reply(self, message: Incoming) -> str:
        SEEN.append(vars(message))
        return self._complete(message.text)

    def _complete(self, text):
        post(json={"model": "gpt-5.4"})
        return str(self.functions["weather"](city="Paris"))


def post(json): ...
"""


def load_bot(folder: Path, fields: str) -> ModuleType:
    (folder / "strangers_threads.py").write_text(INCOMING.replace("FIELDS", fields))
    importlib.invalidate_caches()
    return importlib.import_module("strangers_threads")


@pytest.mark.usefixtures("load")
def test_a_bot_gets_a_message_of_its_own_class(tmp_path: Path) -> None:
    module = load_bot(tmp_path, "user_id: str; text: str; reply_to: int | None = None")
    drive = recognise_agent(module.Bot, "openai-chat")
    assert isinstance(drive, AgentDrive)

    drive(HERE, "gpt", conversation("Hello"))

    assert module.SEEN == [{"user_id": "example", "text": "Hello", "reply_to": None}]


@pytest.mark.usefixtures("load")
def test_a_bot_gets_no_message_that_needs_other_values(tmp_path: Path) -> None:
    drive = recognise_agent(load_bot(tmp_path, "sent_at: float; text: str").Bot, "openai-chat")

    assert drive is None or drive.prompt.packed is None


CHAIN = """
from dataclasses import dataclass, field
from typing import Any

SEEN = []


@dataclass
class Turn:
    response_id: str
    text: str = ""
    calls: list = field(default_factory=list)


@dataclass
class Output:
    call_id: str
    output: str


class Chain:
    def __init__(self, base_url=""): ...

    def next(self, text: str | list[Output], *, after: str | None = None, instructions: str | None = None, tools=None):
        body: dict[str, Any] = {"input": text, "previous_response_id": after}
        SEEN.append((text, body["previous_response_id"], instructions))
        name = f"resp_{len(SEEN)}"
        if isinstance(text, str):
            return Turn(name, calls=[{"id": "call_1", "name": "weather", "arguments": {"city": "Paris"}}])
        return RETURNED
"""


@pytest.mark.parametrize("returned", ["Turn(name, 'sunny')", "('sunny', name)"])
def test_each_request_of_a_chain_gets_the_id_of_the_response_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returned: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "strangers_chain.py").write_text(CHAIN.replace("RETURNED", returned))
    importlib.invalidate_caches()
    module = importlib.import_module("strangers_chain")
    drive = recognise_session(module.Chain, "openai-responses")
    assert isinstance(drive, SessionDrive)

    drive(HERE, "gpt", replace(conversation("Hello", "And now?"), system="Be brief."))
    sys.modules.pop("strangers_chain")

    results = [module.Output("call_1", "sunny")]
    sent = ["Hello", results, "And now?", results]
    assert [*zip(sent, [None, "resp_1", "resp_2", "resp_3"], ["Be brief."] * 4, strict=True)] == module.SEEN
