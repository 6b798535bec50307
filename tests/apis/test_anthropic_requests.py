"""The neutral view of Anthropic requests."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.anthropic import API
from harness.apis.view import (
    CallView,
    ChoiceView,
    FormatView,
    JsonView,
    MediaView,
    OpaqueView,
    RequestView,
    ResultView,
    SettingView,
    SystemView,
    TextView,
    ToolView,
    WireError,
)
from harness.model.http import HttpRequest
from tests.apis import lawful
from tests.apis.pointers import without_pointers

URL = "https://api.anthropic.com/v1/messages"
WEATHER = {
    "name": "get_weather",
    "description": "Current weather for a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def request(**body: Any) -> HttpRequest:
    whole = {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}], **body}
    return HttpRequest("POST", URL, {}, json.dumps(whole).encode())


def viewed(**body: Any) -> RequestView:
    return API.view(request(**body))


def content(*blocks: Any, role: str = "user") -> tuple[Any, ...]:
    return viewed(messages=[{"role": role, "content": list(blocks)}]).turns[0].parts


@pytest.mark.parametrize(
    ("method", "url", "body", "known"),
    [
        ("POST", URL, {"messages": [], "max_tokens": 1}, True),
        ("POST", "http://127.0.0.1:8000/proxy/v1/messages?beta=true", {"messages": [], "max_tokens": 1}, True),
        ("GET", URL, {"messages": [], "max_tokens": 1}, False),
        ("POST", URL + "/count_tokens", {"messages": [], "max_tokens": 1}, False),
        ("POST", URL, {"messages": []}, False),
        ("POST", URL, [], False),
    ],
)
def test_recognises_by_method_path_and_body(method: str, url: str, body: Any, known: bool) -> None:
    assert API.recognises(HttpRequest(method, url, {}, json.dumps(body).encode())) is known


def test_does_not_recognise_what_is_no_json() -> None:
    assert not API.recognises(HttpRequest("POST", URL, {}, b"{"))
    assert API.model_of(HttpRequest("POST", URL, {}, b"{")) is None


def test_names_the_model() -> None:
    assert API.model_of(request()) == "claude-sonnet-4-5"


def test_a_tool_conversation() -> None:
    view = viewed(
        system="Be brief.",
        messages=[
            {"role": "user", "content": "Paris?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "", "signature": "c2ln"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "18 °C"}]},
        ],
        tools=[WEATHER],
        stream=True,
    )
    assert view.api == "anthropic"
    assert view.model == "claude-sonnet-4-5"
    assert view.stream is True
    assert view.stateful is None
    assert view.system == (SystemView("Be brief.", "system", "/system"),)
    assert [(turn.role, turn.wire_role, turn.pointer) for turn in view.turns] == [
        ("user", "user", "/messages/0"),
        ("assistant", "assistant", "/messages/1"),
        ("user", "user", "/messages/2"),
    ]
    assert view.turns[0].parts == (TextView("Paris?", "/messages/0/content"),)
    assert view.turns[1].parts == (
        OpaqueView("thinking", {"type": "thinking", "thinking": "", "signature": "c2ln"}, "/messages/1/content/0"),
        TextView("I look.", "/messages/1/content/1/text"),
        CallView(
            "toolu_1",
            "get_weather",
            {"city": "Paris"},
            "/messages/1/content/2",
            "/messages/1/content/2/id",
            "/messages/1/content/2/input",
        ),
    )
    assert view.results == (
        ResultView(
            "toolu_1",
            None,
            (TextView("18 °C", "/messages/2/content/0/content"),),
            "/messages/2/content/0",
            "/messages/2/content/0/tool_use_id",
        ),
    )
    assert view.tools == (ToolView("get_weather", "Current weather for a city.", WEATHER["input_schema"], "/tools/0"),)


def test_settings_have_canonical_names_and_only_those_sent() -> None:
    view = viewed(stop_sequences=["END"], temperature=0.5, top_p=None, thinking={"type": "adaptive"})
    assert view.settings == {
        "max_tokens": SettingView(100, "/max_tokens"),
        "stop": SettingView(["END"], "/stop_sequences"),
        "temperature": SettingView(0.5, "/temperature"),
        "thinking": SettingView({"type": "adaptive"}, "/thinking"),
    }


@pytest.mark.parametrize(
    ("choice", "seen"),
    [
        ({"type": "any"}, ChoiceView("required", "/tool_choice")),
        ({"type": "none"}, ChoiceView("none", "/tool_choice")),
        ({"type": "tool", "name": "f"}, ChoiceView("named", "/tool_choice", "f")),
        ({"type": "auto", "disable_parallel_tool_use": True}, ChoiceView("auto", "/tool_choice")),
        ({"type": "sometimes"}, ChoiceView("other", "/tool_choice")),
        ("required", ChoiceView("other", "/tool_choice")),
    ],
)
def test_tool_choice(choice: Any, seen: ChoiceView) -> None:
    assert viewed(tool_choice=choice).tool_choice == seen


def test_output_format() -> None:
    schema = {"type": "object", "additionalProperties": False}
    found = viewed(output_config={"format": {"type": "json_schema", "schema": schema}}).response_format
    assert found == FormatView(
        "json-schema",
        "output_config.format",
        "/output_config/format",
        schema,
        "/output_config/format/schema",
        strict=True,
    )
    assert viewed(output_config={"effort": "low"}).response_format is None


def test_a_system_message_in_mid_conversation() -> None:
    view = viewed(
        system=[{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}],
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "Bye"},
        ],
    )
    assert view.system == (
        SystemView("One.", "system", "/system/0/text"),
        SystemView("Two.", "system", "/system/1/text"),
        SystemView("Be brief.", "message:system", "/messages/1/content/0/text", 1),
    )
    assert [turn.pointer for turn in view.turns] == ["/messages/0", "/messages/2", "/messages/3"]


def test_tool_changes_in_a_system_message_are_kept() -> None:
    change = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}
    view = viewed(messages=[{"role": "user", "content": "Hi"}, {"role": "system", "content": [change]}])
    assert view.turns[1].wire_role == "system"
    assert view.turns[1].parts == (OpaqueView("tool_addition", change, "/messages/1/content/0"),)


def test_media() -> None:
    png = base64.b64encode(b"\x89PNG").decode()
    assert content(
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
    ) == (
        MediaView("image/png", "/messages/0/content/0", data=b"\x89PNG"),
        MediaView(None, "/messages/0/content/1", uri="https://example.com/a.png"),
        MediaView("application/pdf", "/messages/0/content/2", uri="https://example.com/a.pdf"),
        MediaView("text/plain", "/messages/0/content/3", data=b"plain"),
        MediaView(None, "/messages/0/content/4", uri="file_1"),
    )


@pytest.mark.parametrize(
    "block",
    [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "no base64"}},
        {"type": "image", "source": {"type": "hologram"}},
        {"type": "text", "text": None},
        {"type": "of another day", "x": [1]},
        {"x": 1},
    ],
)
def test_what_has_no_type_is_kept_in_its_place(block: dict[str, Any]) -> None:
    first, found, last = content({"type": "text", "text": "a"}, block, {"type": "text", "text": "b"})
    assert (first.text, last.text) == ("a", "b")
    assert found == OpaqueView(block.get("type", ""), block, "/messages/0/content/1")


def test_marks_of_a_call_and_of_a_text() -> None:
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    parts = content(
        {**call, "caller": {"type": "direct"}},
        {**call, "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}},
        {**call, "toolset_name": "browser"},
        {"type": "text", "text": "x", "citations": [{"type": "page_location"}]},
        role="assistant",
    )
    assert [part.opaque for part in parts] == [
        None,
        {"caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}},
        {"toolset_name": "browser"},
        [{"type": "page_location"}],
    ]


def test_arguments_that_are_text_are_malformed() -> None:
    (call,) = content({"type": "tool_use", "id": "a", "name": "f", "input": '{"city": '}, role="assistant")
    assert (call.arguments, call.malformed) == (None, '{"city": ')


@pytest.mark.parametrize(
    ("result", "mark"),
    [
        ({"content": "18", "is_error": True}, "flag"),
        ({"content": '{"error": "offline"}'}, None),  # where there is a flag, only the flag is a mark
        ({"content": "Error: station offline"}, None),
        ({"content": "18", "is_error": False}, None),
        ({"content": "no error"}, None),
        ({}, None),
    ],
)
def test_how_a_result_says_that_it_is_an_error(result: dict[str, Any], mark: str | None) -> None:
    (found,) = content({"type": "tool_result", "tool_use_id": "a", **result})
    assert found.error_mark == mark


def test_payload_of_a_result() -> None:
    reference = {"type": "tool_reference", "tool_name": "f"}
    (found,) = content(
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}, reference]}
    )
    assert found.payload == (
        TextView("x", "/messages/0/content/0/content/0/text"),
        OpaqueView("tool_reference", reference, "/messages/0/content/0/content/1"),
    )
    (found,) = content({"type": "tool_result", "tool_use_id": "a", "content": {"temp_c": 18}})
    assert found.payload == (JsonView({"temp_c": 18}, "/messages/0/content/0/content"),)


def test_server_tools_are_of_their_own_kind() -> None:
    tools = [{"type": "web_search_20250305", "name": "web_search"}, {**WEATHER, "type": "custom", "strict": True}]
    server, custom = viewed(tools=tools).tools
    assert (server.kind, server.name, server.parameters) == ("web_search_20250305", "web_search", None)
    assert (custom.kind, custom.strict) == ("function", True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"system": "S"}, {"system": [{"type": "text", "text": "S"}]}),
        ({"system": None}, {}),
        ({"tool_choice": {"type": "auto"}}, {"tool_choice": None}),
        ({"stop_sequences": []}, {}),
        ({"stream": False}, {}),
        ({"tools": [{**WEATHER, "type": "custom", "strict": False}]}, {"tools": [WEATHER]}),
        (
            {"messages": [{"role": "user", "content": "Hi"}]},
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "citations": None}]}]},
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}]},
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "tool_result",
                                "tool_use_id": "a",
                                "content": [{"type": "text", "text": "x"}],
                                "is_error": False,
                            }
                        ],
                    }
                ]
            },
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": ""}]}]},
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]},
        ),
    ],
)
def test_spellings_that_mean_the_same_view_alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert without_pointers(viewed(**one)) == without_pointers(viewed(**other))


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"messages": {}}, "/messages"),
        ({"messages": ["Hi"]}, "/messages/0"),
        ({"messages": [{"role": "user", "content": {"text": "Hi"}}]}, "/messages/0/content"),
        ({"messages": [{"role": "user", "content": ["Hi"]}]}, "/messages/0/content/0"),
        ({"tools": ["f"]}, "/tools/0"),
    ],
)
def test_what_is_not_of_the_api(body: dict[str, Any], pointer: str) -> None:
    with pytest.raises(WireError) as caught:
        viewed(**body)
    assert caught.value.pointer == pointer


def test_a_container_is_state() -> None:
    assert viewed(container="container_1").stateful == "container"


@pytest.mark.parametrize(
    ("path", "model", "stream"),
    [
        ("model/us.anthropic.claude-sonnet-4-5-v1%3A0/invoke", "us.anthropic.claude-sonnet-4-5-v1:0", False),
        ("model/anthropic.claude/invoke-with-response-stream", "anthropic.claude", True),
        ("v1/projects/p/locations/l/publishers/anthropic/models/claude-opus-4-8:rawPredict", "claude-opus-4-8", False),
        (
            "v1/projects/p/locations/l/publishers/anthropic/models/claude-opus-4-8:streamRawPredict",
            "claude-opus-4-8",
            True,
        ),
    ],
)
def test_hosts_take_the_same_body_with_the_model_in_the_path(path: str, model: str, stream: bool) -> None:
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    request = HttpRequest("POST", f"https://host.invalid/{path}", {}, json.dumps(body).encode())

    assert API.recognises(request)
    assert API.model_of(request) == model
    assert (API.view(request).model, API.view(request).stream) == (model, stream)
    assert lawful.violations(API, request, registry.api("anthropic").profile_for(model)) == []
    assert not API.recognises(HttpRequest("POST", request.url, {}, b'{"messages": []}'))
