"""Clients that take what the user says as an object of their own."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import httpx2
import pytest
from pydantic import BaseModel

from harness.bridge.clients.prompt_records import make_record, record_class
from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.model.messages import ChatRequest, Message, Role, Text
from harness.model.protocols import Endpoint


class Queue(Enum):
    SALES = "sales"
    SUPPORT = "support"


@dataclass
class Mail:
    sender: str
    body: str
    queue: Queue
    attempts: int
    labels: list[str]
    reply_to: str = ""
    seen: list[str] = field(default_factory=list[str])


class Ticket(BaseModel):
    text: str


SEEN: list[Mail] = []


class Coordinates(NamedTuple):
    east: float
    north: float


@dataclass
class Request:
    model: str
    text: str


@dataclass
class Said:
    role: str
    content: str


@dataclass
class Thread:
    title: str
    messages: list[Any]


@pytest.mark.parametrize("kind", [Mail, Ticket])
def test_a_class_with_a_required_text_is_for_what_the_user_says(kind: type[Any]) -> None:
    assert record_class(kind | None) is kind


@pytest.mark.parametrize("hint", [str, dict[str, Any], Coordinates, Request, Said, Thread, Queue, Mail | Ticket, None])
def test_other_annotations_are_not(hint: object) -> None:
    assert record_class(hint) is None


def test_each_required_text_of_the_object_is_that_of_the_user() -> None:
    assert make_record(Mail, "Hello") == Mail("Hello", "Hello", Queue.SALES, 0, [])


class Triage:
    def handle(self, mail: Mail) -> str:
        SEEN.append(mail)
        messages = [{"role": "user", "content": mail.body}]
        return httpx2.post("chat/completions", json={"messages": messages}).text if mail.reply_to else mail.body


def test_a_method_gets_such_an_object() -> None:
    SEEN.clear()
    shape = recognise_shape(Triage(), "mine", "handle")
    with closing(ShapedClient(shape, Endpoint("http://127.0.0.1:9/v1", "no-key"), "m", "openai-chat")) as client:
        answer = client.chat(ChatRequest("m", (Message(Role.USER, (Text("Hello"),)),)))

    assert (answer.text, SEEN) == ("Hello", [make_record(Mail, "Hello")])
