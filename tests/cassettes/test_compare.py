from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.apis import registry
from harness.cassettes.player import differences
from harness.model.http import HttpRequest

BODY: dict[str, Any] = {
    "model": "gpt-5.4",
    "temperature": 0.5,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "18"},
    ],
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}],
}
URL = "http://reference-server.invalid/v1/chat/completions"
ISSUED = frozenset({"call_1", "call_2"})
RECORDED = HttpRequest("POST", URL, {"content-type": "application/json"}, json.dumps(BODY).encode())


def edited(*path: Any, to: Any) -> HttpRequest:
    body = json.loads(json.dumps(BODY))
    node = body
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = to
    return replace(RECORDED, body=json.dumps(body).encode())


def compared(sent: HttpRequest) -> list[tuple[str, bool, str]]:
    found = differences(RECORDED, sent, registry.api("openai-chat"), issued=ISSUED)
    return [(each.pointer, each.changes_meaning, each.message) for each in found]


def test_equal_requests_do_not_differ_wherever_and_however_they_are_sent() -> None:
    sorted_body = json.dumps(BODY, sort_keys=True, indent=1).encode()
    elsewhere = HttpRequest(
        "POST", URL.replace("reference-server.invalid", "127.0.0.1:99"), RECORDED.headers, sorted_body
    )
    assert compared(elsewhere) == []
    assert compared(replace(RECORDED, headers={**RECORDED.headers, "user-agent": "x", "authorization": "y"})) == []


@pytest.mark.parametrize(
    ("path", "value", "pointer", "words"),
    [
        (("messages", 0, "content"), "Be long.", "/messages/0", 'recorded "Be brief.", sent "Be long."'),
        (("messages", 1, "content"), "Rain?", "/messages/1/content", 'recorded "Weather?", sent "Rain?"'),
        (("messages", 3, "tool_call_id"), "call_2", "/messages/3/tool_call_id", 'recorded "call_1", sent "call_2"'),
        (
            ("messages", 2, "tool_calls", 0, "function", "arguments"),
            '{"city": "Rome"}',
            "/messages/2/tool_calls/0/function/arguments",
            'recorded {"city": "Paris"}, sent {"city": "Rome"}',
        ),
        (("temperature",), 1, "/temperature", "recorded 0.5, sent 1"),
    ],
)
def test_another_meaning_is_a_neutral_difference_with_its_place(
    path: tuple[Any, ...], value: Any, pointer: str, words: str
) -> None:
    [(place, changes_meaning, message)] = compared(edited(*path, to=value))
    assert changes_meaning
    assert place.startswith(pointer)
    assert words in message


def test_a_message_more_says_how_many_and_which() -> None:
    [(pointer, changes_meaning, message)] = compared(
        edited("messages", to=[*BODY["messages"], {"role": "user", "content": "Hi"}])
    )
    assert (pointer, changes_meaning) == ("/messages/4/content", True)
    assert message.startswith("turns[2].parts: 1 recorded, 2 sent; sent only: ")


def test_a_result_that_is_json_spelled_otherwise_does_not_differ() -> None:
    recorded = edited("messages", 3, "content", to='{"temp_c":18,"sky":"clear"}')
    sent = edited("messages", 3, "content", to='{"sky": "clear", "temp_c": 18}')
    wrapped = edited("messages", 3, "content", to='{"result": {"sky": "clear", "temp_c": 18}}')
    changed = edited("messages", 3, "content", to='{"temp_c": 18, "sky": "dark"}')

    def found(other: HttpRequest) -> list[tuple[str, bool]]:
        return [(d.pointer, d.changes_meaning) for d in differences(recorded, other, registry.api("openai-chat"))]

    assert found(sent) == []
    assert found(wrapped) == [("/messages/3/content", False)]
    assert found(changed) == [("/messages/3/content", True)]


def with_ids(*ids: str, answered: tuple[str, ...]) -> HttpRequest:
    calls = [{"id": each, "type": "function", "function": {"name": "weather", "arguments": "{}"}} for each in ids]
    results = [{"role": "tool", "tool_call_id": each, "content": "18"} for each in answered]
    body = {**BODY, "messages": [*BODY["messages"][:2], {"role": "assistant", "tool_calls": calls}, *results]}
    return replace(RECORDED, body=json.dumps(body).encode())


@pytest.mark.parametrize(
    ("sent", "changes_meaning"),
    [
        (with_ids("x", "y", answered=("y", "x")), False),
        (with_ids("x", "y", answered=("x", "y")), False),  # said of the same calls in another order
        (with_ids("x", "x", answered=("x", "x")), True),  # two ids have become one
        (with_ids("x", "y", answered=("y", "z")), True),  # a result has lost its call
    ],
)
def test_ids_that_no_api_issued_only_have_to_pair(sent: HttpRequest, changes_meaning: bool) -> None:
    recorded = with_ids("call_1", "call_2", answered=("call_2", "call_1"))

    assert {each.changes_meaning for each in differences(recorded, sent, registry.api("openai-chat"))} == {
        changes_meaning
    }
    issued = differences(recorded, sent, registry.api("openai-chat"), issued=ISSUED)
    assert {each.changes_meaning for each in issued} == {True}


def test_another_base_url_is_no_difference() -> None:
    assert compared(replace(RECORDED, url="https://gateway.example/openai/v1/chat/completions")) == []
    [(_, changes_meaning, message)] = compared(replace(RECORDED, url="http://reference-server.invalid/v1/completions"))
    assert (changes_meaning, message) == (False, 'path: recorded "chat/completions", sent "v1/completions"')


def test_path_query_and_allowed_headers_differ_in_spelling_only() -> None:
    sent = replace(RECORDED, url=URL + "?beta=1", headers={"content-type": "text/plain"})
    assert [each[1:] for each in compared(sent)] == [
        (False, 'query: recorded "", sent "beta=1"'),
        (False, 'header content-type: recorded "application/json", sent "text/plain"'),
    ]


def test_a_request_that_cannot_be_read_is_a_neutral_difference() -> None:
    [(pointer, changes_meaning, message)] = compared(replace(RECORDED, body=b"{"))
    assert (pointer, changes_meaning) == ("", True)
    assert message.startswith("cannot be read: ")


def test_two_that_cannot_be_read_are_compared_as_bytes() -> None:
    broken = replace(RECORDED, body=b"{")
    wire = registry.api("openai-chat")
    assert differences(broken, broken, wire, issued=ISSUED) == []
    [found] = differences(broken, replace(broken, body=b"[["), wire, issued=ISSUED)
    assert (found.changes_meaning, found.message) == (False, "body: 1 bytes recorded, 2 other bytes sent")


def with_parameters(schema: Any) -> HttpRequest:
    return edited("tools", 0, "function", "parameters", to=schema)


NAMED = {"type": "object", "properties": {"mode": {"type": ["string", "null"], "maxLength": 3}}, "required": ["mode"]}
IN_OTHER_WORDS = {
    "properties": {"mode": {"anyOf": [{"$ref": "#/$defs/mode"}, {"type": "null"}]}},
    "required": ["mode"],
    "type": "object",
    "$defs": {"mode": {"type": "string", "maxLength": 3, "title": "Mode"}},
}


def test_a_schema_in_other_words_is_a_difference_in_spelling() -> None:
    found = differences(with_parameters(NAMED), with_parameters(IN_OTHER_WORDS), registry.api("openai-chat"))
    assert found
    assert not any(each.changes_meaning for each in found)


def test_a_schema_that_accepts_something_else_is_a_difference_in_meaning_with_an_instance() -> None:
    longer = json.loads(json.dumps(IN_OTHER_WORDS).replace('"maxLength": 3', '"maxLength": 4'))
    [found] = differences(with_parameters(NAMED), with_parameters(longer), registry.api("openai-chat"))
    assert found.changes_meaning
    assert found.pointer == "/tools/0"
    assert found.message == (
        'tools[0].parameters/properties/mode: recorded {"type": ["string", "null"], "maxLength": 3}, '
        'sent {"anyOf": [{"$ref": "#/$defs/mode"}, {"type": "null"}]}'
        ': the one sent accepts {"mode": "aaaa"}, the recorded schema does not'
    )


def test_the_two_schema_languages_of_gemini_are_compared_as_one() -> None:
    def asked(**declared: Any) -> HttpRequest:
        body = {
            "contents": [{"role": "user", "parts": [{"text": "Weather?"}]}],
            "tools": [{"functionDeclarations": [{"name": "weather", **declared}]}],
        }
        url = "http://reference-server.invalid/v1beta/models/gemini-3-pro:generateContent"
        return HttpRequest("POST", url, RECORDED.headers, json.dumps(body).encode())

    def changes_meaning(mode: Any) -> list[bool]:
        openapi = {"type": "OBJECT", "properties": {"mode": mode}, "required": ["mode"]}
        found = differences(asked(parametersJsonSchema=NAMED), asked(parameters=openapi), registry.api("gemini"))
        return [each.changes_meaning for each in found]

    assert set(changes_meaning({"type": "STRING", "nullable": True, "maxLength": "3"})) == {False}
    assert changes_meaning({"type": "STRING", "maxLength": "3"}) == [True]
