"""Functions that return the same client in each call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Self, cast

import pytest

from harness.bridge.clients.client_makers import maker_of
from harness.bridge.clients.constructors import returns_one_object
from harness.bridge.clients.objects import ObjectCopies
from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.model.protocols import Endpoint


class Client:
    is_open = True

    def chat(self, messages: list[Any], tools: Any = None) -> dict[str, Any]:
        assert self.is_open
        return {"text": "", "tool_calls": tools, "messages": messages}

    def close(self) -> None:
        self.is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@lru_cache
def cached() -> Client:
    return Client()


KEPT = Client()


def kept() -> Client:
    return KEPT


def new() -> Client:
    return Client()


def with_base(base_url: str = "") -> Client:
    return KEPT if base_url else Client()


@pytest.mark.parametrize("get", [cached, kept])
def test_a_client_that_a_function_keeps_is_not_closed(get: Any) -> None:
    shape = recognise_shape(get, "mine")
    ShapedClient(shape, Endpoint("http://127.0.0.1:9/v1", "none"), "gpt").close()

    assert get().is_open
    assert returns_one_object(get, get())


def test_a_conversation_with_a_tool_loop_gets_a_copy_of_the_client() -> None:
    one, other = maker_of(kept, "openai-chat"), maker_of(new, "openai-chat")

    assert one is not None
    assert isinstance(one.make, ObjectCopies)
    assert other is not None
    assert other.make is new


def test_a_new_client_is_closed() -> None:
    shape = recognise_shape(new, "mine")
    client = ShapedClient(shape, Endpoint("http://127.0.0.1:9/v1", "none"), "gpt")
    client.close()

    assert not any(returns_one_object(each, Client()) for each in (new, with_base, Client))
    assert cast("Client", client._client).is_open is False
