from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from harness.contract import errors
from harness.contract.model import ChatRequest, ChatResponse, Message, Tool
from harness.contract.protocols import Adapter, ChatClient, Endpoint
from tests.adapters.openai_fake import KEY, Provider, server

HELLO = ChatRequest("gpt-5.6", (Message.user("Hello"),), system="S", tools=(Tool("now", "The time.", {}),))
ANSWERS: dict[str, Any] = {
    "openai_chat": {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}]},
    "openai_responses": {
        "status": "completed",
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}],
    },
}


@pytest.fixture(params=ANSWERS)
def module(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def adapter(module: str) -> Adapter:
    return importlib.import_module(f"harness.adapters.{module}").ADAPTER


@pytest.fixture
def good(module: str) -> bytes:
    return json.dumps(ANSWERS[module]).encode()


def ask(adapter: Adapter, provider: Provider) -> ChatResponse:
    return provider.client(adapter, "gpt-5.6").chat(HELLO)


# --- failures ---------------------------------------------------------------------------------------------------------


def test_the_type_stands_in_for_a_missing_code_and_any_body_has_a_message(adapter: Adapter) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        ask(adapter, Provider({"error": {"message": "No.", "type": "invalid_request_error", "code": None}}, 400))
    assert caught.value.code == "invalid_request_error"
    with pytest.raises(errors.ServerError) as caught_html:
        ask(adapter, Provider(b"<html>bad gateway</html>", 502))
    assert caught_html.value.message == "<html>bad gateway</html>"
    with pytest.raises(errors.ServerError) as caught_odd:
        ask(adapter, Provider({"error": {"message": None}}, 500))
    assert "500" in caught_odd.value.message


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        ({"message": "Bad.", "code": "tool_use_failed", "status_code": 400}, errors.InvalidRequest, "tool_use_failed"),
        ({"message": "Bad.", "code": "invalid_api_key"}, errors.AuthenticationFailed, "invalid_api_key"),
        ({"message": "Bad.", "code": "model_not_found"}, errors.NotFound, "model_not_found"),
        ({"message": "Bad.", "code": "503"}, errors.Overloaded, "503"),
        ({"message": "Bad."}, errors.ServerError, None),
        ("Bad.", errors.ServerError, None),
    ],
)
def test_an_error_in_place_of_the_answer_is_what_it_says(
    adapter: Adapter, error: object, kind: type[errors.ProviderError], code: str | None
) -> None:
    with pytest.raises(kind) as caught:
        ask(adapter, Provider({"error": error}))
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.code) == ("Bad.", code)


def test_a_body_that_never_ends_is_a_failed_connection(adapter: Adapter) -> None:
    class Late(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"{"
            raise httpx2.ReadTimeout("late")

    provider = Provider(b"")
    provider.respond = lambda: httpx2.Response(200, stream=Late())
    with pytest.raises(errors.ConnectionFailed):
        ask(adapter, provider)


# --- isolation --------------------------------------------------------------------------------------------------------


def chat_at(adapter: Adapter, base_url: str) -> ChatResponse:
    client = adapter.connect(Endpoint(base_url, KEY), HELLO.model)
    assert isinstance(client, ChatClient)
    try:
        return client.chat(HELLO)
    finally:
        client.close()


def test_a_redirect_is_refused(adapter: Adapter, good: bytes) -> None:
    with (
        server(200, {}, good) as (elsewhere, reached),
        server(307, {"location": elsewhere}, b"") as (base_url, seen),
        pytest.raises(errors.ConnectionFailed),
    ):
        chat_at(adapter, base_url)
    assert (len(seen), len(reached)) == (1, 0)


def test_a_body_that_is_cut_is_malformed(adapter: Adapter) -> None:
    with (
        server(200, {"content-length": "1000", "connection": "close"}, b'{"choices": [') as (base_url, _),
        pytest.raises(errors.MalformedResponse),
    ):
        chat_at(adapter, base_url)
