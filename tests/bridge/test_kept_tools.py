"""Clients that get their tools by their constructor and keep them as an attribute."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from harness.bridge.clients.client_state import setting_attributes
from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.model.messages import ChatRequest, Message, Role, Text, Tool
from harness.model.protocols import Endpoint

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"at": {"type": "string"}}}
REQUEST = ChatRequest("m", (Message(Role.USER, (Text("Hello"),)),), tools=(Tool("look", "Looks.", SCHEMA),))
HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")
SEEN: list[object] = []


@dataclass
class Spec:
    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass
class Client:
    base_url: str = "http://127.0.0.1:9"
    tools: Sequence[Spec] = ()

    def create(self, messages: list[dict[str, Any]]) -> dict[str, str]:
        SEEN.append([*self.tools])
        return {"text": "Hello"}


class Plain:
    def __init__(self, base_url: str = "", tools: list[dict[str, Any]] | None = None) -> None:
        self.tools = list(tools or [])

    def create(self, messages: list[dict[str, Any]]) -> dict[str, str]:
        SEEN.append([each["name"] for each in self.tools])
        return {"text": "Hello"}


class Renamed:
    def __init__(self, base_url: str = "", *, system: str = "", functions: Sequence[Spec] = ()) -> None:
        self.system, self.functions = system, list(functions)

    def create(self, messages: list[dict[str, Any]]) -> dict[str, str]:
        SEEN.append([*self.functions])
        return {"text": "Hello"}


class Converting:
    def __init__(self, base_url: str = "", tools: list[dict[str, Any]] | None = None) -> None:
        self.tools = [{"type": "function", "function": each} for each in tools or []]

    def create(self, messages: list[dict[str, Any]]) -> dict[str, str]:
        return {"text": str(self.tools)}


SPECS = [Spec("look", "Looks.", SCHEMA)]


@pytest.mark.parametrize(("kind", "kept"), [(Client, SPECS), (Renamed, SPECS), (Plain, ["look"])])
def test_tools_that_a_client_keeps_are_set_as_its_attribute(kind: type, kept: list[object]) -> None:
    SEEN.clear()
    shape = recognise_shape(kind, "mine:Client")
    with closing(ShapedClient(shape, HERE, "m")) as client:
        client.chat(REQUEST)
        client.chat(ChatRequest("m", REQUEST.messages))

    assert shape.takes("tools")
    assert SEEN[-2:] == [kept, []]


def test_tools_that_the_constructor_converts_are_not_set() -> None:
    assert "tools" not in setting_attributes(Converting())
