import json
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.gemini import API
from harness.apis.jsonvalue import resolve
from harness.apis.view import (
    CallView,
    JsonView,
    MediaView,
    OpaqueView,
    RequestView,
    ResultView,
    SystemView,
    TextView,
    ToolView,
    WireError,
)
from harness.model.http import HttpRequest
from tests.apis import lawful

DEVELOPER = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.5-flash:generateContent"
VERTEX = (
    "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers/google/models/"
    "gemini-2.5-flash:streamGenerateContent?alt=sse"
)
GEMINI_3 = registry.api("gemini").profile_for("gemini-3.5-flash")
USER = {"role": "user", "parts": [{"text": "Hi"}]}


def post(body: Any, url: str = DEVELOPER) -> HttpRequest:
    return HttpRequest("POST", url, {}, json.dumps(body).encode())


def view(body: Any, url: str = DEVELOPER) -> RequestView:
    return API.view(post(body, url))


def part(value: Any, *, role: str = "user") -> Any:
    """The only part view of a content that holds this part."""
    (turn,) = view({"contents": [{"role": role, "parts": [value]}]}).turns
    (seen,) = turn.parts
    return seen


@pytest.mark.parametrize(
    ("method", "url", "recognised"),
    [
        ("POST", DEVELOPER, True),
        ("POST", VERTEX, True),
        ("POST", "http://127.0.0.1:1/v1/models/gemini-2.5-pro:streamGenerateContent?alt=sse", True),
        ("POST", "http://h/v1beta/models/gemini-2.5-pro%3AgenerateContent", True),
        ("GET", DEVELOPER, False),
        ("POST", "http://h/v1beta/models/gemini-2.5-pro:countTokens", False),
        ("POST", "http://h/v1/messages", False),
    ],
)
def test_recognises_a_chat_by_method_and_path(method: str, url: str, recognised: bool) -> None:
    assert API.recognises(HttpRequest(method, url)) is recognised


def test_the_model_and_the_stream_come_from_the_path() -> None:
    assert API.model_of(post({})) == "gemini-3.5-flash"
    assert API.model_of(HttpRequest("POST", "http://h/v1/messages")) is None
    streamed = view({"contents": [USER]}, VERTEX)
    assert (streamed.model, streamed.stream) == ("gemini-2.5-flash", True)
    assert view({"contents": [USER]}).stream is False


def test_text_points_to_itself_and_keeps_its_signature() -> None:
    seen = part({"text": "Hi", "thoughtSignature": "QUI="}, role="model")
    assert seen == TextView("Hi", "/contents/0/parts/0/text", "QUI=")


def test_a_call_points_to_its_parts_and_keeps_its_signature() -> None:
    call = {"function_call": {"id": "a1", "name": "add", "args": {"a_b": 1}}, "thought_signature": "QUI="}
    body = {"contents": [{"role": "model", "parts": [call]}]}
    (seen,) = view(body).calls
    assert (seen.id, seen.name, seen.arguments, seen.opaque) == ("a1", "add", {"a_b": 1}, "QUI=")
    assert resolve(body, seen.pointer) == call
    assert resolve(body, seen.id_pointer) == "a1"
    assert resolve(body, seen.arguments_pointer) == {"a_b": 1}


def test_a_call_without_id_and_arguments_points_to_what_is_there() -> None:
    body = {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "now"}}]}]}
    (seen,) = view(body).calls
    assert (seen.id, seen.arguments) == (None, {})
    assert resolve(body, seen.id_pointer) == resolve(body, seen.arguments_pointer) == {"name": "now"}


def test_arguments_of_a_wrong_type_are_seen_as_they_are() -> None:
    seen = part({"functionCall": {"name": "add", "args": "{}"}}, role="model")
    assert isinstance(seen, CallView)
    assert seen.arguments == "{}"


def test_a_result_keeps_id_name_payload_and_media() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "AQI"}}
    result = {"functionResponse": {"id": "a1", "name": "draw", "response": {"ok": 1}, "parts": [image]}}
    seen = part(result)
    assert isinstance(seen, ResultView)
    assert (seen.call_id, seen.name, seen.error_mark) == ("a1", "draw", None)
    place = "/contents/0/parts/0/functionResponse"
    assert seen.id_pointer == f"{place}/id"
    assert seen.payload == (
        JsonView({"ok": 1}, f"{place}/response"),
        MediaView("image/png", f"{place}/parts/0", data=b"\x01\x02"),
    )


@pytest.mark.parametrize(
    ("response", "mark"),
    [
        ({"error": "offline"}, "error-key"),
        ({"error": {"code": 5}}, "error-key"),
        ({"error": None, "output": 1}, None),
        ({"error": "0.1", "result": 3}, None),
        ({"result": "Error: offline"}, "error-text"),
        ({"result": "no error"}, None),
        ({}, None),
    ],
)
def test_the_error_mark_of_a_result(response: Any, mark: str | None) -> None:
    assert part({"functionResponse": {"name": "f", "response": response}}).error_mark == mark


def test_media_by_value_and_by_reference() -> None:
    inline = part({"inline_data": {"mime_type": "image/png", "data": "-_8="}})
    assert inline == MediaView("image/png", "/contents/0/parts/0", data=b"\xfb\xff")
    uri = part({"fileData": {"mimeType": "application/pdf", "fileUri": "gs://bucket/file"}})
    assert uri == MediaView("application/pdf", "/contents/0/parts/0", uri="gs://bucket/file")


def test_a_signature_on_a_medium_does_not_vanish() -> None:
    signed = {"inlineData": {"mimeType": "image/png", "data": "AQI="}, "thoughtSignature": "QUI="}
    (turn,) = view({"contents": [{"role": "model", "parts": [signed]}]}).turns
    assert turn.parts[1] == OpaqueView("thoughtSignature", "QUI=", "/contents/0/parts/0/thoughtSignature")


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ({"text": "Hm.", "thought": True}, "thought"),
        ({"executableCode": {"code": "1"}}, "executableCode"),
        ({"toolCall": {"id": "x"}}, "toolCall"),
        ({"hologram": {"depth": 3}}, "hologram"),
        ({}, "part"),
    ],
)
def test_a_part_without_a_type_stays_in_its_place(raw: Any, kind: str) -> None:
    assert part(raw, role="model") == OpaqueView(kind, raw, "/contents/0/parts/0")


def test_system_instruction_with_each_of_its_texts() -> None:
    body = {"system_instruction": {"parts": [{"text": "Be brief."}, {"text": ""}, {"text": "Be kind."}]}}
    assert view(body).system == (
        SystemView("Be brief.", "systemInstruction", "/system_instruction/parts/0/text"),
        SystemView("Be kind.", "systemInstruction", "/system_instruction/parts/2/text"),
    )


def test_a_missing_role_is_the_users() -> None:
    (turn,) = view({"contents": [{"parts": [{"text": "Hi"}]}]}).turns
    assert (turn.role, turn.wire_role) == ("user", "user")


def test_tools_of_both_languages_and_of_the_server() -> None:
    declared = [
        {"name": "add", "description": "Adds.", "parameters": {"type": "OBJECT", "property_ordering": ["a"]}},
        {"name": "now", "parameters_json_schema": {"type": "object", "property_names": {}}},
        {"name": "off"},
    ]
    body = {"tools": [{"functionDeclarations": declared}, {"google_search": {}}]}
    seen = view(body).tools
    assert seen == (
        ToolView(
            "add",
            "Adds.",
            {"type": "object", "propertyOrdering": ["a"]},
            "/tools/0/functionDeclarations/0",
            dialect="openapi",
        ),
        ToolView("now", None, {"type": "object", "property_names": {}}, "/tools/0/functionDeclarations/1"),
        ToolView("off", None, None, "/tools/0/functionDeclarations/2"),
        ToolView("googleSearch", None, None, "/tools/1/google_search", kind="googleSearch"),
    )
    assert resolve(body, seen[3].pointer) == {}


def test_property_names_of_an_openapi_schema_are_the_users() -> None:
    schema = {"type": "Object", "properties": {"min_items": {"type": "ARRAY", "items": {"type": "STRING"}}}}
    (tool,) = view({"tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]}).tools
    inner = {"type": "array", "items": {"type": "string"}}
    assert tool.parameters == {"type": "object", "properties": {"min_items": inner}}


@pytest.mark.parametrize(
    ("config", "mode", "name", "allowed"),
    [
        ({"mode": "none"}, "none", None, None),
        ({"mode": "ANY"}, "required", None, None),
        ({"mode": "ANY", "allowedFunctionNames": ["add"]}, "named", "add", None),
        ({"mode": "ANY", "allowed_function_names": ["add", "now"]}, "required", None, ("add", "now")),
        ({"mode": "VALIDATED"}, "auto", None, None),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["add"]}, "auto", None, ("add",)),
        ({"mode": "SOMEDAY"}, "other", "SOMEDAY", None),
    ],
)
def test_tool_choice(config: Any, mode: str, name: str | None, allowed: tuple[str, ...] | None) -> None:
    choice = view({"toolConfig": {"functionCallingConfig": config}}).tool_choice
    place = "/toolConfig/functionCallingConfig"
    assert choice is not None
    assert (choice.mode, choice.name, choice.allowed, choice.pointer) == (mode, name, allowed, place)


@pytest.mark.parametrize("config", [{}, {"mode": "AUTO"}, {"mode": "MODE_UNSPECIFIED"}, {"mode": None}])
def test_the_default_choice_is_none(config: Any) -> None:
    assert view({"toolConfig": {"functionCallingConfig": config}}).tool_choice is None


def test_response_formats() -> None:
    def seen(**config: Any) -> Any:
        return view({"generationConfig": config}).response_format

    assert seen() is None
    json_mode = seen(responseMimeType="application/json")
    assert (json_mode.kind, json_mode.mechanism, json_mode.schema) == ("json", "responseMimeType", None)
    openapi = seen(response_mime_type="application/json", response_schema={"type": "OBJECT"})
    assert (openapi.mechanism, openapi.schema, openapi.dialect) == ("responseSchema", {"type": "object"}, "openapi")
    assert openapi.schema_pointer == "/generationConfig/response_schema"
    native = seen(responseMimeType="application/json", responseJsonSchema={"$ref": "#"})
    assert (native.kind, native.schema, native.dialect) == ("json-schema", {"$ref": "#"}, "json-schema")


def test_settings_have_canonical_names_and_exact_pointers() -> None:
    config = {
        "maxOutputTokens": 64,
        "temperature": 0,
        "top_p": 0.5,
        "stopSequences": "END",
        "thinkingConfig": {"thinking_level": "low"},
        "topK": 3,
    }
    body = {"generation_config": config}
    seen = view(body).settings
    assert {name: setting.value for name, setting in seen.items()} == {
        "max_tokens": 64,
        "temperature": 0,
        "top_p": 0.5,
        "stop": ["END"],
        "thinking": {"thinkingLevel": "LOW"},
    }
    assert resolve(body, seen["thinking"].pointer) == {"thinking_level": "low"}


def test_cached_content_is_state_of_the_server() -> None:
    assert view({"contents": [USER]}).stateful is None
    assert view({"contents": [USER], "cachedContent": "cachedContents/1"}).stateful == "cachedContent"


def test_both_spellings_and_both_alphabets_give_equal_views() -> None:
    camel = view(
        {
            "contents": [
                {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "-_8="}]},
                {"parts": [{"functionResponse": {"name": "f", "response": {"k_v": 1}}}]},
            ],
        }
    )
    snake = view(
        {
            "contents": [
                {"role": "model", "parts": [{"function_call": {"name": "f"}, "thought_signature": "+/8"}]},
                {"role": "user", "parts": {"function_response": {"name": "f", "id": None, "response": {"k_v": 1}}}},
            ],
            "tools": None,
        }
    )
    assert [(call.id, call.name, call.arguments, call.opaque) for call in camel.calls] == [
        (call.id, call.name, call.arguments, call.opaque) for call in snake.calls
    ]
    assert camel.calls[0].opaque == "+/8="
    assert isinstance(camel.results[0].payload[0], JsonView)
    assert isinstance(snake.results[0].payload[0], JsonView)
    assert camel.results[0].payload[0].value == snake.results[0].payload[0].value
    assert camel.tools == snake.tools


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"contents": "Hi"}', b'{"contents": [{"parts": [{"text": 1}]}]}', b'{"a": NaN}', b"[" * 100_000],
)
def test_what_is_no_request_is_a_wire_error(body: bytes) -> None:
    with pytest.raises(WireError):
        API.view(HttpRequest("POST", DEVELOPER, {}, body))


@pytest.mark.parametrize("depth", [450, 900, 5000])
def test_a_schema_nested_too_deeply_is_a_wire_error_and_a_violation(depth: int) -> None:
    schema = '{"items":' * depth + "{}" + "}" * depth
    tools = [{"functionDeclarations": [{"name": "f", "parameters": "SCHEMA"}]}]
    body = json.dumps({"contents": [{"parts": [{"text": "Hi"}]}], "tools": tools})
    request = HttpRequest("POST", DEVELOPER, {}, body.replace('"SCHEMA"', schema).encode())
    with pytest.raises(WireError, match="nested too deeply"):
        API.view(request)
    assert [found.rule for found in lawful.violations(API, request, GEMINI_3)] == ["gemini-body"]
