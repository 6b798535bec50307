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


def calling(api: str, name: str) -> JSON:
    called: JSON = json.loads(json.dumps(CALL[api]).replace('"f"', f'"{name}"'))
    return called


@pytest.mark.parametrize("api", CALL)
def test_entries_behind_others_are_read_once_and_what_follows_an_other_one_anew(api: str) -> None:
    first, second, third, other = (calling(api, name) for name in "abcd")
    before, now = view(api, first, second, third), view(api, first, other, third)
    assert now.turns[0] is before.turns[0]
    assert [call.name for call in now.calls] == ["a", "d", "c"]
    assert now.turns[2] is not before.turns[2]


@pytest.mark.parametrize("api", CALL)
def test_only_what_was_said_last_is_remembered(api: str) -> None:
    one = view(api, CALL[api])
    for number in range(20):
        view(api, calling(api, f"f{number}"))
    other = view(api, CALL[api])
    assert one.turns == other.turns
    assert one.turns[0] is not other.turns[0]
