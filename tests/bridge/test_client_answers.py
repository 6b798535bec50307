"""Answers of clients in their own classes: calls whose arguments are computed, and answers at the end of a stream."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from harness.bridge.clients.answer_fields import own_calls
from harness.bridge.clients.answers import read_answer
from harness.bridge.openai_messages import Memory
from harness.model.messages import ChatRequest, Message, Role, StopReason, Text

REQUEST = ChatRequest("gpt-5.2", (Message(Role.USER, (Text("Hello"),)),))


@dataclass(slots=True)
class SlottedCall:
    id: str
    name: str
    raw_arguments: str

    @property
    def arguments(self) -> Any:
        return json.loads(self.raw_arguments)


class NamedCall(NamedTuple):
    id: str
    name: str
    payload: str

    @property
    def args(self) -> Any:
        return json.loads(self.payload)


class PlainCall:
    def __init__(self, call_id: str, name: str, raw: str) -> None:
        self.call_id, self.name, self.raw = call_id, name, raw

    @cached_property
    def input(self) -> Any:
        return json.loads(self.raw)


class ModelCall(BaseModel):
    id: str
    name: str
    raw: str

    @property
    def arguments(self) -> Any:
        return json.loads(self.raw)


@dataclass
class MethodCall:
    """A call with no property. Its caller parses the text by a method."""

    id: str
    name: str
    arguments_json: str

    def parse(self) -> Any:
        return json.loads(self.arguments_json)


class BaseCall:
    __slots__ = ("id", "name")


class DerivedCall(BaseCall):
    __slots__ = ("_raw",)

    def __init__(self, call_id: str, name: str, raw: str) -> None:
        self.id, self.name, self._raw = call_id, name, raw

    @property
    def arguments(self) -> Any:
        return json.loads(self._raw)


@dataclass
class Reply:
    text: str
    requests: list[Any]
    finish_reason: str


class ModelReply(BaseModel):
    text: str
    requests: list[ModelCall]
    finish_reason: str


CALL_CLASSES: list[Any] = [SlottedCall, NamedCall, PlainCall, ModelCall, MethodCall, DerivedCall]


def made_call(kind: Any, arguments: str) -> Any:
    given = ("call_1", "weather", arguments)
    return kind(**dict(zip(kind.model_fields, given, strict=True))) if kind is ModelCall else kind(*given)


@pytest.mark.parametrize("kind", CALL_CLASSES)
def test_the_arguments_of_a_call_may_be_computed(kind: Any) -> None:
    call = made_call(kind, '{"city": "Paris"}')
    reply = (ModelReply if kind is ModelCall else Reply)(text="", requests=[call], finish_reason="tool_calls")

    assert own_calls([call]) == own_calls(reply) == [(call, "call_1", "weather", {"city": "Paris"})]
    found = read_answer(reply, REQUEST, Memory())
    assert [(each.id, each.name, each.arguments) for each in found.tool_calls] == [
        ("call_1", "weather", {"city": "Paris"})
    ]


@pytest.mark.parametrize("kind", CALL_CLASSES)
def test_computed_arguments_that_are_no_json_cannot_be_read(kind: Any) -> None:
    call = made_call(kind, '{"city": ')
    found = read_answer(Reply("", [call], "length"), REQUEST, Memory())

    assert found.tool_calls == ()
    assert found.stop_reason is StopReason.MAX_TOKENS
    assert own_calls([call]) == [(call, "call_1", "weather", None)]


@dataclass
class Wrong:
    """A call whose property reads another field than the arguments of the model."""

    id: str
    name: str
    raw_arguments: str
    defaults: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def arguments(self) -> Any:
        return self.defaults


def test_the_caller_gets_the_property_and_not_the_text_of_the_model() -> None:
    ((*_, arguments),) = own_calls([Wrong("call_1", "weather", '{"city": "Paris"}')])
    assert arguments == {}


def test_an_object_with_a_name_and_no_arguments_is_no_call() -> None:
    found = read_answer({"name": "Ada", "raw": '{"a": 1}', "text": "Hello"}, REQUEST, Memory())
    assert (found.text, found.tool_calls) == ("Hello", ())
