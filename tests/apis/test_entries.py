"""What a request repeats is read once, and as what it says: `1` is not `true`, nor is another place the same."""

from __future__ import annotations

import json

import pytest

from harness import catalog
from harness.apis.view import RequestView
from harness.contract.http import HttpRequest
from harness.contract.model import JSON

CALL: dict[str, dict[str, JSON]] = {
    "anthropic": {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}]},
    "gemini": {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]},
    "openai-chat": {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
    },
    "openai-responses": {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
}
FIELD = {"anthropic": "messages", "gemini": "contents", "openai-chat": "messages", "openai-responses": "input"}


def view(api: str, *entries: JSON) -> RequestView:
    path = "/v1beta/models/m:generateContent" if api == "gemini" else "/v1/chat"
    body: JSON = {"model": "m", FIELD[api]: [*entries]}
    return catalog.api(api).view(HttpRequest("POST", f"https://example.com{path}", {}, json.dumps(body).encode()))


@pytest.mark.parametrize("api", CALL)
def test_an_entry_that_says_the_same_at_its_place_has_the_same_view(api: str) -> None:
    one, other = view(api, CALL[api]), view(api, CALL[api], CALL[api])
    assert other.turns[0] is one.turns[0]
    assert other.turns[1].pointer != one.turns[0].pointer
    assert other.calls[1].arguments == {"a": 1}


@pytest.mark.parametrize("api", CALL)
@pytest.mark.parametrize("value", [True, 1.0])
def test_an_entry_that_says_something_else_has_not(api: str, value: JSON) -> None:
    text = json.dumps(CALL[api]).replace(": 1}", f": {json.dumps(value)}}}")
    before, now = view(api, CALL[api]), view(api, json.loads(text))
    assert now.turns[0] is not before.turns[0]
    (call,) = now.calls
    assert isinstance(call.arguments, dict)
    assert type(call.arguments["a"]) is type(value)


@pytest.mark.parametrize("api", CALL)
def test_a_long_one_is_read_each_time(api: str) -> None:
    long: dict[str, JSON] = json.loads(json.dumps(CALL[api]).replace('"f"', f'"{"f" * 20_001}"'))
    one, other = view(api, long), view(api, long)
    assert one.turns == other.turns
    assert one.turns[0] is not other.turns[0]
