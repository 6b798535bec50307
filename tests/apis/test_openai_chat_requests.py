from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from harness.apis.openai_chat import API
from harness.apis.view import (
    CallView,
    ChoiceView,
    FormatView,
    MediaView,
    OpaqueView,
    RequestView,
    ResultView,
    SystemView,
    TextView,
    TurnView,
    WireError,
)
from harness.model.http import HttpRequest
from tests.apis.pointers import resolve

URL = "https://api.openai.com/v1/chat/completions"


def request(body: Any, url: str = URL, method: str = "POST") -> HttpRequest:
    return HttpRequest(method, url, {"content-type": "application/json"}, json.dumps(body).encode())


def view(**body: Any) -> RequestView:
    return API.view(request({"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]} | body))


def call(call_id: str, arguments: Any, name: str = "get_weather") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


HISTORY = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Paris and Tokyo?"}]},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "two calls",
        "tool_calls": [call("call_1", '{"city":"Paris"}'), call("call_2", "{oops")],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "18"},
    {"role": "tool", "tool_call_id": "call_2", "content": '{"error":"offline"}'},
    {"role": "developer", "content": "Now in French."},
    {"role": "user", "content": "Et alors ?"},
]


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "https://api.groq.com/openai/v1/chat/completions",
        "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions?key=x",
        "http://127.0.0.1:8080/chat/completions",
    ],
)
def test_a_post_of_messages_to_chat_completions_is_recognised_under_any_prefix(url: str) -> None:
    assert API.recognises(request({"messages": []}, url))


@pytest.mark.parametrize(
    ("url", "method", "body"),
    [
        ("https://api.openai.com/v1/responses", "POST", {"messages": []}),
        ("https://api.anthropic.com/v1/messages", "POST", {"messages": []}),
        (URL, "GET", {"messages": []}),
        (URL, "POST", {"input": "hi"}),
        (URL, "POST", ["messages"]),
    ],
)
def test_other_requests_are_not_recognised(url: str, method: str, body: Any) -> None:
    assert not API.recognises(request(body, url, method))


def test_a_body_that_is_no_json_is_not_recognised() -> None:
    assert not API.recognises(HttpRequest("POST", URL, {}, b"messages"))


def test_the_model_is_read_from_the_body_or_from_azures_path() -> None:
    azure = "https://x.openai.azure.com/openai/deployments/my-gpt/chat/completions?api-version=1"
    assert API.model_of(request({"model": "gpt-4o", "messages": []}, azure)) == "gpt-4o"
    assert API.model_of(request({"messages": []}, azure)) == "my-gpt"
    assert API.model_of(request({"messages": []})) is None
    assert API.model_of(HttpRequest("POST", URL, {}, b"{")) is None


def test_a_conversation_is_read_turn_by_turn() -> None:
    seen = view(messages=HISTORY)

    assert seen.system == (
        SystemView("Be brief.", "message:system", "/messages/0/content", 0),
        SystemView("Now in French.", "message:developer", "/messages/5/content", 4),
    )
    assert [(turn.role, turn.wire_role, turn.pointer) for turn in seen.turns] == [
        ("user", "user", "/messages/1"),
        ("assistant", "assistant", "/messages/2"),
        ("user", "tool", "/messages/3"),
        ("user", "tool", "/messages/4"),
        ("user", "user", "/messages/6"),
    ]
    assert seen.turns[0].parts == (TextView("Paris and Tokyo?", "/messages/1/content/0/text"),)
    place = "/messages/2/tool_calls"
    assert seen.turns[1].parts == (
        OpaqueView("reasoning_content", "two calls", "/messages/2/reasoning_content"),
        CallView(
            "call_1", "get_weather", {"city": "Paris"}, f"{place}/0", f"{place}/0/id", f"{place}/0/function/arguments"
        ),
        CallView(
            "call_2",
            "get_weather",
            None,
            f"{place}/1",
            f"{place}/1/id",
            f"{place}/1/function/arguments",
            malformed="{oops",
        ),
    )
    assert seen.results == (
        ResultView("call_1", None, (TextView("18", "/messages/3/content"),), "/messages/3", "/messages/3/tool_call_id"),
        ResultView(
            "call_2",
            None,
            (TextView('{"error":"offline"}', "/messages/4/content"),),
            "/messages/4",
            "/messages/4/tool_call_id",
            error_mark="error-key",
        ),
    )


def test_every_pointer_leads_to_what_the_view_says() -> None:
    body = {
        "model": "gpt-4o",
        "messages": HISTORY,
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}],
        "tool_choice": "required",
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
        "max_tokens": 5,
    }
    seen = API.view(request(body))

    for system in seen.system:
        assert resolve(body, system.pointer) == system.text
    for seen_call in seen.calls:
        assert resolve(body, seen_call.id_pointer) == seen_call.id
        arguments = resolve(body, seen_call.arguments_pointer)
        assert arguments == (seen_call.malformed or json.dumps(seen_call.arguments, separators=(",", ":")))
    for result in seen.results:
        assert resolve(body, result.id_pointer) == result.call_id
        (text,) = result.payload
        assert isinstance(text, TextView)
        assert resolve(body, text.pointer) == text.text
    assert resolve(body, seen.tools[0].pointer)["function"]["name"] == seen.tools[0].name
    assert seen.tool_choice is not None
    assert resolve(body, seen.tool_choice.pointer) == "required"
    assert seen.response_format is not None
    assert resolve(body, seen.response_format.schema_pointer) == seen.response_format.schema
    assert resolve(body, seen.settings["max_tokens"].pointer) == 5


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"role": "user", "content": "hi"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}),
        ({"role": "assistant", "content": None, "tool_calls": [call("a", "{}")]},
         {"role": "assistant", "content": "", "tool_calls": [call("a", "")]}),
        ({"role": "assistant", "tool_calls": [call("a", "{}")]},
         {"role": "assistant", "content": [], "refusal": None, "annotations": [], "tool_calls": [call("a", "{}")]}),
        ({"role": "tool", "tool_call_id": "a", "content": "18"},
         {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "18"}]}),
    ],
)  # fmt: skip
def test_spellings_of_one_message_give_equal_views(one: Any, other: Any) -> None:
    from harness.equivalence.view_differences import alike

    assert alike(view(messages=[one]), view(messages=[other]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"tool_choice": "auto", "stream": False, "response_format": {"type": "text"}, "temperature": None}),
        ({"stop": "x"}, {"stop": ["x"]}),
        ({"max_tokens": 5}, {"max_completion_tokens": 5}),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "strict": False, "description": ""}}]},
            {"tools": [{"type": "function", "function": {"name": "f"}}]},
        ),
    ],
)
def test_a_documented_default_is_the_same_as_nothing(one: dict[str, Any], other: dict[str, Any]) -> None:
    from harness.equivalence.view_differences import alike

    assert alike(view(**one), view(**other))


def test_media_are_read_inline_and_by_reference() -> None:
    data = base64.b64encode(b"pixels").decode()
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "image_url", "image_url": "https://example.com/a.png"},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{data}", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "file", "file": {"file_data": data, "filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": data}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,***"}},
        {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
    ]
    (turn,) = view(messages=[{"role": "user", "content": parts}]).turns

    place = "/messages/0/content"
    assert turn.parts == (
        MediaView("image/png", f"{place}/0", data=b"pixels"),
        MediaView(None, f"{place}/1", uri="https://example.com/a.png"),
        MediaView("audio/wav", f"{place}/2", data=b"pixels"),
        MediaView("application/pdf", f"{place}/3", data=b"pixels"),
        MediaView(None, f"{place}/4", uri="file-1"),
        MediaView("application/pdf", f"{place}/5", data=b"pixels"),
        MediaView(None, f"{place}/6", data=b"pixels"),
        OpaqueView("image_url", parts[7], f"{place}/7"),
        OpaqueView("video_url", parts[8], f"{place}/8"),
    )


def test_an_image_moved_behind_the_results_is_the_users() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    seen = view(messages=[*HISTORY[:5], {"role": "user", "content": [image]}])
    assert seen.turns[-1] == TurnView(
        "user",
        (MediaView(None, "/messages/5/content/0", uri="https://example.com/a.png"),),
        "/messages/5",
        "user",
    )


@pytest.mark.parametrize(
    ("content", "mark"),
    [
        ('{"error": "offline"}', "error-key"),
        ('{"error": null, "temp": 3}', None),
        ('{"temp": 3, "error": "stale"}', None),
        ("Error: offline", "error-text"),
        ("error offline", "error-text"),
        ("{broken", None),
        ("Terror in the night", None),
        ("", None),
    ],
)
def test_a_result_says_how_it_marks_an_error(content: str, mark: str | None) -> None:
    (result,) = view(messages=[{"role": "tool", "tool_call_id": "a", "content": content}]).results
    assert result.error_mark == mark


def test_state_on_a_call_stays_on_it_and_an_empty_id_is_none() -> None:
    signed = call("", "{}") | {"extra_content": {"google": {"thought_signature": "abc"}}, "index": 0}
    (seen,) = view(messages=[{"role": "assistant", "tool_calls": [signed]}]).calls
    assert seen.id is None
    assert seen.opaque == {"extra_content": {"google": {"thought_signature": "abc"}}}


def test_custom_and_legacy_calls_are_calls() -> None:
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    seen = view(
        messages=[
            {"role": "assistant", "tool_calls": [custom]},
            {"role": "assistant", "function_call": {"name": "f", "arguments": '{"a":1}'}},
            {"role": "function", "name": "f", "content": "2"},
        ]
    )
    assert [(one.name, one.arguments, one.arguments_pointer) for one in seen.calls] == [
        ("shell", "ls", "/messages/0/tool_calls/0/custom/input"),
        ("f", {"a": 1}, "/messages/1/function_call/arguments"),
    ]
    assert [(one.call_id, one.name) for one in seen.results] == [(None, "f")]


@pytest.mark.parametrize("broken", [7, "call", {"type": "function"}, {"type": "mystery", "mystery": {}}])
def test_a_call_that_is_none_does_not_vanish(broken: Any) -> None:
    (turn,) = view(messages=[{"role": "assistant", "tool_calls": [broken]}]).turns
    (part,) = turn.parts
    assert isinstance(part, OpaqueView)
    assert part.raw == broken
    assert part.pointer == "/messages/0/tool_calls/0"


def test_what_has_no_type_stays_under_its_own_name() -> None:
    (user, other) = view(
        messages=[
            {"role": "user", "name": "Ada", "content": {"odd": 1}},
            {"role": "narrator", "content": "Night."},
        ]
    ).turns
    assert user.parts == (
        OpaqueView("content", {"odd": 1}, "/messages/0/content"),
        OpaqueView("name", "Ada", "/messages/0/name"),
    )
    assert other == TurnView("user", (TextView("Night.", "/messages/1/content"),), "/messages/1", "narrator")


def test_tools_of_all_kinds_are_seen() -> None:
    schema = {"type": "object", "properties": {}}
    seen = view(
        tools=[
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema, "strict": True}},
            {"type": "custom", "custom": {"name": "shell"}},
            {"type": "web_search"},
        ],
        functions=[{"name": "old"}],
    ).tools
    assert [(tool.name, tool.kind, tool.parameters, tool.strict, tool.pointer) for tool in seen] == [
        ("f", "function", schema, True, "/tools/0"),
        ("shell", "custom", None, None, "/tools/1"),
        ("web_search", "web_search", None, None, "/tools/2"),
        ("old", "function", None, None, "/functions/0"),
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", ChoiceView("none", "/tool_choice")),
        ("required", ChoiceView("required", "/tool_choice")),
        ("any", ChoiceView("required", "/tool_choice")),
        ({"type": "function", "function": {"name": "f"}}, ChoiceView("named", "/tool_choice", "f")),
        ("sometimes", ChoiceView("other", "/tool_choice", '"sometimes"')),
    ],
)
def test_choices(choice: Any, expected: ChoiceView) -> None:
    assert view(tool_choice=choice).tool_choice == expected


def test_formats() -> None:
    assert view(response_format={"type": "json_object"}).response_format == FormatView(
        "json", "response_format", "/response_format"
    )
    described = {"name": "a", "schema": {"type": "object"}, "strict": True}
    assert view(response_format={"type": "json_schema", "json_schema": described}).response_format == FormatView(
        "json-schema",
        "response_format",
        "/response_format",
        schema={"type": "object"},
        schema_pointer="/response_format/json_schema/schema",
        strict=True,
    )


def test_settings_have_canonical_names() -> None:
    settings = view(
        max_completion_tokens=9, temperature=0.5, top_p=1, stop="x", reasoning_effort="low", seed=1
    ).settings
    assert {name: (setting.value, setting.pointer) for name, setting in settings.items()} == {
        "max_tokens": (9, "/max_completion_tokens"),
        "temperature": (0.5, "/temperature"),
        "top_p": (1, "/top_p"),
        "stop": (["x"], "/stop"),
        "thinking": ("low", "/reasoning_effort"),
    }


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"messages": "hi"}', b'{"messages": [1]}', b"{}", b'{"messages": [NaN]}']
)
def test_a_body_of_something_else_is_a_wire_error(body: bytes) -> None:
    with pytest.raises(WireError):
        API.view(HttpRequest("POST", URL, {}, body))
