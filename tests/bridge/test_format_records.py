"""Clients that take the schema of the answer in an object of their own, and an amount of reasoning as a word."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from harness.bridge.clients.format_records import format_record, make_format
from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.model.errors import Unsupported
from harness.model.messages import ChatRequest, JsonSchema, Message, Role, Text, ThinkingSettings
from harness.model.protocols import Capability, Endpoint

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
REQUEST = ChatRequest("m", (Message(Role.USER, (Text("Hello"),)),))
HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")
SEEN: list[Any] = []


@dataclass
class Format:
    name: str
    schema: dict[str, Any]
    strict: bool = True


class Output(BaseModel):
    json_schema: dict[str, Any]
    title: str = ""


@dataclass
class Spec:
    name: str
    description: str
    schema: dict[str, Any]
    handler: Any


@dataclass
class Style:
    name: str
    strict: bool


@pytest.mark.parametrize("kind", [Format, Output])
def test_a_class_with_a_schema_and_a_name_is_the_format_of_an_answer(kind: type[Any]) -> None:
    assert format_record(kind | None) is kind


@pytest.mark.parametrize("hint", [dict[str, Any], list[Format], Format | Output, Spec, Style, str, None])
def test_other_annotations_are_not(hint: object) -> None:
    assert format_record(hint) is None


def test_a_format_has_a_name_if_its_class_needs_one() -> None:
    assert make_format(Format, SCHEMA) == Format("answer", SCHEMA)
    assert make_format(Output, SCHEMA) == Output(json_schema=SCHEMA)


class Client:
    def __init__(self, base_url: str, effort: Literal["low", "high"] | None = None) -> None:
        self.effort = effort

    def chat(self, messages: list[dict[str, Any]], shape: Format | None = None) -> str:
        SEEN.append((shape, self.effort))
        return "Yes."


class Turn(BaseModel):
    role: str
    content: str


class Thinking:
    def __init__(self, base_url: str, thinking_budget: int = 0) -> None:
        self.thinking_budget = thinking_budget

    def chat(self, messages: list[Turn]) -> str:
        SEEN.append(self.thinking_budget)
        return "Yes."


def test_an_amount_of_reasoning_may_be_a_number_beside_messages_of_own_classes() -> None:
    shape = recognise_shape(Thinking, "mine")
    with closing(ShapedClient(shape, HERE, "m", "anthropic")) as client:
        client.chat(replace(REQUEST, thinking=ThinkingSettings(budget_tokens=2000)))
        client.chat(REQUEST)

    assert Capability.THINKING in shape.capabilities_for("anthropic")
    assert Capability.THINKING not in shape.capabilities_for("openai-responses")
    assert [SEEN.pop(), SEEN.pop()] == [0, 2000]


class Asking(Client):
    def __init__(self, base_url: str) -> None:
        super().__init__(base_url)

    def chat(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, messages: list[dict[str, Any]], reasoning_effort: str = ""
    ) -> str:
        self.effort = reasoning_effort or None  # pyright: ignore[reportAttributeAccessIssue]
        return super().chat(messages)


def test_a_client_gets_the_format_as_an_object() -> None:
    shape = recognise_shape(Client, "mine")
    with closing(ShapedClient(shape, HERE, "m", "openai-responses")) as client:
        client.chat(replace(REQUEST, response_format=JsonSchema(SCHEMA, "answer")))

    assert Capability.JSON_SCHEMA in shape.capabilities
    assert SEEN.pop() == (Format("answer", SCHEMA), None)


@pytest.mark.parametrize("kind", [Client, Asking])
def test_an_amount_of_reasoning_may_be_a_word(kind: type) -> None:
    shape = recognise_shape(kind, "mine")
    with closing(ShapedClient(shape, HERE, "m", "openai-responses")) as client:
        client.chat(replace(REQUEST, thinking=ThinkingSettings(effort="low")))
        client.chat(REQUEST)
        with pytest.raises(Unsupported, match="this amount of reasoning"):
            client.chat(replace(REQUEST, thinking=ThinkingSettings(budget_tokens=2000)))

    assert Capability.THINKING in shape.capabilities_for("openai-responses")
    assert Capability.THINKING not in shape.capabilities_for("anthropic")  # an effort alone enables no thinking there
    assert [SEEN.pop()[1], SEEN.pop()[1]] == [None, "low"]
