from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

from harness.model import messages
from harness.model.errors import HarnessError, InvalidValue
from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    JsonMode,
    Message,
    Role,
    StopReason,
    Text,
    Thinking,
    ThinkingSettings,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)

CALL = ToolCall("c1", "add", {})
MIXED = Message(Role.ASSISTANT, (Thinking("hm"), Text("a"), CALL, Text("b"), ToolResult("c1", "add", 1)))

VALUES = [
    value
    for value in vars(messages).values()
    if isinstance(value, type) and is_dataclass(value) and value.__module__ == messages.__name__
]


def test_a_response_shows_its_message() -> None:
    response = ChatResponse(MIXED, StopReason.END_TURN, Usage())
    assert (response.text, response.tool_calls) == ("ab", (CALL,))


def test_there_are_two_roles() -> None:
    assert [role.value for role in Role] == ["user", "assistant"]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.__name__)
def test_values_are_frozen_and_have_slots(value: type) -> None:
    assert not hasattr(value, "__dict__") or "__slots__" in vars(value)
    instance = object.__new__(value)
    names = [field.name for field in fields(value)] or ["new"]
    with pytest.raises((FrozenInstanceError, TypeError)):
        setattr(instance, names[0], None)


def test_metadata_is_not_shared() -> None:
    assert Text("a").provider_metadata == {}
    assert Text("a").provider_metadata is not Text("a").provider_metadata


def test_a_role_and_a_text_may_be_given_by_their_words() -> None:
    assert Message("user", "Hi") == Message.user("Hi")
    assert Message("assistant", [Text("a"), CALL]) == Message(Role.ASSISTANT, (Text("a"), CALL))
    assert Message("user", "Hi").role is Role.USER


def test_what_can_be_meant_in_one_way_only_is_taken() -> None:
    tool = Tool("add", "", {})
    given = ChatRequest("m", [MIXED], tools=[tool], response_format="json", stop="END")
    assert given == ChatRequest("m", (MIXED,), tools=(tool,), response_format=JsonMode(), stop=("END",))
    assert ChatRequest(stop=["a", "b"]).stop == ("a", "b")


def test_a_template_needs_neither_model_nor_messages() -> None:
    assert ChatRequest(system="Be brief.") == ChatRequest("", (), system="Be brief.")


def test_a_part_may_be_of_a_class_of_somebodys_own() -> None:
    class Shouted(Text):
        pass

    assert Message("user", [Shouted("HI")]).text == "HI"


NOT = "is not allowed. Allowed:"
NO_ROLE = "is not a role. Allowed: 'user', 'assistant'."
PARTS = "one text, or parts: Text, Image, File, ToolCall, ToolResult, Thinking, Refusal, Opaque"
FORMATS = "'json', JsonMode(), JsonSchema({…}) or None"
MESSAGES = "a list or a tuple of Message."
TOOL = "Results are ToolResult parts of a user message."
INVALID: list[tuple[Callable[..., object], dict[str, object], str]] = [
    (Message, {"role": "human", "parts": ()}, f"role: 'human' {NO_ROLE}"),
    (Message, {"role": "system", "parts": ""}, f"role: 'system' {NO_ROLE} The system prompt is ChatRequest.system."),
    (Message, {"role": "tool", "parts": ()}, f"role: 'tool' {NO_ROLE} {TOOL}"),
    (Message, {"role": "user", "parts": [{"type": "text", "text": "Hi"}]}, f"parts: a dict {NOT} {PARTS}."),
    (Message, {"role": "user", "parts": None}, f"parts: a NoneType {NOT} a list or a tuple of parts."),
    (ChatRequest, {"messages": [{"role": "user", "content": "Hi"}]}, f"messages: a dict {NOT} {MESSAGES}"),
    (ChatRequest, {"messages": "Hi"}, f"messages: 'Hi' {NOT} {MESSAGES}"),
    (ChatRequest, {"messages": MIXED}, f"messages: a Message {NOT} {MESSAGES}"),
    (ChatRequest, {"tools": ("add",)}, f"tools: 'add' {NOT} a list or a tuple of Tool."),
    (ChatRequest, {"stop": 5}, f"stop: 5 {NOT} a list or a tuple of str."),
    (
        ChatRequest,
        {"tool_choice": "any"},
        f"tool_choice: 'any' {NOT} 'auto', 'none', 'required', NamedTool('a name') or None.",
    ),
    (ChatRequest, {"response_format": "json_object"}, f"response_format: 'json_object' {NOT} {FORMATS}."),
    (ChatRequest, {"response_format": {"type": "object"}}, f"response_format: a dict {NOT} {FORMATS}."),
    (ChatRequest, {"thinking": "high"}, f"thinking: 'high' {NOT} ThinkingSettings(effort=…) or None."),
    (ThinkingSettings, {"effort": "most"}, "effort: 'most' is not an effort. Allowed: 'low', 'medium', 'high'."),
]


@pytest.mark.parametrize(("value", "given", "text"), INVALID)
def test_anything_else_is_refused_with_what_is_allowed(
    value: type[object], given: dict[str, object], text: str
) -> None:
    with pytest.raises(InvalidValue) as raised:
        value(**given)
    assert str(raised.value) == f"{value.__name__}.{text}"
    assert isinstance(raised.value, HarnessError)
    assert isinstance(raised.value, ValueError)


def test_usages_are_summed_as_far_as_they_are_known() -> None:
    assert Usage(1, 2, cache_read_tokens=3) + Usage(4, cache_read_tokens=5) == Usage(5, 2, cache_read_tokens=8)
    assert Usage() + Usage() == Usage()
