"""OpenAI Responses: request bodies → neutral views."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from harness.apis.openai_responses import API
from harness.apis.view import (
    ChoiceView,
    FormatView,
    JsonView,
    MediaView,
    OpaqueView,
    RequestView,
    ResultView,
    SystemView,
    TextView,
    WireError,
)
from harness.model.http import HttpRequest
from tests.apis.pointers import resolve, without_pointers

URL = "https://api.openai.com/v1/responses"


def post(body: Any, url: str = URL) -> HttpRequest:
    return HttpRequest("POST", url, {"content-type": "application/json"}, json.dumps(body).encode())


def view(**body: Any) -> RequestView:
    return API.view(post({"model": "gpt-6-sol", "input": "Hello", **body}))


def items(*entries: Any) -> RequestView:
    return view(input=list(entries))


CALL = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Paris"}'}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "18"}


@pytest.mark.parametrize(
    ("url", "body", "expected"),
    [
        (URL, {"input": "x"}, True),
        ("http://127.0.0.1:9/proxy/openai/responses?api-version=1", {"input": []}, True),
        (URL, {"previous_response_id": "resp_1"}, True),
        (URL, {"prompt": {"id": "pmpt_1"}}, True),
        (URL, {"conversation": "conv_1"}, True),
        (URL, {"messages": []}, False),
        (URL, [], False),
        (URL + "/resp_1/cancel", {"input": "x"}, False),
        ("https://api.openai.com/v1/chat/completions", {"input": "x"}, False),
    ],
)
def test_recognised_by_path_and_body(url: str, body: Any, expected: bool) -> None:
    assert API.recognises(post(body, url)) is expected


def test_only_posts_of_json_are_recognised() -> None:
    assert not API.recognises(HttpRequest("GET", URL, {}, b'{"input": "x"}'))
    assert not API.recognises(HttpRequest("POST", URL, {}, b"{"))


def test_the_model_is_named_by_the_body() -> None:
    assert API.model_of(post({"model": "gpt-6-sol"})) == "gpt-6-sol"
    assert API.model_of(post({})) is None
    assert API.model_of(HttpRequest("POST", URL, {}, b"no json")) is None


@pytest.mark.parametrize(
    "content",
    ["Hello", [{"type": "input_text", "text": "Hello"}]],
)
def test_spellings_of_a_user_message_that_mean_the_same_give_equal_views(content: Any) -> None:
    short = without_pointers(view(input="Hello"))
    assert without_pointers(items({"role": "user", "content": content})) == short
    assert without_pointers(items({"type": "message", "role": "user", "content": content})) == short


def test_null_and_documented_defaults_say_as_much_as_nothing() -> None:
    explicit = view(
        instructions=None,
        tools=[],
        tool_choice="auto",
        text={"format": {"type": "text"}},
        stream=False,
        temperature=None,
        reasoning={"effort": None},
        previous_response_id=None,
    )
    assert without_pointers(explicit) == without_pointers(view())
    assert without_pointers(view(instructions="")) == without_pointers(view())


def test_every_item_is_a_turn() -> None:
    body = [
        {"role": "user", "content": "Weather?"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {**CALL, "id": "fc_1"},
        OUTPUT,
        {"role": "assistant", "content": [{"type": "output_text", "text": "18 °C."}]},
    ]
    seen = view(input=body)
    assert [(turn.role, turn.wire_role) for turn in seen.turns] == [
        ("user", "user"),
        ("assistant", "reasoning"),
        ("assistant", "function_call"),
        ("user", "function_call_output"),
        ("assistant", "assistant"),
    ]
    assert [turn.pointer for turn in seen.turns] == [f"/input/{index}" for index in range(5)]
    assert seen.turns[1].parts == (OpaqueView("reasoning", body[1], "/input/1"),)
    (call,) = seen.calls
    assert (call.id, call.item_id, call.name, call.arguments) == ("call_1", "fc_1", "get_weather", {"city": "Paris"})
    assert resolve({"input": body}, call.id_pointer) == "call_1"
    assert resolve({"input": body}, call.arguments_pointer) == '{"city":"Paris"}'
    (result,) = seen.results
    assert (result.call_id, result.name) == ("call_1", None)
    assert resolve({"input": body}, result.id_pointer) == "call_1"
    assert result.payload == (TextView("18", "/input/3/output"),)


def test_system_text_keeps_its_place() -> None:
    seen = view(
        instructions="Be brief.",
        input=[
            {"role": "system", "content": "One."},
            {"role": "user", "content": "Hi"},
            {"role": "developer", "content": [{"type": "input_text", "text": "Two."}]},
        ],
    )
    assert seen.system == (
        SystemView("Be brief.", "instructions", "/instructions"),
        SystemView("One.", "message:system", "/input/0/content"),
        SystemView("Two.", "message:developer", "/input/2/content/0/text", before_turn=1),
    )
    assert len(seen.turns) == 1


def test_a_picture_in_a_system_message_is_not_lost() -> None:
    content = [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": "https://x.test/a.png"}]
    seen = items({"role": "system", "content": content})
    assert [system.text for system in seen.system] == ["Look."]
    assert seen.turns[0].parts == (MediaView(None, "/input/0/content/1", uri="https://x.test/a.png"),)
    assert seen.turns[0].wire_role == "system"


@pytest.mark.parametrize(
    ("arguments", "value", "malformed"),
    [
        ("{}", {}, None),
        ("", {}, None),
        ("[]", [], None),
        ('{"a": 12345678901234567890}', {"a": 12345678901234567890}, None),
        ('{"a": ', None, '{"a": '),
        ('{"a": NaN}', None, '{"a": NaN}'),
        ({"a": 1}, {"a": 1}, None),
    ],
)
def test_arguments_are_parsed_whatever_they_are(arguments: Any, value: Any, malformed: str | None) -> None:
    (call,) = items({**CALL, "arguments": arguments}).calls
    assert (call.arguments, call.malformed) == (value, malformed)


def test_state_on_calls_and_messages_is_kept() -> None:
    seen = items(
        {**CALL, "namespace": "crm", "caller": {"type": "direct"}},
        {"role": "assistant", "content": "Let me see.", "phase": "commentary"},
    )
    assert seen.calls[0].opaque == {"namespace": "crm"}
    (text,) = seen.turns[1].parts
    assert text == TextView("Let me see.", "/input/1/content", {"phase": "commentary"})


def test_media_inline_and_by_reference() -> None:
    data = base64.b64encode(b"bytes").decode()
    seen = items(
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
                {"type": "input_image", "file_id": "file-1"},
                {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"},
                {"type": "input_file", "file_url": "https://x.test/a.pdf"},
                {"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}},
                {"type": "input_file", "file_data": "no base64!"},
            ],
        }
    )
    *media, broken = seen.turns[0].parts
    assert media == [
        MediaView("image/png", "/input/0/content/0", data=b"bytes"),
        MediaView(None, "/input/0/content/1", uri="file-1"),
        MediaView("application/pdf", "/input/0/content/2", data=b"bytes"),
        MediaView(None, "/input/0/content/3", uri="https://x.test/a.pdf"),
        MediaView("audio/mp3", "/input/0/content/4", data=b"bytes"),
    ]
    assert isinstance(broken, OpaqueView)


def test_an_output_of_parts_keeps_their_order() -> None:
    output = [
        {"type": "input_text", "text": "A chart."},
        {"type": "input_image", "image_url": "https://x.test/a.png"},
        {"type": "brand_new"},
    ]
    (result,) = items(CALL, {**OUTPUT, "output": output}).results
    assert result.payload == (
        TextView("A chart.", "/input/1/output/0/text"),
        MediaView(None, "/input/1/output/1", uri="https://x.test/a.png"),
        OpaqueView("brand_new", {"type": "brand_new"}, "/input/1/output/2"),
    )


@pytest.mark.parametrize(
    ("output", "mark"),
    [
        ('{"error": "station offline"}', "error-key"),
        ('{"error": null, "temp_c": 18}', None),
        ('{"temp_c": 18, "error": "x"}', None),
        ("Error: station offline", "error-text"),
        ("{broken", None),
        ("18", None),
        ([{"type": "input_text", "text": '{"error": "x"}'}], "error-key"),
    ],
)
def test_errors_are_marked_in_the_text_or_not_at_all(output: Any, mark: str | None) -> None:
    (result,) = items(CALL, {**OUTPUT, "output": output}).results
    assert result.error_mark == mark


def test_an_output_that_is_no_text_is_not_lost() -> None:
    (result,) = items(CALL, {**OUTPUT, "output": {"temp_c": 18}}).results
    assert isinstance(result, ResultView)
    assert result.payload == (JsonView({"temp_c": 18}, "/input/1/output"),)


def test_unknown_items_and_parts_are_opaque_in_their_place() -> None:
    seen = items({"type": "brand_new", "x": 1}, {"role": "user", "content": [{"type": "hologram"}, 7]}, {"id": "msg_1"})
    assert seen.turns[0].parts == (OpaqueView("brand_new", {"type": "brand_new", "x": 1}, "/input/0"),)
    assert [part.pointer for part in seen.turns[1].parts] == ["/input/1/content/0", "/input/1/content/1"]
    assert seen.turns[2].parts == (OpaqueView("item_reference", {"id": "msg_1"}, "/input/2"),)


def test_tools_with_those_inside_namespaces() -> None:
    parameters = {"type": "object", "properties": {}}
    function = {"type": "function", "name": "f", "description": "d", "parameters": parameters, "strict": False}
    seen = view(tools=[function, {"type": "web_search"}, {"type": "namespace", "name": "crm", "tools": [function]}])
    assert [(tool.name, tool.kind, tool.pointer) for tool in seen.tools] == [
        ("f", "function", "/tools/0"),
        ("web_search", "web_search", "/tools/1"),
        ("crm", "namespace", "/tools/2"),
        ("f", "function", "/tools/2/tools/0"),
    ]
    assert (seen.tools[0].parameters, seen.tools[0].strict) == (parameters, False)
    assert seen.tools[1].parameters is None


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", ChoiceView("none", "/tool_choice")),
        ("required", ChoiceView("required", "/tool_choice")),
        ({"type": "function", "name": "f"}, ChoiceView("named", "/tool_choice", "f")),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
            ChoiceView("auto", "/tool_choice", allowed=("f",)),
        ),
        ({"type": "allowed_tools", "mode": "maybe", "tools": []}, ChoiceView("other", "/tool_choice")),
    ],
)
def test_tool_choice(choice: Any, expected: ChoiceView) -> None:
    assert view(tool_choice=choice).tool_choice == expected


def test_response_format() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    wanted = {"type": "json_schema", "name": "a", "schema": schema, "strict": True}
    assert view(text={"format": {"type": "json_object"}}).response_format == FormatView(
        "json", "text.format", "/text/format"
    )
    assert view(text={"format": wanted}).response_format == FormatView(
        "json-schema", "text.format", "/text/format", schema, "/text/format/schema", strict=True
    )


def test_settings_have_canonical_names() -> None:
    body = {"max_output_tokens": 100, "temperature": 0.5, "top_p": 1, "reasoning": {"effort": "low", "summary": None}}
    settings = view(**body).settings
    assert {name: setting.value for name, setting in settings.items()} == {
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 1,
        "thinking": {"effort": "low"},
    }
    assert resolve(body, settings["max_tokens"].pointer) == 100


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, None),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"input": [{"type": "item_reference", "id": "fc_1"}]}, "item_reference"),
        ({"input": [{"type": "compaction", "encrypted_content": "x"}]}, "compaction"),
    ],
)
def test_state_on_the_server(body: Any, expected: str | None) -> None:
    assert view(**body).stateful == expected


@pytest.mark.parametrize("body", [{"input": {}}, {"input": ["x"]}, {"tools": {}}, {"tools": ["x"]}])
def test_what_is_no_request_of_this_api_is_said_so(body: Any) -> None:
    with pytest.raises(WireError) as caught:
        view(**body)
    assert caught.value.pointer.startswith("/" + next(iter(body)))
