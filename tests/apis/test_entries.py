"""Bodies and their entries: parsed for each caller, and repeated entries read once, by value and place."""

from __future__ import annotations

import json

import pytest

from harness.apis import registry
from harness.apis.jsonvalue import cached_per_element, loads, parse_body
from harness.apis.view import RequestView, WireError
from harness.model.http import HttpRequest
from harness.model.messages import JSON

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
    return registry.api(api).view(HttpRequest("POST", f"https://example.com{path}", {}, json.dumps(body).encode()))


@pytest.mark.parametrize("api", CALL)
def test_an_equal_entry_at_its_place_shares_its_view(api: str) -> None:
    one, other = view(api, CALL[api]), view(api, CALL[api], CALL[api])
    assert other.turns[0] is one.turns[0]
    assert other.turns[1].pointer != one.turns[0].pointer
    assert other.calls[1].arguments == {"a": 1}


@pytest.mark.parametrize("api", CALL)
@pytest.mark.parametrize("value", [True, 1.0])
def test_another_entry_has_a_view_of_its_own(api: str, value: JSON) -> None:
    text = json.dumps(CALL[api]).replace(": 1}", f": {json.dumps(value)}}}")
    before, now = view(api, CALL[api]), view(api, json.loads(text))
    assert now.turns[0] is not before.turns[0]
    (call,) = now.calls
    assert isinstance(call.arguments, dict)
    assert type(call.arguments["a"]) is type(value)


@pytest.mark.parametrize("body", [b"[1, {}]", b'{"a": "\\ud800"}', b"\xef\xbb\xbf{}", b'{"a": 1' + b"0" * 50 + b"}"])
def test_a_body_is_parsed_for_each_caller(body: bytes) -> None:
    assert parse_body(body) == loads(body)
    changed = parse_body(body)
    if isinstance(changed, list):
        changed.append(1)
    elif isinstance(changed, dict):
        changed["b"] = 1
    assert parse_body(body) != changed
    assert parse_body(body) == loads(body)


def test_a_body_that_is_not_json_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(WireError, match="not JSON"):
            parse_body(b'{"a": 1')


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_caller_may_change_what_was_read(size: int) -> None:
    seen: list[JSON] = []
    read = cached_per_element(lambda element, pointer: seen.append(element) or f"{pointer} {element['n']}")
    listed: list[dict[str, JSON]] = [{"n": 1, "text": "a" * size}, {"n": 2}]
    assert [*read(listed, "/l")] == ["/l/0 1", "/l/1 2"]
    listed[0]["n"] = 3
    assert [*read(listed, "/l")] == ["/l/0 3", "/l/1 2"]
    listed[0]["n"] = 1
    assert [*read(listed, "/l")] == ["/l/0 1", "/l/1 2"]
    assert len(seen) == (3 if size == 1 else 4)
    assert [*read({"n": 1}, "/l")] == []


def test_entries_that_were_read_long_ago_are_forgotten() -> None:
    one = view("anthropic", CALL["anthropic"])
    for number in range(1024):
        view("anthropic", {"role": "user", "content": str(number)})
    other = view("anthropic", CALL["anthropic"])
    assert one.turns == other.turns
    assert one.turns[0] is not other.turns[0]
