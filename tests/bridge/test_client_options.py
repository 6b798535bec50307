"""Options and settings of a client that its method does not take as parameters of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import pytest

from harness.bridge.clients.client_state import set_attribute, system_attribute
from harness.bridge.clients.forms import ANTHROPIC
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.result_code import ResultUses
from harness.bridge.clients.shape_recognition import form_of_method, recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.bridge.clients.signature_reading import is_system_prompt
from harness.bridge.clients.submitted_results import content_of_result
from harness.bridge.clients.tool_functions import with_strict_schemas
from harness.model.errors import Unsupported
from harness.model.messages import ChatRequest, Message, Role, Text, ThinkingSettings, Tool
from harness.model.protocols import Capability, ConversationTool, Endpoint

SEEN: list[Any] = []
TOOL = Tool("look", "Looks.", {"type": "object", "properties": {}})
REQUEST = ChatRequest("gpt", (Message(Role.USER, (Text("Hello"),)),), system="Be brief.", tools=(TOOL,), temperature=0)


@dataclass
class Spec:
    """A tool."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Options:
    """What a request has beside its messages."""

    system: str | None = None
    tools: list[Spec] = field(default_factory=list[Spec])
    temperature: float | None = None


class Settings(TypedDict, total=False):
    """The same as a dictionary."""

    system: str
    tools: list[dict[str, Any]]
    temperature: float


@dataclass
class Login:
    """An object that holds no options of a request."""

    tools: str
    user: str


def with_object(messages: list[dict[str, Any]], base_url: str, options: Options | None = None) -> str:
    SEEN.append(options)
    return "Yes."


def with_dictionary(messages: list[dict[str, Any]], base_url: str, settings: Settings | None = None) -> str:
    SEEN.append(settings)
    return "Yes."


def with_login(messages: list[dict[str, Any]], base_url: str, login: Login | None = None) -> str:
    SEEN.append(login)
    return "Yes."


def chat(value: object) -> Any:
    client = ShapedClient(recognise_shape(value, "mine"), Endpoint("http://127.0.0.1:9", "no-key"), "gpt")
    try:
        client.chat(REQUEST)
    finally:
        client.close()
    return SEEN.pop()


def test_options_may_be_an_object() -> None:
    assert chat(with_object) == Options("Be brief.", [Spec("look", TOOL.parameters)], 0)


def test_options_may_be_a_typed_dictionary() -> None:
    given = chat(with_dictionary)

    assert (given["system"], given["temperature"]) == ("Be brief.", 0)
    assert [each["function"]["name"] for each in given["tools"]] == ["look"]


@pytest.mark.parametrize("value", [with_login])
def test_another_object_holds_no_options(value: Callable[..., object]) -> None:
    assert method_of((), value).options is None


class Configured:
    """A client whose settings are attributes, which its method reads."""

    def __init__(self, base_url: str, temperature: float | None = None, max_tokens: int = 100) -> None:
        self.temperature, self.max_tokens = temperature, max_tokens

    def chat(self, messages: list[dict[str, Any]], system: str = "", tools: Any = None) -> str:
        SEEN.append((self.temperature, self.max_tokens))
        return "Yes."


class Fixed:
    """A client that reads its settings when it is made."""

    def __init__(self, base_url: str, temperature: float | None = None) -> None:
        self.temperature = temperature
        self.settings = {"temperature": self.temperature}

    def chat(self, messages: list[dict[str, Any]], system: str = "", tools: Any = None) -> str:
        SEEN.append(self.settings["temperature"])
        return "Yes."


class Level(Fixed):
    """A client whose temperature is a word."""

    def __init__(self, base_url: str, temperature: str = "hot") -> None:
        super().__init__(base_url)
        self.temperature = temperature  # pyright: ignore[reportAttributeAccessIssue]


def test_settings_may_be_attributes() -> None:
    shape = recognise_shape(Configured, "mine")

    assert chat(Configured) == (0, 100)
    assert shape.default_settings == {"temperature": None, "max_tokens": 100}
    assert shape.missing_settings == ["top_p", "stop"]


BLOCK = {"type": "thinking", "thinking": "Hm.", "signature": "abc"}


class Reasoning:
    """A client of Anthropic's API whose constructor takes the amount of reasoning."""

    def __init__(self, base_url: str, thinking_budget: int | None = None) -> None:
        self.thinking_budget = thinking_budget

    def create(self, messages: list[dict[str, Any]], system: Any = "", tools: Any = None) -> Any:
        SEEN.append(self.thinking_budget)
        return {"role": "assistant", "content": [BLOCK, {"type": "text", "text": "Yes."}], "stop_reason": "end_turn"}


class ReasoningCall(Reasoning):
    """A client whose method takes it."""

    def create(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, messages: list[dict[str, Any]], system: Any = "", tools: Any = None, budget_tokens: int | None = None
    ) -> Any:
        self.thinking_budget = budget_tokens
        return super().create(messages)


@pytest.mark.parametrize("kind", [Reasoning, ReasoningCall])
def test_an_amount_of_reasoning_may_be_a_number_of_tokens(kind: type) -> None:
    shape = recognise_shape(kind, "mine").with_format(ANTHROPIC)
    client = ShapedClient(shape, Endpoint("http://127.0.0.1:9", "no-key"), "claude-haiku-4-5", "anthropic")
    request = replace(REQUEST, model="claude-haiku-4-5", temperature=None)

    assert Capability.THINKING in shape.capabilities
    client.chat(replace(request, thinking=ThinkingSettings(budget_tokens=2000)))
    client.chat(request)
    assert [SEEN.pop(), SEEN.pop()] == [None, 2000]
    with pytest.raises(Unsupported, match="number of tokens"):
        client.chat(replace(request, model="claude-opus-4-8", thinking=ThinkingSettings()))


def pops(messages: list[dict[str, Any]]) -> None:
    """Send the system prompt apart, and take it out of the caller's list."""
    messages.pop(0)


def inserts(messages: list[dict[str, Any]]) -> None:
    messages.insert(0, {"role": "system", "content": "Be right."})


def inserts_once(messages: list[dict[str, Any]]) -> None:
    if messages[0]["content"] != "Be right.":
        inserts(messages)


def changes(messages: list[dict[str, Any]]) -> None:
    messages[-1]["content"] = "Bye"


def adds(messages: list[dict[str, Any]]) -> None:
    messages.append({"role": "assistant", "content": "Yes."})


def replaces(messages: list[dict[str, Any]]) -> None:
    messages[:] = [{"role": "user", "content": "All."}]


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (pops, ["Hello", "Yes.", "More"]),
        (inserts, ["Be right.", "Be brief.", "Hello", "Yes.", "More"]),
        (inserts_once, ["Be right.", "Be brief.", "Hello", "Yes.", "More"]),
        (changes, ["Be brief.", "Bye", "Yes.", "More"]),
        (replaces, ["All.", "Yes.", "More"]),
        (adds, ["Be brief.", "Hello", "Yes.", "More"]),
        (len, ["Be brief.", "Hello", "Yes.", "More"]),
    ],
)
def test_the_next_request_has_what_a_client_left_of_the_callers_messages(change: Any, seen: list[str]) -> None:
    def send(messages: list[dict[str, Any]], tools: Any = None) -> str:
        SEEN.append([each["content"] for each in messages])
        change(messages)
        return "Yes."

    first = replace(REQUEST, tools=(), temperature=None)
    answered = Message(Role.ASSISTANT, (Text("Yes."),))
    following = replace(first, messages=(*first.messages, answered, Message(Role.USER, (Text("More"),))))
    other = replace(first, messages=(Message(Role.USER, (Text("Good day"),)),))
    client = ShapedClient(recognise_shape(send, "mine"), Endpoint("http://127.0.0.1:9", "no-key"), "gpt")
    for each in (first, following, other):
        client.chat(each)

    assert SEEN[-2:] == [seen, ["Be brief.", "Good day"]]
    SEEN.clear()


@pytest.mark.parametrize(("code", "is_first"), [("role == 'system'", True), ("role == 'tool'", False)])
def test_a_system_prompt_may_be_the_first_of_the_messages_of_anthropic(code: str, is_first: bool) -> None:
    def send(messages: list[dict[str, Any]], tools: Any = None) -> str:
        SEEN.append(messages)
        return "Yes."

    shape = recognise_shape(send, "mine")
    shape = replace(shape, whole=replace(shape.whole, module=code)).with_format(ANTHROPIC)
    client = ShapedClient(shape, Endpoint("http://127.0.0.1:9", "no-key"), "claude-opus-4-8", "anthropic")
    request = replace(REQUEST, tools=(), model="claude-opus-4-8", temperature=None)

    assert (Capability.SYSTEM_PROMPT in shape.capabilities) is is_first
    if is_first:
        client.chat(request)
        assert SEEN.pop()[0] == {"role": "system", "content": "Be brief."}
    else:
        with pytest.raises(Unsupported, match="system"):
            client.chat(request)


@pytest.mark.parametrize("kind", [Fixed, Level])
def test_an_attribute_that_no_method_reads_or_of_another_type_is_no_setting(kind: type) -> None:
    assert recognise_shape(kind, "mine").default_settings == {}


@dataclass
class InnConfig:
    instructions: str = "You keep an inn."
    steps: int = 9


@dataclass(frozen=True)
class FixedConfig:
    instructions: str = "You keep an inn."


SHARED = InnConfig()


class Keeper:
    def __init__(self, config: InnConfig | FixedConfig = SHARED) -> None:
        self.config = config


@pytest.mark.parametrize(
    ("config", "source", "name"),
    [
        (SHARED, "create(system=self.config.instructions.strip())", "config.instructions"),
        (SHARED, '{"role": "system", "content": self.config.instructions}', "config.instructions"),
        (SHARED, "create(system=self.config.build(1))", None),
        (SHARED, "create(system=self.config.steps)", None),
        (FixedConfig(), "create(system=self.config.instructions)", None),
    ],
)
def test_the_system_prompt_may_be_an_attribute_of_a_settings_object(
    config: InnConfig | FixedConfig, source: str, name: str | None
) -> None:
    keeper = Keeper(config)

    assert system_attribute(keeper, source) == name
    if name is not None:
        set_attribute(keeper, name, "Be brief.")
        assert (keeper.config.instructions, SHARED.instructions) == ("Be brief.", "You keep an inn.")


@pytest.mark.parametrize(("value", "is_system"), [("config", True), ("config.text()", True), ("config.text", False)])
def test_a_settings_object_is_not_the_system_prompt_in_it(value: str, is_system: bool) -> None:
    source = f"class Keeper:\n    def __init__(self, config):\n        create(system={value})\n"

    assert is_system_prompt(source, "config") == is_system


def label(transcript: str) -> str:
    return transcript


def respond(transcript: list[Any]) -> str:
    return str(transcript)


@pytest.mark.parametrize(("function", "is_text"), [(label, True), (respond, False)])
def test_a_parameter_named_as_messages_may_be_a_text(function: Callable[..., str], is_text: bool) -> None:
    assert (form_of_method(method_of((), function)) is None) == is_text


LOOSE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
CLOSED = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('{"type": "function", "name": name, "parameters": schema, "strict": True}', CLOSED),
        ('{"type": "function", "name": name, "parameters": schema}', LOOSE),
        ('{\n    "name": name,\n    "strict": True,\n    "parameters": schema,\n}', CLOSED),
        ('{\n "parameters": {\n  "type": "object",\n  "properties": own,\n },\n "strict": True,\n}', CLOSED),
        ('{"parameters": schema}\npairs = zip(calls, results, strict=True)', LOOSE),
        ('{"parameters": schema}\n{"name": name, "strict": True, "schema": schema}', LOOSE),
        ('schema["additionalProperties"] = False\n{"parameters": schema, "strict": True}', LOOSE),
    ],
)
def test_code_that_declares_each_tool_as_strict_gets_closed_schemas(source: str, expected: dict[str, Any]) -> None:
    (tool,) = with_strict_schemas([ConversationTool("weather", "", LOOSE, _unused)], source)

    assert tool.parameters == expected


def test_a_strict_tool_takes_no_object_without_known_properties() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"where": {"type": "object"}}}
    with pytest.raises(Unsupported, match="strict tools take no objects"):
        with_strict_schemas([ConversationTool("find", "", schema, _unused)], '{"parameters": schema, "strict": True}')


def _unused(_: object) -> Any:
    raise AssertionError


@dataclass
class Failed:
    message: str


@dataclass
class Failure:
    message: str
    code: int


@pytest.mark.parametrize(
    ("hint", "is_error", "expected"),
    [(str | Failed, True, Failed("closed")), (str | Failed, False, "closed"), (str | Failure, True, "closed")],
)
def test_a_failed_result_has_the_class_for_failures(hint: object, is_error: bool, expected: object) -> None:
    method = method_of((), lambda outputs: outputs)
    result = {"value": "closed", "content": "closed", "is_error": is_error}

    assert content_of_result(result, method, hint, "anthropic", ResultUses()) == expected
