from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.model.messages import (
    JSON_INSTRUCTION,
    File,
    Image,
    JsonMode,
    Message,
    Opaque,
    Refusal,
    StopReason,
    Text,
    Thinking,
    ThinkingSettings,
    Tool,
    ToolCall,
    ToolResult,
)
from tests.adapters.wires import WIRES
from tests.adapters.wires.wire import WEATHER, asked, said, user

API = "openai-responses"
WIRE = WIRES[API]
sent, decoded, refused = WIRE.sends, WIRE.answers, WIRE.refuses
HELLO = asked(Message.user("Hello"))
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "gAAAAB+/=_-",
}


def answer(*output: Any, status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "model": "gpt-5.6-x", "status": status, "output": output, **fields}


def wire_text(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": [], **fields}


def wire_message(*content: Any, item_id: str = "msg_1", **fields: Any) -> dict[str, Any]:
    item = {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": list(content)}
    return {**item, **fields}


def wire_call(call_id: str = "call_a", arguments: str = '{"city":"Paris"}', **fields: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": "fc_" + call_id, "call_id": call_id, "name": "get_weather"}
    return {**item, "arguments": arguments, "status": "completed", **fields}


def call(call_id: str = "call_a", **fields: Any) -> ToolCall:
    return ToolCall(call_id, "get_weather", {"city": "Paris"}, **fields)


def result(content: Any, call_id: str = "call_a", **fields: Any) -> ToolResult:
    return ToolResult(call_id, "get_weather", content, **fields)


# --- requests ---------------------------------------------------------------------------------------------------------


def test_a_model_without_reasoning_gets_no_reasoning_fields() -> None:
    assert "include" not in sent(replace(HELLO, model="gpt-4o"))


def test_tools_are_flat_and_always_have_strict() -> None:
    strict = replace(WEATHER, name="strict", provider_metadata={API: {"strict": True}, "openai-chat": {"x": 1}})
    plain = {"type": "function", "description": "Weather of a city.", "parameters": WEATHER.parameters}
    assert sent(replace(HELLO, tools=(WEATHER, strict, Tool("now", "", {}))))["tools"] == [
        {**plain, "name": "get_weather", "strict": False},
        {**plain, "name": "strict", "strict": True},
        {
            "type": "function",
            "name": "now",
            "description": "",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
    ]


def test_provider_tools_of_the_request_follow_the_functions() -> None:
    search = {"type": "web_search", "filters": {"allowed_domains": ["example.org"]}}
    request = replace(HELLO, tools=(WEATHER,), provider_metadata={API: {"tools": [search]}})
    function, other = sent(request)["tools"]
    assert function["name"] == "get_weather"
    assert other == search
    assert sent(replace(request, tools=()))["tools"] == [search]


def test_settings() -> None:
    assert sent(replace(HELLO, max_tokens=7))["max_output_tokens"] == 7
    body = sent(replace(HELLO, model="gpt-4o", temperature=0.0, top_p=0.5))
    assert (body["temperature"], body["top_p"]) == (0.0, 0.5)


@pytest.mark.parametrize(
    "setting", [{"temperature": 0.0}, {"top_p": 1.0}, {"stop": ("x",)}, {"stop": ("x",), "model": "gpt-4o"}]
)
def test_settings_that_the_api_does_not_take(setting: dict[str, Any]) -> None:
    assert refused(replace(HELLO, **setting)).feature == next(iter(setting))


def test_thinking_goes_with_tools_too() -> None:
    body = sent(replace(HELLO, tools=(WEATHER,), thinking=ThinkingSettings("high")))
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert sent(replace(HELLO, thinking=ThinkingSettings()))["reasoning"] == {"effort": "medium", "summary": "auto"}
    assert "reasoning" not in sent(replace(HELLO, tools=(WEATHER,)))
    assert refused(replace(HELLO, thinking=ThinkingSettings(budget_tokens=1024))).feature == "thinking"


def test_json_mode_adds_an_instruction_if_required() -> None:
    silent = sent(asked(Message.user("List it."), system="JSON only.", response_format=JsonMode()))
    assert silent["text"] == {"format": {"type": "json_object"}}
    assert silent["instructions"] == "JSON only."
    assert silent["input"] == [
        {"role": "developer", "content": JSON_INSTRUCTION},
        {"role": "user", "content": "List it."},
    ]
    leading = sent(
        asked(Message.user("List it."), model="gpt-6.2-sol", system="JSON only.", response_format=JsonMode())
    )
    assert "instructions" not in leading
    assert leading["input"] == [{"role": "developer", "content": "JSON only."}, {"role": "user", "content": "List it."}]
    spoken = sent(asked(Message.user("Give me Json."), response_format=JsonMode()))
    assert spoken["input"] == [{"role": "user", "content": "Give me Json."}]


PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,eA==", "detail": "auto"}


@pytest.mark.parametrize(
    ("content", "is_error", "wire"),
    [
        ("plain", False, "plain"),
        ("", False, ""),
        (None, False, "null"),
        (12345678901234567890, False, "12345678901234567890"),
        ([1, True], False, "[1,true]"),
        ("station offline", True, '{"error":"station offline"}'),
        ({"code": 7}, True, '{"error":{"code":7}}'),
        ((Text("a map"), Image("image/png", b"x")), False, [{"type": "input_text", "text": "a map"}, PICTURE]),
        ((Text("half"), Image("image/png", b"x")), True, [{"type": "input_text", "text": '{"error":"half"}'}, PICTURE]),
        (
            (File("application/pdf", b"x"), File("text/csv", uri="https://example.org/a.csv")),
            False,
            [
                {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,eA=="},
                {"type": "input_file", "file_url": "https://example.org/a.csv"},
            ],
        ),
        ((), False, ""),
    ],
)
def test_results(content: Any, is_error: bool, wire: Any) -> None:
    request = asked(Message.user("?"), said(call()), user(result(content, is_error=is_error)))
    assert sent(request)["input"][2] == {"type": "function_call_output", "call_id": "call_a", "output": wire}


def test_images_and_opaque_parts_of_the_user() -> None:
    request = asked(
        user(
            Text("Look", {API: {"prompt_cache_breakpoint": {"mode": "explicit"}}}),
            Image("image/png", uri="https://example.org/a.png", provider_metadata={API: {"detail": "low"}}),
            Opaque(API, {"type": "input_file", "file_id": "file-1"}),
            Opaque("gemini", {"type": "foreign"}),
            Opaque(API, {"type": "message", "role": "developer", "content": "Mind the gap."}),
        )
    )
    assert sent(request)["input"] == [
        {"type": "message", "role": "developer", "content": "Mind the gap."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look", "prompt_cache_breakpoint": {"mode": "explicit"}},
                {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
                {"type": "input_file", "file_id": "file-1"},
            ],
        },
    ]


@pytest.mark.parametrize(
    "message",
    [
        user(Image("image/png")),
        user(File("audio/wav", b"x")),
        user(call()),
        said(Image("image/png", b"x")),
        said(result("x")),
    ],
)
def test_inexpressible_requests_are_declined(message: Message) -> None:
    refused(asked(message))


# --- ids --------------------------------------------------------------------------------------------------------------


# --- responses --------------------------------------------------------------------------------------------------------


def test_a_custom_tool_call_is_tool_use() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_c", "name": "sh", "input": "ls"}
    response = decoded(answer(item))
    assert response.message.parts == (Opaque(API, item),)
    assert response.stop_reason is StopReason.TOOL_USE


def test_a_refusal() -> None:
    response = decoded(answer(wire_message({"type": "refusal", "refusal": "I cannot."})))
    assert [part.text for part in response.message.parts if isinstance(part, Refusal)] == ["I cannot."]
    assert response.stop_reason is StopReason.REFUSAL


@pytest.mark.parametrize("arguments", ['{"city": "Par', "", "{}"])
def test_a_cut_call_goes_back_only_with_its_result(arguments: Any) -> None:
    raw = wire_call(arguments=arguments, status="incomplete")
    body = answer(REASONING, raw, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    response = decoded(body)
    assert response.tool_calls == ()
    assert response.stop_reason is StopReason.MAX_TOKENS
    unanswered = sent(asked(Message.user("?"), response.message, Message.user("Go on.")))
    assert unanswered["input"] == [{"role": "user", "content": "?"}, {"role": "user", "content": "Go on."}]
    answered = sent(asked(Message.user("?"), response.message, user(result("cut short", is_error=True))))
    assert answered["input"][1:3] == [REASONING, raw]


def test_every_item_goes_back_as_it_came() -> None:
    output = [
        REASONING,
        wire_message(wire_text("One", annotations=[{"type": "url_citation"}]), wire_text("Two"), phase="commentary"),
        wire_message(wire_text("Three"), {"type": "output_new", "n": 10**30}, {"type": "refusal", "refusal": "No."}),
        wire_message(wire_text(""), item_id="msg_2", brand_new=True),
        wire_message(item_id="msg_3"),
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}},
        {**REASONING, "id": "rs_2", "summary": [], "content": []},
        wire_call(namespace="ns", caller={"type": "direct"}),
        {"type": "brand_new_item", "payload": [1.5]},
        wire_call("call_b"),
    ]
    output[2]["id"] = "msg_other"
    response = decoded(answer(*output))
    follow_up = asked(Message.user("?"), response.message, user(result("x"), result("y", "call_b")))
    assert sent(follow_up)["input"][1 : len(output) + 1] == output


# --- against others ---------------------------------------------------------------------------------------------------


def test_fields_that_the_api_refuses_stay_with_the_caller() -> None:
    """openai-responses-reasoning-status-refused: "Unknown parameter: 'input[3].status'."."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    asks = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}
    taken = {"status": "completed", "namespace": "n", "caller": {"type": "direct"}, "async": True}
    shown = {"output_index": 1}
    response = decoded(answer({**thought, "status": "completed"}, {**asks, **taken, **shown}))
    reasoning, called = response.message.parts
    assert isinstance(reasoning, Thinking)
    assert isinstance(called, ToolCall)
    assert reasoning.provider_metadata["openai-responses/received"] == {"status": "completed"}
    assert called.provider_metadata["openai-responses/received"] == shown
    items = sent(asked(Message.user("?"), response.message, user(result("x", "call_1"))))["input"]
    assert items[1:3] == [thought, {**asks, **taken}]
