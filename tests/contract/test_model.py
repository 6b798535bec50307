from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

from harness.contract import model
from harness.contract.model import ChatResponse, Message, Role, StopReason, Text, Thinking, ToolCall, ToolResult, Usage

CALL = ToolCall("c1", "add", {})
MIXED = Message(Role.ASSISTANT, (Thinking("hm"), Text("a"), CALL, Text("b"), ToolResult("c1", "add", 1)))

VALUES = [value for value in vars(model).values() if isinstance(value, type) and is_dataclass(value)]


def test_parts_are_told_apart() -> None:
    assert MIXED.text == "ab"
    assert MIXED.tool_calls == (CALL,)
    assert MIXED.tool_results == (ToolResult("c1", "add", 1),)


def test_a_response_shows_its_message() -> None:
    response = ChatResponse(MIXED, StopReason.END_TURN, Usage())
    assert (response.text, response.tool_calls) == ("ab", (CALL,))


def test_a_user_message_is_one_text() -> None:
    assert Message.user("Hi") == Message(Role.USER, (Text("Hi"),))


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
