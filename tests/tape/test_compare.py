from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.http import HttpRequest
from harness.tape.compare import differences
from harness.wire.apis import wire_format

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
RECORDED = HttpRequest("POST", URL, {"content-type": "application/json"}, json.dumps(BODY).encode())


def edited(*path: Any, to: Any) -> HttpRequest:
    body = json.loads(json.dumps(BODY))
    node = body
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = to
    return replace(RECORDED, body=json.dumps(body).encode())


def compared(sent: HttpRequest) -> list[tuple[str, bool, str]]:
    found = differences(RECORDED, sent, wire_format("openai-chat"))
    return [(each.pointer, each.neutral, each.message) for each in found]


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
        (("stream",), True, "", "stream: recorded false, sent true"),
    ],
)
def test_another_meaning_is_a_neutral_difference_with_its_place(
    path: tuple[Any, ...], value: Any, pointer: str, words: str
) -> None:
    [(place, neutral, message)] = compared(edited(*path, to=value))
    assert neutral
    assert place.startswith(pointer)
    assert words in message


def test_a_message_more_says_how_many_and_which() -> None:
    [(pointer, neutral, message)] = compared(
        edited("messages", to=[*BODY["messages"], {"role": "user", "content": "Hi"}])
    )
    assert (pointer, neutral) == ("/messages/4", True)
    assert message.startswith("turns: 3 recorded, 4 sent; sent only: ")


def test_a_message_less_says_what_is_gone() -> None:
    [(_, neutral, message)] = compared(edited("messages", to=BODY["messages"][:-1]))
    assert neutral
    assert "turns: 3 recorded, 2 sent; recorded only: " in message


def test_arguments_spelled_otherwise_differ_in_spelling_only() -> None:
    sent = edited("messages", 2, "tool_calls", 0, "function", "arguments", to='{"city":"Paris"}')
    [(pointer, neutral, _)] = compared(sent)
    assert (pointer, neutral) == ("/messages/2/tool_calls/0/function/arguments", False)


def test_a_result_that_is_json_spelled_otherwise_differs_in_spelling_only() -> None:
    recorded = edited("messages", 3, "content", to='{"temp_c":18,"sky":"clear"}')
    sent = edited("messages", 3, "content", to='{"sky": "clear", "temp_c": 18}')
    changed = edited("messages", 3, "content", to='{"temp_c": 18, "sky": "dark"}')

    assert [d.neutral for d in differences(recorded, sent, wire_format("openai-chat"))] == [False]
    assert [(d.pointer, d.neutral) for d in differences(recorded, changed, wire_format("openai-chat"))] == [
        ("/messages/3/content", True)
    ]


def with_ids(*ids: str, answered: tuple[str, ...]) -> HttpRequest:
    calls = [{"id": each, "type": "function", "function": {"name": "weather", "arguments": "{}"}} for each in ids]
    results = [{"role": "tool", "tool_call_id": each, "content": "18"} for each in answered]
    body = {**BODY, "messages": [*BODY["messages"][:2], {"role": "assistant", "tool_calls": calls}, *results]}
    return replace(RECORDED, body=json.dumps(body).encode())


@pytest.mark.parametrize(
    ("sent", "neutral"),
    [
        (with_ids("x", "y", answered=("y", "x")), False),
        (with_ids("x", "y", answered=("x", "y")), True),  # the results have changed places
        (with_ids("x", "x", answered=("x", "x")), True),  # two ids have become one
        (with_ids("x", "y", answered=("y", "z")), True),  # a result has lost its call
    ],
)
def test_ids_of_another_api_may_be_mapped_otherwise_one_to_one(sent: HttpRequest, neutral: bool) -> None:
    recorded = with_ids("call_1", "call_2", answered=("call_2", "call_1"))

    mapped = differences(recorded, sent, wire_format("openai-chat"), foreign=2)

    assert {each.neutral for each in mapped} == {neutral}
    assert {each.neutral for each in differences(recorded, sent, wire_format("openai-chat"))} == {True}


def test_a_field_that_no_view_knows_differs_in_spelling_only() -> None:
    [(pointer, neutral, message)] = compared(edited("store", to=True))
    assert (pointer, neutral, message) == ("/store", False, "body /store: recorded nothing, sent true")


def test_another_base_url_is_no_difference() -> None:
    assert compared(replace(RECORDED, url="https://gateway.example/openai/v1/chat/completions")) == []
    [(_, neutral, message)] = compared(replace(RECORDED, url="http://reference-server.invalid/v1/completions"))
    assert (neutral, message) == (False, 'path: recorded "chat/completions", sent "v1/completions"')


def test_path_query_and_allowed_headers_differ_in_spelling_only() -> None:
    sent = replace(RECORDED, url=URL + "?beta=1", headers={"content-type": "text/plain"})
    assert [each[1:] for each in compared(sent)] == [
        (False, 'query: recorded "", sent "beta=1"'),
        (False, 'header content-type: recorded "application/json", sent "text/plain"'),
    ]


def test_a_request_that_cannot_be_read_is_a_neutral_difference() -> None:
    [(pointer, neutral, message)] = compared(replace(RECORDED, body=b"{"))
    assert (pointer, neutral) == ("", True)
    assert message.startswith("cannot be read: ")


def test_two_that_cannot_be_read_are_compared_as_bytes() -> None:
    broken = replace(RECORDED, body=b"{")
    wire = wire_format("openai-chat")
    assert differences(broken, broken, wire) == []
    [found] = differences(broken, replace(broken, body=b"[["), wire)
    assert (found.neutral, found.message) == (False, "body: 1 bytes recorded, 2 other bytes sent")


def test_bodies_without_a_bottom_are_compared_as_bytes() -> None:
    deep = replace(RECORDED, body=b"[" * 5000 + b"]" * 5000)
    assert differences(deep, deep, wire_format("openai-chat")) == []


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
    found = differences(with_parameters(NAMED), with_parameters(IN_OTHER_WORDS), wire_format("openai-chat"))
    assert found
    assert not any(each.neutral for each in found)


def test_a_schema_that_accepts_something_else_is_a_difference_in_meaning_with_an_instance() -> None:
    longer = json.loads(json.dumps(IN_OTHER_WORDS).replace('"maxLength": 3', '"maxLength": 4'))
    [found] = differences(with_parameters(NAMED), with_parameters(longer), wire_format("openai-chat"))
    assert found.neutral
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

    def neutral(mode: Any) -> list[bool]:
        openapi = {"type": "OBJECT", "properties": {"mode": mode}, "required": ["mode"]}
        found = differences(asked(parametersJsonSchema=NAMED), asked(parameters=openapi), wire_format("gemini"))
        return [each.neutral for each in found]

    assert set(neutral({"type": "STRING", "nullable": True, "maxLength": "3"})) == {False}
    assert neutral({"type": "STRING", "maxLength": "3"}) == [True]
